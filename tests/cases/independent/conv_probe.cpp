// SPDX-License-Identifier: BSD-3-Clause
// Convolutions and poolings for jax_ops_test.py. Reads cases: "conv", "transpose", "max" or
// "average", then batch, groups, in, out and the number of dims of space, then for each of these
// size, taps, stride, dilation, padding before and after. Inputs are sin(i + 1), sin(2 i + 1) and,
// for the slope of the result, sin(3 i + 1). Prints one line each: the result and its gradients.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "support/simulated_run.hpp"
#include "tessera/ops/conv.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pool.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;

namespace {

std::vector<double> wave(std::int64_t count, double step) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(step * double(i) + 1));
  return values;
}

struct Case {
  std::string kind;
  std::int64_t batch, groups, in, out;
  std::vector<ops::ConvDim> space;
  std::vector<Dim> sizes, taps;

  bool read(std::istream& from) {
    std::size_t dims;
    if (!(from >> kind >> batch >> groups >> in >> out >> dims)) return false;
    space.resize(dims);
    for (std::size_t d = 0; d < dims; ++d) {
      const std::string name = std::to_string(d);
      ops::ConvDim& dim = space[d];
      std::int64_t size, count;
      from >> size >> count >> dim.stride >> dim.dilation >> dim.before >> dim.after;
      dim.dim = "x" + name, dim.kernel = "k" + name;
      sizes.push_back({dim.dim, size}), taps.push_back({dim.kernel, count});
    }
    return true;
  }

  bool pools() const { return kind == "max" || kind == "average"; }
  /// [batch, space, groups, channels]; the sizes along space of a convolution's result if
  /// `reduced`.
  Shape image(const std::string& channels, std::int64_t count, bool reduced) const {
    std::vector<Dim> dims{{"batch", batch}};
    for (std::size_t d = 0; d < space.size(); ++d) {
      const auto& s = space[d];
      const std::int64_t room =
          sizes[d].size + s.before + s.after - (taps[d].size - 1) * s.dilation - 1;
      dims.push_back({sizes[d].name, reduced ? room / s.stride + 1 : sizes[d].size});
    }
    dims.push_back({"groups", groups});
    dims.push_back({channels, count});
    return Shape(dims);
  }
  Shape filter() const {
    std::vector<Dim> dims = taps;
    for (const Dim& dim : {Dim{"groups", groups}, Dim{"in", in}, Dim{"out", out}})
      dims.push_back(dim);
    return Shape(dims);
  }
  Tensor build(Tensor x, Tensor w) const {
    if (kind == "conv") return ops::conv(x, w, space, {"groups"});
    if (kind == "transpose") {
      std::vector<std::int64_t> wanted;
      for (const Dim& dim : sizes) wanted.push_back(dim.size);
      return ops::conv_transpose(x, w, space, wanted, {"groups"});
    }
    std::vector<ops::PoolDim> windows;
    for (std::size_t d = 0; d < space.size(); ++d)
      windows.push_back(
          {space[d].dim, taps[d].size, space[d].stride, space[d].before, space[d].after});
    return kind == "max" ? ops::max_pool(x, windows) : ops::average_pool(x, windows);
  }
};

void print(const std::vector<double>& values) {
  for (double value : values) std::printf("%.17g ", value);
  std::printf("\n");
}

void run(const Case& c) {
  VariableSet variables;
  Graph graph("op", variables);
  const bool back = c.kind == "transpose";
  const Shape image = c.image(back ? "out" : "in", back ? c.out : c.in, back);
  const Tensor x = graph.input("x", {image, DType::f64});
  const Tensor w = graph.input("w", {c.filter(), DType::f64});
  const Tensor y = c.build(x, w);
  const Tensor slope = graph.input("slope", {y.shape(), DType::f64});
  const Tensor sum = ops::reduce_sum(ops::multiply(y, slope), Shape{});
  std::vector<Tensor> targets{x};
  if (!c.pools()) targets.push_back(w);
  const auto slopes = gradients(sum, targets);
  graph.fetch("y", y);
  graph.fetch("dx", slopes[0]);
  if (!c.pools()) graph.fetch("dw", slopes[1]);
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("p:2", 0);
  options.layout = Layout::parse("x0:p");
  test::SimulatedRun run(variables, {&graph}, options);
  run.run("op", {{"x", wave(image.size(), 1)},
                 {"w", wave(c.filter().size(), 2)},
                 {"slope", wave(y.shape().size(), 3)}});
  print(run.fetch("op", "y"));
  print(run.fetch("op", "dx"));
  if (!c.pools()) print(run.fetch("op", "dw"));
}

}  // namespace

int main() {
  for (Case c; c.read(std::cin); c = {}) run(c);
  return 0;
}
