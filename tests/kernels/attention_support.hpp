// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/program/workspace.hpp"

/// A call of attention's kernels and what it must give by definition.
namespace tessera::test::attention {

using Extents = std::vector<std::int64_t>;

struct Case {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, group = 0, depth = 4;
  bool causal = false;
  double dropout = 0;
  std::int64_t query_offset = 0;  ///< of the q tile
  double scale = 0.3;
  std::int64_t step = 3, micro = 0;
  std::int64_t window = 0;
  std::int64_t segments = 0;  ///< examples in a row; 0: no segments
  std::int64_t buckets = 0;   ///< of the bias; 0: none

  std::int64_t groups() const { return group == 0 ? 1 : group; }
  Extents query_shape() const {
    return group == 0 ? Extents{batch, queries, heads, depth}
                      : Extents{batch, queries, heads, group, depth};
  }
  Extents key_shape() const { return {batch, keys, heads, depth}; }
  Extents lse_shape() const {
    return group == 0 ? Extents{batch, heads, queries} : Extents{batch, heads, group, queries};
  }
  std::string text() const {
    return concat("batch ", batch, ", queries ", queries, " from ", query_offset, ", keys ", keys,
                  ", heads ", heads, ", group ", group, ", depth ", depth, causal ? ", causal" : "",
                  ", dropout ", dropout, ", window ", window, ", segments ", segments, ", buckets ",
                  buckets);
  }
  program::AttentionSize size() const {
    return {batch, queries, keys, heads, groups(), depth, buckets};
  }
  /// Examples one after the other, with one key in nine that is padding.
  std::int64_t key_segment(std::int64_t j) const {
    return j % 9 == 4 ? 0 : 1 + j * segments / std::max<std::int64_t>(1, keys);
  }
  std::int64_t query_segment(std::int64_t i) const { return key_segment(i + query_offset); }
  bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t at = i + query_offset;
    if (causal && j > at) return false;
    if (window > 0 && std::abs(at - j) >= window) return false;
    return segments == 0 || (query_segment(i) != 0 && query_segment(i) == key_segment(j));
  }
  /// T5's formula.
  std::int64_t bucket(std::int64_t relative) const {
    std::int64_t side = buckets, first = 0, distance = std::max<std::int64_t>(0, -relative);
    if (!causal) {
      side /= 2;
      first = relative > 0 ? side : 0;
      distance = std::abs(relative);
    }
    const std::int64_t exact = side / 2;
    if (distance < exact) return first + distance;
    const double large =
        std::log(double(distance) / double(exact)) / std::log(kMaxDistance / double(exact));
    return first + std::min(side - 1, exact + std::int64_t(large * double(side - exact) + 1e-9));
  }
  static constexpr std::int64_t kMaxDistance = 128;

  Attributes attributes() const {
    return {{"causal", std::int64_t{causal}},
            {"scale", scale},
            {"group", std::int64_t{group > 0}},
            {"dropout", dropout},
            {"key", std::int64_t{12345}},
            {"batch_total", batch},
            {"window", window},
            {"segments", std::int64_t{segments > 0}},
            {"bias", std::int64_t{buckets > 0}},
            {"max_distance", kMaxDistance}};
  }
};

inline TestTensor random_tensor(DType dtype, const Extents& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  TestTensor tensor(dtype, shape);
  return tensor.fill([&](std::int64_t) { return normal(random); });
}

/// A tensor of queries, placed in the whole length.
inline TestTensor query_tensor(const Case& c, DType dtype, unsigned seed) {
  const TestTensor values = random_tensor(dtype, c.query_shape(), seed);
  Extents offset(values.tile().rank, 0), global = c.query_shape();
  offset[1] = c.query_offset;
  global[1] = c.query_offset + c.queries;
  TestTensor tensor(dtype, c.query_shape(), offset, global);
  return tensor.fill([&](std::int64_t i) { return values.get(i); });
}

inline TestTensor segment_tensor(std::int64_t batch, std::int64_t length,
                                 const std::function<std::int64_t(std::int64_t)>& segment) {
  TestTensor ids(DType::i32, {batch, length});
  return ids.fill([&](std::int64_t i) { return double(segment(i % length)); });
}

struct Operands {
  TestTensor q, k, v, dout, out, lse, dq, dk, dv, query_ids, key_ids, bias, dbias;

  Operands(const Case& c, DType dtype)
      : q(query_tensor(c, dtype, 1)),
        k(random_tensor(dtype, c.key_shape(), 2)),
        v(random_tensor(dtype, c.key_shape(), 3)),
        dout(query_tensor(c, dtype, 4)),
        out(query_tensor(c, dtype, 5)),
        lse(dtype == DType::f64 ? DType::f64 : DType::f32, c.lse_shape()),
        dq(query_tensor(c, dtype, 6)),
        dk(random_tensor(dtype, c.key_shape(), 7)),
        dv(random_tensor(dtype, c.key_shape(), 8)),
        query_ids(segment_tensor(c.batch, c.queries, [&](auto i) { return c.query_segment(i); })),
        key_ids(segment_tensor(c.batch, c.keys, [&](auto j) { return c.key_segment(j); })),
        bias(random_tensor(lse.tile().dtype, {c.heads, c.groups(), c.buckets}, 9)),
        dbias(random_tensor(lse.tile().dtype, {c.heads, c.groups(), c.buckets}, 10)) {}

  /// `tiles`, and the masks that the case has.
  std::vector<kernels::Tile> with_masks(const Case& c, std::vector<kernels::Tile> tiles) const {
    if (c.segments > 0) tiles.insert(tiles.end(), {query_ids.tile(), key_ids.tile()});
    if (c.buckets > 0) tiles.push_back(bias_tile(c, bias));
    return tiles;
  }
  /// Without a group dim if the queries have none.
  static kernels::Tile bias_tile(const Case& c, const TestTensor& whole) {
    if (c.group > 0) return whole.tile();
    kernels::Tile tile = whole.tile();
    tile.rank = 2, tile.extent[1] = tile.global[1] = c.buckets;
    return tile;
  }
};

inline void run(const Case& c, Operands& o, bool backward = true) {
  test::exec();
  const program::AttentionSize size = c.size();
  kernels::Feeds feeds;
  feeds.step = c.step, feeds.micro = c.micro;
  const DType dtype = o.q.tile().dtype;
  const test::GuardedWorkspace forward(program::attention_forward_workspace(dtype, size));
  test::run_kernel("attention_forward", c.attributes(),
                   o.with_masks(c, {o.q.tile(), o.k.tile(), o.v.tile()}),
                   {o.out.tile(), o.lse.tile()}, forward.data(), feeds);
  if (!backward) return;
  const test::GuardedWorkspace room(program::attention_backward_workspace(dtype, size));
  std::vector<kernels::Tile> gradients{o.dq.tile(), o.dk.tile(), o.dv.tile()};
  if (c.buckets > 0) gradients.push_back(Operands::bias_tile(c, o.dbias));
  test::run_kernel("attention_backward", c.attributes(),
                   o.with_masks(c, {o.dout.tile(), o.q.tile(), o.k.tile(), o.v.tile(), o.out.tile(),
                                    o.lse.tile()}),
                   gradients, room.data(), feeds);
}

struct Reference {
  std::vector<double> out, lse, dq, dk, dv, dbias;
};

/// All in double, by definition: probabilities row by row, and the derivative of each formula.
inline Reference by_definition(const Case& c, const Operands& o) {
  Reference ref;
  ref.out.assign(o.q.size(), 0), ref.dq.assign(o.q.size(), 0);
  ref.dk.assign(o.k.size(), 0), ref.dv.assign(o.k.size(), 0);
  ref.lse.assign(o.lse.size(), 0), ref.dbias.assign(o.dbias.size(), 0);
  const std::int64_t groups = c.groups(), length = c.query_offset + c.queries;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t g = 0; g < groups; ++g)
        for (std::int64_t i = 0; i < c.queries; ++i) {
          const auto at_q = [&](std::int64_t d) {
            return (((b * c.queries + i) * c.heads + h) * groups + g) * c.depth + d;
          };
          const auto at_k = [&](std::int64_t j, std::int64_t d) {
            return ((b * c.keys + j) * c.heads + h) * c.depth + d;
          };
          const auto at_bias = [&](std::int64_t j) {
            return (h * groups + g) * c.buckets + c.bucket(j - i - c.query_offset);
          };
          std::vector<double> p(c.keys), mask(c.keys), dp(c.keys);
          double sum = 0;
          for (std::int64_t j = 0; j < c.keys; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < c.depth; ++d)
              score += o.q.get(at_q(d)) * o.k.get(at_k(j, d));
            score *= c.scale;
            if (c.buckets > 0) score += o.bias.get(at_bias(j));
            p[j] = c.sees(i, j) ? std::exp(score) : 0;
            sum += p[j];
            const std::int64_t batch_index = b + c.micro * c.batch;
            const std::uint64_t index =
                (((std::uint64_t(batch_index) * c.heads + h) * groups + g) * length + i +
                 c.query_offset) *
                    c.keys +
                j;
            mask[j] = c.dropout == 0 ? 1
                      : random_word(12345, c.step, index) >= c.dropout * 4294967296.0
                          ? 1 / (1 - c.dropout)
                          : 0;
          }
          ref.lse[((b * c.heads + h) * groups + g) * c.queries + i] = std::log(sum);
          double delta = 0;
          for (std::int64_t j = 0; j < c.keys; ++j) {
            p[j] = sum == 0 ? 0 : p[j] / sum;
            for (std::int64_t d = 0; d < c.depth; ++d) {
              ref.out[at_q(d)] += p[j] * mask[j] * o.v.get(at_k(j, d));
              dp[j] += mask[j] * o.dout.get(at_q(d)) * o.v.get(at_k(j, d));
              ref.dv[at_k(j, d)] += p[j] * mask[j] * o.dout.get(at_q(d));
            }
            delta += p[j] * dp[j];
          }
          for (std::int64_t j = 0; j < c.keys && c.buckets > 0; ++j)
            ref.dbias[at_bias(j)] += p[j] * (dp[j] - delta);
          for (std::int64_t j = 0; j < c.keys; ++j)
            for (std::int64_t d = 0; d < c.depth; ++d) {
              const double ds = c.scale * p[j] * (dp[j] - delta);
              ref.dq[at_q(d)] += ds * o.k.get(at_k(j, d));
              ref.dk[at_k(j, d)] += ds * o.q.get(at_q(d));
            }
        }
  return ref;
}

inline double distance(const TestTensor& found, const std::vector<double>& expected) {
  double worst = 0;
  for (std::int64_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found.get(i) - expected[i]);
    worst = difference <= worst ? worst : difference;  // a NaN becomes the worst
  }
  return worst;
}

inline double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : 0.15;
}

inline void check_case(const Case& c, DType dtype) {
  INFO(c.text() << ", " << name_of(dtype));
  Operands o(c, dtype);
  run(c, o);
  const Reference ref = by_definition(c, o);
  const double tolerance = tolerance_of(dtype) * (1 + std::sqrt(double(c.keys)) / 8);
  CHECK(distance(o.out, ref.out) <= tolerance);
  CHECK(distance(o.dq, ref.dq) <= tolerance);
  CHECK(distance(o.dk, ref.dk) <= tolerance);
  CHECK(distance(o.dv, ref.dv) <= tolerance);
  const double rows = std::sqrt(double(c.batch * c.queries));
  if (c.buckets > 0) CHECK(distance(o.dbias, ref.dbias) <= tolerance * (1 + rows));
  bool all_visible = c.keys > 0 && !(c.causal && c.query_offset < 0) && c.segments == 0;
  if (all_visible) CHECK(distance(o.lse, ref.lse) <= tolerance);
}

inline constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16};

}  // namespace tessera::test::attention
