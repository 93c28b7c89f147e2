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
  std::int64_t window = 0;
  bool segments = false;
  std::int64_t buckets = 0;
  const char* memory_name = "memory";
  const char* keys = "auto";
};
constexpr std::int64_t kMaxDistance = 4;

/// T5's bucket of a distance, as its paper's code has it.
std::int64_t bucket(const Setting& s, std::int64_t relative) {
  std::int64_t side = s.buckets, first = 0, distance = std::max<std::int64_t>(0, -relative);
  if (!s.causal) {
    side /= 2;
    first = relative > 0 ? side : 0;
    distance = std::abs(relative);
  }
  const std::int64_t exact = side / 2;
  if (distance < exact) return first + distance;
  const double large = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(kMaxDistance) / static_cast<double>(exact));
  return first + std::min(side - 1, exact + static_cast<std::int64_t>(
                                                large * static_cast<double>(side - exact)));
}

bool sees(const Setting& s, const Values& values, std::int64_t b, std::int64_t i, std::int64_t j) {
  if (s.causal && j > i) return false;
  if (s.window > 0 && std::abs(i - j) >= s.window) return false;
  if (!s.segments) return true;
  const bool same_name = s.memory_name == std::string("length");
  const double query = values.at("query_ids")[static_cast<std::size_t>(b * kLength + i)];
  const double key =
      values.at(same_name ? "query_ids" : "key_ids")[static_cast<std::size_t>(b * s.memory + j)];
  return query != 0 && query == key;
}

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
          std::vector<double> weights;
          double total = 0;
          for (std::int64_t j = 0; j < s.memory; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < kDepth; ++d)
              score += values.at("q")[at(q, {b, i, h, g, d})] * values.at("k")[at(k, {b, j, h, d})];
            score /= std::sqrt(static_cast<double>(kDepth));
            if (s.buckets > 0)
              score += values.at("bias")[static_cast<std::size_t>((h * groups + g) * s.buckets +
                                                                  bucket(s, j - i))];
            weights.push_back(sees(s, values, b, i, j) ? std::exp(score) : 0);
            total += weights.back();
          }
          if (total == 0) continue;
          const std::int64_t row = ((b * kHeads + h) * groups + g) * kLength + i;
          for (std::int64_t j = 0; j < s.memory; ++j)
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
  const Dim memory{s.memory_name, s.memory};
  const Shape k{batch, memory, heads, depth};
  const bool same_name = q[1].name == memory.name;
  OpCase c;
  c.name = name;
  c.inputs = {{"q", Shape(q)}, {"k", k}, {"v", k}};
  if (s.segments) {
    c.inputs.push_back({"query_ids", {batch, {"length", kLength}}, OpInput::Fill::ids, 3});
    if (!same_name) c.inputs.push_back({"key_ids", {batch, memory}, OpInput::Fill::ids, 3});
  }
  if (s.buckets > 0) {
    std::vector<Dim> bias(q.begin() + 2, q.end() - 1);
    bias.push_back({"buckets", s.buckets});
    c.inputs.push_back({"bias", Shape(bias)});
  }
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    ops::AttentionOptions options{.causal = s.causal,
                                  .dropout = s.dropout,
                                  .seed = kSeed,
                                  .window = s.window,
                                  .max_distance = kMaxDistance,
                                  .keys = s.keys};
    if (s.segments) options.query_segments = in[3];
    if (s.segments && !same_name) options.key_segments = in[4];
    if (s.buckets > 0) options.relative_bias = in.back();
    return ops::attention(in[0], in[1], in[2], options);
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

TEST_CASE("attention to a window of keys") {
  check_attention("window", {.window = 2});
  check_attention("window on both sides", {.causal = false, .memory = 7, .window = 3});
}

TEST_CASE("attention inside segments; ids of 0 see nothing") {
  check_attention("segments", {.segments = true, .memory_name = "length"});
  check_attention("segments of keys", {.causal = false, .memory = 7, .segments = true});
}

TEST_CASE("attention with a bias by distance") {
  check_attention("bias", {.buckets = 3});
  check_attention("bias of groups on both sides",
                  {.causal = false, .group = 2, .memory = 7, .buckets = 4});
}

TEST_CASE("attention with everything at once, keys along the queries' dim") {
  check_attention("all", {.group = 2,
                          .dropout = 0.3,
                          .window = 4,
                          .segments = true,
                          .buckets = 4,
                          .memory_name = "length"});
}

TEST_CASE("attention past a ring of keys, where the length is cut") {
  check_attention("ring", {.memory_name = "length", .keys = "ring"});
  check_attention("ring to all keys", {.causal = false, .memory = 7, .keys = "ring"});
  check_attention("ring with everything", {.group = 2,
                                           .dropout = 0.3,
                                           .segments = true,
                                           .buckets = 4,
                                           .memory_name = "length",
                                           .keys = "ring"});
}

TEST_CASE("attention to a window of the neighbours' keys, and with keys gathered") {
  check_attention("window of neighbours", {.window = 2, .memory_name = "length"});
  check_attention("both neighbours",
                  {.causal = false, .window = 3, .segments = true, .memory_name = "length"});
  check_attention("gathered", {.window = 2, .memory_name = "length", .keys = "gather"});
}
