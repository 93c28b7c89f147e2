// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/embedding.hpp"
#include "kernels/portable_element.hpp"

namespace tessera::kernels::portable {
namespace {

template <class Table, class E>
void forward(const device::Exec& exec, const EmbeddingPlan& plan) {
  device::for_each_index(
      "tessera::kernels::embedding_forward", exec, plan.count * plan.width,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t row = plan.ids[i / plan.width] - plan.first;
        const Table* from = static_cast<const Table*>(plan.from);
        const bool here = row >= 0 && row < plan.rows;
        store(static_cast<E*>(plan.to)[i],
              here ? static_cast<double>(load(from[row * plan.width + i % plan.width])) : 0.0);
      });
}

/// Places of the ids by id, equal ones in their order. Each thread counts what comes before its
/// own: the square of the number of ids, but integers that all threads read at the same time, and a
/// small part of the sums' work.
void sort_ids(const device::Exec& exec, const EmbeddingPlan& plan) {
  device::for_each_index(
      "tessera::kernels::embedding_sort", exec, plan.count, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int32_t id = plan.ids[i];
        std::int64_t before = 0;
        for (std::int64_t t = 0; t < plan.count; ++t)
          before += plan.ids[t] < id || (plan.ids[t] == id && t < i) ? 1 : 0;
        plan.order[before] = static_cast<std::int32_t>(i);
      });
}

/// The thread of an id's first place adds all of them, so no two threads write one element.
template <class Table, class E>
void backward(const device::Exec& exec, const EmbeddingPlan& plan) {
  device::for_each_index(
      "tessera::kernels::embedding_backward", exec, plan.count * plan.width,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t first = i / plan.width;
        const std::int64_t j = i % plan.width;
        const std::int32_t id = plan.ids[plan.order[first]];
        const std::int64_t row = id - plan.first;
        if (row < 0 || row >= plan.rows) return;
        if (first > 0 && plan.ids[plan.order[first - 1]] == id) return;
        Table& to = static_cast<Table*>(plan.to)[row * plan.width + j];
        Compute<Table> sum = load(to);
        for (std::int64_t t = first; t < plan.count && plan.ids[plan.order[t]] == id; ++t) {
          sum += static_cast<Compute<Table>>(
              load(static_cast<const E*>(plan.from)[plan.order[t] * plan.width + j]));
        }
        store(to, static_cast<double>(sum));
      });
}

template <class Table>
void forward_to(const device::Exec& exec, const EmbeddingPlan& plan) {
  with_element(plan.element, [&](auto e) { forward<Table, decltype(e)>(exec, plan); });
}

template <class Table>
void backward_from(const device::Exec& exec, const EmbeddingPlan& plan) {
  with_element(plan.element, [&](auto e) { backward<Table, decltype(e)>(exec, plan); });
}

}  // namespace

void embedding_forward(const device::Exec& exec, const EmbeddingPlan& plan) {
  with_element(plan.table_element, [&](auto e) { forward_to<decltype(e)>(exec, plan); });
}

void embedding_backward(const device::Exec& exec, const EmbeddingPlan& plan) {
  sort_ids(exec, plan);
  with_element(plan.table_element, [&](auto e) { backward_from<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
