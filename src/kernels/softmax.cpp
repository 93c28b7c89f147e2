// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/softmax.hpp"

#include "kernels/builtin.hpp"
#include "kernels/isa/softmax.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

void check_counts(const Call& call, int inputs, int outputs) {
  TESSERA_CHECK(call.input_count == inputs && call.output_count == outputs,
                "softmax: ", call.input_count, " inputs and ", call.output_count,
                " outputs, expected ", inputs, " and ", outputs);
}

/// Checks an operand that has `each` elements for a row.
void* of_rows(const Tile& tile, const SoftmaxPlan& plan, DType dtype, std::int64_t each) {
  TESSERA_CHECK(tile.dtype == dtype && tile.size() == plan.rows * each, "softmax: an operand of ",
                tile.size(), " ", name_of(tile.dtype), " elements, expected ", plan.rows * each,
                " ", name_of(dtype));
  return tile.data;
}

/// The sums [3, rows], or [2, rows] where nothing needs the sum of the logits.
void read_sums(const Tile& tile, SoftmaxPlan& plan, DType dtype) {
  TESSERA_CHECK(tile.rank >= 1, "softmax: the sums are a scalar");
  plan.sum_count = static_cast<int>(tile.extent[0]);
  TESSERA_CHECK(plan.sum_count == 2 || plan.sum_count == 3, "softmax: ", plan.sum_count, " sums");
  plan.sums = of_rows(tile, plan, dtype, plan.sum_count);
}

SoftmaxPlan plan_logits(const Tile& logits) {
  TESSERA_CHECK(logits.rank >= 1 && is_floating(logits.dtype), "softmax: logits of rank ",
                logits.rank, ", ", name_of(logits.dtype));
  SoftmaxPlan plan{};
  const int last = logits.rank - 1;
  plan.element = static_cast<int>(logits.dtype);
  plan.local = logits.extent[last];
  plan.first = logits.offset[last];
  plan.rows = 1;
  for (int d = 0; d < last; ++d) plan.rows *= logits.extent[d];
  plan.logits = logits.data;
  return plan;
}

void read_loss_attributes(const Attributes& attributes, SoftmaxPlan& plan) {
  plan.smoothing = attributes.real_or("smoothing", 0.0);
  plan.z_loss = attributes.real_or("z_loss", 0.0);
  plan.vocab = static_cast<double>(attributes.integer("vocab"));
}

void softmax_max(const device::Exec& exec, const Call& call) {
  check_counts(call, 1, 1);
  SoftmaxPlan plan = plan_logits(call.inputs[0]);
  plan.max = of_rows(call.outputs[0], plan, statistics_dtype(call.inputs[0].dtype), 1);
  if (use_portable()) return portable::softmax_max(exec, plan);
  TESSERA_ISA_CALL(softmax_max)(plan);
}

void softmax_sums(const device::Exec& exec, const Call& call) {
  check_counts(call, 3, 1);
  SoftmaxPlan plan = plan_logits(call.inputs[0]);
  const DType statistics = statistics_dtype(call.inputs[0].dtype);
  plan.max = of_rows(call.inputs[1], plan, statistics, 1);
  plan.labels = static_cast<const std::int32_t*>(of_rows(call.inputs[2], plan, DType::i32, 1));
  read_sums(call.outputs[0], plan, statistics);
  if (use_portable()) return portable::softmax_sums(exec, plan);
  TESSERA_ISA_CALL(softmax_sums)(plan);
}

void softmax_finish(const device::Exec& exec, const Call& call) {
  check_counts(call, 3, 2);
  const Tile& max = call.inputs[0];
  SoftmaxPlan plan{};
  plan.element = static_cast<int>(max.dtype);
  plan.rows = max.size();
  plan.max = max.data;
  read_sums(call.inputs[1], plan, max.dtype);
  plan.loss = of_rows(call.outputs[0], plan, max.dtype, 1);
  plan.lse = of_rows(call.outputs[1], plan, max.dtype, 1);
  read_loss_attributes(call.attributes, plan);
  TESSERA_CHECK(plan.sum_count == 3 || plan.smoothing == 0,
                "softmax: label smoothing needs the sum of the logits");
  if (use_portable()) return portable::softmax_finish(exec, plan);
  TESSERA_ISA_CALL(softmax_finish)(plan);
}

void softmax_backward(const device::Exec& exec, const Call& call) {
  check_counts(call, 4, 1);
  SoftmaxPlan plan = plan_logits(call.inputs[0]);
  const DType statistics = statistics_dtype(call.inputs[0].dtype);
  plan.lse = of_rows(call.inputs[1], plan, statistics, 1);
  plan.labels = static_cast<const std::int32_t*>(of_rows(call.inputs[2], plan, DType::i32, 1));
  plan.dloss = of_rows(call.inputs[3], plan, statistics, 1);
  plan.dlogits = of_rows(call.outputs[0], plan, call.inputs[0].dtype, plan.local);
  read_loss_attributes(call.attributes, plan);
  if (use_portable()) return portable::softmax_backward(exec, plan);
  TESSERA_ISA_CALL(softmax_backward)(plan);
}

}  // namespace

void register_softmax_kernels() {
  register_kernel("softmax_max", softmax_max);
  register_kernel("softmax_sums", softmax_sums);
  register_kernel("softmax_finish", softmax_finish);
  register_kernel("softmax_backward", softmax_backward);
}

}  // namespace tessera::kernels
