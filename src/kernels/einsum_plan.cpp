// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/einsum_plan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::kernels {
namespace {

using Labels = std::vector<std::int64_t>;

enum Operand { kA, kB, kC };

/// Collects the loops of all labels: extent, and stride in each operand (0 where it lacks the dim).
class LoopTable {
 public:
  void add(const Tile& tile, const Labels& labels, Operand operand) {
    TESSERA_CHECK(static_cast<int>(labels.size()) == tile.rank, "einsum: operand ", operand,
                  " has rank ", tile.rank, " and ", labels.size(), " labels");
    std::int64_t stride = 1;
    for (int d = tile.rank - 1; d >= 0; --d) {
      Entry& entry = find(labels[d], tile.extent[d]);
      TESSERA_CHECK(!entry.in[operand], "einsum: operand ", operand, " has label ", labels[d],
                    " twice");
      TESSERA_CHECK(entry.loop.extent == tile.extent[d], "einsum: label ", labels[d],
                    " has extents ", entry.loop.extent, " and ", tile.extent[d]);
      entry.in[operand] = true;
      (operand == kA ? entry.loop.a : operand == kB ? entry.loop.b : entry.loop.c) = stride;
      stride *= tile.extent[d];
    }
  }

  /// Loops of more than one turn whose membership in (A, B, C) is as given, merged.
  EinsumLoops merged(bool in_a, bool in_b, bool in_c) const {
    EinsumLoops loops;
    for (int i = 0; i < count_; ++i) {
      const Entry& entry = entry_[i];
      if (entry.loop.extent != 1 && entry.in[kA] == in_a && entry.in[kB] == in_b &&
          entry.in[kC] == in_c) {
        loops.add(entry.loop);
      }
    }
    std::stable_sort(loops.loop, loops.loop + loops.count, [](const auto& x, const auto& y) {
      return std::pair(x.c, x.a + x.b) > std::pair(y.c, y.a + y.b);
    });
    return merge(loops);
  }

  bool has_empty(bool in_c) const {
    for (int i = 0; i < count_; ++i) {
      if (entry_[i].loop.extent == 0 && entry_[i].in[kC] == in_c) return true;
    }
    return false;
  }

 private:
  struct Entry {
    std::int64_t label = 0;
    EinsumLoop loop;
    bool in[3] = {false, false, false};
  };

  Entry& find(std::int64_t label, std::int64_t extent) {
    for (int i = 0; i < count_; ++i) {
      if (entry_[i].label == label) return entry_[i];
    }
    TESSERA_CHECK(count_ < 2 * kMaxRank, "einsum: more than ", 2 * kMaxRank, " labels");
    entry_[count_].label = label;
    entry_[count_].loop.extent = extent;
    return entry_[count_++];
  }

  /// Neighbours that lie in memory like one dim become one.
  static EinsumLoops merge(const EinsumLoops& loops) {
    EinsumLoops result;
    for (int i = 0; i < loops.count; ++i) {
      const EinsumLoop& next = loops.loop[i];
      if (result.count > 0) {
        EinsumLoop& last = result.loop[result.count - 1];
        const std::int64_t n = next.extent;
        if (last.a == n * next.a && last.b == n * next.b && last.c == n * next.c) {
          last = {last.extent * n, next.a, next.b, next.c};
          continue;
        }
      }
      result.add(next);
    }
    return result;
  }

  int count_ = 0;
  Entry entry_[2 * kMaxRank + 1];
};

/// How a matrix of `rows` x `columns` with these strides is given to BLAS; false if it cannot be.
bool as_matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
               std::int64_t column_stride, EinsumMatrix& matrix) {
  if (column_stride == 1 || columns == 1) {
    matrix = {false, rows == 1 ? columns : row_stride};
    return true;
  }
  if (row_stride == 1 || rows == 1) {
    matrix = {true, columns == 1 ? rows : column_stride};
    return true;
  }
  return false;
}

/// One choice of the product's loops; index -1: none, an extent of 1.
struct Choice {
  int m = -1, n = -1, k = -1;
};

EinsumLoop loop_at(const EinsumLoops& loops, int index) {
  return index < 0 ? EinsumLoop{} : loops.loop[index];
}

/// Fills the product's part of the plan; false if BLAS cannot read it without a copy.
bool try_product(const EinsumLoop& m, const EinsumLoop& n, const EinsumLoop& k, EinsumPlan& plan) {
  plan.swapped = !(n.c == 1 || n.extent == 1);
  if (plan.swapped && m.c != 1 && m.extent != 1) return false;
  EinsumMatrix a, b;
  if (!as_matrix(m.extent, k.extent, m.a, k.a, a)) return false;
  if (!as_matrix(k.extent, n.extent, k.b, n.b, b)) return false;
  plan.m = m, plan.n = n, plan.k = k;
  plan.a = a, plan.b = b;
  if (plan.swapped) {
    // C^T = B^T A^T.
    plan.m = {n.extent, n.b, n.a, n.c};
    plan.n = {m.extent, m.b, m.a, m.c};
    plan.k = {k.extent, k.b, k.a, k.c};
    plan.a = {!b.transpose, b.ld};
    plan.b = {!a.transpose, a.ld};
  }
  plan.c = {false, plan.m.extent == 1 ? plan.n.extent : plan.m.c};
  return true;
}

void add_rest(EinsumLoops& target, const EinsumLoops& loops, int taken, bool swapped) {
  for (int i = 0; i < loops.count; ++i) {
    if (i == taken) continue;
    EinsumLoop loop = loops.loop[i];
    if (swapped) std::swap(loop.a, loop.b);
    target.add(loop);
  }
}

}  // namespace

EinsumPlan plan_einsum(const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "einsum: ", call.input_count,
                " inputs, ", call.output_count, " outputs");
  LoopTable table;
  table.add(call.inputs[0], call.attributes.integers("in0"), kA);
  table.add(call.inputs[1], call.attributes.integers("in1"), kB);
  table.add(call.outputs[0], call.attributes.integers("out"), kC);

  EinsumPlan plan;
  plan.empty = table.has_empty(true);
  if (plan.empty) return plan;
  const EinsumLoops m = table.merged(true, false, true);
  const EinsumLoops n = table.merged(false, true, true);
  EinsumLoops k = table.merged(true, true, false);

  // The largest product that BLAS can read; two of the three extents must be there for it to pay.
  Choice best;
  std::int64_t best_size = 0;
  for (int i = -1; i < m.count; ++i) {
    for (int j = -1; j < n.count; ++j) {
      for (int l = -1; l < k.count; ++l) {
        if ((i >= 0) + (j >= 0) + (l >= 0) < 2) continue;
        const EinsumLoop lm = loop_at(m, i), ln = loop_at(n, j), lk = loop_at(k, l);
        const std::int64_t size = lm.extent * ln.extent * lk.extent;
        EinsumPlan trial;
        if (size > best_size && try_product(lm, ln, lk, trial)) {
          best = {i, j, l};
          best_size = size;
        }
      }
    }
  }
  plan.has_gemm = best_size > 0 &&
                  try_product(loop_at(m, best.m), loop_at(n, best.n), loop_at(k, best.k), plan);
  if (table.has_empty(false)) {
    // Nothing to sum: C becomes (or stays) what an empty sum makes of it.
    plan.has_gemm = false;
    best = {};
    plan.sums.add({0, 0, 0, 0});
  }
  add_rest(plan.outer, table.merged(true, true, true), -1, plan.swapped);
  add_rest(plan.outer, table.merged(false, false, true), -1, plan.swapped);
  add_rest(plan.outer, m, best.m, plan.swapped);
  add_rest(plan.outer, n, best.n, plan.swapped);
  add_rest(plan.sums, k, best.k, plan.swapped);
  add_rest(plan.sums, table.merged(true, false, false), -1, plan.swapped);
  add_rest(plan.sums, table.merged(false, true, false), -1, plan.swapped);
  std::stable_sort(plan.outer.loop, plan.outer.loop + plan.outer.count,
                   [](const auto& x, const auto& y) { return x.c > y.c; });
  return plan;
}

}  // namespace tessera::kernels
