// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/pointwise_code.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"

namespace tessera::ops {

int PointwiseCode::constant(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  int index = 0;
  for (; index < static_cast<int>(constants_.size()); ++index)
    if (std::bit_cast<std::uint64_t>(constants_[static_cast<std::size_t>(index)]) == bits) break;
  if (index == static_cast<int>(constants_.size())) constants_.push_back(value);
  return append(PointOp::constant, index);
}

bool PointwiseCode::is_constant(int reg, double& value) const {
  if (reg < inputs_) return false;
  const auto& instruction = instructions_[static_cast<std::size_t>(reg - inputs_)];
  if (instruction.op != PointOp::constant) return false;
  value = constants_[static_cast<std::size_t>(instruction.a)];
  return true;
}

int PointwiseCode::append(PointOp op, int a, int b, int c) {
  double value = 0;
  if (op == PointOp::multiply) {
    if (is_constant(a, value) && value == 1) return b;
    if (is_constant(b, value) && value == 1) return a;
  }
  if (op == PointOp::add) {
    if (is_constant(a, value) && value == 0) return b;
    if (is_constant(b, value) && value == 0) return a;
  }
  if (op == PointOp::copy) return a;
  const Instruction instruction{op, a, b, c};
  const auto found = std::find(instructions_.begin(), instructions_.end(), instruction);
  if (found != instructions_.end())
    return inputs_ + static_cast<int>(found - instructions_.begin());
  instructions_.push_back(instruction);
  return registers() - 1;
}

std::vector<int> PointwiseCode::inline_code(const PointwiseCode& part,
                                            std::span<const int> arguments) {
  TESSERA_CHECK(static_cast<int>(arguments.size()) == part.inputs(), "code of ", part.inputs(),
                " inputs got ", arguments.size(), " arguments");
  std::vector<int> map(arguments.begin(), arguments.end());
  const auto at = [&](int reg) { return reg < 0 ? -1 : map[static_cast<std::size_t>(reg)]; };
  for (const auto& instruction : part.instructions_)
    map.push_back(
        instruction.op == PointOp::constant
            ? constant(part.constants_[static_cast<std::size_t>(instruction.a)])
            : append(instruction.op, at(instruction.a), at(instruction.b), at(instruction.c)));
  std::vector<int> results;
  for (int reg : part.stores) results.push_back(at(reg));
  return results;
}

namespace {

/// Registers on which the stores depend.
std::vector<bool> live_registers(const PointwiseCode& code) {
  std::vector<bool> live(static_cast<std::size_t>(code.registers()));
  for (int reg : code.stores)
    if (reg >= 0) live[static_cast<std::size_t>(reg)] = true;
  for (int k = static_cast<int>(code.instructions().size()); k-- > 0;) {
    if (!live[static_cast<std::size_t>(code.inputs() + k)]) continue;
    const auto& instruction = code.instructions()[static_cast<std::size_t>(k)];
    const int operands[3] = {instruction.a, instruction.b, instruction.c};
    for (int i = 0; i < program::operand_count(instruction.op); ++i)
      live[static_cast<std::size_t>(operands[i])] = true;
  }
  return live;
}

}  // namespace

std::vector<bool> PointwiseCode::used_inputs() const {
  auto live = live_registers(*this);
  live.resize(static_cast<std::size_t>(inputs_));
  return live;
}

PointwiseCode PointwiseCode::pruned() const {
  std::vector<int> all;
  for (int i = 0; i < inputs_; ++i) all.push_back(i);
  return with_inputs(all);
}

PointwiseCode PointwiseCode::with_inputs(const std::vector<int>& kept) const {
  const auto live = live_registers(*this);
  PointwiseCode result(static_cast<int>(kept.size()));
  std::vector<int> map(static_cast<std::size_t>(registers()), -1);
  for (std::size_t i = 0; i < kept.size(); ++i)
    map[static_cast<std::size_t>(kept[i])] = static_cast<int>(i);
  const auto at = [&](int reg) { return reg < 0 ? -1 : map[static_cast<std::size_t>(reg)]; };
  for (int i = 0; i < inputs_; ++i)
    TESSERA_CHECK(!live[static_cast<std::size_t>(i)] || at(i) >= 0, "input ", i, " is in use");
  for (std::size_t k = 0; k < instructions_.size(); ++k) {
    const std::size_t reg = static_cast<std::size_t>(inputs_) + k;
    if (!live[reg]) continue;
    const auto& instruction = instructions_[k];
    map[reg] = instruction.op == PointOp::constant
                   ? result.constant(constants_[static_cast<std::size_t>(instruction.a)])
                   : result.append(instruction.op, at(instruction.a), at(instruction.b),
                                   at(instruction.c));
  }
  for (int reg : stores) result.stores.push_back(at(reg));
  return result;
}

namespace {

/// How a register depends on the flagged inputs. `zero`: the constant 0, which is linear as well.
enum class Dependence { none, zero, linear, other };

Dependence sum_of(Dependence a, Dependence b) {
  if (a == Dependence::zero) return b;
  if (b == Dependence::zero) return a;
  return a == b ? a : Dependence::other;
}

Dependence product_of(Dependence a, Dependence b) {
  if (a == Dependence::zero || b == Dependence::zero) return Dependence::zero;
  if (a == Dependence::none) return b;
  return b == Dependence::none ? a : Dependence::other;
}

Dependence result_of(PointOp op, Dependence a, Dependence b, Dependence c, bool any) {
  switch (op) {
    case PointOp::copy:
    case PointOp::negate:
      return a;
    case PointOp::add:
    case PointOp::subtract:
      return sum_of(a, b);
    case PointOp::multiply:
      return product_of(a, b);
    case PointOp::multiply_add:
      return sum_of(product_of(a, b), c);
    case PointOp::divide:
      if (b == Dependence::none && a != Dependence::other) return a;
      break;
    case PointOp::select:
      if (a == Dependence::none || a == Dependence::zero) return sum_of(b, c);
      break;
    default:
      break;
  }
  return any ? Dependence::other : Dependence::none;
}

std::vector<Dependence> dependences(const PointwiseCode& code, const std::vector<bool>& flagged) {
  std::vector<Dependence> states;
  for (int i = 0; i < code.inputs(); ++i)
    states.push_back(flagged[static_cast<std::size_t>(i)] ? Dependence::linear : Dependence::none);
  const auto at = [&](int reg, int index, int count) {
    return index < count ? states[static_cast<std::size_t>(reg)] : Dependence::none;
  };
  for (const auto& instruction : code.instructions()) {
    if (instruction.op == PointOp::constant) {
      const double value = code.constants()[static_cast<std::size_t>(instruction.a)];
      states.push_back(value == 0 ? Dependence::zero : Dependence::none);
      continue;
    }
    const int count = program::operand_count(instruction.op);
    const Dependence a = at(instruction.a, 0, count), b = at(instruction.b, 1, count),
                     c = at(instruction.c, 2, count);
    const auto varies = [](Dependence d) {
      return d == Dependence::linear || d == Dependence::other;
    };
    states.push_back(result_of(instruction.op, a, b, c, varies(a) || varies(b) || varies(c)));
  }
  return states;
}

}  // namespace

bool PointwiseCode::is_linear_in(const std::vector<bool>& flagged) const {
  const auto states = dependences(*this, flagged);
  return std::all_of(stores.begin(), stores.end(), [&](int reg) {
    const Dependence state = states[static_cast<std::size_t>(reg)];
    return state == Dependence::linear || state == Dependence::zero;
  });
}

namespace {

/// Kernel registers of all values: a register is free again after its value's last use. Inputs keep
/// theirs, since a kernel may read them where they lie.
struct Allocation {
  std::vector<int> of;  ///< by register of the code
  int count = 0;
};

Allocation allocate(const PointwiseCode& code) {
  const int inputs = code.inputs(), total = code.registers();
  std::vector<int> last(static_cast<std::size_t>(total), -1);
  for (int k = 0; k < total - inputs; ++k) {
    const auto& instruction = code.instructions()[static_cast<std::size_t>(k)];
    const int operands[3] = {instruction.a, instruction.b, instruction.c};
    for (int i = 0; i < program::operand_count(instruction.op); ++i)
      last[static_cast<std::size_t>(operands[i])] = k;
  }
  for (int reg : code.stores) last[static_cast<std::size_t>(reg)] = total;
  Allocation result;
  result.of.resize(static_cast<std::size_t>(total));
  result.count = inputs;
  for (int i = 0; i < inputs; ++i) result.of[static_cast<std::size_t>(i)] = i;
  std::vector<int> free;
  for (int k = 0; k < total - inputs; ++k) {
    if (free.empty()) free.push_back(result.count++);
    result.of[static_cast<std::size_t>(inputs + k)] = free.back();
    free.pop_back();
    for (int reg = inputs; reg < inputs + k; ++reg)
      if (last[static_cast<std::size_t>(reg)] == k)
        free.push_back(result.of[static_cast<std::size_t>(reg)]);
  }
  return result;
}

}  // namespace

bool PointwiseCode::fits() const {
  const PointwiseCode code = pruned();
  const auto count = [](const auto& list) { return static_cast<int>(list.size()); };
  return inputs_ <= program::kMaxInputs && count(stores) <= program::kMaxOutputs &&
         count(code.instructions_) <= program::kMaxInstructions &&
         count(code.constants_) <= program::kMaxConstants &&
         allocate(code).count <= program::kMaxRegisters;
}

Attributes PointwiseCode::encode() const {
  const PointwiseCode code = pruned();
  const Allocation registers = allocate(code);
  const auto at = [&](int reg) -> std::int64_t {
    return reg < 0 ? 0 : registers.of[static_cast<std::size_t>(reg)];
  };
  std::vector<std::int64_t> words, stored;
  for (std::size_t k = 0; k < code.instructions_.size(); ++k) {
    const auto& instruction = code.instructions_[k];
    words.push_back(static_cast<std::int64_t>(instruction.op));
    words.push_back(at(code.inputs_ + static_cast<int>(k)));
    if (instruction.op == PointOp::constant)
      words.insert(words.end(), {instruction.a, 0, 0});
    else
      words.insert(words.end(), {at(instruction.a), at(instruction.b), at(instruction.c)});
  }
  for (int reg : code.stores) stored.push_back(at(reg));
  Attributes attributes;
  attributes.set("code", std::move(words));
  attributes.set("stores", std::move(stored));
  for (std::size_t i = 0; i < code.constants_.size(); ++i)
    attributes.set("c" + std::to_string(i), code.constants_[i]);
  return attributes;
}

std::uint64_t PointwiseCode::hash() const {
  return encode().hash();
}

Value operator+(Value a, Value b) {
  return a.apply(PointOp::add, b);
}
Value operator+(Value a, double b) {
  return a + a.constant(b);
}
Value operator-(Value a, Value b) {
  return a.apply(PointOp::subtract, b);
}
Value operator-(double a, Value b) {
  return b.constant(a) - b;
}
Value operator-(Value a) {
  return a.apply(PointOp::negate);
}
Value operator*(Value a, Value b) {
  return a.apply(PointOp::multiply, b);
}
Value operator*(double a, Value b) {
  return b.constant(a) * b;
}
Value operator/(Value a, Value b) {
  return a.apply(PointOp::divide, b);
}
Value select(Value condition, Value a, Value b) {
  return {&condition.code(),
          condition.code().append(PointOp::select, condition.reg(), a.reg(), b.reg())};
}

}  // namespace tessera::ops
