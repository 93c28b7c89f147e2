// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>

#include "kernels/einsum_host.hpp"
#include "kernels/isa/einsum.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels {
namespace {

void multiply(float* c, const float* a, const float* b, const EinsumLoop& loop, float alpha,
              bool add) {
  TESSERA_ISA_CALL(einsum_multiply_f32)(c, loop.c, a, loop.a, b, loop.b, loop.extent, alpha, add);
}
void multiply(double* c, const double* a, const double* b, const EinsumLoop& loop, double alpha,
              bool add) {
  TESSERA_ISA_CALL(einsum_multiply_f64)(c, loop.c, a, loop.a, b, loop.b, loop.extent, alpha, add);
}
float dot(const float* a, const float* b, const EinsumLoop& loop) {
  return TESSERA_ISA_CALL(einsum_dot_f32)(a, loop.a, b, loop.b, loop.extent);
}
double dot(const double* a, const double* b, const EinsumLoop& loop) {
  return TESSERA_ISA_CALL(einsum_dot_f64)(a, loop.a, b, loop.b, loop.extent);
}

/// Takes the last loop away; one turn if there is none.
EinsumLoop take_last(EinsumLoops& loops) {
  return loops.count == 0 ? EinsumLoop{} : loops.loop[--loops.count];
}

bool is_row(const EinsumLoop& loop) {
  return loop.c == 1 && (loop.a == 0 || loop.a == 1) && (loop.b == 0 || loop.b == 1);
}

/// Sums run outside of rows of C that are contiguous like A's or B's.
template <class T>
void run_rows(const EinsumPlan& plan, const EinsumOperands& operands) {
  EinsumLoops outer = plan.outer;
  const EinsumLoop row = take_last(outer);
  const auto* a = static_cast<const T*>(operands.a);
  const auto* b = static_cast<const T*>(operands.b);
  auto* c = static_cast<T*>(operands.c);
  const auto alpha = static_cast<T>(operands.alpha);
  for_each_place(outer, [&](std::int64_t at_a, std::int64_t at_b, std::int64_t at_c) {
    bool add = operands.accumulate;
    for_each_place(plan.sums, [&](std::int64_t more_a, std::int64_t more_b, std::int64_t) {
      multiply(c + at_c, a + at_a + more_a, b + at_b + more_b, row, alpha, add);
      add = true;
    });
  });
}

/// One element of C after the other.
template <class T>
void run_dots(const EinsumPlan& plan, const EinsumOperands& operands) {
  EinsumLoops sums = plan.sums;
  const EinsumLoop inner = take_last(sums);
  const auto* a = static_cast<const T*>(operands.a);
  const auto* b = static_cast<const T*>(operands.b);
  auto* c = static_cast<T*>(operands.c);
  const auto alpha = static_cast<T>(operands.alpha);
  for_each_place(plan.outer, [&](std::int64_t at_a, std::int64_t at_b, std::int64_t at_c) {
    T sum = 0;
    for_each_place(sums, [&](std::int64_t more_a, std::int64_t more_b, std::int64_t) {
      sum += dot(a + at_a + more_a, b + at_b + more_b, inner);
    });
    c[at_c] = (operands.accumulate ? c[at_c] : T(0)) + alpha * sum;
  });
}

template <class T>
void run_one_type(const EinsumPlan& plan, const EinsumOperands& operands) {
  const bool sums_elements = plan.sums.size() != 1;
  const bool rows = plan.outer.count > 0 && is_row(plan.outer.loop[plan.outer.count - 1]);
  const bool is_dot = plan.sums.count > 0 && plan.sums.loop[plan.sums.count - 1].a == 1 &&
                      plan.sums.loop[plan.sums.count - 1].b == 1;
  if (!sums_elements || (rows && !is_dot && plan.sums.size() > 0)) {
    run_rows<T>(plan, operands);
  } else {
    run_dots<T>(plan, operands);
  }
}

/// Operands of any dtypes, summed in f64.
void run_mixed(const EinsumPlan& plan, const EinsumOperands& operands) {
  for_each_place(plan.outer, [&](std::int64_t at_a, std::int64_t at_b, std::int64_t at_c) {
    double sum = 0;
    for_each_place(plan.sums, [&](std::int64_t more_a, std::int64_t more_b, std::int64_t) {
      sum += number_at(operands.a, operands.dtype_a, at_a + more_a) *
             number_at(operands.b, operands.dtype_b, at_b + more_b);
    });
    sum *= operands.alpha;
    if (operands.accumulate) sum += number_at(operands.c, operands.dtype_c, at_c);
    set_number(operands.c, operands.dtype_c, at_c, sum);
  });
}

}  // namespace

void einsum_loops(const EinsumPlan& plan, const EinsumOperands& operands) {
  TESSERA_CHECK(!plan.has_gemm, "einsum: loops leave out the matrix product");
  const bool same = operands.dtype_a == operands.dtype_c && operands.dtype_b == operands.dtype_c;
  if (same && operands.dtype_c == DType::f32) {
    run_one_type<float>(plan, operands);
  } else if (same && operands.dtype_c == DType::f64) {
    run_one_type<double>(plan, operands);
  } else {
    run_mixed(plan, operands);
  }
}

}  // namespace tessera::kernels
