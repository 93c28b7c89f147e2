// SPDX-License-Identifier: BSD-3-Clause
// An operation that asks its neighbours for a halo: moving sums along a dim that may be cut.
#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/ops/exchange.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/plan/report.hpp"
#include "tessera/program/emitter.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// y[i] = sum over j < extent of (j + 1) x[i * stride - before + j] along the middle dim of three.
struct Filter {
  std::int64_t count, stride, before, extent;
};

/// Forward, or with `back` the slope of x from that of y. Outside of x there are zeros.
template <class Visit>
void for_each_term(const kernels::Tile& x, const kernels::Tile& y, const Filter& f,
                   const Visit& visit) {
  const auto at = [](const kernels::Tile& t, std::int64_t a, std::int64_t n, std::int64_t b) {
    return ((a * t.extent[1] + n - t.offset[1]) * t.extent[2]) + b;
  };
  for (std::int64_t a = 0; a < y.extent[0]; ++a)
    for (std::int64_t i = y.offset[1]; i < y.offset[1] + y.extent[1]; ++i)
      for (std::int64_t j = 0; j < f.extent; ++j) {
        const std::int64_t n = i * f.stride - f.before + j;
        if (n < 0 || n >= x.global[1]) continue;
        for (std::int64_t b = 0; b < y.extent[2]; ++b)
          visit(at(x, a, n, b), at(y, a, i, b), static_cast<double>(j + 1));
      }
}

Filter filter_of(const kernels::Call& call) {
  return {0, call.attributes.integer("stride"), call.attributes.integer("before"),
          call.attributes.integer("extent")};
}

void moving_sum(const device::Exec&, const kernels::Call& call) {
  const kernels::Tile &x = call.inputs[0], &y = call.outputs[0];
  std::fill(y.as<double>(), y.as<double>() + y.size(), 0.0);
  for_each_term(x, y, filter_of(call), [&](auto from, auto to, double weight) {
    y.as<double>()[to] += weight * x.as<double>()[from];
  });
}

void moving_sum_back(const device::Exec&, const kernels::Call& call) {
  const kernels::Tile &dy = call.inputs[0], &dx = call.outputs[0];
  std::fill(dx.as<double>(), dx.as<double>() + dx.size(), 0.0);
  for_each_term(dx, dy, filter_of(call), [&](auto to, auto from, double weight) {
    dx.as<double>()[to] += weight * dy.as<double>()[from];
  });
}

class MovingSum : public Operation {
 public:
  MovingSum(Filter filter, Window::Outside outside, bool back, Shape result)
      : filter_(filter), outside_(outside), back_(back), result_(std::move(result)) {}
  std::string type() const override { return back_ ? "test_moving_sum_back" : "test_moving_sum"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    return {{result_, inputs[0].dtype}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(
        std::make_shared<MovingSum>(filter_, outside_, !back_, inputs[0].shape()),
        {output_gradients[0]})};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies = ops::passing_cuts(context, [](const std::string&) { return true; });
    const TensorSpec& x = back_ ? context.outputs[0] : context.inputs[0];
    for (auto& strategy : strategies)
      if (strategy.inputs[0].dim == 1)
        strategy.bytes = ops::window_bytes(x, 1, windows()[1], context.ways);
    ops::add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    const Attributes attributes{
        {"stride", filter_.stride}, {"before", filter_.before}, {"extent", filter_.extent}};
    if (!back_) {
      const auto x = emitter.exchange(emitter.input(0), windows());
      emitter.kernel(type(), attributes, {x}, {emitter.output(0)});
      return;
    }
    const auto dx = emitter.windowed(emitter.output(0), windows());
    emitter.kernel(type(), attributes, {emitter.input(0)}, {dx});
    emitter.accumulate(dx, emitter.output(0));
  }

 private:
  Windows windows() const {
    return {
        Window::plain(),
        Window::sliding(filter_.count, filter_.stride, filter_.before, filter_.extent, outside_),
        Window::plain()};
  }
  Filter filter_;
  Window::Outside outside_;
  bool back_;
  Shape result_;
};

const Shape kShape{{"a", 2}, {"n", 7}, {"b", 3}};

Tensor filtered(Tensor x, const Filter& filter, Window::Outside outside) {
  static const bool registered = [] {
    kernels::register_kernel("test_moving_sum", moving_sum);
    kernels::register_kernel("test_moving_sum_back", moving_sum_back);
    return true;
  }();
  (void)registered;
  return x.graph().add1(
      std::make_shared<MovingSum>(filter, outside, false, x.shape().resized("n", filter.count)),
      {x});
}

}  // namespace

TEST_CASE("an operation with a halo gives the same on every mesh, its gradient too") {
  for (const Filter& f : {Filter{7, 1, 1, 3}, {7, 1, 4, 9}, {3, 2, 0, 3}, {4, 2, 1, 2}})
    for (const auto outside : {Window::Outside::clip, Window::Outside::fill}) {
      OpCase c;
      c.name = "moving sum of " + std::to_string(f.extent);
      c.inputs = {{"x", kShape}};
      c.build = [=](Graph&, const std::vector<Tensor>& in) { return filtered(in[0], f, outside); };
      c.reference = [=](const Values& values) {
        const auto& x = values.at("x");
        const Shape result = kShape.resized("n", f.count);
        std::vector<double> y(static_cast<std::size_t>(result.size()));
        for (std::int64_t a = 0; a < 2; ++a)
          for (std::int64_t i = 0; i < f.count; ++i)
            for (std::int64_t j = 0; j < f.extent; ++j)
              for (std::int64_t b = 0; b < 3; ++b) {
                const std::int64_t n = i * f.stride - f.before + j;
                if (n >= 0 && n < 7)
                  y[at(result, {a, i, b})] += static_cast<double>(j + 1) * x[at(kShape, {a, n, b})];
              }
        return y;
      };
      check_op(c);
    }
}

TEST_CASE("a halo is one message for each side") {
  for (const auto& [mesh, messages] : {std::pair{"p:2", 1}, {"p:3", 2}, {"p:7", 2}}) {
    VariableSet variables;
    Graph graph("op", variables);
    graph.fetch(
        "y", filtered(graph.input("x", {kShape, DType::f64}), {7, 1, 1, 3}, Window::Outside::clip));
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse("n:p");
    const auto program = plan::compile(variables, {&graph}, options);
    const auto rows = plan::collectives_of(program, program.sections[0]);
    REQUIRE(rows.size() == 2);  // the fetch gathers y
    CHECK(rows[1].op == program::CollectiveKind::neighbour_exchange);
    CHECK(rows[1].count == 1);
    CHECK(rows[1].messages == messages);
    CHECK(rows[1].bytes == messages * 2 * 3 * 8);
  }
}
