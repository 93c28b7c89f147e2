// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/group_norm.hpp"

#include <algorithm>
#include <vector>

#include "kernels/builtin.hpp"
#include "kernels/isa/group_norm.hpp"
#include "kernels/widened.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

/// Reads a call's operands one after the other into a plan.
class GroupNormOperands {
 public:
  GroupNormOperands(const Call& call, const Tile& x) : call_(call), x_(x) {
    const auto& roles = call.attributes.integers("roles");
    TESSERA_CHECK(static_cast<int>(roles.size()) == x.rank && is_floating(x.dtype),
                  "group norm: ", roles.size(), " roles for rank ", x.rank);
    std::int64_t extent[4] = {1, 1, 1, 1};
    std::int64_t last = 0;
    for (int d = 0; d < x.rank; ++d) {
      const std::int64_t role = roles[static_cast<std::size_t>(d)];
      TESSERA_CHECK(role >= last && role < 4, "group norm: roles out of order");
      extent[role] *= x.extent[d];
      last = role;
    }
    plan.outer = extent[0], plan.before = extent[1], plan.kept = extent[2], plan.after = extent[3];
    plan.element = static_cast<int>(x.dtype);
    plan.x = x.data;
    plan.epsilon = call.attributes.real_or("epsilon", 0.0);
    plan.whole = static_cast<double>(call.attributes.integer_or("size", 1));
  }

  void* same_as_x(const Tile& tile) const {
    TESSERA_CHECK(tile.dtype == x_.dtype && tile.size() == x_.size(), "group norm: an operand of ",
                  tile.size(), " elements, x has ", x_.size());
    return tile.data;
  }
  void* statistics(const Tile& tile, std::int64_t each) const {
    TESSERA_CHECK(
        tile.dtype == statistics_dtype(x_.dtype) && tile.size() == plan.outer * plan.kept * each,
        "group norm: statistics of ", tile.size(), " elements for ", plan.outer, " x ", plan.kept,
        " groups");
    return tile.data;
  }
  const Tile& input() {
    TESSERA_CHECK(input_ < call_.input_count, "group norm: input ", input_, " is missing");
    return call_.inputs[input_++];
  }
  const Tile& output() {
    TESSERA_CHECK(output_ < call_.output_count, "group norm: output ", output_, " is missing");
    return call_.outputs[output_++];
  }
  bool has(const char* parameter) const { return call_.attributes.integer(parameter) != 0; }
  void read_scale() {
    if (has("scale")) plan.scale = parameter(input(), plan.scale_element);
  }
  void read_statistics() {
    plan.mean = statistics(input(), 1);
    plan.variance = statistics(input(), 1);
  }
  /// [outer, a slowest part of before].
  void read_row_weights() {
    const Tile& tile = input();
    const std::int64_t each = plan.outer > 0 ? tile.size() / plan.outer : 0;
    TESSERA_CHECK(tile.dtype == DType::f32 && tile.size() == plan.outer * each &&
                      (each > 0 ? plan.before % each : plan.outer * plan.before) == 0,
                  "group norm: ", tile.size(), " row weights for ", plan.outer, " x ", plan.before,
                  " rows");
    plan.row_weights = static_cast<const float*>(tile.data);
    plan.masked = each;
  }
  bool has_input() const { return input_ < call_.input_count; }
  void write_parameter_gradients() {
    int element = plan.element == kElementF64 ? kElementF64 : kElementF32;
    const int expected = element;
    if (has("scale")) plan.dscale = const_cast<void*>(parameter(output(), element));
    if (has("bias")) plan.dbias = const_cast<void*>(parameter(output(), element));
    TESSERA_CHECK(element == expected,
                  "group norm: gradients of parameters are in the statistics' type");
  }
  void finish() const {
    TESSERA_CHECK(input_ == call_.input_count && output_ == call_.output_count,
                  "group norm: ", call_.input_count, " inputs and ", call_.output_count,
                  " outputs, expected ", input_, " and ", output_);
  }

  GroupNormPlan plan{};

 private:
  const void* parameter(const Tile& tile, int& element) const {
    TESSERA_CHECK(tile.size() == plan.line() && is_floating(tile.dtype),
                  "group norm: a parameter of ", tile.size(), " elements for a line of ",
                  plan.line());
    element = static_cast<int>(tile.dtype);
    return tile.data;
  }

  const Call& call_;
  const Tile& x_;
  int input_ = 0;
  int output_ = 0;
};

using HostGroupNorm = void (*)(const GroupNormPlan&);
using PortableGroupNorm = void (*)(const device::Exec&, const GroupNormPlan&);

void launch(const device::Exec& exec, GroupNormOperands& operands, HostGroupNorm host,
            PortableGroupNorm portable) {
  operands.finish();
  GroupNormPlan plan = operands.plan;
  if (use_portable()) return portable(exec, plan);
  const bool as_double = plan.element == kElementF64;
  const Widened scale(plan.scale, plan.scale_element, plan.line(), 1.0, as_double);
  plan.scale = scale.data();
  // Room for f64 serves f32, too; without elements there still are groups.
  std::vector<double> lines(static_cast<std::size_t>(4 * std::max(plan.line(), plan.kept)));
  std::vector<double> totals(lines.size());
  plan.lines = lines.data();
  plan.totals = totals.data();
  host(plan);
}

void group_norm_moments(const device::Exec& exec, const Call& call) {
  GroupNormOperands operands(call, call.inputs[0]);
  operands.input();
  if (operands.has_input()) operands.read_row_weights();
  operands.plan.moments = operands.statistics(operands.output(), 3);
  launch(exec, operands, TESSERA_ISA_CALL(group_norm_moments), portable::group_norm_moments);
}

void group_norm_backward_sums(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count >= 2, "group_norm_backward_sums: operands");
  GroupNormOperands operands(call, call.inputs[1]);
  operands.plan.dy = operands.same_as_x(operands.input());
  operands.input();
  operands.read_scale();
  operands.read_statistics();
  operands.plan.sums = operands.statistics(operands.output(), 2);
  operands.write_parameter_gradients();
  launch(exec, operands, TESSERA_ISA_CALL(group_norm_backward_sums),
         portable::group_norm_backward_sums);
}

void group_norm_backward_apply(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count >= 2, "group_norm_backward_apply: operands");
  GroupNormOperands operands(call, call.inputs[1]);
  operands.plan.dy = operands.same_as_x(operands.input());
  operands.input();
  operands.read_scale();
  operands.read_statistics();
  operands.plan.sums = operands.statistics(operands.input(), 2);
  if (operands.has_input()) {
    operands.read_row_weights();
    operands.plan.count = operands.statistics(operands.input(), 1);
  }
  operands.plan.y = operands.same_as_x(operands.output());
  launch(exec, operands, TESSERA_ISA_CALL(group_norm_backward_apply),
         portable::group_norm_backward_apply);
}

}  // namespace

void register_group_norm_kernels() {
  register_kernel("group_norm_moments", group_norm_moments);
  register_kernel("group_norm_backward_sums", group_norm_backward_sums);
  register_kernel("group_norm_backward_apply", group_norm_backward_apply);
}

}  // namespace tessera::kernels
