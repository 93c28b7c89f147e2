// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/positions.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/builtin.hpp"
#include "kernels/feeds.hpp"
#include "kernels/pointwise_plan.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

void rotary(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "rotary: one input");
  const Tile& x = call.inputs[0];
  const Tile& y = call.outputs[0];
  // Without a dim of positions a feed holds the one of all rows.
  const auto length_dim = static_cast<int>(call.attributes.integer("length_dim"));
  const bool is_fed = length_dim == -1;
  const int last = x.rank - 1;
  TESSERA_CHECK(is_fed || (length_dim >= 0 && length_dim < last), "rotary: length is dim ",
                length_dim, " of rank ", x.rank);
  TESSERA_CHECK(x.dtype == y.dtype && is_floating(x.dtype) && x.size() == y.size(),
                "rotary: ", x.size(), " ", name_of(x.dtype), " to ", y.size(), " ",
                name_of(y.dtype));
  TESSERA_CHECK(x.extent[last] == x.global[last], "rotary: the last dim is split");
  RotaryPlan plan{};
  plan.element = static_cast<int>(x.dtype);
  plan.x = x.data;
  plan.y = y.data;
  plan.outer = plan.inner = 1;
  for (int d = 0; d < length_dim; ++d) plan.outer *= x.extent[d];
  for (int d = length_dim + 1; d < last; ++d) plan.inner *= x.extent[d];
  plan.length = is_fed ? 1 : x.extent[length_dim];
  plan.size = x.extent[last];
  plan.first = is_fed ? fed_index(call) : x.offset[length_dim];
  plan.sign = call.attributes.integer_or("inverse", 0) != 0 ? -1.0 : 1.0;
  plan.base = call.attributes.real("base");
  if (x.size() == 0) return;
  if (use_portable()) return portable::rotary(exec, plan);
  const std::int64_t half = plan.size / 2;
  std::vector<double> frequency(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    frequency[static_cast<std::size_t>(i)] =
        std::pow(plan.base, -2.0 * static_cast<double>(i) / static_cast<double>(plan.size));
  }
  std::vector<double> turn(static_cast<std::size_t>(2 * half));
  plan.frequency = frequency.data();
  plan.turn = turn.data();
  TESSERA_ISA_CALL(rotary)(plan);
}

template <class E, class Convert>
void sinusoid_on_host(const SinusoidPlan& plan, const Convert& convert) {
  E* y = static_cast<E*>(plan.y);
  const std::int64_t half = plan.columns / 2;
  for (std::int64_t j = 0; j < plan.size; ++j) {
    const std::int64_t column = plan.first_column + j;
    const std::int64_t i = column < half ? column : column - half;
    const double steps = static_cast<double>(std::max<std::int64_t>(half - 1, 1));
    const double frequency = std::pow(10000.0, -static_cast<double>(i) / steps);
    for (std::int64_t l = 0; l < plan.length; ++l) {
      const double angle = static_cast<double>(plan.first_position + l) * frequency;
      // An odd number of columns leaves one, of zeros.
      const double value = column < half       ? std::sin(angle)
                           : column < 2 * half ? std::cos(angle)
                                               : 0.0;
      y[l * plan.size + j] = convert(value);
    }
  }
}

void sinusoid(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 0 && call.output_count == 1 &&
                    (call.outputs[0].rank == 2 || call.outputs[0].rank == 1),
                "sinusoid: one output [length, d], or [d] at a fed position");
  const Tile& y = call.outputs[0];
  const bool is_fed = y.rank == 1;
  const int column = y.rank - 1;
  const SinusoidPlan plan{static_cast<int>(y.dtype),
                          y.data,
                          is_fed ? 1 : y.extent[0],
                          y.extent[column],
                          is_fed ? fed_index(call) : y.offset[0],
                          y.offset[column],
                          y.global[column]};
  if (use_portable()) return portable::sinusoid(exec, plan);
  switch (y.dtype) {
    case DType::f64:
      return sinusoid_on_host<double>(plan, [](double v) { return v; });
    case DType::bf16:
      return sinusoid_on_host<Bf16>(plan, [](double v) { return to_bf16(static_cast<float>(v)); });
    default:
      return sinusoid_on_host<float>(plan, [](double v) { return static_cast<float>(v); });
  }
}

}  // namespace

void register_position_kernels() {
  register_kernel("rotary", rotary);
  register_kernel("sinusoid", sinusoid);
}

}  // namespace tessera::kernels
