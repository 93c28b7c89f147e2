// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pointwise.hpp"

#include <string>
#include <vector>

#include "kernels/builtin.hpp"
#include "kernels/isa/pointwise.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

using program::kInstructionLength;
using program::kMaxRegisters;
using program::PointOp;

static_assert(static_cast<int>(DType::f32) == kElementF32 &&
              static_cast<int>(DType::f64) == kElementF64 &&
              static_cast<int>(DType::bf16) == kElementBf16 &&
              static_cast<int>(DType::i32) == kElementI32);
static_assert(kMaxPointRank == kMaxRank);

std::uint8_t register_number(std::int64_t value) {
  TESSERA_CHECK(value >= 0 && value < kMaxRegisters, "pointwise: register ", value, " of ",
                kMaxRegisters);
  return static_cast<std::uint8_t>(value);
}

std::string numbered(const char* name, std::int64_t number) {
  return std::string(name).append(std::to_string(number));
}

void read_code(const Attributes& attributes, PointPlan& plan) {
  const std::vector<std::int64_t>& code = attributes.integers("code");
  const auto length = static_cast<std::int64_t>(code.size());
  TESSERA_CHECK(length % kInstructionLength == 0, "pointwise: code of ", length, " integers");
  plan.instructions = static_cast<int>(length / kInstructionLength);
  TESSERA_CHECK(plan.instructions <= kMaxPointInstructions, "pointwise: ", plan.instructions,
                " instructions, at most ", kMaxPointInstructions);
  for (int i = 0; i < plan.instructions; ++i) {
    const std::int64_t* word = code.data() + i * kInstructionLength;
    TESSERA_CHECK(word[0] >= 0 && word[0] <= static_cast<std::int64_t>(PointOp::floor),
                  "pointwise: instruction ", word[0]);
    PointInstruction& instruction = plan.code[i];
    instruction.code = static_cast<std::uint8_t>(word[0]);
    instruction.reads = static_cast<std::uint8_t>(program::operand_count(instruction.op()));
    instruction.to = register_number(word[1]);
    if (instruction.op() != PointOp::constant) {
      instruction.a = register_number(word[2]);
      instruction.b = register_number(word[3]);
      instruction.c = register_number(word[4]);
      continue;
    }
    TESSERA_CHECK(word[2] >= 0 && word[2] < kMaxPointConstants, "pointwise: constant ", word[2]);
    instruction.a = static_cast<std::uint8_t>(word[2]);
    plan.constant[word[2]] = attributes.real(numbered("c", word[2]));
  }
}

/// Registers are written before they are read or stored.
void check_registers(const PointPlan& plan) {
  bool written[kMaxRegisters] = {};
  for (int i = 0; i < plan.inputs; ++i) written[i] = true;
  for (int i = 0; i < plan.instructions; ++i) {
    const PointInstruction& code = plan.code[i];
    const std::uint8_t reads[3] = {code.a, code.b, code.c};
    for (int k = 0; k < code.reads; ++k) {
      TESSERA_CHECK(written[reads[k]], "pointwise: instruction ", i, " reads register ",
                    int{reads[k]}, ", which nothing wrote");
    }
    written[code.to] = true;
  }
  for (int k = 0; k < plan.outputs; ++k) {
    TESSERA_CHECK(written[plan.output[k].reg], "pointwise: output ", k, " stores register ",
                  plan.output[k].reg, ", which nothing wrote");
  }
}

/// Strides of an input along the outputs' dims, from its map.
void map_input(const Call& call, int i, std::int64_t (&strides)[kMaxRank]) {
  const Tile& input = call.inputs[i];
  const Tile& shape = call.outputs[0];
  const std::vector<std::int64_t>& map = call.attributes.integers(numbered("map", i));
  TESSERA_CHECK(static_cast<int>(map.size()) == shape.rank, "pointwise: map", i, " has ",
                map.size(), " dims, the output ", shape.rank);
  std::int64_t own[kMaxRank];
  std::int64_t stride = 1;
  for (int d = input.rank - 1; d >= 0; --d) {
    own[d] = stride;
    stride *= input.extent[d];
  }
  for (int d = 0; d < shape.rank; ++d) {
    const std::int64_t from = map[static_cast<std::size_t>(d)];
    TESSERA_CHECK(from >= -1 && from < input.rank, "pointwise: map", i, " names dim ", from);
    strides[d] = from < 0 ? 0 : own[from];
    TESSERA_CHECK(from < 0 || input.extent[from] == shape.extent[d], "pointwise: input ", i,
                  " has extent ", from < 0 ? 0 : input.extent[from], " where the output has ",
                  shape.extent[d]);
  }
}

/// Appends a dim, or merges it into the one before.
void append_dim(PointPlan& plan, std::int64_t extent, const std::int64_t* strides) {
  const int last = plan.rank - 1;
  bool merges = last >= 0;
  for (int i = 0; merges && i < plan.inputs; ++i) {
    merges = plan.input[i].stride[last] == strides[i] * extent;
  }
  const int at = merges ? last : plan.rank++;
  plan.extent[at] = merges ? plan.extent[at] * extent : extent;
  for (int i = 0; i < plan.inputs; ++i) plan.input[i].stride[at] = strides[i];
}

void find_dims(const Call& call, PointPlan& plan) {
  const Tile& shape = call.outputs[0];
  for (int k = 0; k < plan.outputs; ++k) {
    const Tile& output = call.outputs[k];
    plan.output[k].data = output.data;
    plan.output[k].element = static_cast<int>(output.dtype);
    bool same = output.rank == shape.rank;
    for (int d = 0; same && d < shape.rank; ++d) same = output.extent[d] == shape.extent[d];
    TESSERA_CHECK(same, "pointwise: output ", k, " has another shape than output 0");
  }
  std::int64_t strides[program::kMaxInputs][kMaxRank] = {};
  for (int i = 0; i < plan.inputs; ++i) {
    map_input(call, i, strides[i]);
    plan.input[i].data = call.inputs[i].data;
    plan.input[i].element = static_cast<int>(call.inputs[i].dtype);
  }
  plan.rank = 0;
  plan.size = shape.size();
  const std::int64_t zeros[program::kMaxInputs] = {};
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.extent[d] == 1) continue;
    std::int64_t of_dim[program::kMaxInputs];
    for (int i = 0; i < plan.inputs; ++i) of_dim[i] = strides[i][d];
    append_dim(plan, shape.extent[d], of_dim);
  }
  if (plan.rank == 0) append_dim(plan, 1, zeros);
}

void pointwise(const device::Exec& exec, const Call& call) {
  const PointPlan plan = plan_pointwise(call);
  if (plan.size == 0) return;
  if (use_portable()) {
    pointwise_portable(exec, plan);
  } else if (computes_in_double(plan)) {
    TESSERA_ISA_CALL(pointwise_f64)(plan);
  } else {
    TESSERA_ISA_CALL(pointwise_f32)(plan);
  }
}

}  // namespace

PointPlan plan_pointwise(const Call& call) {
  TESSERA_CHECK(call.input_count <= program::kMaxInputs, "pointwise: ", call.input_count,
                " inputs");
  TESSERA_CHECK(call.output_count >= 1 && call.output_count <= program::kMaxOutputs,
                "pointwise: ", call.output_count, " outputs");
  PointPlan plan{};
  plan.inputs = call.input_count;
  plan.outputs = call.output_count;
  read_code(call.attributes, plan);
  const std::vector<std::int64_t>& stores = call.attributes.integers("stores");
  TESSERA_CHECK(static_cast<int>(stores.size()) == plan.outputs, "pointwise: ", stores.size(),
                " stores for ", plan.outputs, " outputs");
  for (int k = 0; k < plan.outputs; ++k) {
    plan.output[k].reg = register_number(stores[static_cast<std::size_t>(k)]);
  }
  check_registers(plan);
  find_dims(call, plan);
  return plan;
}

bool computes_in_double(const PointPlan& plan) {
  for (int i = 0; i < plan.inputs; ++i) {
    if (plan.input[i].element == kElementF64) return true;
  }
  for (int k = 0; k < plan.outputs; ++k) {
    if (plan.output[k].element == kElementF64) return true;
  }
  return false;
}

void register_pointwise_kernels() {
  register_kernel("pointwise", pointwise);
}

}  // namespace tessera::kernels
