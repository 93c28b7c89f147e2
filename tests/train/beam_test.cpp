// SPDX-License-Identifier: BSD-3-Clause
// Beam search against plain programs: all texts of a tabulated model, and a search that computes
// each hypothesis anew.
#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/replicate/task.hpp"
#include "tessera/train/beam_decoder.hpp"
#include "tessera/train/beam_search.hpp"
#include "train/plain_beam.hpp"

using namespace tessera;
using namespace tessera::test;
using train::BeamSearch;
using train::Candidate;

namespace {

/// A different table row for each history.
std::vector<double> tabulated(const Ids& tokens, std::int64_t vocab) {
  unsigned seed = 17;
  for (std::int32_t token : tokens) seed = seed * 31 + static_cast<unsigned>(token) + 1;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> logits;
  for (std::int64_t i = 0; i < vocab; ++i) logits.push_back(2 * normal(random));
  return normalised(logits);
}

/// What BeamSearch does with the model's numbers, without a Program.
std::vector<Hypothesis> search(const BeamOptions& options, const Scorer& scorer) {
  BeamSearch beam(options);
  std::vector<Ids> texts(static_cast<std::size_t>(options.beam));
  while (!beam.is_done()) {
    std::vector<std::vector<Candidate>> candidates;
    for (const auto& text : texts) {
      const auto scores = scorer(text);
      auto& list = candidates.emplace_back();
      for (std::size_t id = 0; id < scores.size(); ++id)
        list.push_back({static_cast<std::int32_t>(id), scores[id]});
    }
    beam.advance(candidates);
    std::vector<Ids> next;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      next.push_back(texts[static_cast<std::size_t>(beam.parents()[i])]);
      next.back().push_back(beam.last_tokens()[i]);
    }
    texts = next;
  }
  return beam.results();
}

/// All texts that end with `end` within the length, best first.
void enumerate(const BeamOptions& options, const Scorer& scorer, Ids& text, double log_probability,
               std::vector<Hypothesis>& all) {
  if (static_cast<std::int64_t>(text.size()) == options.max_length) return;
  const auto scores = scorer(text);
  for (std::size_t id = 0; id < scores.size(); ++id) {
    text.push_back(static_cast<std::int32_t>(id));
    const double total = log_probability + scores[id];
    if (static_cast<std::int32_t>(id) == options.end)
      all.push_back(
          {text, total,
           total / std::pow((5.0 + static_cast<double>(text.size())) / 6, options.alpha)});
    else
      enumerate(options, scorer, text, total, all);
    text.pop_back();
  }
}

}  // namespace

TEST_CASE("A beam as wide as all there is finds the best texts of a tabulated model") {
  for (const double alpha : {0.0, 0.6, 1.0}) {
    BeamOptions options{.beam = 27, .alpha = alpha, .max_length = 4, .end = 1};
    const auto scorer = [](const Ids& tokens) { return tabulated(tokens, 3); };
    std::vector<Hypothesis> all;
    Ids text;
    enumerate(options, scorer, text, 0, all);
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.score > b.score; });
    REQUIRE(all.size() == 15);  // 1 + 2 + 4 + 8
    check_equal(search(options, scorer), all, 1e-12);
  }
}

TEST_CASE("The early end of a search changes nothing") {
  for (const std::int64_t beam : {1, 2, 4}) {
    for (const double alpha : {0.0, 0.6, 2.0}) {
      const BeamOptions options{.beam = beam, .alpha = alpha, .max_length = 9, .end = 0};
      const auto scorer = [](const Ids& tokens) { return tabulated(tokens, 7); };
      INFO("beam " << beam << ", alpha " << alpha);
      double margin = 1;
      check_equal(search(options, scorer), plain_search(options, scorer, margin), 1e-12);
      CHECK(margin > 1e-9);
    }
  }
}

TEST_CASE("A wide beam is not worse than a greedy text, and length penalty favours longer ones") {
  const auto scorer = [](const Ids& tokens) { return tabulated(tokens, 7); };
  const auto best = [&](std::int64_t beam, double alpha) {
    return search({.beam = beam, .alpha = alpha, .max_length = 12, .end = 0}, scorer).front();
  };
  CHECK(best(8, 0).log_probability >= best(1, 0).log_probability);
  CHECK(best(8, 2).tokens.size() >= best(8, 0).tokens.size());
}

TEST_CASE("Probabilities that are not numbers are an error, not some order") {
  BeamSearch beam({.beam = 2, .alpha = 0, .max_length = 3});
  CHECK_THROWS_AS(beam.advance({{{1, -0.5}, {2, std::nan("")}, {3, -1.0}}}), Error);
}

TEST_CASE("Without an end token all hypotheses are as long as allowed; equal ones go by order") {
  const auto even = [](const Ids&) { return normalised({1, 1, 1}); };
  const auto results = search({.beam = 2, .alpha = 0.6, .max_length = 2, .end = -1}, even);
  REQUIRE(results.size() == 2);
  CHECK(results[0].tokens == Ids{0, 0});
  CHECK(results[1].tokens == Ids{0, 1});
}

namespace {

constexpr std::int64_t kVocab = 11, kLength = 8, kBeam = 3, kRows = 2, kPrompt = 3;

models::TransformerConfig small_model() {
  models::TransformerConfig config;
  config.layers = 2;
  config.d_model = 6;
  config.d_ff = 7;
  config.heads = 3;
  config.d_kv = 2;
  config.vocab = kVocab;
  config.max_length = kLength;
  return config;
}

replicate::TaskConfig task_config() {
  replicate::TaskConfig config;
  config.batch = 1;
  config.length = kLength;
  config.dtype = DType::f64;
  config.decode.rows = kRows;
  config.decode.beam = kBeam;
  return config;
}

const std::vector<double> kPrompts{1, 2, 3, 4, 0, 9};  // [rows, kPrompt]

/// The weights, drawn wide so that texts differ in more than the last digits.
void set_weights(SimulatedRun& run) {
  run.executor().initialize(11);
  std::vector<double> output = run.variable("output");
  for (double& weight : output) weight *= 100;
  run.set_variable("output", output);
}

/// The model's log probabilities after a prompt, computed anew on one rank without caches.
class WholeText {
 public:
  explicit WholeText(models::Transformer& model) : graph_("whole", variables_) {
    replicate::Batch batch;
    batch.inputs["tokens"] =
        graph_.input("tokens", {Shape{{"batch", 1}, {"length", kLength}}, DType::i32});
    batch.rows = batch.total_rows = 1;
    batch.mode = replicate::Mode::eval;
    batch.dtype = DType::f64;
    graph_.fetch("logits", model.logits(graph_, batch));
    run_ = std::make_unique<SimulatedRun>(variables_, std::vector<const Graph*>{&graph_},
                                          plan::PlanOptions{});
    set_weights(*run_);
  }

  std::vector<double> operator()(std::int64_t row, const Ids& tokens) {
    std::vector<double> text(kPrompts.begin() + row * kPrompt,
                             kPrompts.begin() + (row + 1) * kPrompt);
    text.insert(text.end(), tokens.begin(), tokens.end());
    const auto at = static_cast<std::ptrdiff_t>(text.size()) - 1;
    text.resize(kLength, 0);
    run_->run("whole", {{"tokens", text}});
    const auto logits = run_->fetch("whole", "logits");
    return normalised({logits.begin() + at * kVocab, logits.begin() + (at + 1) * kVocab});
  }

 private:
  VariableSet variables_;
  Graph graph_;
  std::unique_ptr<SimulatedRun> run_;
};

std::vector<std::vector<Hypothesis>> search_on(const replicate::Task& task, const char* mesh,
                                               const char* rules, const BeamOptions& options) {
  plan::PlanOptions plan;
  plan.mesh = MeshShape::parse(mesh, 0);
  plan.layout = Layout::parse(rules);
  SimulatedRun run(task.variables(), task.graphs(), plan);
  set_weights(run);
  std::vector<double> tokens;
  train::BeamStart start;
  start.position = kPrompt - 1;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto first = kPrompts.begin() + row * kPrompt;
    tokens.insert(tokens.end(), first, first + kPrompt);
    tokens.resize(static_cast<std::size_t>((row + 1) * kLength), 0);
    start.tokens.push_back(static_cast<std::int32_t>(first[kPrompt - 1]));
  }
  kernels::Feeds feeds;
  feeds.values["last"] = kPrompt - 1;
  run.run("prefill", {{"tokens", tokens}}, feeds);
  return train::beam_search(run.executor(), start, options);
}

}  // namespace

TEST_CASE("Beam search by caches finds what a plain search finds, on every mesh") {
  models::Transformer model(small_model());
  const replicate::Task task(model, {}, task_config());
  WholeText whole(model);
  BeamOptions options{.beam = kBeam, .alpha = 0.6, .max_length = kLength - kPrompt + 1, .end = 4};
  double margin = 1;
  std::vector<std::vector<Hypothesis>> expected;
  for (std::int64_t row = 0; row < kRows; ++row)
    expected.push_back(plain_search(
        options, [&](const Ids& tokens) { return whole(row, tokens); }, margin));
  CHECK(margin > 1e-6);
  CHECK(expected[0].front().tokens != expected[1].front().tokens);
  for (const auto& [mesh, rules] : std::vector<std::pair<const char*, const char*>>{
           {"", ""},
           {"batch:2", "batch:batch"},
           {"batch:3", "batch:batch"},
           {"model:2", "vocab:model,d_ff:model,heads:model"},
           {"model:4", "vocab:model,heads:model"},
           {"seq:2", "memory:seq"},
           {"batch:2,model:2", "batch:batch,vocab:model,d_ff:model,heads:model"}}) {
    INFO(mesh << " under " << rules);
    const auto found = search_on(task, mesh, rules, options);
    for (std::size_t row = 0; row < kRows; ++row) check_equal(found[row], expected[row], 1e-9);
  }
}
