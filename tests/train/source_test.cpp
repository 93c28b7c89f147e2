// SPDX-License-Identifier: BSD-3-Clause
// Texts about a source: a small model with an encoder, against plain loops, on every mesh.
#include <cmath>

#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/attend.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/replicate/task.hpp"
#include "tessera/train/beam_decoder.hpp"
#include "train/plain_beam.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kVocab = 9, kWidth = 4, kLength = 6, kRows = 3, kBeam = 3;
constexpr std::int32_t kEnd = 1;

/// Attends to its own tokens so far, then to the source's: h = q + self, y = h + cross.
class Tiny : public replicate::Model {
 public:
  void describe(config::Schema&) override {}
  bool can_cache() const override { return true; }
  std::vector<replicate::InputSpec> source_inputs(std::int64_t rows,
                                                  std::int64_t length) const override {
    return {{"source", {Shape{{"batch", rows}, {"length", length}}, DType::i32}}};
  }
  void encode(Graph& graph, const replicate::Batch& batch) override {
    const Tensor source = ops::rename(batch["source"], "length", "source_length");
    nn::keep("memory", ops::embedding(table(graph, "table", batch.dtype), source));
    nn::keep("visible",
             ops::cast(ops::minimum(source, ops::fill(graph, 1, source.spec())), batch.dtype));
  }
  Tensor logits(Graph& graph, const replicate::Batch& batch) override {
    if (!batch.caching.is_step()) return {};
    const Tensor q = ops::embedding(table(graph, "queries", batch.dtype), batch["tokens"]);
    const Tensor past = nn::extend_cache("past", q, "memory", batch.caching);
    const Dim memory{"memory", batch.caching.length}, source{"source_length", kLength};
    const Tensor h = ops::add(
        q, ops::attend(q, past, past, "memory", nn::visible_so_far(graph, memory, batch.dtype)));
    const Dim rows{"batch", batch.rows}, width{"d", kWidth};
    const Tensor read = nn::kept(graph, "memory", {Shape{rows, source, width}, batch.dtype});
    const Tensor visible = nn::kept(graph, "visible", {Shape{rows, source}, batch.dtype});
    return output(graph, ops::add(h, ops::attend(h, read, read, "source_length", visible)));
  }
  /// Some number that depends on all weights.
  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    const Tensor x =
        ops::add(ops::embedding(table(graph, "table", batch.dtype), batch["tokens"]),
                 ops::embedding(table(graph, "queries", batch.dtype), batch["targets"]));
    const Tensor y = output(graph, x);
    return nn::weighted_sum(ops::reduce_sum(ops::square(y), batch["weights"].shape()),
                            batch["weights"]);
  }

 private:
  static Tensor table(Graph& graph, const char* name, DType dtype) {
    return nn::weight(graph, name, {{"vocab", kVocab}, {"d", kWidth}}, dtype,
                      Initializer::normal(1.5));
  }
  static Tensor output(Graph& graph, Tensor x) {
    std::vector<Dim> dims = x.shape().without("d").dims();
    dims.push_back({"vocab", kVocab});
    return ops::einsum({x, nn::weight(graph, "output", {{"d", kWidth}, {"vocab", kVocab}},
                                      x.dtype(), Initializer::normal(1.5))},
                       Shape(dims));
  }
};

using Row = std::vector<double>;

Row attend(const Row& q, const std::vector<Row>& keys) {
  std::vector<double> weights;
  double sum = 0;
  for (const auto& key : keys) {
    double score = 0;
    for (std::size_t d = 0; d < q.size(); ++d) score += q[d] * key[d];
    weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kWidth))));
    sum += weights.back();
  }
  Row mixed(q.size());
  for (std::size_t j = 0; j < keys.size(); ++j)
    for (std::size_t d = 0; d < q.size(); ++d) mixed[d] += weights[j] / sum * keys[j][d];
  return mixed;
}

Row row_of(const std::vector<double>& table, std::int32_t id) {
  const auto at = table.begin() + id * kWidth;
  return {at, at + kWidth};
}

Row sum_of(const Row& a, const Row& b) {
  Row sum = a;
  for (std::size_t d = 0; d < a.size(); ++d) sum[d] += b[d];
  return sum;
}

/// The model's log probabilities after begin token 0 and `tokens`, in plain loops.
std::vector<double> score(SimulatedRun& run, const Ids& source, const Ids& tokens) {
  const auto table = run.variable("table"), queries = run.variable("queries");
  const auto output = run.variable("output");
  std::vector<Row> past{row_of(queries, 0)}, memory;
  for (std::int32_t token : tokens) past.push_back(row_of(queries, token));
  for (std::int32_t id : source)
    if (id != 0) memory.push_back(row_of(table, id));
  const Row h = sum_of(past.back(), attend(past.back(), past));
  const Row y = sum_of(h, attend(h, memory));
  std::vector<double> logits(kVocab);
  for (std::size_t d = 0; d < y.size(); ++d)
    for (std::size_t v = 0; v < logits.size(); ++v) logits[v] += y[d] * output[d * kVocab + v];
  return normalised(logits);
}

}  // namespace

TEST_CASE("Beam search about a source finds what plain loops find, on every mesh") {
  Tiny model;
  replicate::TaskConfig config;
  config.batch = 2;
  config.length = kLength;
  config.dtype = DType::f64;
  config.decode.rows = kRows;
  config.decode.beam = kBeam;
  const replicate::Task task(model, {}, config);
  const std::vector<Ids> sources{{2, 3, 4, 1, 0, 0}, {5, 1, 0, 0, 0, 0}, {8, 7, 6, 5, 2, 1}};
  std::vector<double> whole;
  for (const auto& source : sources) whole.insert(whole.end(), source.begin(), source.end());
  const BeamOptions options{.beam = kBeam, .alpha = 0.6, .max_length = kLength, .end = kEnd};
  double margin = 1;
  std::vector<std::vector<Hypothesis>> expected;
  for (const auto& [mesh, rules] :
       std::vector<std::pair<const char*, const char*>>{{"", ""},
                                                        {"b:2", "batch:b"},
                                                        {"b:4", "batch:b"},
                                                        {"m:2", "vocab:m"},
                                                        {"m:3", "d:m"},
                                                        {"m:2", "memory:m,source_length:m"},
                                                        {"b:2,m:2", "batch:b,vocab:m,memory:m"}}) {
    INFO(mesh << " under " << rules);
    plan::PlanOptions plan;
    plan.mesh = MeshShape::parse(mesh, 0);
    plan.layout = Layout::parse(rules);
    SimulatedRun run(task.variables(), task.graphs(), plan);
    run.executor().initialize(5);
    if (expected.empty())
      for (const auto& source : sources)
        expected.push_back(plain_search(
            options, [&](const Ids& tokens) { return score(run, source, tokens); }, margin));
    run.run("encode", {{"source", whole}});
    const auto found = train::beam_search(run.executor(), {Ids(kRows, 0), 0}, options);
    for (std::size_t row = 0; row < kRows; ++row) check_equal(found[row], expected[row], 1e-9);
  }
  CHECK(margin > 1e-6);
  // The source matters.
  CHECK(std::abs(expected[0].front().score - expected[1].front().score) > 1e-3);
}
