// SPDX-License-Identifier: BSD-3-Clause
// What an encoder-decoder finds step by step, with the keys and values that it keeps, is what it
// gives for the whole target at once.
#include <cmath>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/simulated_run.hpp"
#include "tessera/models/seq2seq.hpp"
#include "tessera/replicate/task.hpp"
#include "tessera/train/beam_decoder.hpp"

using namespace tessera;

namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kRows = 3, kLength = 7;
constexpr std::int32_t kEnd = 1;

models::Seq2SeqConfig config_of(const std::string& positions) {
  models::Seq2SeqConfig config;
  config.layers = 2;
  config.encoder_layers = 1;
  config.d_model = 6;
  config.d_ff = 10;
  config.heads = 3;
  config.d_kv = 4;
  config.vocab = 11;
  config.max_length = 9;
  config.positions = positions;
  config.bias = positions == "learned";
  config.tied = positions == "sinusoid";
  if (positions == "relative") {
    config.heads = 6;
    config.kv_heads = 3;
    config.relative_buckets = 4;
    config.relative_distance = 5;
    config.window = 3;
  }
  return config;
}

/// Adds ids with segments and positions of one row, filled up with zeros.
void add_row(test::Values& inputs, const std::string& prefix, const std::string& ids_name,
             const Ids& ids) {
  for (std::size_t at = 0; at < static_cast<std::size_t>(kLength); ++at) {
    const bool is_there = at < ids.size();
    inputs[ids_name].push_back(is_there ? ids[at] : 0);
    inputs[prefix + "segments"].push_back(is_there ? 1 : 0);
    inputs[prefix + "positions"].push_back(is_there ? static_cast<double>(at) : 0);
  }
}

/// Log probability of each row's target, all of it at once.
std::vector<double> log_probabilities(test::SimulatedRun& run, const std::vector<Ids>& sources,
                                      const std::vector<Ids>& targets) {
  std::vector<double> result;
  for (std::size_t counted = 0; counted < targets.size(); ++counted) {
    test::Values inputs;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      add_row(inputs, "source_", "source", sources[row]);
      Ids read{0};
      read.insert(read.end(), targets[row].begin(), targets[row].end() - 1);
      add_row(inputs, "", "tokens", read);
      for (std::size_t at = 0; at < static_cast<std::size_t>(kLength); ++at) {
        const bool is_there = at < targets[row].size();
        inputs["targets"].push_back(is_there ? targets[row][at] : 0);
        inputs["weights"].push_back(is_there && row == counted ? 1 : 0);
      }
    }
    run.run("eval", inputs);
    result.push_back(-run.fetch("eval", "loss").at(0));
  }
  return result;
}

}  // namespace

TEST_CASE("Decoding by caches scores a translation as the whole model does, on every mesh") {
  const std::vector<Ids> sources{{2, 3, 4, kEnd}, {5, kEnd}, {8, 7, 6, 5, 2, 3, kEnd}};
  for (const char* positions : {"learned", "sinusoid", "relative", "none"}) {
    models::Seq2Seq model(config_of(positions));
    replicate::TaskConfig config;
    config.batch = kRows;
    config.length = kLength;
    config.dtype = DType::f64;
    config.decode.rows = kRows;
    config.decode.beam = 2;
    const replicate::Task task(model, {}, config);
    std::vector<Ids> expected;
    for (const auto& [mesh, rules] : std::vector<std::pair<const char*, const char*>>{
             {"", ""},
             {"b:2", "batch:b"},
             {"m:2", "vocab:m,heads:m,d_ff:m"},
             {"m:2", "memory:m,source_length:m,length:m"},
             {"b:3,m:2", "batch:b,vocab:m,heads:m"}}) {
      INFO(positions << " " << mesh << " under " << rules);
      plan::PlanOptions plan;
      plan.mesh = MeshShape::parse(mesh, 0);
      plan.layout = Layout::parse(rules);
      test::SimulatedRun run(task.variables(), task.graphs(), plan);
      run.executor().initialize(5);
      // Biases by distance are zero at first.
      for (const auto& variable : task.variables())
        if (variable.kind == Variable::Kind::weight && variable.name.ends_with("relative_bias"))
          run.set_variable(variable.name,
                           test::waves(static_cast<int>(variable.spec.shape.size()), 0.7));
      test::Values inputs;
      for (const Ids& source : sources) add_row(inputs, "source_", "source", source);
      run.run("encode", inputs);
      const auto found =
          train::beam_search(run.executor(), {Ids(kRows, 0), 0},
                             {.beam = 2, .alpha = 0.6, .max_length = kLength, .end = kEnd});
      std::vector<Ids> best;
      for (const auto& row : found) best.push_back(row.front().tokens);
      const auto scores = log_probabilities(run, sources, best);
      for (std::size_t row = 0; row < best.size(); ++row)
        CHECK(found[row].front().log_probability == Approx(scores[row]).margin(1e-9));
      if (expected.empty()) expected = best;
      CHECK(best == expected);
    }
  }
}
