// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/conv.hpp"
#include "kernels/pointwise_plan.hpp"
#include "kernels/portable_math.hpp"
#include "kernels/portable_space.hpp"

namespace tessera::kernels::portable {
namespace {

/// A thread for each element of y.
template <class E, class R>
void forward(const device::Exec& exec, const ConvPlan& plan) {
  using C = Compute<E>;
  const std::int64_t pixels = volume(plan.y), channels = plan.groups * plan.out;
  device::for_each_index(
      "tessera::kernels::conv", exec, plan.batch * pixels * channels,
      KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t o = index % plan.out, g = index / plan.out % plan.groups;
        const std::int64_t image = index / channels / pixels;
        std::int64_t i[kSpace], j[kSpace];
        unfold(plan.y, index / channels % pixels, i);
        const E* x = static_cast<const E*>(plan.a);
        const E* filter = static_cast<const E*>(plan.b);
        C sum = 0;
        for (std::int64_t t = 0; t < volume(plan.taps); ++t) {
          unfold(plan.taps, t, j);
          const std::int64_t at = input_place(plan, i, j);
          if (at < 0) continue;
          const E* from = x + ((image * volume(plan.x) + at) * plan.groups + g) * plan.in;
          const E* w = filter + (t * plan.groups + g) * plan.in * plan.out + o;
          for (std::int64_t c = 0; c < plan.in; ++c) sum += load(from[c]) * load(w[c * plan.out]);
        }
        store(static_cast<R*>(plan.result)[index], sum);
      });
}

/// A thread for each element of x.
template <class E, class R>
void input_grad(const device::Exec& exec, const ConvPlan& plan) {
  using C = Compute<E>;
  const std::int64_t pixels = volume(plan.x), channels = plan.groups * plan.in;
  device::for_each_index(
      "tessera::kernels::conv_input_grad", exec, plan.batch * pixels * channels,
      KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t c = index % plan.in, g = index / plan.in % plan.groups;
        const std::int64_t image = index / channels / pixels;
        std::int64_t i[kSpace], j[kSpace];
        unfold(plan.x, index / channels % pixels, i);
        const E* dy = static_cast<const E*>(plan.a);
        const E* filter = static_cast<const E*>(plan.b);
        C sum = 0;
        for (std::int64_t t = 0; t < volume(plan.taps); ++t) {
          unfold(plan.taps, t, j);
          const std::int64_t at = output_place(plan, i, j);
          if (at < 0) continue;
          const E* from = dy + ((image * volume(plan.y) + at) * plan.groups + g) * plan.out;
          const E* w = filter + ((t * plan.groups + g) * plan.in + c) * plan.out;
          for (std::int64_t o = 0; o < plan.out; ++o) sum += load(from[o]) * load(w[o]);
        }
        store(static_cast<R*>(plan.result)[index], sum);
      });
}

/// A thread for each weight; sums over an image's outputs are added up in double.
template <class E, class R>
void filter_grad(const device::Exec& exec, const ConvPlan& plan) {
  using C = Compute<E>;
  device::for_each_index(
      "tessera::kernels::conv_filter_grad", exec,
      volume(plan.taps) * plan.groups * plan.in * plan.out, KOKKOS_LAMBDA(std::int64_t index) {
        const std::int64_t o = index % plan.out, c = index / plan.out % plan.in;
        const std::int64_t g = index / plan.out / plan.in % plan.groups;
        std::int64_t i[kSpace], j[kSpace];
        unfold(plan.taps, index / plan.out / plan.in / plan.groups, j);
        const E* x = static_cast<const E*>(plan.a);
        const E* dy = static_cast<const E*>(plan.b);
        double total = 0;
        for (std::int64_t image = 0; image < plan.batch; ++image) {
          C sum = 0;
          for (std::int64_t p = 0; p < volume(plan.y); ++p) {
            unfold(plan.y, p, i);
            const std::int64_t at = input_place(plan, i, j);
            if (at < 0) continue;
            sum += load(x[((image * volume(plan.x) + at) * plan.groups + g) * plan.in + c]) *
                   load(dy[((image * volume(plan.y) + p) * plan.groups + g) * plan.out + o]);
          }
          total += static_cast<double>(sum);
        }
        store(static_cast<R*>(plan.result)[index], total);
      });
}

}  // namespace

void conv(const device::Exec& exec, const ConvPlan& plan) {
  if (plan.element == kElementF64) return forward<double, double>(exec, plan);
  if (plan.element == kElementF32) return forward<float, float>(exec, plan);
  if (plan.result_element == kElementF32) return forward<Bf16, float>(exec, plan);
  forward<Bf16, Bf16>(exec, plan);
}

void conv_input_grad(const device::Exec& exec, const ConvPlan& plan) {
  if (plan.element == kElementF64) return input_grad<double, double>(exec, plan);
  if (plan.element == kElementF32) return input_grad<float, float>(exec, plan);
  if (plan.result_element == kElementF32) return input_grad<Bf16, float>(exec, plan);
  input_grad<Bf16, Bf16>(exec, plan);
}

void conv_filter_grad(const device::Exec& exec, const ConvPlan& plan) {
  if (plan.element == kElementF64) return filter_grad<double, double>(exec, plan);
  if (plan.element == kElementF32) return filter_grad<float, float>(exec, plan);
  if (plan.result_element == kElementF32) return filter_grad<Bf16, float>(exec, plan);
  filter_grad<Bf16, Bf16>(exec, plan);
}

}  // namespace tessera::kernels::portable
