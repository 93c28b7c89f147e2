// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 2, kLength = 5, kHeads = 3, kDepth = 2;
constexpr std::uint64_t kSeed = 11;

struct Setting {
  bool causal = true;
  std::int64_t group = 0;  ///< 0: no group dim
  std::int64_t memory = kLength;
  double dropout = 0;
};

/// Factor of the probability of (query i, key j): 0, or 1 / (1 - rate).
double mask(const Setting& s, std::int64_t row, std::int64_t j) {
  if (s.dropout == 0) return 1;
  const auto key = stream_key(kSeed, hash_text("attention_dropout"));
  const auto index = static_cast<std::uint64_t>(row * s.memory + j);
  const bool keep = random_word(key, 1, index) >= s.dropout * 4294967296.0;
  return keep ? 1 / (1 - s.dropout) : 0;
}

/// softmax(q k^T / sqrt(d)) v by the definition.
std::vector<double> naive(const Setting& s, const Values& values) {
  const std::int64_t groups = std::max<std::int64_t>(1, s.group);
  const Shape q{{"b", kBatch}, {"i", kLength}, {"h", kHeads}, {"g", groups}, {"d", kDepth}};
  const Shape k{{"b", kBatch}, {"j", s.memory}, {"h", kHeads}, {"d", kDepth}};
  std::vector<double> out(static_cast<std::size_t>(q.size()));
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t g = 0; g < groups; ++g)
        for (std::int64_t i = 0; i < kLength; ++i) {
          const std::int64_t keys = s.causal ? std::min(i + 1, s.memory) : s.memory;
          std::vector<double> weights;
          double total = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < kDepth; ++d)
              score += values.at("q")[at(q, {b, i, h, g, d})] * values.at("k")[at(k, {b, j, h, d})];
            weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kDepth))));
            total += weights.back();
          }
          const std::int64_t row = ((b * kHeads + h) * groups + g) * kLength + i;
          for (std::int64_t j = 0; j < keys; ++j)
            for (std::int64_t d = 0; d < kDepth; ++d)
              out[at(q, {b, i, h, g, d})] += weights[static_cast<std::size_t>(j)] / total *
                                             mask(s, row, j) * values.at("v")[at(k, {b, j, h, d})];
        }
  return out;
}

void check_attention(const std::string& name, const Setting& s) {
  const Dim batch{"batch", kBatch}, heads{"heads", kHeads}, depth{"d_kv", kDepth};
  std::vector<Dim> q{batch, {"length", kLength}, heads};
  if (s.group > 0) q.push_back({"group", s.group});
  q.push_back(depth);
  const Shape k{batch, {"memory", s.memory}, heads, depth};
  OpCase c;
  c.name = name;
  c.inputs = {{"q", Shape(q)}, {"k", k}, {"v", k}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::attention(in[0], in[1], in[2],
                          {.causal = s.causal, .dropout = s.dropout, .seed = kSeed});
  };
  c.reference = [=](const Values& values) { return naive(s, values); };
  c.partial = false;
  check_op(c);
}

}  // namespace

TEST_CASE("causal attention, cut along batch, heads, queries") {
  check_attention("causal", {});
}

TEST_CASE("attention to all keys, more keys than queries") {
  check_attention("all keys", {.causal = false, .memory = 7});
}

TEST_CASE("attention of query groups that share keys") {
  check_attention("grouped", {.group = 2});
}

TEST_CASE("attention dropout is a function of global positions") {
  check_attention("dropout", {.dropout = 0.3});
  check_attention("dropout of groups", {.group = 2, .dropout = 0.3});
}
