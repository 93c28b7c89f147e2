// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/conv.hpp"

#include <vector>

#include "kernels/builtin.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

/// What the call's three tiles are: x, filter and y in whatever role.
ConvPlan make_plan(const Call& call, const Tile& x, const Tile& filter, const Tile& y) {
  const auto count = [&](const char* name) {
    return static_cast<int>(call.attributes.integer(name));
  };
  const int batch = count("batch"), groups = count("groups"), in = count("in");
  const auto& stride = call.attributes.integers("stride");
  const auto& dilation = call.attributes.integers("dilation");
  const auto& before = call.attributes.integers("before");
  const int space = static_cast<int>(stride.size());
  const int out = filter.rank - space - groups - in;
  TESSERA_CHECK(space >= 1 && space <= kSpace && static_cast<int>(dilation.size()) == space &&
                    static_cast<int>(before.size()) == space && out >= 0 &&
                    x.rank == batch + space + groups + in && y.rank == batch + space + groups + out,
                "conv: operands of ranks ", x.rank, ", ", filter.rank, " and ", y.rank);
  ConvPlan plan{};
  plan.batch = merged_extent(y, 0, batch);
  plan.groups = merged_extent(filter, space, groups);
  plan.in = merged_extent(filter, space + groups, in);
  plan.out = merged_extent(filter, space + groups + in, out);
  for (int d = 0; d < kSpace; ++d) {
    plan.x[d] = plan.y[d] = plan.taps[d] = plan.stride[d] = plan.dilation[d] = 1;
  }
  for (int s = 0; s < space; ++s) {
    const int d = kSpace - space + s;
    const auto at = static_cast<std::size_t>(s);
    plan.x[d] = x.extent[batch + s], plan.y[d] = y.extent[batch + s];
    plan.taps[d] = filter.extent[s];
    plan.stride[d] = stride[at], plan.dilation[d] = dilation[at];
    plan.base[d] = y.offset[batch + s] * stride[at] + filter.offset[s] * dilation[at] - before[at] -
                   x.offset[batch + s];
  }
  TESSERA_CHECK(
      x.size() == plan.batch * plan.x[0] * plan.x[1] * plan.x[2] * plan.groups * plan.in &&
          y.size() == plan.batch * plan.y[0] * plan.y[1] * plan.y[2] * plan.groups * plan.out,
      "conv: tiles that do not fit together");
  return plan;
}

using HostConv = void (*)(const device::Exec&, const ConvPlan&, void*);
using PortableConv = void (*)(const device::Exec&, const ConvPlan&);

void launch(const device::Exec& exec, const Call& call, ConvPlan plan, HostConv host,
            PortableConv portable) {
  const Tile &a = call.inputs[0], &b = call.inputs[1], &result = call.outputs[0];
  TESSERA_CHECK(
      is_floating(a.dtype) && a.dtype == b.dtype &&
          (result.dtype == a.dtype || (a.dtype == DType::bf16 && result.dtype == DType::f32)),
      "conv: ", name_of(a.dtype), ", ", name_of(b.dtype), " to ", name_of(result.dtype));
  plan.element = static_cast<int>(a.dtype);
  plan.result_element = static_cast<int>(result.dtype);
  plan.a = a.data, plan.b = b.data, plan.result = result.data;
  if (use_portable()) {
    portable(exec, plan);
  } else {
    host(exec, plan, call.workspace);
  }
}

void check_operands(const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "conv takes two inputs");
}

void conv(const device::Exec& exec, const Call& call) {
  check_operands(call);
  launch(exec, call, make_plan(call, call.inputs[0], call.inputs[1], call.outputs[0]), conv_host,
         portable::conv);
}

void conv_input_grad(const device::Exec& exec, const Call& call) {
  check_operands(call);
  launch(exec, call, make_plan(call, call.outputs[0], call.inputs[1], call.inputs[0]),
         conv_input_grad_host, portable::conv_input_grad);
}

void conv_filter_grad(const device::Exec& exec, const Call& call) {
  check_operands(call);
  launch(exec, call, make_plan(call, call.inputs[0], call.outputs[0], call.inputs[1]),
         conv_filter_grad_host, portable::conv_filter_grad);
}

}  // namespace

program::ConvSize conv_size(const ConvPlan& plan) {
  program::ConvSize size;
  size.batch = plan.batch, size.groups = plan.groups, size.in = plan.in, size.out = plan.out;
  for (int d = 0; d < kSpace; ++d) {
    size.x[d] = plan.x[d], size.y[d] = plan.y[d], size.taps[d] = plan.taps[d];
    size.stride[d] = plan.stride[d], size.dilation[d] = plan.dilation[d];
  }
  return size;
}

void register_conv_kernels() {
  register_kernel("conv", conv);
  register_kernel("conv_input_grad", conv_input_grad);
  register_kernel("conv_filter_grad", conv_filter_grad);
}

}  // namespace tessera::kernels
