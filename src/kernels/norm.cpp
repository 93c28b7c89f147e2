// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/norm.hpp"

#include <vector>

#include "kernels/builtin.hpp"
#include "kernels/isa/norm.hpp"
#include "kernels/pointwise_plan.hpp"
#include "kernels/widened.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

/// Takes operands one after the other and checks that their number is right.
class NormOperands {
 public:
  explicit NormOperands(const Call& call) : call_(call) {}

  const Tile& input() {
    TESSERA_CHECK(next_input_ < call_.input_count, "norm: input ", next_input_, " is missing");
    return call_.inputs[next_input_++];
  }
  const Tile& output() {
    TESSERA_CHECK(next_output_ < call_.output_count, "norm: output ", next_output_, " is missing");
    return call_.outputs[next_output_++];
  }
  void finish() const {
    TESSERA_CHECK(next_input_ == call_.input_count && next_output_ == call_.output_count,
                  "norm: ", call_.input_count, " inputs and ", call_.output_count,
                  " outputs, expected ", next_input_, " and ", next_output_);
  }

 private:
  const Call& call_;
  int next_input_ = 0;
  int next_output_ = 0;
};

struct Norm {
  Norm(const Call& call_of) : call(call_of), operands(call_of) {
    plan.epsilon = call.attributes.real_or("epsilon", 0.0);
    plan.rms = call.attributes.integer_or("rms", 0) != 0;
    with_scale = call.attributes.integer_or("scale", 0) != 0;
    with_bias = call.attributes.integer_or("bias", 0) != 0;
  }

  /// Reads shape and type off x.
  void set_shape(const Tile& x) {
    const auto axis = static_cast<int>(call.attributes.integer("axis"));
    TESSERA_CHECK(axis >= 0 && axis < x.rank, "norm: axis ", axis, " of rank ", x.rank);
    TESSERA_CHECK(is_floating(x.dtype), "norm of ", name_of(x.dtype));
    dtype = x.dtype;
    plan.element = static_cast<int>(x.dtype);
    plan.outer = plan.inner = 1;
    for (int d = 0; d < axis; ++d) plan.outer *= x.extent[d];
    for (int d = axis + 1; d < x.rank; ++d) plan.inner *= x.extent[d];
    plan.size = x.extent[axis];
    plan.whole = static_cast<double>(
        call.attributes.integer_or("size", x.global[axis] > 0 ? x.global[axis] : x.extent[axis]));
  }
  std::int64_t rows() const { return plan.outer * plan.inner; }

  void* same_as_x(const Tile& tile) const {
    TESSERA_CHECK(tile.dtype == dtype && tile.size() == rows() * plan.size, "norm: an operand of ",
                  tile.size(), " ", name_of(tile.dtype), " elements, x has ", rows() * plan.size,
                  " ", name_of(dtype));
    return tile.data;
  }
  void* statistics(const Tile& tile, std::int64_t each) const {
    TESSERA_CHECK(tile.dtype == statistics_dtype(dtype) && tile.size() == rows() * each,
                  "norm: statistics of ", tile.size(), " ", name_of(tile.dtype), " elements for ",
                  rows(), " rows of ", name_of(dtype));
    return tile.data;
  }
  const void* parameter(const Tile& tile, int& element) const {
    TESSERA_CHECK(tile.size() == plan.size && is_floating(tile.dtype), "norm: a parameter of ",
                  tile.size(), " elements, the axis has ", plan.size);
    element = static_cast<int>(tile.dtype);
    return tile.data;
  }
  void read_scale() {
    if (with_scale) plan.scale = parameter(operands.input(), plan.scale_element);
  }
  void read_bias() {
    if (with_bias) plan.bias = parameter(operands.input(), plan.bias_element);
  }
  void read_statistics() {
    if (!plan.rms) plan.mean = statistics(operands.input(), 1);
    plan.rstd = statistics(operands.input(), 1);
  }
  void write_parameter_gradients() {
    int element = 0;
    if (with_scale) plan.dscale = const_cast<void*>(parameter(operands.output(), element));
    if (with_bias) plan.dbias = const_cast<void*>(parameter(operands.output(), element));
    TESSERA_CHECK(
        (!with_scale && !with_bias) || element == static_cast<int>(statistics_dtype(dtype)),
        "norm: gradients of parameters are in the statistics' type");
  }

  const Call& call;
  NormOperands operands;
  NormPlan plan{};
  DType dtype = DType::f32;
  bool with_scale = false;
  bool with_bias = false;
};

using IsaFunction = void (*)(const NormPlan&);
using PortableFunction = void (*)(const device::Exec&, const NormPlan&);

void launch(const device::Exec& exec, NormPlan plan, IsaFunction host, PortableFunction portable,
            bool adds_parameters) {
  if (use_portable()) {
    portable(exec, plan);
    return;
  }
  const bool as_double = plan.element == kElementF64;
  const Widened scale(plan.scale, plan.scale_element, plan.size, 1.0, as_double);
  const Widened bias(plan.bias, plan.bias_element, plan.size, 0.0, as_double);
  plan.scale = scale.data();
  plan.bias = bias.data();
  std::vector<double> chunk, total;
  if (adds_parameters) {
    chunk.resize(static_cast<std::size_t>(2 * plan.size));
    total.resize(static_cast<std::size_t>(2 * plan.size));
    plan.chunk = chunk.data();
    plan.total = total.data();
  }
  host(plan);
}

void norm_forward(const device::Exec& exec, const Call& call) {
  Norm norm(call);
  const Tile& x = norm.operands.input();
  norm.set_shape(x);
  norm.plan.x = x.data;
  norm.read_scale();
  norm.read_bias();
  norm.plan.y = norm.same_as_x(norm.operands.output());
  if (!norm.plan.rms) norm.plan.mean = norm.statistics(norm.operands.output(), 1);
  norm.plan.rstd = norm.statistics(norm.operands.output(), 1);
  norm.operands.finish();
  launch(exec, norm.plan, TESSERA_ISA_CALL(norm_forward), portable::norm_forward, false);
}

void norm_apply(const device::Exec& exec, const Call& call) {
  Norm norm(call);
  const Tile& x = norm.operands.input();
  norm.set_shape(x);
  norm.plan.x = x.data;
  norm.read_scale();
  norm.read_bias();
  norm.read_statistics();
  norm.plan.y = norm.same_as_x(norm.operands.output());
  norm.operands.finish();
  launch(exec, norm.plan, TESSERA_ISA_CALL(norm_apply), portable::norm_apply, false);
}

void norm_moments(const device::Exec& exec, const Call& call) {
  Norm norm(call);
  const Tile& x = norm.operands.input();
  norm.set_shape(x);
  norm.plan.x = x.data;
  norm.plan.moments = norm.statistics(norm.operands.output(), 3);
  norm.operands.finish();
  launch(exec, norm.plan, TESSERA_ISA_CALL(norm_moments), portable::norm_moments, false);
}

void norm_backward(const device::Exec& exec, const Call& call) {
  Norm norm(call);
  const Tile& dy = norm.operands.input();
  const Tile& x = norm.operands.input();
  norm.set_shape(x);
  norm.plan.dy = norm.same_as_x(dy);
  norm.plan.x = x.data;
  norm.read_scale();
  norm.read_statistics();
  norm.plan.whole = static_cast<double>(norm.plan.size);
  norm.plan.dx = norm.same_as_x(norm.operands.output());
  norm.write_parameter_gradients();
  norm.operands.finish();
  launch(exec, norm.plan, TESSERA_ISA_CALL(norm_backward), portable::norm_backward, true);
}

void norm_backward_sums(const device::Exec& exec, const Call& call) {
  Norm norm(call);
  const Tile& dy = norm.operands.input();
  const Tile& x = norm.operands.input();
  norm.set_shape(x);
  norm.plan.dy = norm.same_as_x(dy);
  norm.plan.x = x.data;
  norm.read_scale();
  norm.read_statistics();
  norm.plan.sums = norm.statistics(norm.operands.output(), 2);
  norm.operands.finish();
  launch(exec, norm.plan, TESSERA_ISA_CALL(norm_backward_sums), portable::norm_backward_sums,
         false);
}

void norm_backward_apply(const device::Exec& exec, const Call& call) {
  Norm norm(call);
  const Tile& dy = norm.operands.input();
  const Tile& x = norm.operands.input();
  norm.set_shape(x);
  norm.plan.dy = norm.same_as_x(dy);
  norm.plan.x = x.data;
  norm.read_scale();
  norm.read_statistics();
  norm.plan.sums = norm.statistics(norm.operands.input(), 2);
  norm.plan.dx = norm.same_as_x(norm.operands.output());
  norm.write_parameter_gradients();
  norm.operands.finish();
  launch(exec, norm.plan, TESSERA_ISA_CALL(norm_backward), portable::norm_backward, true);
}

}  // namespace

void register_norm_kernels() {
  register_kernel("norm_forward", norm_forward);
  register_kernel("norm_apply", norm_apply);
  register_kernel("norm_moments", norm_moments);
  register_kernel("norm_backward", norm_backward);
  register_kernel("norm_backward_sums", norm_backward_sums);
  register_kernel("norm_backward_apply", norm_backward_apply);
}

}  // namespace tessera::kernels
