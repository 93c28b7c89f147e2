// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/pool.hpp"

#include "kernels/isa/space.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

/// f(image, output place, i, first channel, channels) for all outputs, kChannels at a time.
template <class Function>
TESSERA_LANE void for_each_output(const ConvPlan& plan, const Function& f) {
  for (int64_t image = 0; image < plan.batch; ++image) {
    for_each_place(plan.y, [=, &plan](const int64_t* i) {
      const int64_t at = image * volume(plan.y) + place(plan.y, i);
      for (int64_t c = 0; c < plan.groups; c += kChannels) {
        f(image, at, i, c, plan.groups - c < kChannels ? plan.groups - c : kChannels);
      }
    });
  }
}

/// f(place in x) for the elements inside x of the window of output `i`, in order.
template <class Function>
TESSERA_LANE void for_each_inside(const ConvPlan& plan, int64_t image, const int64_t* i,
                                  const Function& f) {
  for_each_place(plan.taps, [=, &plan](const int64_t* j) {
    int64_t at[kSpace];
    if (meets_input(plan, i, j, at)) f(image * volume(plan.x) + place(plan.x, at));
  });
}

/// Largest element of a window for each channel, and where the first such lies (-1: the window is
/// outside x). A NaN is larger than all.
template <class C>
struct Maxima {
  C value[kChannels];
  int64_t at[kChannels];
};

template <class E>
TESSERA_LANE void find_maxima(const ConvPlan& plan, int64_t image, const int64_t* i, int64_t c,
                              int64_t width, Maxima<Compute<E>>& maxima) {
  using C = Compute<E>;
  for (int64_t k = 0; k < width; ++k) maxima.at[k] = -1;
  const C lowest = sizeof(C) == 8 ? static_cast<C>(-__DBL_MAX__) : static_cast<C>(-__FLT_MAX__);
  for (int64_t k = 0; k < width; ++k) maxima.value[k] = lowest;
  for_each_inside(plan, image, i, [&](int64_t from) {
    const E* x = static_cast<const E*>(plan.a) + from * plan.groups + c;
#pragma GCC ivdep
    for (int64_t k = 0; k < width; ++k) {
      const C value = load(x[k]);
      const bool more = (value > maxima.value[k]) | (maxima.at[k] < 0) |
                        ((value != value) & (maxima.value[k] == maxima.value[k]));
      maxima.value[k] = more ? value : maxima.value[k];
      maxima.at[k] = more ? from : maxima.at[k];
    }
  });
}

template <class E>
void maximum(const ConvPlan& plan) {
  for_each_output(plan, [&](int64_t image, int64_t to, const int64_t* i, int64_t c, int64_t width) {
    Maxima<Compute<E>> maxima;
    find_maxima<E>(plan, image, i, c, width, maxima);
    E* y = static_cast<E*>(plan.result) + to * plan.groups + c;
    for (int64_t k = 0; k < width; ++k) store(y[k], maxima.value[k]);
  });
}

template <class E>
void maximum_gather(const ConvPlan& plan) {
  const E* values = static_cast<const E*>(plan.b);
  for_each_output(plan, [&](int64_t image, int64_t to, const int64_t* i, int64_t c, int64_t width) {
    Maxima<Compute<E>> maxima;
    find_maxima<E>(plan, image, i, c, width, maxima);
    E* y = static_cast<E*>(plan.result) + to * plan.groups + c;
    for (int64_t k = 0; k < width; ++k) {
      store(y[k],
            maxima.at[k] < 0 ? Compute<E>(0) : load(values[maxima.at[k] * plan.groups + c + k]));
    }
  });
}

template <class E>
void clear(const ConvPlan& plan) {
  E* x = static_cast<E*>(plan.result);
  const int64_t n = plan.batch * volume(plan.x) * plan.groups;
  for (int64_t k = 0; k < n; ++k) store(x[k], Compute<E>(0));
}

template <class E>
void maximum_scatter(const ConvPlan& plan) {
  clear<E>(plan);
  E* dx = static_cast<E*>(plan.result);
  for_each_output(plan,
                  [&](int64_t image, int64_t from, const int64_t* i, int64_t c, int64_t width) {
                    Maxima<Compute<E>> maxima;
                    find_maxima<E>(plan, image, i, c, width, maxima);
                    const E* dy = static_cast<const E*>(plan.b) + from * plan.groups + c;
                    for (int64_t k = 0; k < width; ++k) {
                      if (maxima.at[k] < 0) continue;
                      E& to = dx[maxima.at[k] * plan.groups + c + k];
                      store(to, load(to) + load(dy[k]));
                    }
                  });
}

TESSERA_LANE int64_t inside_of(const ConvPlan& plan, const int64_t* i) {
  int64_t count = 0;
  for_each_inside(plan, 0, i, [&](int64_t) { ++count; });
  return count;
}

template <class E>
void average(const ConvPlan& plan) {
  using C = Compute<E>;
  for_each_output(plan, [&](int64_t image, int64_t to, const int64_t* i, int64_t c, int64_t width) {
    C sum[kChannels] = {};
    int64_t count = 0;
    for_each_inside(plan, image, i, [&](int64_t from) {
      const E* x = static_cast<const E*>(plan.a) + from * plan.groups + c;
#pragma GCC ivdep
      for (int64_t k = 0; k < width; ++k) sum[k] += load(x[k]);
      ++count;
    });
    E* y = static_cast<E*>(plan.result) + to * plan.groups + c;
    const C whole = static_cast<C>(count > 0 ? count : 1);
    for (int64_t k = 0; k < width; ++k) store(y[k], sum[k] / whole);
  });
}

/// Each element of x collects its share of the windows that it is in.
template <class E>
void average_scatter(const ConvPlan& plan) {
  using C = Compute<E>;
  const E* dy = static_cast<const E*>(plan.a);
  for (int64_t image = 0; image < plan.batch; ++image) {
    for_each_place(plan.x, [=, &plan](const int64_t* at) {
      for (int64_t c = 0; c < plan.groups; c += kChannels) {
        const int64_t width = plan.groups - c < kChannels ? plan.groups - c : kChannels;
        C sum[kChannels] = {};
        for_each_place(plan.taps, [&](const int64_t* j) {
          int64_t i[kSpace];
          if (!meets_output(plan, at, j, i)) return;
          const C whole = static_cast<C>(inside_of(plan, i));
          const E* from = dy + (image * volume(plan.y) + place(plan.y, i)) * plan.groups + c;
#pragma GCC ivdep
          for (int64_t k = 0; k < width; ++k) sum[k] += load(from[k]) / whole;
        });
        E* to = static_cast<E*>(plan.result) +
                (image * volume(plan.x) + place(plan.x, at)) * plan.groups + c;
        for (int64_t k = 0; k < width; ++k) store(to[k], sum[k]);
      }
    });
  }
}

}  // namespace

void max_pool(const ConvPlan& plan) {
  if (plan.element == kElementF64) return maximum<double>(plan);
  if (plan.element == kElementBf16) return maximum<Bf16>(plan);
  maximum<float>(plan);
}

void max_pool_scatter(const ConvPlan& plan) {
  if (plan.element == kElementF64) return maximum_scatter<double>(plan);
  if (plan.element == kElementBf16) return maximum_scatter<Bf16>(plan);
  maximum_scatter<float>(plan);
}

void max_pool_gather(const ConvPlan& plan) {
  if (plan.element == kElementF64) return maximum_gather<double>(plan);
  if (plan.element == kElementBf16) return maximum_gather<Bf16>(plan);
  maximum_gather<float>(plan);
}

void average_pool(const ConvPlan& plan) {
  if (plan.element == kElementF64) return average<double>(plan);
  if (plan.element == kElementBf16) return average<Bf16>(plan);
  average<float>(plan);
}

void average_pool_scatter(const ConvPlan& plan) {
  if (plan.element == kElementF64) return average_scatter<double>(plan);
  if (plan.element == kElementBf16) return average_scatter<Bf16>(plan);
  average_scatter<float>(plan);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
