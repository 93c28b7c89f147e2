// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/pointwise.hpp"

#include "kernels/isa/pointwise_loops.hpp"

// The register code runs over blocks of elements that stay in the first-level cache: for each
// instruction one loop over the block. The code is decoded once for a call:
//  - values that all elements share are computed once, those that a row shares once for a block;
//  - inputs of the compute type are read where they lie, results are written where they belong;
//  - other values live in slots, reused as soon as their last reader has run.
namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

using program::kMaxInputs;
using program::kMaxOutputs;
using program::kMaxRegisters;

constexpr int kMaxValues = kMaxInputs + kMaxPointInstructions;
constexpr int kMaxSlots = 64;
constexpr int64_t kSlotBytes = 128 * 1024;  // all slots
constexpr int64_t kFirstLevelCache = 24 * 1024;
/// Rows at least as long are cut into blocks; of shorter ones a block holds several.
constexpr int64_t kLongRow = 128;
/// Code at least as long asks for the next block while it computes: the processor's own prefetching
/// stops where each short run of a block ends.
constexpr int kLongCode = 4;
constexpr int64_t kCacheLine = 64;

// Places to which pointers change from block to block, or never.
constexpr int kOutputPlace = kMaxInputs;
constexpr int kScalarPlace = kOutputPlace + kMaxOutputs;
constexpr int kSlotPlace = kScalarPlace + kMaxValues;
constexpr int kStridePlace = kSlotPlace + kMaxSlots;
constexpr int kPlaces = kStridePlace + kMaxInputs;

enum Kind { kConstant, kRow, kVector };

constexpr int64_t bytes_of_element(int element) {
  return element == kElementF64 ? 8 : element == kElementBf16 ? 2 : 4;
}

struct Step {
  Loop loop;  ///< null: gather input `a` into slot `to`
  int16_t to, a, b, c;
  bool single;  ///< one element
};

template <class T>
class Machine {
 public:
  explicit Machine(const PointPlan& plan) : plan_(plan) {}

  void run() {
    classify_inputs();
    number_values();
    find_readers();
    emit();
    choose_block();
    if (rows_) {
      run_rows();
    } else {
      run_flat();
    }
  }

 private:
  struct Value {
    Kind kind;
    int place;       ///< -1: not loaded yet
    int slot;        ///< -1: none
    int last_read;   ///< instruction; `instructions` if stored at the end
    int first_made;  ///< instruction
    bool needed;
  };

  static constexpr int kOwnElement = sizeof(T) == 8 ? kElementF64 : kElementF32;

  int64_t inner() const { return plan_.extent[plan_.rank - 1]; }
  int64_t inner_stride(int input) const { return plan_.input[input].stride[plan_.rank - 1]; }

  bool is_dense(int input) const {
    int64_t stride = 1;
    for (int d = plan_.rank - 1; d >= 0; --d) {
      if (plan_.input[input].stride[d] != stride) return false;
      stride *= plan_.extent[d];
    }
    return true;
  }
  bool is_constant(int input) const {
    for (int d = 0; d < plan_.rank; ++d) {
      if (plan_.input[input].stride[d] != 0) return false;
    }
    return true;
  }

  void classify_inputs() {
    rows_ = plan_.rank == 1 || inner() >= kLongRow;
    for (int i = 0; i < plan_.inputs; ++i) {
      dense_[i] = is_dense(i);
      Value& v = value_[i];
      v = {kVector, -1, -1, -1, -1, false};
      if (is_constant(i)) {
        v.kind = kConstant;
      } else if (rows_ && inner_stride(i) == 0) {
        v.kind = kRow;
      }
      contiguous_[i] = rows_ ? inner_stride(i) == 1 : dense_[i];
    }
  }

  /// Each instruction makes a new value; registers are names that move on to it.
  void number_values() {
    for (int r = 0; r < kMaxRegisters; ++r) named_[r] = r < plan_.inputs ? r : -1;
    values_ = plan_.inputs;
    for (int i = 0; i < plan_.instructions; ++i) {
      const PointInstruction& code = plan_.code[i];
      if (code.op() == PointOp::copy) {
        named_[code.to] = named_[code.a];
        made_[i] = -1;
        continue;
      }
      const uint8_t reg[3] = {code.a, code.b, code.c};
      Kind kind = kConstant;
      for (int k = 0; k < 3; ++k) {
        read_[i][k] = k < code.reads ? named_[reg[k]] : -1;
        if (read_[i][k] >= 0 && value_[read_[i][k]].kind > kind) kind = value_[read_[i][k]].kind;
      }
      value_[values_] = {kind, -1, -1, -1, i, false};
      made_[i] = values_;
      named_[code.to] = values_++;
    }
    for (int k = 0; k < plan_.outputs; ++k) stored_[k] = named_[plan_.output[k].reg];
  }

  /// Last readers, and where a result can be written straight to its output: not while an input in
  /// the same memory is still to be read.
  void find_readers() {
    for (int k = 0; k < plan_.outputs; ++k) {
      value_[stored_[k]].needed = true;
      if (stored_[k] < plan_.inputs) value_[stored_[k]].last_read = plan_.instructions;
    }
    for (int i = plan_.instructions - 1; i >= 0; --i) {
      if (made_[i] < 0 || !value_[made_[i]].needed) continue;
      for (int k = 0; k < 3; ++k) {
        if (read_[i][k] < 0) continue;
        Value& v = value_[read_[i][k]];
        v.needed = true;
        if (v.last_read < i) v.last_read = i;
      }
    }
    for (int k = 0; k < plan_.outputs; ++k) {
      Value& v = value_[stored_[k]];
      direct_[k] = v.kind == kVector && v.first_made >= 0 && v.place < 0 &&
                   plan_.output[k].element == kOwnElement && !read_after(k, v.first_made);
      if (direct_[k]) v.place = kOutputPlace + k;
    }
    for (int k = 0; k < plan_.outputs; ++k) {
      if (!direct_[k]) value_[stored_[k]].last_read = plan_.instructions;
    }
  }

  bool shares_memory(int input, int output) const {
    return plan_.input[input].data == plan_.output[output].data;
  }
  bool read_after(int output, int instruction) const {
    for (int i = 0; i < plan_.inputs; ++i) {
      if (shares_memory(i, output) && value_[i].last_read > instruction) return true;
    }
    return false;
  }
  /// A stored input whose memory another output may have overwritten by then.
  bool must_copy(int input) const {
    if (value_[input].last_read < plan_.instructions) return false;
    for (int k = 0; k < plan_.outputs; ++k) {
      if (shares_memory(input, k)) return true;
    }
    return false;
  }

  void emit() {
    for (int i = 0; i < plan_.inputs; ++i) {
      if (value_[i].needed && must_copy(i)) load_input(i, false);
    }
    for (int i = 0; i < plan_.instructions; ++i) {
      if (made_[i] >= 0 && value_[made_[i]].needed) emit_instruction(i);
    }
    for (int k = 0; k < plan_.outputs; ++k) {
      const int v = stored_[k];
      if (direct_[k]) continue;
      const int place = place_of(v);
      push(store_of<T>(plan_.output[k].element, value_[v].kind == kVector), kOutputPlace + k, place,
           -1, -1, false);
    }
  }

  void emit_instruction(int i) {
    Value& v = value_[made_[i]];
    const PointInstruction& code = plan_.code[i];
    if (code.op() == PointOp::constant) {
      scalar_[made_[i]] = static_cast<T>(plan_.constant[code.a]);
      v.place = kScalarPlace + made_[i];
      return;
    }
    int place[3] = {-1, -1, -1};
    int vectors = 0;
    for (int k = 0; k < 3; ++k) {
      if (read_[i][k] < 0) continue;
      place[k] = place_of(read_[i][k]);
      if (value_[read_[i][k]].kind == kVector) vectors |= 1 << k;
    }
    for (int k = 0; k < 3; ++k) {
      if (read_[i][k] >= 0 && value_[read_[i][k]].last_read == i) release(value_[read_[i][k]]);
    }
    if (v.kind != kVector) {
      v.place = kScalarPlace + made_[i];
    } else if (v.place < 0) {
      take_slot(v);
    }
    const Loop loop = loop_of<T>(code.op(), vectors);
    if (v.kind == kConstant) {
      loop(&scalar_[made_[i]], scalar_at(place[0]), scalar_at(place[1]), scalar_at(place[2]), 1);
    } else {
      push(loop, v.place, place[0], place[1], place[2], v.kind == kRow);
    }
  }

  const T* scalar_at(int place) const {
    return place < 0 ? nullptr : &scalar_[place - kScalarPlace];
  }

  int place_of(int v) {
    if (value_[v].place < 0) load_input(v, true);
    return value_[v].place;
  }

  void load_input(int i, bool in_place) {
    Value& v = value_[i];
    const PointInput& input = plan_.input[i];
    const Loop loop = load_of<T>(input.element);
    if (v.kind != kVector) {
      v.place = kScalarPlace + i;
      if (v.kind == kConstant) {
        loop(&scalar_[i], input.data, nullptr, nullptr, 1);
      } else {
        push(loop, v.place, i, -1, -1, true);
      }
      return;
    }
    if (in_place && contiguous_[i] && input.element == kOwnElement) {
      v.place = i;
      return;
    }
    take_slot(v);
    if (contiguous_[i]) {
      push(loop, v.place, i, -1, -1, false);
    } else if (rows_) {
      push(loop, v.place, i, kStridePlace + i, -1, false);
    } else {
      push(nullptr, v.place, i, -1, -1, false);
    }
  }

  void take_slot(Value& v) {
    int slot = 0;
    while (slot_taken_[slot]) ++slot;  // registers, 48, and outputs, 8, are less than slots, 64
    slot_taken_[slot] = true;
    if (slot >= slots_) slots_ = slot + 1;
    v.slot = slot;
    v.place = kSlotPlace + slot;
  }
  void release(const Value& v) {
    if (v.slot >= 0) slot_taken_[v.slot] = false;
  }

  void push(Loop loop, int to, int a, int b, int c, bool single) {
    step_[steps_++] = {loop,
                       static_cast<int16_t>(to),
                       static_cast<int16_t>(a),
                       static_cast<int16_t>(b),
                       static_cast<int16_t>(c),
                       single};
  }

  void choose_block() {
    const int64_t streams = plan_.inputs + plan_.outputs + slots_;
    int64_t block = kFirstLevelCache / static_cast<int64_t>(sizeof(T)) / streams;
    block = block < 256 ? 256 : block > 2048 ? 2048 : block;
    block &= ~int64_t{63};
    const int64_t most = kSlotBytes / static_cast<int64_t>(sizeof(T)) / (slots_ > 0 ? slots_ : 1);
    block_ = block < most ? block : most & ~int64_t{31};
    for (int p = 0; p < kPlaces; ++p) at_[p] = nullptr;
    for (int v = 0; v < values_; ++v) at_[kScalarPlace + v] = &scalar_[v];
    for (int s = 0; s < slots_; ++s) at_[kSlotPlace + s] = memory_ + s * block_;
    for (int i = 0; i < plan_.inputs; ++i) {
      at_[kStridePlace + i] = const_cast<int64_t*>(&plan_.input[i].stride[plan_.rank - 1]);
    }
  }

  void point_outputs(int64_t first) {
    for (int k = 0; k < plan_.outputs; ++k) {
      at_[kOutputPlace + k] = static_cast<char*>(plan_.output[k].data) +
                              first * bytes_of_element(plan_.output[k].element);
    }
  }
  void point_input(int i, int64_t element) {
    const PointInput& input = plan_.input[i];
    at_[i] = const_cast<char*>(static_cast<const char*>(input.data)) +
             element * bytes_of_element(input.element);
  }

  void run_block(int64_t first, int64_t n) {
    for (int s = 0; s < steps_; ++s) {
      const Step& step = step_[s];
      if (step.loop == nullptr) {
        gather(static_cast<T*>(at_[step.to]), step.a, first, n);
        continue;
      }
      step.loop(at_[step.to], step.a < 0 ? nullptr : at_[step.a],
                step.b < 0 ? nullptr : at_[step.b], step.c < 0 ? nullptr : at_[step.c],
                step.single ? 1 : n);
    }
  }

  /// The first n elements behind the current block.
  void prefetch(int64_t n) const {
    for (int i = 0; i < plan_.inputs; ++i) {
      if (!contiguous_[i]) continue;
      const int64_t bytes = bytes_of_element(plan_.input[i].element);
      const char* next = static_cast<const char*>(at_[i]) + block_ * bytes;
      for (int64_t b = 0; b < n * bytes; b += kCacheLine) __builtin_prefetch(next + b);
    }
  }

  void run_rows() {
    int64_t index[kMaxPointRank] = {};
    int64_t base[kMaxInputs] = {};
    for (int64_t row = 0; row < plan_.size; row += inner()) {
      for (int64_t j = 0; j < inner(); j += block_) {
        const int64_t n = inner() - j < block_ ? inner() - j : block_;
        for (int i = 0; i < plan_.inputs; ++i) point_input(i, base[i] + j * inner_stride(i));
        point_outputs(row + j);
        const int64_t left = inner() - j - n;
        if (steps_ >= kLongCode && left > 0) prefetch(left < block_ ? left : block_);
        run_block(row + j, n);
      }
      for (int d = plan_.rank - 2; d >= 0; --d) {
        for (int i = 0; i < plan_.inputs; ++i) base[i] += plan_.input[i].stride[d];
        if (++index[d] < plan_.extent[d]) break;
        for (int i = 0; i < plan_.inputs; ++i) {
          base[i] -= plan_.input[i].stride[d] * plan_.extent[d];
        }
        index[d] = 0;
      }
    }
  }

  void run_flat() {
    for (int64_t first = 0; first < plan_.size; first += block_) {
      const int64_t n = plan_.size - first < block_ ? plan_.size - first : block_;
      for (int i = 0; i < plan_.inputs; ++i) {
        if (dense_[i]) point_input(i, first);
      }
      point_outputs(first);
      run_block(first, n);
    }
  }

  /// Elements [first, first + n) of an input whose map isn't the identity.
  void gather(T* to, int i, int64_t first, int64_t n) {
    const PointInput& input = plan_.input[i];
    const Loop loop = load_of<T>(input.element);
    int64_t index[kMaxPointRank];
    int64_t rest = first;
    int64_t from = 0;
    for (int d = plan_.rank - 1; d >= 0; --d) {
      index[d] = rest % plan_.extent[d];
      rest /= plan_.extent[d];
      from += index[d] * input.stride[d];
    }
    const int last = plan_.rank - 1;
    const int64_t stride = input.stride[last];
    while (n > 0) {
      const int64_t left = plan_.extent[last] - index[last];
      const int64_t run = n < left ? n : left;
      const char* source =
          static_cast<const char*>(input.data) + from * bytes_of_element(input.element);
      loop(to, source, stride == 1 ? nullptr : &stride, nullptr, run);
      to += run;
      n -= run;
      from += (plan_.extent[last] - index[last]) * stride - plan_.extent[last] * stride;
      index[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        from += input.stride[d];
        if (++index[d] < plan_.extent[d]) break;
        from -= input.stride[d] * plan_.extent[d];
        index[d] = 0;
      }
    }
  }

  const PointPlan& plan_;
  bool rows_ = true;
  bool dense_[kMaxInputs];
  bool contiguous_[kMaxInputs];
  int values_ = 0;
  Value value_[kMaxValues];
  T scalar_[kMaxValues];
  int named_[kMaxRegisters];
  int made_[kMaxPointInstructions];
  int read_[kMaxPointInstructions][3];
  int stored_[kMaxOutputs];
  bool direct_[kMaxOutputs];
  int slots_ = 0;
  bool slot_taken_[kMaxSlots] = {};
  int steps_ = 0;
  Step step_[kMaxPointInstructions + kMaxInputs + kMaxOutputs];
  int64_t block_ = 0;
  void* at_[kPlaces];
  alignas(64) T memory_[kSlotBytes / sizeof(T)];
};

}  // namespace

void pointwise_f32(const PointPlan& plan) {
  Machine<float> machine(plan);
  machine.run();
}

void pointwise_f64(const PointPlan& plan) {
  Machine<double> machine(plan);
  machine.run();
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
