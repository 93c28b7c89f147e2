// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/reduce.hpp"

#include "kernels/isa/index.hpp"
#include "kernels/isa/lanes.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

// What each operation does with an element. Minima are maxima of negated elements.

struct Sum {
  static constexpr bool kAdds = true;
  template <class C>
  TESSERA_LANE C of(C x) {
    return x;
  }
};
struct SumSquares {
  static constexpr bool kAdds = true;
  template <class C>
  TESSERA_LANE C of(C x) {
    return x * x;
  }
};
struct Max {
  static constexpr bool kAdds = false;
  template <class C>
  TESSERA_LANE C of(C x) {
    return x;
  }
};
struct Min {
  static constexpr bool kAdds = false;
  template <class C>
  TESSERA_LANE C of(C x) {
    return -x;
  }
};

template <class Op, class A>
TESSERA_LANE A first_value() {
  return Op::kAdds ? A(0) : -static_cast<A>(__builtin_inf());
}
template <class Op, class A>
TESSERA_LANE A joined(A a, A b) {
  return Op::kAdds ? a + b : larger(a, b);
}

/// One run of the innermost reduced loop.
template <class Op, class E>
double reduce_run(const E* x, int64_t n, int64_t stride) {
  using C = Compute<E>;
  if constexpr (Op::kAdds) {
    if (stride == 1) return sum_lanes<C>(n, [=](int64_t j) { return Op::of(load(x[j])); });
    return sum_lanes<C>(n, [=](int64_t j) { return Op::of(load(x[j * stride])); });
  } else {
    if (stride == 1) return max_lanes<C>(n, [=](int64_t j) { return Op::of(load(x[j])); });
    return max_lanes<C>(n, [=](int64_t j) { return Op::of(load(x[j * stride])); });
  }
}

/// Each output element from the runs that belong to it.
template <class Op, class E>
void reduce_rows(const ReducePlan& plan) {
  const E* x = static_cast<const E*>(plan.input);
  const int last = plan.reduced.rank - 1;
  Odometer kept(plan.kept, plan.kept.rank);
  for (int64_t o = 0; o < plan.kept.size; ++o, kept.next()) {
    Odometer outer(plan.reduced, last);
    double total = first_value<Op, double>();
    for (int64_t r = outer.size(); r > 0; --r, outer.next()) {
      const double run = reduce_run<Op>(x + kept.at + outer.at, plan.reduced.extent[last],
                                        plan.reduced.stride[last]);
      total = joined<Op>(total, run);
    }
    const double result = plan.alpha * (Op::kAdds || plan.op == kReduceMax ? total : -total);
    store_elements(plan.output, plan.output_element, o, &result, 1);
  }
}

constexpr int64_t kColumns = 512;
constexpr int kRowsOfChunk = 64;

/// sum[j] += elements of four rows.
template <class Op, class E, class C>
void add_four_rows(C* sum, const E* const* row, int64_t n) {
  const E *a = row[0], *b = row[1], *c = row[2], *d = row[3];
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) {
    const C ab = joined<Op>(Op::of(load(a[j])), Op::of(load(b[j])));
    const C cd = joined<Op>(Op::of(load(c[j])), Op::of(load(d[j])));
    sum[j] = joined<Op>(sum[j], joined<Op>(ab, cd));
  }
}
template <class Op, class E, class C>
void add_row(C* sum, const E* row, int64_t n) {
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) sum[j] = joined<Op>(sum[j], Op::of(load(row[j])));
}

/// Columns [first, first + n) of one output row: rows of the input are added in chunks, chunks in
/// double.
template <class Op, class E>
void reduce_columns(const ReducePlan& plan, const E* x, int64_t first, int64_t n) {
  using C = Compute<E>;
  C sum[kColumns];
  double total[kColumns];
  for (int64_t j = 0; j < n; ++j) total[j] = first_value<Op, double>();
  Odometer rows(plan.reduced, plan.reduced.rank);
  for (int64_t left = plan.reduced.size; left > 0;) {
    for (int64_t j = 0; j < n; ++j) sum[j] = first_value<Op, C>();
    const int64_t chunk = smaller(left, kRowsOfChunk);
    left -= chunk;
    int64_t r = 0;
    for (; r + 4 <= chunk; r += 4) {
      const E* row[4];
      for (int k = 0; k < 4; ++k, rows.next()) row[k] = x + rows.at;
      add_four_rows<Op>(sum, row, n);
    }
    for (; r < chunk; ++r, rows.next()) add_row<Op>(sum, x + rows.at, n);
    for (int64_t j = 0; j < n; ++j) total[j] = joined<Op>(total[j], static_cast<double>(sum[j]));
  }
  const double sign = Op::kAdds || plan.op == kReduceMax ? 1.0 : -1.0;
  for (int64_t j = 0; j < n; ++j) total[j] *= sign * plan.alpha;
  store_elements(plan.output, plan.output_element, first, total, n);
}

template <class Op, class E>
void reduce_all_columns(const ReducePlan& plan) {
  const E* x = static_cast<const E*>(plan.input);
  const int last = plan.kept.rank - 1;
  const int64_t width = plan.kept.extent[last];
  Odometer outer(plan.kept, last);
  for (int64_t o = 0; o < outer.size(); ++o) {
    for (int64_t j = 0; j < width; j += kColumns) {
      reduce_columns<Op>(plan, x + outer.at + j, o * width + j, smaller(width - j, kColumns));
    }
    outer.next();
  }
}

template <class Op, class E>
void reduce_elements(const ReducePlan& plan) {
  if (plan.kept.rank > 0 && plan.kept.stride[plan.kept.rank - 1] == 1) {
    reduce_all_columns<Op, E>(plan);
  } else {
    reduce_rows<Op, E>(plan);
  }
}

template <class E>
void reduce_of(const ReducePlan& plan) {
  switch (plan.op) {
    case kReduceMax:
      return reduce_elements<Max, E>(plan);
    case kReduceMin:
      return reduce_elements<Min, E>(plan);
    case kReduceSumSquares:
      return reduce_elements<SumSquares, E>(plan);
    default:
      return reduce_elements<Sum, E>(plan);
  }
}

// Permutations.

/// Rows whose elements lie side by side, apart or all in one place.
template <class E, class O>
void permute_row(O* to, const E* from, int64_t n, int64_t stride, Compute<E> alpha, bool square) {
  using C = Compute<E>;
  if (square) {
    for (int64_t j = 0; j < n; ++j) {
      const C x = load(from[j * stride]);
      store(to[j], static_cast<Compute<O>>(alpha * (x * x)));
    }
  } else if (stride == 1) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      store(to[j], static_cast<Compute<O>>(alpha * load(from[j])));
    }
  } else {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      store(to[j], static_cast<Compute<O>>(alpha * load(from[j * stride])));
    }
  }
}

constexpr int64_t kTransposeBlock = 32;

/// The output's last dim and the dim `across` that is contiguous in the input, block by block, so
/// that both sides use whole cache lines.
template <class E, class O>
void transpose(const ReducePlan& plan, O* to, const E* from, int across, int64_t to_stride) {
  const int last = plan.kept.rank - 1;
  const int64_t rows = plan.kept.extent[across];
  const int64_t columns = plan.kept.extent[last];
  const bool square = plan.op == kReduceSumSquares;
  const auto alpha = static_cast<Compute<E>>(plan.alpha);
  for (int64_t i = 0; i < rows; i += kTransposeBlock) {
    const int64_t end = smaller(rows, i + kTransposeBlock);
    for (int64_t j = 0; j < columns; j += kTransposeBlock) {
      const int64_t width = smaller(columns - j, kTransposeBlock);
      for (int64_t r = i; r < end; ++r) {
        permute_row(to + r * to_stride + j, from + r + j * plan.kept.stride[last], width,
                    plan.kept.stride[last], alpha, square);
      }
    }
  }
}

template <class E, class O>
void permute(const ReducePlan& plan) {
  const E* x = static_cast<const E*>(plan.input);
  O* y = static_cast<O*>(plan.output);
  const ReduceLoops& kept = plan.kept;
  const int last = kept.rank - 1;
  int across = -1;
  for (int d = 0; d < last; ++d) {
    if (kept.stride[d] == 1 && kept.stride[last] > 1) across = d;
  }
  if (across < 0) {
    Odometer outer(kept, last);
    for (int64_t o = outer.size(); o > 0; --o, outer.next()) {
      permute_row(y, x + outer.at, kept.extent[last], kept.stride[last],
                  static_cast<Compute<E>>(plan.alpha), plan.op == kReduceSumSquares);
      y += kept.extent[last];
    }
    return;
  }
  // Loop over the other dims, with their strides in the output.
  ReduceLoops others = {0, {}, {}, 1};
  ReduceLoops places = {0, {}, {}, 1};
  int64_t stride = 1;
  int64_t to_stride[8];
  for (int d = last; d >= 0; --d) {
    to_stride[d] = stride;
    stride *= kept.extent[d];
  }
  for (int d = 0; d < last; ++d) {
    if (d == across) continue;
    others.extent[others.rank] = places.extent[others.rank] = kept.extent[d];
    others.stride[others.rank] = kept.stride[d];
    places.stride[others.rank++] = to_stride[d];
  }
  Odometer in(others, others.rank);
  Odometer out(places, others.rank);
  for (int64_t o = in.size(); o > 0; --o, in.next(), out.next()) {
    transpose(plan, y + out.at, x + in.at, across, to_stride[across]);
  }
}

template <class E>
void permute_to(const ReducePlan& plan) {
  switch (plan.output_element) {
    case kElementF64:
      return permute<E, double>(plan);
    case kElementBf16:
      return permute<E, Bf16>(plan);
    default:
      return permute<E, float>(plan);
  }
}

}  // namespace

void reduce_dims(const ReducePlan& plan) {
  switch (plan.input_element) {
    case kElementF64:
      return reduce_of<double>(plan);
    case kElementBf16:
      return reduce_of<Bf16>(plan);
    default:
      return reduce_of<float>(plan);
  }
}

void permute_dims(const ReducePlan& plan) {
  switch (plan.input_element) {
    case kElementF64:
      return permute_to<double>(plan);
    case kElementBf16:
      return permute_to<Bf16>(plan);
    default:
      return permute_to<float>(plan);
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
