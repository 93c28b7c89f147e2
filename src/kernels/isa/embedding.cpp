// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/embedding.hpp"

#include "kernels/isa/element.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

template <class Table, class E>
void forward(const EmbeddingPlan& plan) {
  const Table* table = static_cast<const Table*>(plan.from);
  E* out = static_cast<E*>(plan.to);
  for (int64_t t = 0; t < plan.count; ++t, out += plan.width) {
    const int64_t row = plan.ids[t] - plan.first;
    if (row < 0 || row >= plan.rows) {
      for (int64_t j = 0; j < plan.width; ++j) store(out[j], Compute<E>(0));
      continue;
    }
    const Table* from = table + row * plan.width;
#pragma GCC ivdep
    for (int64_t j = 0; j < plan.width; ++j) {
      store(out[j], static_cast<Compute<E>>(load(from[j])));
    }
  }
}

template <class Table, class E>
void backward(const EmbeddingPlan& plan) {
  const E* dout = static_cast<const E*>(plan.from);
  Table* dtable = static_cast<Table*>(plan.to);
  for (int64_t t = 0; t < plan.count; ++t, dout += plan.width) {
    const int64_t row = plan.ids[t] - plan.first;
    if (row < 0 || row >= plan.rows) continue;
    Table* to = dtable + row * plan.width;
#pragma GCC ivdep
    for (int64_t j = 0; j < plan.width; ++j) to[j] += static_cast<Table>(load(dout[j]));
  }
}

template <class Table>
void forward_to(const EmbeddingPlan& plan) {
  if (plan.element == kElementF64) return forward<Table, double>(plan);
  if (plan.element == kElementBf16) return forward<Table, Bf16>(plan);
  forward<Table, float>(plan);
}

template <class Table>
void backward_from(const EmbeddingPlan& plan) {
  if (plan.element == kElementF64) return backward<Table, double>(plan);
  if (plan.element == kElementBf16) return backward<Table, Bf16>(plan);
  backward<Table, float>(plan);
}

}  // namespace

void embedding_forward(const EmbeddingPlan& plan) {
  if (plan.table_element == kElementF64) return forward_to<double>(plan);
  if (plan.table_element == kElementBf16) return forward_to<Bf16>(plan);
  forward_to<float>(plan);
}

void embedding_backward(const EmbeddingPlan& plan) {
  if (plan.table_element == kElementF64) return backward_from<double>(plan);
  backward_from<float>(plan);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
