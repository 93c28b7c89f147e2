// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/top_k.hpp"

#include "kernels/builtin.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

template <class E, class Convert>
void find_pairs(const TopKPlan& plan, const Tile& x, const Convert& load) {
  for (std::int64_t o = 0; o < plan.outer; ++o)
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      const E* row = x.as<const E>() + o * plan.n * plan.inner + i;
      double* best = plan.pairs + (o * plan.inner + i) * plan.k * 2;
      clear_best(best, plan.k);
      for (std::int64_t j = 0; j < plan.n; ++j)
        insert_best(best, plan.k, load(row[j * plan.inner]), static_cast<double>(plan.first + j));
    }
}

void top_k_pairs(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "top_k_pairs: one input");
  const Tile &x = call.inputs[0], &pairs = call.outputs[0];
  const auto dim = static_cast<int>(call.attributes.integer("dim"));
  TESSERA_CHECK(dim >= 0 && dim < x.rank && pairs.rank == x.rank + 2 && pairs.extent[0] == 1 &&
                    pairs.dtype == DType::f64 && is_floating(x.dtype),
                "top_k_pairs: dim ", dim, " of rank ", x.rank);
  TopKPlan plan{1, x.extent[dim],     1, x.offset[dim], pairs.extent[pairs.rank - 2],
                1, pairs.as<double>()};
  for (int d = 0; d < dim; ++d) plan.outer *= x.extent[d];
  for (int d = dim + 1; d < x.rank; ++d) plan.inner *= x.extent[d];
  TESSERA_CHECK(pairs.size() == plan.outer * plan.inner * plan.k * 2, "top_k_pairs: ", pairs.size(),
                " numbers");
  if (use_portable()) return portable::top_k_pairs(exec, plan, x);
  switch (x.dtype) {
    case DType::f64:
      return find_pairs<double>(plan, x, [](double v) { return v; });
    case DType::bf16:
      return find_pairs<Bf16>(plan, x, [](Bf16 v) { return static_cast<double>(to_float(v)); });
    default:
      return find_pairs<float>(plan, x, [](float v) { return static_cast<double>(v); });
  }
}

template <class E, class Convert>
void merge(const TopKPlan& plan, const Tile& values, std::int32_t* indices,
           const Convert& convert) {
  const std::int64_t rows = plan.outer;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* best = merge_row(plan, rows, r);
    for (std::int64_t i = 0; i < plan.k; ++i) {
      values.as<E>()[r * plan.k + i] = convert(best[2 * i]);
      indices[r * plan.k + i] = static_cast<std::int32_t>(best[2 * i + 1]);
    }
  }
}

/// Uses the first part of its input as scratch.
void top_k_merge(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 2, "top_k_merge: pairs");
  const Tile &pairs = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  TESSERA_CHECK(pairs.dtype == DType::f64 && indices.dtype == DType::i32 && pairs.rank >= 3 &&
                    pairs.rank == values.rank + 2 && values.size() == indices.size() &&
                    pairs.size() == pairs.extent[0] * values.size() * 2,
                "top_k_merge: ", pairs.size(), " numbers for ", values.size());
  const std::int64_t k = values.extent[values.rank - 1];
  if (values.size() == 0) return;
  const TopKPlan plan{values.size() / k, 0, 1, 0, k, pairs.extent[0], pairs.as<double>()};
  auto* to = indices.as<std::int32_t>();
  if (use_portable()) return portable::top_k_merge(exec, plan, values, to);
  switch (values.dtype) {
    case DType::f64:
      return merge<double>(plan, values, to, [](double v) { return v; });
    case DType::bf16:
      return merge<Bf16>(plan, values, to, [](double v) { return to_bf16(static_cast<float>(v)); });
    default:
      return merge<float>(plan, values, to, [](double v) { return static_cast<float>(v); });
  }
}

}  // namespace

void register_top_k_kernels() {
  register_kernel("top_k_pairs", top_k_pairs);
  register_kernel("top_k_merge", top_k_merge);
}

}  // namespace tessera::kernels
