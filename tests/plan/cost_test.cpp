// SPDX-License-Identifier: BSD-3-Clause
// The cost model against sums by hand, and its fits against rates that made the samples.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/plan/cost_model.hpp"
#include "tessera/plan/fit.hpp"
#include "tessera/plan/planner.hpp"

using namespace tessera;
using program::CollectiveKind;

namespace {

struct Product {
  VariableSet variables;
  Graph graph{"micro", variables};
  program::Program program;

  Product(const std::string& mesh, const std::string& rules, std::int64_t batch = 24) {
    const Tensor a = graph.input("a", {Shape{{"b", batch}, {"k", 40}}, DType::f32});
    const Tensor w = graph.input("w", {Shape{{"k", 40}, {"n", 64}}, DType::f32});
    graph.fetch("y", ops::exp(ops::einsum({a, w}, Shape{{"b", batch}, {"n", 64}})));
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(rules);
    program = plan::compile(variables, {&graph}, options);
  }
};

plan::Machine machine() {
  plan::Machine machine;
  machine.cores = 2;
  machine.measured_ranks = 2;
  machine.step_seconds = 0;
  machine.alone["einsum.f32"] = {1, 10, 1e-3, 0, 0, 1e-2};
  machine.together["einsum.f32"] = {2, 20, 2e-3, 0, 0, 2e-2};
  machine.alone["pointwise.f32"] = {3, 1e-3, 7, 0, 1e-1, 0};
  machine.links["all_reduce"] = {5, 1e-3};
  return machine;
}

std::string complaint_of(const std::string& file) {
  return test::message_of([&] { plan::Machine::read(file); });
}

}  // namespace

TEST_CASE("Local steps cost their units by the machine's rates") {
  const Product product("", "");
  const auto m = machine();
  const auto seconds =
      plan::CostModel(m, product.program.mesh, 0).predict(product.program, {{"micro", 2}});
  const double y = 24 * 64;
  const double einsum = 1 + 10 + 1e-3 * 2 * 24 * 40 * 64 + 1e-2 * y;
  const double pointwise = 3 + 1e-3 * 8 * y + 1e-1 * y;
  CHECK(seconds.compute == Approx(2 * (einsum + pointwise)));
  CHECK(seconds.step == Approx(seconds.compute));
  CHECK(seconds.by_kind.at("einsum.f32") == Approx(2 * einsum));
}

TEST_CASE("Ranks of a node slow each other down, and take turns beyond its cores") {
  const auto m = machine();
  const auto at = [&](std::int64_t ranks) { return m.rates("einsum.f32", ranks)[0]; };
  CHECK(at(1) == 1);
  CHECK(at(2) == 2);
  CHECK(at(4) == 4);
  // One kind was measured alone only.
  CHECK(m.rates("pointwise.f32", 2)[0] == 3);
}

TEST_CASE("A summed dim that is cut costs an all_reduce over its mesh dim") {
  const Product product("x:2,y:4", "k:y, b:x");
  const auto m = machine();
  const plan::CostModel model(m, product.program.mesh, 8);
  const auto seconds = model.predict(product.program, {{"micro", 1}});
  const double bytes = 12 * 64 * 4;
  const double few = 2 * (5 + bytes * 1e-3), many = 2 * 2 * 5 + 2 * 3 / 4.0 * bytes * 1e-3;
  CHECK(seconds.by_mesh_dims.at({1}) == Approx(std::min(few, many)));
  CHECK(seconds.exposed == seconds.communication);
}

TEST_CASE("Mesh dims that leave a node pay for the network, which its ranks share") {
  const MeshShape mesh = MeshShape::parse("x:4,y:8", 0);
  plan::Machine m;
  m.latency = 1;
  m.bandwidth = 1000;
  m.network_latency = 10;
  m.network_bandwidth = 100;
  const plan::CostModel model(m, mesh, 8);
  const auto seconds = [&](std::vector<int> dims) {
    return model.seconds_of(plan::Transfer{CollectiveKind::all_gather, dims, 800, 1});
  };
  CHECK(seconds({1}) == Approx(3 * 1 + 7 / 8.0 * 800 / 1000));
  // 8 ranks of the node gather at once over its one connection.
  CHECK(seconds({0}) == Approx(2 * 10 + 3 / 4.0 * 800 * 8 / 100));
  CHECK(seconds({0, 1}) == Approx(3 * 1 + 7 / 8.0 * 0.8 + 2 * 10 + 3 / 4.0 * 8));
}

TEST_CASE("A flight over the network hides behind work, inside a node behind nothing") {
  // Start, `kernels` passes over other elements, finish; then the same flight again.
  const auto seconds = [](int kernels, std::int64_t ranks_per_node) {
    program::Program program;
    program.mesh = MeshShape::parse("x:4", 0);
    auto& section = program.sections.emplace_back();
    section.name = "micro";
    for (int i = 0; i < 2; ++i) {
      auto& buffer = section.buffers.emplace_back();
      buffer.spec = {Shape{{"n", 1000}}, DType::f32};
      buffer.placement = Placement(1);
      buffer.bytes = 4000;
    }
    program::AllReduceStep reduce;
    reduce.mesh_dims = {0};
    reduce.buffers = {0};
    reduce.contiguous = true;
    program::KernelStep kernel;
    kernel.kernel = "softmax_max";
    kernel.inputs = kernel.outputs = {1};
    for (int flight = 0; flight < 2; ++flight) {
      reduce.flight = flight;
      section.steps.emplace_back(reduce);
      for (int k = 0; k < kernels; ++k) section.steps.emplace_back(kernel);
      section.steps.emplace_back(program::finish_of(reduce));
    }
    plan::Machine m;
    m.step_seconds = 0;
    m.network_latency = 10;
    m.network_bandwidth = 100;
    m.alone["softmax_max.f32"] = m.together["softmax_max.f32"] = {7, 0, 0, 0};
    return plan::CostModel(m, program.mesh, ranks_per_node).predict(program, {{"micro", 3}});
  };
  // Four nodes: halving and doubling takes 4 messages and 3/2 of the bytes.
  const double one = 4 * 10 + 1.5 * 4000 / 100;
  const auto none = seconds(0, 1), some = seconds(5, 1), much = seconds(50, 1);
  CHECK(none.communication == Approx(6 * one));
  CHECK(none.exposed == Approx(6 * one));
  CHECK(some.exposed == Approx(6 * (one - 35)));
  CHECK(some.communication == Approx(6 * one));
  CHECK(some.step == Approx(some.compute + some.exposed + some.host));
  CHECK(much.exposed == Approx(0).margin(1e-9));
  const auto near = seconds(50, 4);
  CHECK(near.exposed == Approx(near.communication));
}

TEST_CASE("What a plan costs grows with its steps, not with its ranks") {
  const auto steps = [](const std::string& mesh) {
    return Product(mesh, "b:x, n:y", 1 << 20).program.sections[0].steps.size();
  };
  CHECK(steps("x:2,y:8") == steps("x:64,y:8"));
  CHECK(steps("x:2,y:8") == steps("x:4096,y:8"));
}

TEST_CASE("A fit finds the rates that made the samples") {
  std::vector<plan::Measured> samples;
  const plan::Units rates{2e-6, 3e-11, 0, 7e-12};
  for (double bytes : {1e3, 1e5, 3e6, 1e8})
    for (double flops : {2e4, 4e6, 1e9}) {
      plan::Measured sample{{"norm_forward.f32", {1, bytes, 0, flops}}, 0};
      for (std::size_t u = 0; u < 4; ++u) sample.seconds += sample.work.units[u] * rates[u];
      samples.push_back(sample);
    }
  const auto fitted = plan::fit_rates(samples).at("norm_forward.f32");
  for (std::size_t u = 0; u < 4; ++u) CHECK(fitted[u] == Approx(rates[u]).epsilon(1e-3));

  const plan::Link link{4e-6, 2e-10};
  for (double members : {2.0, 4.0})
    for (CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_to_all}) {
      std::vector<plan::MeasuredCollective> list;
      for (double bytes : {256.0, 4096.0, 1e6, 3e7})
        list.push_back(
            {kind, bytes, members, plan::collective_seconds(kind, bytes, members, link)});
      CHECK(plan::fit_link(list).alpha == Approx(link.alpha).epsilon(0.02));
      CHECK(plan::fit_link(list).beta == Approx(link.beta).epsilon(0.02));
    }
}

TEST_CASE("A machine's file reads back, and names what is wrong in it") {
  const test::Scratch scratch;
  const std::string file = scratch.path("machine.ini");
  auto m = machine();
  m.name = "a machine";
  m.flops = 3e12;
  std::ofstream(file) << m.to_ini("two\nlines");
  const auto again = plan::Machine::read(file);
  CHECK(again.name == m.name);
  CHECK(again.flops == m.flops);
  CHECK(again.alone == m.alone);
  CHECK(again.together == m.together);
  CHECK(again.links.at("all_reduce").beta == 1e-3);
  std::ofstream(file) << "[machine]\nflopps = 1e12\n";
  CHECK(complaint_of(file).find("machine.flops") != std::string::npos);
  std::ofstream(file) << "[alone]\neinsum.f32 = 1e-6, fast\n";
  CHECK(complaint_of(file).find("fast") != std::string::npos);
  std::ofstream(file) << "[links]\nallreduce = 1e-6, 1e-9\n";
  CHECK(complaint_of(file).find("reduce_scatter") != std::string::npos);
}
