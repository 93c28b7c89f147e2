// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/random.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/builtin.hpp"
#include "kernels/isa/draws.hpp"
#include "kernels/turn.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/kernels/random.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

std::uint64_t key_of(const Attributes& attributes) {
  return static_cast<std::uint64_t>(attributes.integer("key"));
}

void put(const Tile& y, std::int64_t at, const double* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    switch (y.dtype) {
      case DType::f64:
        y.as<double>()[at + i] = values[i];
        break;
      case DType::bf16:
        y.as<Bf16>()[at + i] = to_bf16(static_cast<float>(values[i]));
        break;
      default:
        y.as<float>()[at + i] = static_cast<float>(values[i]);
    }
  }
}

constexpr std::int64_t kDraws = 512;  // of one call

void random_fill(const device::Exec& exec, const Call& call, bool normal) {
  TESSERA_CHECK(call.input_count == 0 && call.output_count == 1, "random: one output");
  const Tile& y = call.outputs[0];
  TESSERA_CHECK(is_floating(y.dtype), "random numbers of type ", name_of(y.dtype));
  const double mean = call.attributes.real_or("mean", 0.0);
  const double scale = call.attributes.real_or("scale", 1.0);
  std::uint64_t key = key_of(call.attributes);
  if (call.attributes.integer_or("each_step", 0) != 0)
    key = stream_key(static_cast<std::uint64_t>(call.feeds.step), key);
  const auto batch_dim = static_cast<int>(call.attributes.integer_or("batch_dim", -1));
  const RandomPlan plan =
      plan_random(y, key, 0, batch_dim, call.attributes.integer_or("batch_total", 0),
                  batch_dim >= 0 ? call.feeds.micro : 0);
  if (plan.runs * plan.length == 0) return;
  if (use_portable()) return portable::random_fill(exec, plan, y, normal, mean, scale);
  const auto draw = normal ? TESSERA_ISA_CALL(normal_draws) : TESSERA_ISA_CALL(uniform_draws);
  for_each_run(plan, [&](std::int64_t at, std::int64_t first) {
    double values[kDraws];
    for (std::int64_t i = 0; i < plan.length; i += kDraws) {
      const std::int64_t n = std::min(kDraws, plan.length - i);
      draw(values, n, plan.key, static_cast<std::uint64_t>(first + i), mean, scale);
      put(y, at + i, values, n);
    }
  });
}

void random_normal(const device::Exec& exec, const Call& call) {
  random_fill(exec, call, true);
}
void random_uniform(const device::Exec& exec, const Call& call) {
  random_fill(exec, call, false);
}

void fill(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 0 && call.output_count == 1, "fill: one output");
  const Tile& y = call.outputs[0];
  const double value = call.attributes.real("value");
  if (use_portable()) return portable::fill(exec, y, value);
  const std::int64_t n = y.size();
  switch (y.dtype) {
    case DType::f64:
      std::fill_n(y.as<double>(), n, value);
      break;
    case DType::bf16:
      std::fill_n(y.as<Bf16>(), n, to_bf16(static_cast<float>(value)));
      break;
    case DType::i32:
      std::fill_n(y.as<std::int32_t>(), n, static_cast<std::int32_t>(value));
      break;
    default:
      std::fill_n(y.as<float>(), n, static_cast<float>(value));
  }
}

template <class E, class Convert>
void fill_range(const Tile& y, double first, double step, const Convert& convert) {
  for (std::int64_t i = 0; i < y.extent[0]; ++i)
    y.as<E>()[i] = convert(first + step * static_cast<double>(i));
}

void range(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 0 && call.output_count == 1 && call.outputs[0].rank == 1,
                "range: one output of rank 1");
  const Tile& y = call.outputs[0];
  const double step = call.attributes.real("step");
  const double first = call.attributes.real("start") + step * static_cast<double>(y.offset[0]);
  if (use_portable()) return portable::range(exec, y, first, step);
  switch (y.dtype) {
    case DType::f64:
      return fill_range<double>(y, first, step, [](double v) { return v; });
    case DType::bf16:
      return fill_range<Bf16>(y, first, step, [](double v) { return to_bf16(float(v)); });
    case DType::i32:
      return fill_range<std::int32_t>(y, first, step, [](double v) { return std::int32_t(v); });
    default:
      return fill_range<float>(y, first, step, [](double v) { return float(v); });
  }
}

}  // namespace

std::uint64_t dropout_threshold(double rate) {
  TESSERA_CHECK(rate >= 0.0 && rate < 1.0, "a dropout rate of ", rate);
  return static_cast<std::uint64_t>(std::ceil(rate * 4294967296.0));
}

double normal_draw(std::uint64_t key, std::uint64_t element) {
  const Philox block = philox4x32(key, element, 0);
  const double radius = std::sqrt(-2.0 * std::log(uniform_of(block.word[0])));
  return radius * turn_cosine(uniform_of(block.word[1]));
}

double uniform_draw(std::uint64_t key, std::uint64_t element) {
  return 2.0 * uniform_of(philox4x32(key, element, 0).word[2]) - 1.0;
}

RandomPlan plan_random(const Tile& tile, std::uint64_t key, std::uint64_t step, int batch_dim,
                       std::int64_t batch_total, std::int64_t micro) {
  RandomPlan plan{};
  plan.key = key;
  plan.step = step;
  plan.length = 1;
  std::int64_t stride = 1;
  std::int64_t own_stride[kMaxRank];
  int runs_from = tile.rank;  // dims from here on make up a run
  bool whole = true;          // all dims behind are held whole, so this one goes on where they end
  for (int d = tile.rank - 1; d >= 0; --d) {
    const bool batch = d == batch_dim;
    const std::int64_t extent = batch ? batch_total : tile.global[d];
    const std::int64_t offset = tile.offset[d] + (batch ? micro * tile.global[d] : 0);
    own_stride[d] = stride;
    plan.first += offset * stride;
    stride *= extent;
    if (whole) {
      plan.length *= tile.extent[d];
      runs_from = d;
      whole = tile.extent[d] == extent;
    }
  }
  plan.runs = 1;
  for (int d = 0; d < runs_from; ++d) {
    plan.extent[plan.rank] = tile.extent[d];
    plan.stride[plan.rank++] = own_stride[d];
    plan.runs *= tile.extent[d];
  }
  return plan;
}

void register_random_kernels() {
  register_kernel("random_normal", random_normal);
  register_kernel("random_uniform", random_uniform);
  register_kernel("fill", fill);
  register_kernel("range", range);
}

}  // namespace tessera::kernels
