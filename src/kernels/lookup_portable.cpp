// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/lookup.hpp"
#include "kernels/portable_math.hpp"

namespace tessera::kernels::portable {
namespace {

template <class Word>
void gather_words(const device::Exec& exec, const LookupPlan& plan, const Word* from, Word* to) {
  device::for_each_index(
      "tessera::kernels::gather", exec, plan.size, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t at = table_place(plan, i);
        to[i] = at < 0 ? Word(0) : from[at];
      });
}

void gather_wider(const device::Exec& exec, const LookupPlan& plan, const Bf16* from, float* to) {
  device::for_each_index(
      "tessera::kernels::gather", exec, plan.size, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t at = table_place(plan, i);
        to[i] = at < 0 ? 0.0F : load(from[at]);
      });
}

template <class T, class E>
void add_rows(const device::Exec& exec, const LookupPlan& plan, const E* from, T* to) {
  std::int64_t kept = 1;
  for (int d = 0; d < plan.rank; ++d)
    if (plan.in_table[d]) kept *= plan.extent[d];
  const std::int64_t summed = plan.size / kept;
  device::for_each_index(
      "tessera::kernels::scatter_add", exec, kept, KOKKOS_LAMBDA(std::int64_t k) {
        const std::int64_t start = flat_offset(plan, k, true);
        for (std::int64_t s = 0; s < summed; ++s) {
          const std::int64_t i = start + flat_offset(plan, s, false);
          const std::int64_t at = table_place(plan, i);
          if (at >= 0) to[at] += static_cast<T>(load(from[i]));
        }
      });
}

}  // namespace

void gather(const device::Exec& exec, const LookupPlan& plan, const Tile& table, const Tile& flat) {
  if (table.dtype != flat.dtype)
    return gather_wider(exec, plan, table.as<const Bf16>(), flat.as<float>());
  switch (bytes_of(table.dtype)) {
    case 8:
      return gather_words(exec, plan, table.as<const std::uint64_t>(), flat.as<std::uint64_t>());
    case 4:
      return gather_words(exec, plan, table.as<const std::uint32_t>(), flat.as<std::uint32_t>());
    default:
      return gather_words(exec, plan, table.as<const std::uint16_t>(), flat.as<std::uint16_t>());
  }
}

void scatter_add(const device::Exec& exec, const LookupPlan& plan, const Tile& flat,
                 const Tile& table) {
  switch (flat.dtype) {
    case DType::f64:
      return add_rows(exec, plan, flat.as<const double>(), table.as<double>());
    case DType::bf16:
      return add_rows(exec, plan, flat.as<const Bf16>(), table.as<float>());
    default:
      return add_rows(exec, plan, flat.as<const float>(), table.as<float>());
  }
}

}  // namespace tessera::kernels::portable
