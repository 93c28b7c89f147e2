// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/depthwise.hpp"

#include "kernels/isa/space.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

/// Each element of the result is a sum over taps of one of `a` times the tap's weight.
template <bool kForward, class E, class R>
void gather(const ConvPlan& plan) {
  using T = Compute<E>;
  const int64_t n = plan.groups;
  const int64_t* to_extent = kForward ? plan.y : plan.x;
  const int64_t* from_extent = kForward ? plan.x : plan.y;
  const int64_t to_size = volume(to_extent);
  const int64_t from_size = volume(from_extent);
  const E* filter = static_cast<const E*>(plan.b);
  for (int64_t image = 0; image < plan.batch; ++image) {
    const E* a = static_cast<const E*>(plan.a) + image * from_size * n;
    R* result = static_cast<R*>(plan.result) + image * to_size * n;
    for_each_place(to_extent, [=, &plan](const int64_t* i) {
      for (int64_t c = 0; c < n; c += kChannels) {
        const int64_t width = n - c < kChannels ? n - c : kChannels;
        T sum[kChannels] = {};
        for_each_place(plan.taps, [&](const int64_t* j) {
          int64_t at[kSpace];
          const bool meets = kForward ? meets_input(plan, i, j, at) : meets_output(plan, i, j, at);
          if (!meets) return;
          const E* x = a + place(from_extent, at) * n + c;
          const E* w = filter + place(plan.taps, j) * n + c;
#pragma GCC ivdep
          for (int64_t k = 0; k < width; ++k) sum[k] += load(x[k]) * load(w[k]);
        });
        R* to = result + place(to_extent, i) * n + c;
        for (int64_t k = 0; k < width; ++k) store(to[k], sum[k]);
      }
    });
  }
}

/// Sums over a plane of outputs are added up in double.
template <class E, class R>
void filter_grad(const ConvPlan& plan) {
  using T = Compute<E>;
  const int64_t n = plan.groups;
  const int64_t x_size = volume(plan.x);
  const int64_t y_size = volume(plan.y);
  for_each_place(plan.taps, [=, &plan](const int64_t* j) {
    for (int64_t c = 0; c < n; c += kChannels) {
      const int64_t width = n - c < kChannels ? n - c : kChannels;
      double total[kChannels] = {};
      for (int64_t image = 0; image < plan.batch; ++image) {
        const E* x = static_cast<const E*>(plan.a) + image * x_size * n + c;
        const E* dy = static_cast<const E*>(plan.b) + image * y_size * n + c;
        int64_t i[kSpace];
        for (i[0] = 0; i[0] < plan.y[0]; ++i[0]) {
          for (i[1] = 0; i[1] < plan.y[1]; ++i[1]) {
            T sum[kChannels] = {};
            for (i[2] = 0; i[2] < plan.y[2]; ++i[2]) {
              int64_t at[kSpace];
              if (!meets_input(plan, i, j, at)) continue;
              const E* from = x + place(plan.x, at) * n;
              const E* by = dy + place(plan.y, i) * n;
#pragma GCC ivdep
              for (int64_t k = 0; k < width; ++k) sum[k] += load(from[k]) * load(by[k]);
            }
            for (int64_t k = 0; k < width; ++k) total[k] += static_cast<double>(sum[k]);
          }
        }
      }
      R* to = static_cast<R*>(plan.result) + place(plan.taps, j) * n + c;
      for (int64_t k = 0; k < width; ++k) store(to[k], static_cast<T>(total[k]));
    }
  });
}

}  // namespace

void depthwise_forward(const ConvPlan& plan) {
  if (plan.element == kElementF64) return gather<true, double, double>(plan);
  if (plan.element == kElementF32) return gather<true, float, float>(plan);
  if (plan.result_element == kElementF32) return gather<true, Bf16, float>(plan);
  gather<true, Bf16, Bf16>(plan);
}

void depthwise_input_grad(const ConvPlan& plan) {
  if (plan.element == kElementF64) return gather<false, double, double>(plan);
  if (plan.element == kElementF32) return gather<false, float, float>(plan);
  if (plan.result_element == kElementF32) return gather<false, Bf16, float>(plan);
  gather<false, Bf16, Bf16>(plan);
}

void depthwise_filter_grad(const ConvPlan& plan) {
  if (plan.element == kElementF64) return filter_grad<double, double>(plan);
  if (plan.element == kElementF32) return filter_grad<float, float>(plan);
  if (plan.result_element == kElementF32) return filter_grad<Bf16, float>(plan);
  filter_grad<Bf16, Bf16>(plan);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
