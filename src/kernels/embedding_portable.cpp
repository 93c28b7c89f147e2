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

/// The thread of an id's first occurrence adds all of them, so no two threads write one element.
/// Neighbouring threads look at the same ids at the same time.
template <class Table, class E>
void backward(const device::Exec& exec, const EmbeddingPlan& plan) {
  device::for_each_index(
      "tessera::kernels::embedding_backward", exec, plan.count * plan.width,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t first = i / plan.width;
        const std::int64_t j = i % plan.width;
        const std::int32_t id = plan.ids[first];
        const std::int64_t row = id - plan.first;
        if (row < 0 || row >= plan.rows) return;
        for (std::int64_t t = 0; t < first; ++t) {
          if (plan.ids[t] == id) return;
        }
        Table& to = static_cast<Table*>(plan.to)[row * plan.width + j];
        Compute<Table> sum = load(to);
        for (std::int64_t t = first; t < plan.count; ++t) {
          if (plan.ids[t] != id) continue;
          sum += static_cast<Compute<Table>>(
              load(static_cast<const E*>(plan.from)[t * plan.width + j]));
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
  with_element(plan.table_element, [&](auto e) { backward_from<decltype(e)>(exec, plan); });
}

}  // namespace tessera::kernels::portable
