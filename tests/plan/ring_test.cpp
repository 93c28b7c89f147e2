// SPDX-License-Identifier: BSD-3-Clause
// Attention over a length that is cut: what is planned, from few ranks to many.
#include "support/catch.hpp"
#include "tessera/ops/attention.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t kBatch = 1, kLength = 65536, kHeads = 8, kDepth = 64;

struct Attention {
  VariableSet variables;
  Graph graph{"micro", variables};

  explicit Attention(const ops::AttentionOptions& options) {
    const Shape shape{{"batch", kBatch}, {"length", kLength}, {"heads", kHeads}, {"d", kDepth}};
    std::vector<Tensor> inputs;
    for (const char* name : {"q", "k", "v"})
      inputs.push_back(graph.input(name, {shape, DType::f32}));
    const Tensor out = ops::attention(inputs[0], inputs[1], inputs[2], options);
    const auto slopes = gradients(ops::reduce_sum(ops::multiply(out, out), Shape{}), inputs);
    for (std::size_t i = 0; i < slopes.size(); ++i)
      graph.fetch("d_" + std::to_string(i), ops::reduce_sum(slopes[i], Shape{}));
  }

  program::Program on(std::int64_t ranks) const {
    plan::PlanOptions options;
    options.mesh = MeshShape({{"seq", ranks}});
    options.layout = Layout::parse("length:seq");
    return plan::compile(variables, {&graph}, options);
  }
};

/// Calls and bytes of one rank's exchanges with its neighbours.
program::CollectiveRow exchanges(const program::Program& program) {
  program::CollectiveRow sum;
  for (const auto& row : plan::collectives_of(program, program.sections[0]))
    if (row.op == program::CollectiveKind::neighbour_exchange) sum = row;
  return sum;
}

}  // namespace

TEST_CASE("a ring's program is as long on many ranks as on few, and its memory falls") {
  const Attention attention({.keys = "ring"});
  const auto few = attention.on(8), many = attention.on(512), most = attention.on(16384);
  for (const auto& [program, ranks] : {std::pair{&few, 8}, {&many, 512}, {&most, 16384}}) {
    INFO(ranks << " ranks");
    const auto& section = program->sections[0];
    CHECK(section.steps.size() == few.sections[0].steps.size());
    REQUIRE(section.repeats.size() == 2);  // forward and backward
    for (const auto& repeat : section.repeats) CHECK(repeat.count == ranks - 2);
    const auto row = exchanges(*program);
    // Forward: keys and values pass all other ranks. Backward: their gradients with them, and home.
    CHECK(row.count == 2 * (ranks - 1) + 1);
    CHECK(row.messages == row.count);
    const std::int64_t tile = kBatch * kLength * kHeads * kDepth * 4 / ranks;
    CHECK(row.bytes == tile * (2 * (ranks - 1) + 4 * (ranks - 1) + 2));
    CHECK(row.bytes_all_ranks == ranks * row.bytes);
    // Inputs, results, gradients, what travels and its staging: no more than so many tiles.
    CHECK(section.arena_bytes - section.workspace_bytes < 40 * tile + (1 << 16));
  }
  CHECK(few.hash() != many.hash());
}

TEST_CASE("a causal mask leaves the last rank most to do, and all ranks together what one has") {
  constexpr double kProducts = 7;  // two forward, five backward
  const double one_product = 2.0 * kBatch * kHeads * kDepth * kLength;  // of all queries with a key
  for (const std::int64_t ranks : {2, 8, 512}) {
    for (const char* keys : {"gather", "ring"}) {
      INFO(keys << " on " << ranks);
      const Attention causal({.keys = keys}), full({.causal = false, .keys = keys});
      const auto attention_flops = [&](const Attention& attention, double* all) {
        const auto program = attention.on(ranks);
        const auto& section = program.sections[0];
        double flops = 0, others = 0;
        for (std::size_t i = 0; i < section.steps.size(); ++i)
          if (const auto* kernel = std::get_if<program::KernelStep>(&section.steps[i]))
            (kernel->kernel.starts_with("attention") ? flops : others) +=
                kernel->flops * static_cast<double>(section.times(static_cast<int>(i)));
        *all = section.flops_all_ranks - others * static_cast<double>(ranks);
        return flops;
      };
      double all = 0;
      // Per rank, in keys that a query of it sees on average.
      const auto share = one_product / static_cast<double>(ranks) * kProducts;
      const double tile = static_cast<double>(kLength) / static_cast<double>(ranks);
      CHECK(attention_flops(causal, &all) == Approx(share * (kLength - 0.5 * tile)));
      CHECK(all == Approx(kProducts * one_product * 0.5 * kLength));
      CHECK(attention_flops(full, &all) == Approx(share * kLength));
      CHECK(all == Approx(kProducts * one_product * kLength));
    }
  }
}

TEST_CASE("automatic: few ranks gather keys, many pass them in a ring, a window asks neighbours") {
  const Attention automatic({}), window({.window = 100});
  CHECK(exchanges(automatic.on(4)).count == 0);
  CHECK(exchanges(automatic.on(8)).count == 15);
  const auto row = exchanges(window.on(8));
  // k and v forward and again backward, dk and dv back: one message each to one neighbour.
  CHECK(row.messages == 6);
  CHECK(row.bytes == 6 * 99 * kBatch * kHeads * kDepth * 4);
}
