// SPDX-License-Identifier: BSD-3-Clause
// Statistics of rows that several ranks hold parts of. Sums of their shares are the statistics:
// first the mean, then the squared deviations from it, which need no second look at the elements
// (Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance") and lose nothing
// where the mean is large.
#include "kernels/moments.hpp"

#include "kernels/builtin.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

template <class C>
void counts(const MomentsPlan& plan) {
  for (std::int64_t r = 0; r < plan.rows; ++r)
    static_cast<C*>(plan.share)[r] = static_cast<const C*>(plan.moments)[3 * r];
}

template <class C>
void means(const MomentsPlan& plan) {
  const C* moments = static_cast<const C*>(plan.moments);
  C* share = static_cast<C*>(plan.share);
  for (std::int64_t r = 0; r < plan.rows; ++r) {
    const double n = static_cast<double>(moments[3 * r]);
    share[r] = static_cast<C>(n * static_cast<double>(moments[3 * r + 1]) / plan.whole);
  }
}

template <class C>
void variances(const MomentsPlan& plan) {
  const C* moments = static_cast<const C*>(plan.moments);
  const C* mean = static_cast<const C*>(plan.mean);
  C* share = static_cast<C*>(plan.share);
  for (std::int64_t r = 0; r < plan.rows; ++r) {
    const double n = static_cast<double>(moments[3 * r]);
    const double apart = static_cast<double>(moments[3 * r + 1]) -
                         (mean == nullptr ? 0.0 : static_cast<double>(mean[r]));
    share[r] =
        static_cast<C>((static_cast<double>(moments[3 * r + 2]) + n * apart * apart) / plan.whole);
  }
}

MomentsPlan plan_of(const Call& call, int inputs) {
  TESSERA_CHECK(call.input_count == inputs && call.output_count == 1, "moments: operands");
  const Tile &moments = call.inputs[0], &share = call.outputs[0];
  TESSERA_CHECK(moments.rank >= 1 && moments.extent[moments.rank - 1] == 3 &&
                    moments.size() == 3 * share.size() && moments.dtype == share.dtype &&
                    (share.dtype == DType::f64 || share.dtype == DType::f32),
                "moments [rows, 3] for ", share.size(), " rows");
  MomentsPlan plan{};
  plan.as_double = share.dtype == DType::f64;
  plan.rows = share.size();
  plan.whole = static_cast<double>(call.attributes.integer_or("size", 1));
  plan.moments = moments.data;
  plan.share = share.data;
  if (inputs > 1) {
    const Tile& mean = call.inputs[1];
    TESSERA_CHECK(mean.dtype == share.dtype && mean.size() == share.size(),
                  "moments: ", mean.size(), " means for ", share.size(), " rows");
    plan.mean = mean.data;
  }
  return plan;
}

void moments_count(const device::Exec& exec, const Call& call) {
  const MomentsPlan plan = plan_of(call, 1);
  if (use_portable()) return portable::moments_count(exec, plan);
  plan.as_double ? counts<double>(plan) : counts<float>(plan);
}

void moments_mean(const device::Exec& exec, const Call& call) {
  const MomentsPlan plan = plan_of(call, 1);
  if (use_portable()) return portable::moments_mean(exec, plan);
  plan.as_double ? means<double>(plan) : means<float>(plan);
}

void moments_variance(const device::Exec& exec, const Call& call) {
  const MomentsPlan plan = plan_of(call, call.input_count > 1 ? 2 : 1);
  if (use_portable()) return portable::moments_variance(exec, plan);
  plan.as_double ? variances<double>(plan) : variances<float>(plan);
}

}  // namespace

void register_moments_kernels() {
  register_kernel("moments_count", moments_count);
  register_kernel("moments_mean", moments_mean);
  register_kernel("moments_variance", moments_variance);
}

}  // namespace tessera::kernels
