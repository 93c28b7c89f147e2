// SPDX-License-Identifier: BSD-3-Clause
// Placement on logical devices: messages, memory and order of a chain of equal layers, each on a
// device of its own, against what follows from counting; what the replay of stages' lists finds.
#include <algorithm>
#include <functional>
#include <map>

#include "plan/replay.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/cost_model.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;

namespace {

/// True if the call throws and its message has all these parts.
bool complains(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    UNSCOPED_INFO(text);
    return std::all_of(parts.begin(), parts.end(),
                       [&](const auto& part) { return text.find(part) != std::string::npos; });
  }
  return false;
}

constexpr std::int64_t kBatch = 256, kWidth = 128, kLayers = 6;

std::string dim_name(std::int64_t i) {
  return "d" + std::to_string(i);
}

/// `devices` logical devices with kLayers square layers each; device `order[k]` comes k-th.
struct Chain {
  VariableSet variables;
  Graph micro{"micro", variables};
  Graph next{"micro_next", variables};
  Graph update{"update", variables};
  std::vector<std::int64_t> order;

  Chain(std::int64_t devices, std::int64_t micro_batches, std::vector<std::int64_t> visits = {})
      : order(std::move(visits)) {
    if (order.empty())
      for (std::int64_t k = 0; k < devices; ++k) order.push_back(k);
    variables.set_logical_devices(devices);
    build(micro, true);
    if (micro_batches > 1) {
      build(next, false);
      next.follow("micro", micro_batches - 1);
    }
    std::vector<std::string> weights;
    for (const auto& variable : variables)
      if (variable.kind == Variable::Kind::weight) weights.push_back(variable.name);
    for (const auto& name : weights)
      update.assign(name, ops::subtract(update.read(name), update.read("gradient/" + name)));
    is_long = micro_batches > 1;
  }
  bool is_long = false;

  void build(Graph& graph, bool first) {
    Tensor h = graph.input("x", {Shape{{"batch", kBatch}, {dim_name(0), kWidth}}, DType::f32});
    std::vector<Tensor> weights;
    std::int64_t layer = 0;
    for (const std::int64_t device : order) {
      const Graph::Device scope(graph, device);
      for (std::int64_t i = 0; i < kLayers; ++i, ++layer) {
        const Shape shape{{dim_name(layer), kWidth}, {dim_name(layer + 1), kWidth}};
        weights.push_back(graph.variable({"w" + std::to_string(layer),
                                          {shape, DType::f32},
                                          Variable::Kind::weight,
                                          {},
                                          true,
                                          true,
                                          ""}));
        h = ops::relu(ops::einsum({h, weights.back()},
                                  Shape{{"batch", kBatch}, {dim_name(layer + 1), kWidth}}));
      }
    }
    const Tensor loss = ops::reduce_sum(ops::multiply(h, h), Shape{});
    graph.fetch("loss", loss);
    const auto slopes = gradients(loss, weights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::string name = "gradient/" + weights[i].name();
      variables.declare(
          {name, weights[i].spec(), Variable::Kind::gradient, {}, true, true, weights[i].name()});
      graph.accumulate(name, slopes[i], first);
    }
  }

  program::Program compile(const std::string& mesh, const std::string& rules = "") const {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(rules);
    std::vector<const Graph*> graphs{&micro};
    if (is_long) graphs.push_back(&next);
    graphs.push_back(&update);
    return plan::compile(variables, graphs, options);
  }
};

/// The largest number of micro-batches that a stage has begun and not ended, at any time.
int most_under_way(const program::Section& section, int stage) {
  std::map<int, std::pair<int, int>> spans;  // by micro-batch: first and last step
  for (int i = 0; i < static_cast<int>(section.steps.size()); ++i) {
    const auto& step = section.steps[static_cast<std::size_t>(i)];
    const auto* kernel = std::get_if<program::KernelStep>(&step);
    if (!kernel || program::stages_of(section, step).at != stage) continue;
    auto& span = spans.emplace(kernel->micro, std::pair(i, i)).first->second;
    span.second = i;
  }
  CHECK(static_cast<int>(spans.size()) == section.micro_batches);
  int most = 0;
  for (const auto& [micro, span] : spans) {
    int now = 0;
    for (const auto& [other, its] : spans)
      now += its.first <= span.first && span.first <= its.second;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_CASE("messages of a pipeline: activations forth, their gradients back") {
  for (const int stages : {2, 3, 4})
    for (const int micro_batches : {1, 2, 5}) {
      INFO(stages << " stages, " << micro_batches << " micro-batches");
      const Chain chain(4, micro_batches);
      for (const auto& [mesh, ways] : {std::pair("stage:" + std::to_string(stages), 1),
                                       std::pair("batch:2,stage:" + std::to_string(stages), 2)}) {
        const auto program = chain.compile(mesh, ways > 1 ? "batch:batch" : "");
        REQUIRE(program.section("micro").micro_batches == micro_batches);
        CHECK(!program.has_section("micro_next"));
        const auto rows = plan::collectives_of(program, program.section("micro"));
        REQUIRE(rows.size() == 1);
        const std::int64_t bytes = kBatch * kWidth * 4, m = micro_batches;
        CHECK(rows[0].op == program::CollectiveKind::neighbour_exchange);
        CHECK(rows[0].count == 2 * (stages - 1) * m);
        CHECK(rows[0].bytes_all_ranks == 2 * (stages - 1) * m * bytes);
        // One inside sends to both sides.
        CHECK(rows[0].messages == (stages > 2 ? 2 : 1) * m);
        CHECK(rows[0].bytes == (stages > 2 ? 2 : 1) * m * bytes / ways);
      }
    }
}

TEST_CASE("a stage holds its weights alone, in the memory that others have for theirs") {
  const Chain chain(4, 1);
  const std::int64_t layer = kWidth * kWidth * 4;
  for (const auto& [stages, most] :
       {std::pair(1, 4), std::pair(2, 2), std::pair(3, 2), std::pair(4, 1)}) {
    const auto program = chain.compile("stage:" + std::to_string(stages));
    const auto bytes = plan::report(program, {{"micro", 1}}).bytes_per_rank;
    CHECK(bytes.parameters == most * kLayers * layer);
    CHECK(bytes.gradients == most * kLayers * layer);
    CHECK(program.variable_bytes == 2 * most * kLayers * layer);
  }
  // Blocks of devices as tiles are blocks of indices: of 4 on 3 stages the last has two.
  const auto program = chain.compile("stage:3");
  std::vector<int> at;
  for (std::int64_t device = 0; device < 4; ++device)
    at.push_back(program.variables[static_cast<std::size_t>(device * kLayers)].placement[0].dim);
  CHECK(at == std::vector<int>{0, 1, 2, 2});
}

TEST_CASE("1F1B: stage s of p has at most p - s micro-batches under way") {
  for (const int stages : {2, 3, 4})
    for (const int micro_batches : {2, 4, 9}) {
      const Chain chain(4, micro_batches);
      const auto program = chain.compile("stage:" + std::to_string(stages));
      const auto& section = program.section("micro");
      for (int stage = 0; stage < stages; ++stage) {
        INFO("stage " << stage << " of " << stages << ", " << micro_batches << " micro-batches");
        CHECK(most_under_way(section, stage) == std::min(stages - stage, micro_batches));
      }
    }
  // So what they keep does not grow with their number; inputs are there from the start.
  const std::int64_t input = kBatch * kWidth * 4;
  const auto bytes = [&](int micro_batches) {
    return Chain(4, micro_batches).compile("stage:4").section("micro").arena_bytes -
           micro_batches * input;
  };
  CHECK(bytes(16) <= bytes(8) + input);
}

TEST_CASE("the bubble of equal stages is (p - 1) / (m + p - 1)") {
  plan::Machine machine;
  for (const int stages : {2, 4})
    for (const int micro_batches : {1, 4, 12}) {
      const Chain chain(4, micro_batches);
      const auto program = chain.compile("stage:" + std::to_string(stages));
      const auto predicted =
          plan::CostModel(machine, program.mesh, 0).predict(program, {{"micro", 1}});
      INFO(stages << " stages, " << micro_batches << " micro-batches");
      REQUIRE(predicted.stages.size() == static_cast<std::size_t>(stages));
      const double expected = (stages - 1.0) / (micro_batches + stages - 1.0);
      // Stages send, and the first one has no gradient of its input to compute.
      CHECK(predicted.bubble == Approx(expected).margin(0.06));
      CHECK(predicted.step == Approx(predicted.compute + predicted.communication +
                                     predicted.waiting + predicted.host));
    }
  const auto whole = Chain(4, 4).compile("stage:1");
  CHECK(plan::CostModel(machine, whole.mesh, 0)
            .predict(whole, {{"micro", 1}, {"micro_next", 3}})
            .stages.empty());
}

TEST_CASE("a replay finds damaged lists") {
  const Chain chain(4, 1);
  const auto program = chain.compile("stage:3");
  const auto& section = program.section("micro");
  const auto lists = plan::stage_lists(section, program.mesh);
  REQUIRE(lists.size() == 3);
  CHECK_NOTHROW(plan::replay(section, lists));
  using Kind = plan::StageAction::Kind;
  const auto find = [](plan::StageList& list, Kind kind, int number = 0) {
    for (auto it = list.begin(); it != list.end(); ++it)
      if (it->kind == kind && number-- == 0) return it;
    FAIL("no such action");
    return list.end();
  };
  SECTION("a message that nobody receives") {
    auto damaged = lists;
    damaged[1].erase(find(damaged[1], Kind::receive));
    CHECK(complains([&] { plan::replay(section, damaged); },
                    {"stage 1 reads", "neither computed nor received"}));
  }
  SECTION("a message that nobody sends") {
    auto damaged = lists;
    damaged[2].erase(find(damaged[2], Kind::send));
    CHECK(complains([&] { plan::replay(section, damaged); }, {"receiving"}));
  }
  SECTION("two messages that stages wait for crosswise") {
    auto damaged = lists;
    // Stage 1 waits for a gradient before it has sent what stage 2 computes it from.
    const auto send = find(damaged[1], Kind::send);
    const auto action = *send;
    damaged[1].erase(send);
    damaged[1].push_back(action);
    CHECK(complains([&] { plan::replay(section, damaged); }, {"wait for each other"}));
  }
  SECTION("a message to the wrong stage") {
    auto damaged = lists;
    find(damaged[0], Kind::send)->peer = 2;
    CHECK(complains([&] { plan::replay(section, damaged); }, {"wait for each other"}));
    damaged = lists;
    find(damaged[0], Kind::send)->peer = 3;
    CHECK(complains([&] { plan::replay(section, damaged); }, {"no such other side"}));
  }
  SECTION("a message of another size") {
    auto damaged = lists;
    find(damaged[0], Kind::send)->bytes += 4;
    CHECK(complains([&] { plan::replay(section, damaged); }, {"bytes) meets"}));
  }
  SECTION("a message sent before it is computed") {
    auto damaged = lists;
    const auto send = find(damaged[0], Kind::send);
    std::rotate(damaged[0].begin(), send, send + 1);
    CHECK(complains([&] { plan::replay(section, damaged); }, {"neither computed nor received"}));
  }
  SECTION("a step left out") {
    auto damaged = lists;
    damaged[1].erase(find(damaged[1], Kind::step));
    CHECK(complains([&] { plan::replay(section, damaged); }, {"neither computed nor received"}));
  }
  SECTION("a message lost in the section itself") {
    auto other = section;
    other.steps.erase(std::find_if(other.steps.begin(), other.steps.end(), [](const auto& step) {
      return std::holds_alternative<program::TransferStep>(step);
    }));
    CHECK(complains([&] { plan::replay(other, plan::stage_lists(other, program.mesh)); },
                    {"neither computed nor received"}));
  }
}

TEST_CASE("values may go back and forth between devices") {
  for (const int micro_batches : {1, 3}) {
    const Chain chain(3, micro_batches, {0, 1, 0, 2, 1});
    const auto program = chain.compile("stage:3");
    const auto& section = program.section("micro");
    CHECK(section.micro_batches == micro_batches);
    const auto rows = plan::collectives_of(program, section);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].count == 2 * 4 * micro_batches);
  }
}

TEST_CASE("what is illegal is refused, naming the nearest fix") {
  const Chain chain(3, 1);
  CHECK(complains([&] { chain.compile("stage:4"); }, {"stage:4", "3 logical devices", "stage:3"}));
  CHECK(complains([&] { chain.compile("stage:2", "d1:stage"); }, {"d1:stage", "another name"}));
  CHECK(complains([&] { Chain(1, 1, {0}).compile("stage:2"); },
                  {"logical_device", "all stages would do the same"}));
  // With a rule it is a mesh dim like others.
  CHECK_NOTHROW(Chain(1, 1, {0}).compile("stage:2", "d1:stage"));
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("stage:2", 0);
  options.shard = "stage";
  CHECK(complains(
      [&] {
        plan::compile(chain.variables, {&chain.micro, &chain.update}, options);
      },
      {"optim.shard", "lives on one stage"}));

  VariableSet variables;
  variables.set_logical_devices(2);
  Graph graph("micro", variables);
  const Tensor x = graph.input("x", {Shape{{"a", 3}}, DType::f32});
  CHECK(complains([&] { const Graph::Device device(graph, 2); },
                  {"logical device 2 of a model with 2 logical devices"}));
  Tensor one, two;
  {
    const Graph::Device device(graph, 0);
    one = ops::multiply(x, 2.0);
    graph.variable(
        {"w", {Shape{{"a", 3}}, DType::f32}, Variable::Kind::weight, {}, true, true, ""});
  }
  {
    const Graph::Device device(graph, 1);
    two = ops::multiply(x, 3.0);
    CHECK(complains(
        [&] {
          graph.variable(
              {"w", {Shape{{"a", 3}}, DType::f32}, Variable::Kind::weight, {}, true, true, ""});
        },
        {"'w'", "lives on logical device 0", "made again on logical device 1"}));
    CHECK_NOTHROW(ops::add(one, two));
  }
  CHECK(complains([&] { ops::add(one, two); },
                  {"on logical device 0", "on logical device 1", "logical_device(k)"}));
  CHECK_NOTHROW(ops::add(ops::reduce_sum(one, Shape{}), ops::reduce_sum(two, Shape{})));
  const Graph::Device everywhere(graph, kEverywhere);
  CHECK_NOTHROW(ops::add(one, two));
}
