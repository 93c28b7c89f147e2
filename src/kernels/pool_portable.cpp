// SPDX-License-Identifier: BSD-3-Clause
#include <cfloat>

#include "kernels/pool.hpp"
#include "kernels/portable_element.hpp"
#include "kernels/portable_space.hpp"

namespace tessera::kernels::portable {
namespace {

/// Image, place and channel of element `index` of images of `extent`.
struct Element {
  std::int64_t image;
  std::int64_t channel;
  std::int64_t at[kSpace];

  KOKKOS_INLINE_FUNCTION Element(const ConvPlan& plan, const int64_t* extent, std::int64_t index)
      : image(index / plan.groups / volume(extent)), channel(index % plan.groups) {
    unfold(extent, index / plan.groups % volume(extent), at);
  }
};

KOKKOS_INLINE_FUNCTION std::int64_t x_index(const ConvPlan& plan, const Element& e,
                                            std::int64_t place) {
  return (e.image * volume(plan.x) + place) * plan.groups + e.channel;
}
KOKKOS_INLINE_FUNCTION std::int64_t y_index(const ConvPlan& plan, const Element& e,
                                            std::int64_t place) {
  return (e.image * volume(plan.y) + place) * plan.groups + e.channel;
}

/// Index in x of the first maximum of the window of output `i`; -1 if it is outside.
template <class E>
KOKKOS_INLINE_FUNCTION std::int64_t first_maximum(const ConvPlan& plan, const Element& e,
                                                  const std::int64_t* i) {
  const E* x = static_cast<const E*>(plan.a);
  std::int64_t best = -1, j[kSpace];
  for (std::int64_t t = 0; t < volume(plan.taps); ++t) {
    unfold(plan.taps, t, j);
    const std::int64_t at = input_place(plan, i, j);
    if (at < 0) continue;
    const std::int64_t index = x_index(plan, e, at);
    if (best < 0) {
      best = index;
      continue;
    }
    const auto value = load(x[index]), largest = load(x[best]);
    if (value > largest || (value != value && largest == largest)) best = index;
  }
  return best;
}

template <class E>
void maximum(const device::Exec& exec, const ConvPlan& plan) {
  device::for_each_index(
      "tessera::kernels::max_pool", exec, plan.batch * volume(plan.y) * plan.groups,
      KOKKOS_LAMBDA(std::int64_t index) {
        const Element e(plan, plan.y, index);
        const std::int64_t at = first_maximum<E>(plan, e, e.at);
        const double lowest = sizeof(Compute<E>) == 8 ? -DBL_MAX : -static_cast<double>(FLT_MAX);
        store(static_cast<E*>(plan.result)[index],
              at < 0 ? lowest : static_cast<double>(load(static_cast<const E*>(plan.a)[at])));
      });
}

template <class E>
void maximum_gather(const device::Exec& exec, const ConvPlan& plan) {
  device::for_each_index(
      "tessera::kernels::max_pool_gather", exec, plan.batch * volume(plan.y) * plan.groups,
      KOKKOS_LAMBDA(std::int64_t index) {
        const Element e(plan, plan.y, index);
        const std::int64_t at = first_maximum<E>(plan, e, e.at);
        store(static_cast<E*>(plan.result)[index],
              at < 0 ? 0.0 : static_cast<double>(load(static_cast<const E*>(plan.b)[at])));
      });
}

/// An element of x looks at all windows that it is in, in the order of their outputs.
template <class E>
void maximum_scatter(const device::Exec& exec, const ConvPlan& plan) {
  device::for_each_index(
      "tessera::kernels::max_pool_scatter", exec, plan.batch * volume(plan.x) * plan.groups,
      KOKKOS_LAMBDA(std::int64_t index) {
        const Element e(plan, plan.x, index);
        Compute<E> sum = 0;
        std::int64_t i[kSpace], j[kSpace];
        for (std::int64_t t = volume(plan.taps) - 1; t >= 0; --t) {
          unfold(plan.taps, t, j);
          const std::int64_t out = output_place(plan, e.at, j);
          if (out < 0) continue;
          unfold(plan.y, out, i);
          if (first_maximum<E>(plan, e, i) == index)
            sum += load(static_cast<const E*>(plan.b)[y_index(plan, e, out)]);
        }
        store(static_cast<E*>(plan.result)[index], static_cast<double>(sum));
      });
}

KOKKOS_INLINE_FUNCTION std::int64_t inside_of(const ConvPlan& plan, const std::int64_t* i) {
  std::int64_t count = 0, j[kSpace];
  for (std::int64_t t = 0; t < volume(plan.taps); ++t) {
    unfold(plan.taps, t, j);
    count += input_place(plan, i, j) >= 0 ? 1 : 0;
  }
  return count;
}

template <class E>
void average(const device::Exec& exec, const ConvPlan& plan) {
  device::for_each_index(
      "tessera::kernels::average_pool", exec, plan.batch * volume(plan.y) * plan.groups,
      KOKKOS_LAMBDA(std::int64_t index) {
        const Element e(plan, plan.y, index);
        Compute<E> sum = 0;
        std::int64_t j[kSpace];
        for (std::int64_t t = 0; t < volume(plan.taps); ++t) {
          unfold(plan.taps, t, j);
          const std::int64_t at = input_place(plan, e.at, j);
          if (at >= 0) sum += load(static_cast<const E*>(plan.a)[x_index(plan, e, at)]);
        }
        const std::int64_t count = inside_of(plan, e.at);
        store(static_cast<E*>(plan.result)[index],
              static_cast<double>(sum / static_cast<Compute<E>>(count > 0 ? count : 1)));
      });
}

template <class E>
void average_scatter(const device::Exec& exec, const ConvPlan& plan) {
  device::for_each_index(
      "tessera::kernels::average_pool_scatter", exec, plan.batch * volume(plan.x) * plan.groups,
      KOKKOS_LAMBDA(std::int64_t index) {
        const Element e(plan, plan.x, index);
        Compute<E> sum = 0;
        std::int64_t i[kSpace], j[kSpace];
        for (std::int64_t t = 0; t < volume(plan.taps); ++t) {
          unfold(plan.taps, t, j);
          const std::int64_t out = output_place(plan, e.at, j);
          if (out < 0) continue;
          unfold(plan.y, out, i);
          sum += load(static_cast<const E*>(plan.a)[y_index(plan, e, out)]) /
                 static_cast<Compute<E>>(inside_of(plan, i));
        }
        store(static_cast<E*>(plan.result)[index], static_cast<double>(sum));
      });
}

}  // namespace

void max_pool(const device::Exec& exec, const ConvPlan& plan) {
  with_element(plan.element, [&](auto e) { maximum<decltype(e)>(exec, plan); });
}

void max_pool_scatter(const device::Exec& exec, const ConvPlan& plan) {
  with_element(plan.element, [&](auto e) { maximum_scatter<decltype(e)>(exec, plan); });
}

void max_pool_gather(const device::Exec& exec, const ConvPlan& plan) {
  with_element(plan.element, [&](auto e) { maximum_gather<decltype(e)>(exec, plan); });
}

void average_pool(const device::Exec& exec, const ConvPlan& plan) {
  with_element(plan.element, [&](auto e) { average<decltype(e)>(exec, plan); });
}

void average_pool_scatter(const device::Exec& exec, const ConvPlan& plan) {
  with_element(plan.element, [&](auto e) { average_scatter<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
