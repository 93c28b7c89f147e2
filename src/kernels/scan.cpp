// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/scan.hpp"

#include <algorithm>

#include "kernels/builtin.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kColumns = 64;  // sums that run side by side

double load(double x) {
  return x;
}
double load(float x) {
  return static_cast<double>(x);
}
double load(std::int32_t x) {
  return static_cast<double>(x);
}
double load(Bf16 x) {
  return static_cast<double>(to_float(x));
}
void store(double& to, double x) {
  to = x;
}
void store(float& to, double x) {
  to = static_cast<float>(x);
}
void store(std::int32_t& to, double x) {
  to = static_cast<std::int32_t>(x);
}
void store(Bf16& to, double x) {
  to = to_bf16(static_cast<float>(x));
}

/// f(first element, first column, columns) for stretches of neighbouring columns.
template <class Function>
void for_each_stretch(const ScanPlan& plan, const Function& f) {
  for (std::int64_t o = 0; o < plan.outer; ++o)
    for (std::int64_t i = 0; i < plan.inner; i += kColumns)
      f(o * plan.n * plan.inner + i, o * plan.inner + i, std::min(kColumns, plan.inner - i));
}

template <class E>
void total_of(const ScanPlan& plan, const E* x, double* total) {
  for_each_stretch(plan, [&](std::int64_t at, std::int64_t column, std::int64_t width) {
    double sum[kColumns] = {};
    for (std::int64_t j = 0; j < plan.n; ++j)
      for (std::int64_t c = 0; c < width; ++c) sum[c] += load(x[at + j * plan.inner + c]);
    std::copy_n(sum, width, total + column);
  });
}

template <class E>
void scan_columns(const ScanPlan& plan, const E* x, E* y) {
  for_each_stretch(plan, [&](std::int64_t at, std::int64_t column, std::int64_t width) {
    double sum[kColumns];
    for (std::int64_t c = 0; c < width; ++c) sum[c] = carry_of(plan, column + c);
    for (std::int64_t step = 0; step < plan.n; ++step) {
      const std::int64_t row = at + (plan.reverse ? plan.n - 1 - step : step) * plan.inner;
      for (std::int64_t c = 0; c < width; ++c) {
        const double before = sum[c];
        sum[c] += load(x[row + c]);
        store(y[row + c], plan.exclusive ? before : sum[c]);
      }
    }
  });
}

ScanPlan plan_scan(const Call& call) {
  const Tile& x = call.inputs[0];
  const auto dim = static_cast<int>(call.attributes.integer("dim"));
  TESSERA_CHECK(dim >= 0 && dim < x.rank, "scan: dim ", dim, " of rank ", x.rank);
  ScanPlan plan{};
  plan.outer = plan.inner = 1;
  for (int d = 0; d < dim; ++d) plan.outer *= x.extent[d];
  plan.n = x.extent[dim];
  for (int d = dim + 1; d < x.rank; ++d) plan.inner *= x.extent[d];
  plan.exclusive = call.attributes.integer("exclusive") != 0;
  plan.reverse = call.attributes.integer("reverse") != 0;
  return plan;
}

void scan_total(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "scan_total: one input");
  const Tile &x = call.inputs[0], &total = call.outputs[0];
  const ScanPlan plan = plan_scan(call);
  TESSERA_CHECK(total.dtype == DType::f64 && total.size() == plan.outer * plan.inner,
                "scan_total: ", total.size(), " sums for ", plan.outer * plan.inner);
  auto* to = total.as<double>();
  if (use_portable()) return portable::scan_total(exec, plan, x, to);
  switch (x.dtype) {
    case DType::f64:
      return total_of(plan, x.as<const double>(), to);
    case DType::bf16:
      return total_of(plan, x.as<const Bf16>(), to);
    case DType::i32:
      return total_of(plan, x.as<const std::int32_t>(), to);
    default:
      return total_of(plan, x.as<const float>(), to);
  }
}

void scan(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK((call.input_count == 1 || call.input_count == 3) && call.output_count == 1,
                "scan: x, [own total, all totals]");
  const Tile &x = call.inputs[0], &y = call.outputs[0];
  ScanPlan plan = plan_scan(call);
  TESSERA_CHECK(x.dtype == y.dtype && x.size() == y.size(), "scan keeps shape and type");
  if (call.input_count == 3) {
    plan.part = call.inputs[1].offset[0];
    plan.parts = call.inputs[2].extent[0];
    plan.totals = call.inputs[2].as<const double>();
    TESSERA_CHECK(call.inputs[2].size() == plan.parts * plan.outer * plan.inner,
                  "scan: ", call.inputs[2].size(), " totals");
  }
  if (use_portable()) return portable::scan(exec, plan, x, y);
  switch (x.dtype) {
    case DType::f64:
      return scan_columns(plan, x.as<const double>(), y.as<double>());
    case DType::bf16:
      return scan_columns(plan, x.as<const Bf16>(), y.as<Bf16>());
    case DType::i32:
      return scan_columns(plan, x.as<const std::int32_t>(), y.as<std::int32_t>());
    default:
      return scan_columns(plan, x.as<const float>(), y.as<float>());
  }
}

}  // namespace

void register_scan_kernels() {
  register_kernel("scan_total", scan_total);
  register_kernel("scan", scan);
}

}  // namespace tessera::kernels
