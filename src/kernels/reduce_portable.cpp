// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pointwise_plan.hpp"
#include "kernels/portable_math.hpp"
#include "kernels/portable_team.hpp"
#include "kernels/reduce.hpp"

namespace tessera::kernels {
namespace {

KOKKOS_INLINE_FUNCTION std::int64_t place(const ReduceLoops& loops, std::int64_t index) {
  std::int64_t at = 0;
  for (int d = loops.rank - 1; d >= 0; --d) {
    at += index % loops.extent[d] * loops.stride[d];
    index /= loops.extent[d];
  }
  return at;
}

KOKKOS_INLINE_FUNCTION double first_value(int op) {
  if (op == kReduceMax) return -HUGE_VAL;
  if (op == kReduceMin) return HUGE_VAL;
  return 0.0;
}

KOKKOS_INLINE_FUNCTION double joined(int op, double a, double b) {
  if (op == kReduceMax) return b > a || b != b ? b : a;
  if (op == kReduceMin) return b < a || b != b ? b : a;
  return a + b;
}

struct Join {
  int op;
  KOKKOS_INLINE_FUNCTION double operator()(double a, double b) const { return joined(op, a, b); }
};

KOKKOS_INLINE_FUNCTION void store_result(const ReducePlan& plan, std::int64_t at, double x) {
  switch (plan.output_element) {
    case kElementF64:
      return portable::store(static_cast<double*>(plan.output)[at], plan.alpha * x);
    case kElementBf16:
      return portable::store(static_cast<Bf16*>(plan.output)[at], plan.alpha * x);
    default:
      return portable::store(static_cast<float*>(plan.output)[at], plan.alpha * x);
  }
}

/// Elements part, part + parts, … of those that one output element gathers.
template <class E>
KOKKOS_INLINE_FUNCTION double reduce_part(const ReducePlan& plan, std::int64_t from,
                                          std::int64_t part, std::int64_t parts) {
  const E* x = static_cast<const E*>(plan.input);
  double result = first_value(plan.op);
  for (std::int64_t r = part; r < plan.reduced.size; r += parts) {
    double value = portable::load(x[from + place(plan.reduced, r)]);
    if (plan.op == kReduceSumSquares) value *= value;
    result = joined(plan.op, result, value);
  }
  return result;
}

/// One thread for each output element: neighbours read side by side, or there is little to add.
template <class E>
void reduce_by_thread(const device::Exec& exec, const ReducePlan& plan) {
  device::for_each_index(
      "tessera::kernels::reduce", exec, plan.kept.size, KOKKOS_LAMBDA(std::int64_t o) {
        store_result(plan, o, reduce_part<E>(plan, place(plan.kept, o), 0, 1));
      });
}

/// One team for each output element.
template <class E>
void reduce_by_team(const device::Exec& exec, const ReducePlan& plan) {
  portable::for_each_team(
      "tessera::kernels::reduce", exec, plan.kept.size, 1,
      KOKKOS_LAMBDA(const portable::Member& member) {
        const std::int64_t o = member.league_rank();
        const double part =
            reduce_part<E>(plan, place(plan.kept, o), member.team_rank(), member.team_size());
        const double result = portable::team_join(member, part, Join{plan.op});
        if (member.team_rank() == 0) store_result(plan, o, result);
      });
}

template <class E>
void reduce_of(const device::Exec& exec, const ReducePlan& plan) {
  const bool side_by_side = plan.kept.stride[plan.kept.rank - 1] == 1 && plan.kept.size >= 1024;
  if (side_by_side || plan.reduced.size <= 64) {
    reduce_by_thread<E>(exec, plan);
  } else {
    reduce_by_team<E>(exec, plan);
  }
}

}  // namespace

void reduce_portable(const device::Exec& exec, const ReducePlan& plan) {
  switch (plan.input_element) {
    case kElementF64:
      return reduce_of<double>(exec, plan);
    case kElementBf16:
      return reduce_of<Bf16>(exec, plan);
    default:
      return reduce_of<float>(exec, plan);
  }
}

}  // namespace tessera::kernels
