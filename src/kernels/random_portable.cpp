// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/portable_math.hpp"
#include "kernels/random.hpp"
#include "kernels/turn.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::kernels::portable {
namespace {

/// Index in the whole tensor of element i of the tile.
KOKKOS_INLINE_FUNCTION std::uint64_t global_index(const RandomPlan& plan, std::int64_t i) {
  std::int64_t at = plan.first + i % plan.length;
  std::int64_t run = i / plan.length;
  for (int d = plan.rank - 1; d >= 0; --d) {
    at += run % plan.extent[d] * plan.stride[d];
    run /= plan.extent[d];
  }
  return static_cast<std::uint64_t>(at);
}

template <class E>
void drop(const device::Exec& exec, const RandomPlan& plan, const E* x, E* y,
          std::uint64_t threshold, double scale) {
  using C = Compute<E>;
  device::for_each_index(
      "tessera::kernels::dropout", exec, plan.runs * plan.length, KOKKOS_LAMBDA(std::int64_t i) {
        const bool kept = random_word(plan.key, plan.step, global_index(plan, i)) >= threshold;
        const C value = load(x[i]) * static_cast<C>(scale);
        store(y[i], kept ? static_cast<double>(value) : 0.0);
      });
}

/// The same formulas as normal_draw and uniform_draw.
KOKKOS_INLINE_FUNCTION double draw(std::uint64_t key, std::uint64_t element, bool normal) {
  const Philox block = philox4x32(key, element, 0);
  if (!normal) return 2.0 * uniform_of(block.word[2]) - 1.0;
  const double radius = square_root(-2.0 * logarithm(uniform_of(block.word[0])));
  return radius * turn_cosine(uniform_of(block.word[1]));
}

template <class E>
void random_elements(const device::Exec& exec, const RandomPlan& plan, E* y, bool normal,
                     double mean, double scale) {
  device::for_each_index(
      "tessera::kernels::random", exec, plan.runs * plan.length, KOKKOS_LAMBDA(std::int64_t i) {
        store(y[i], mean + scale * draw(plan.key, global_index(plan, i), normal));
      });
}

template <class E>
void fill_elements(const device::Exec& exec, E* y, std::int64_t n, E value) {
  device::for_each_index(
      "tessera::kernels::fill", exec, n, KOKKOS_LAMBDA(std::int64_t i) { y[i] = value; });
}

template <class E>
void range_elements(const device::Exec& exec, E* y, std::int64_t n, double first, double step) {
  device::for_each_index(
      "tessera::kernels::range", exec, n,
      KOKKOS_LAMBDA(std::int64_t i) { store(y[i], first + step * static_cast<double>(i)); });
}

}  // namespace

void range(const device::Exec& exec, const Tile& y, double first, double step) {
  switch (y.dtype) {
    case DType::f64:
      return range_elements(exec, y.as<double>(), y.size(), first, step);
    case DType::bf16:
      return range_elements(exec, y.as<Bf16>(), y.size(), first, step);
    case DType::i32:
      return range_elements(exec, y.as<std::int32_t>(), y.size(), first, step);
    default:
      return range_elements(exec, y.as<float>(), y.size(), first, step);
  }
}

void dropout(const device::Exec& exec, const RandomPlan& plan, const Tile& x, const Tile& y,
             std::uint64_t threshold, double scale) {
  switch (x.dtype) {
    case DType::f64:
      return drop(exec, plan, x.as<const double>(), y.as<double>(), threshold, scale);
    case DType::bf16:
      return drop(exec, plan, x.as<const Bf16>(), y.as<Bf16>(), threshold, scale);
    default:
      return drop(exec, plan, x.as<const float>(), y.as<float>(), threshold, scale);
  }
}

void random_fill(const device::Exec& exec, const RandomPlan& plan, const Tile& y, bool normal,
                 double mean, double scale) {
  switch (y.dtype) {
    case DType::f64:
      return random_elements(exec, plan, y.as<double>(), normal, mean, scale);
    case DType::bf16:
      return random_elements(exec, plan, y.as<Bf16>(), normal, mean, scale);
    default:
      return random_elements(exec, plan, y.as<float>(), normal, mean, scale);
  }
}

void fill(const device::Exec& exec, const Tile& y, double value) {
  switch (y.dtype) {
    case DType::f64:
      return fill_elements(exec, y.as<double>(), y.size(), value);
    case DType::bf16:
      return fill_elements(exec, y.as<Bf16>(), y.size(), to_bf16(static_cast<float>(value)));
    case DType::i32:
      return fill_elements(exec, y.as<std::int32_t>(), y.size(), static_cast<std::int32_t>(value));
    default:
      return fill_elements(exec, y.as<float>(), y.size(), static_cast<float>(value));
  }
}

}  // namespace tessera::kernels::portable
