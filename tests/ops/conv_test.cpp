// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/conv.hpp"

#include <tuple>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/graph/graph.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;
using namespace tessera::test;
using ops::ConvDim;

namespace {

/// A convolution of x [n, rows, cols, (g,) in] and filter [kh, kw, (g,) in, out], by its meaning.
struct Sizes {
  std::int64_t n = 2, rows = 5, cols = 4, groups = 1, in = 2, out = 3, kh = 3, kw = 2;
};

Shape image_shape(const Sizes& s, std::int64_t rows, std::int64_t cols, bool grouped,
                  const std::string& channels, std::int64_t count) {
  std::vector<Dim> dims{{"n", s.n}, {"rows", rows}, {"cols", cols}};
  if (grouped) dims.push_back({"g", s.groups});
  dims.push_back({channels, count});
  return Shape(dims);
}

Shape filter_shape(const Sizes& s, bool grouped) {
  std::vector<Dim> dims{{"kh", s.kh}, {"kw", s.kw}};
  if (grouped) dims.push_back({"g", s.groups});
  dims.push_back({"in", s.in});
  dims.push_back({"out", s.out});
  return Shape(dims);
}

std::int64_t outputs(const ConvDim& d, std::int64_t n, std::int64_t k) {
  return (n + d.before + d.after - (k - 1) * d.dilation - 1) / d.stride + 1;
}

/// f(place in x, place in filter, place in y) for all products.
void for_each_product(const Sizes& s, const ConvDim& h, const ConvDim& w,
                      const std::function<void(std::size_t, std::size_t, std::size_t)>& f) {
  const std::int64_t oh = outputs(h, s.rows, s.kh), ow = outputs(w, s.cols, s.kw);
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t i = 0; i < oh; ++i)
      for (std::int64_t j = 0; j < ow; ++j)
        for (std::int64_t p = 0; p < s.kh; ++p)
          for (std::int64_t q = 0; q < s.kw; ++q) {
            const std::int64_t r = i * h.stride + p * h.dilation - h.before;
            const std::int64_t c = j * w.stride + q * w.dilation - w.before;
            if (r < 0 || r >= s.rows || c < 0 || c >= s.cols) continue;
            for (std::int64_t g = 0; g < s.groups; ++g)
              for (std::int64_t a = 0; a < s.in; ++a)
                for (std::int64_t b = 0; b < s.out; ++b)
                  f(static_cast<std::size_t>(
                        (((n * s.rows + r) * s.cols + c) * s.groups + g) * s.in + a),
                    static_cast<std::size_t>((((p * s.kw + q) * s.groups + g) * s.in + a) * s.out +
                                             b),
                    static_cast<std::size_t>((((n * oh + i) * ow + j) * s.groups + g) * s.out + b));
          }
}

OpCase conv_case(const std::string& name, const Sizes& s, ConvDim h, ConvDim w, bool grouped) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", image_shape(s, s.rows, s.cols, grouped, "in", s.in)},
              {"filter", filter_shape(s, grouped)}};
  std::vector<std::string> groups;
  if (grouped) groups.push_back("g");
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::conv(in[0], in[1], std::vector<ConvDim>{h, w}, groups);
  };
  const std::int64_t size =
      s.n * outputs(h, s.rows, s.kh) * outputs(w, s.cols, s.kw) * s.groups * s.out;
  c.reference = [=](const Values& values) {
    std::vector<double> y(static_cast<std::size_t>(size));
    for_each_product(s, h, w, [&](std::size_t x, std::size_t f, std::size_t to) {
      y[to] += values.at("x")[x] * values.at("filter")[f];
    });
    return y;
  };
  return c;
}

OpCase transpose_case(const std::string& name, const Sizes& s, ConvDim h, ConvDim w) {
  OpCase c;
  c.name = name;
  c.inputs = {{"y", image_shape(s, outputs(h, s.rows, s.kh), outputs(w, s.cols, s.kw), false, "out",
                                s.out)},
              {"filter", filter_shape(s, false)}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::conv_transpose(in[0], in[1], {h, w}, {s.rows, s.cols});
  };
  c.reference = [=](const Values& values) {
    std::vector<double> x(static_cast<std::size_t>(s.n * s.rows * s.cols * s.in));
    for_each_product(s, h, w, [&](std::size_t to, std::size_t f, std::size_t y) {
      x[to] += values.at("y")[y] * values.at("filter")[f];
    });
    return x;
  };
  return c;
}

}  // namespace

TEST_CASE("2-D convolutions on all meshes: same, valid, strided, dilated, grouped") {
  const Sizes s;
  const ConvDim h{"rows", "kh", 1, 1, 1, 1}, w{"cols", "kw", 1, 1, 0, 1};
  check_op(conv_case("conv same", s, h, w, false));
  check_op(conv_case("conv valid", s, {"rows", "kh"}, {"cols", "kw"}, false));
  check_op(
      conv_case("conv strided", s, {"rows", "kh", 2, 1, 1, 1}, {"cols", "kw", 3, 1, 0, 1}, false));
  check_op(
      conv_case("conv dilated", s, {"rows", "kh", 1, 2, 2, 1}, {"cols", "kw", 2, 2, 1, 1}, false));
  Sizes grouped = s;
  grouped.n = 1, grouped.groups = 3, grouped.out = 2;
  check_op(conv_case("conv grouped", grouped, h, w, true));
  grouped.in = grouped.out = 1;
  check_op(conv_case("conv depthwise", grouped, h, w, true));
}

TEST_CASE("1x1 convolutions on all meshes, strided or not") {
  Sizes s;
  s.kh = s.kw = 1;
  check_op(conv_case("conv 1x1", s, {"rows", "kh"}, {"cols", "kw"}, false));
  check_op(conv_case("conv 1x1 strided", s, {"rows", "kh", 2}, {"cols", "kw", 3}, false));
}

TEST_CASE("transposed convolutions on all meshes") {
  const Sizes s;
  check_op(transpose_case("transpose", s, {"rows", "kh", 1, 1, 1, 1}, {"cols", "kw", 1, 1, 0, 1}));
  check_op(transpose_case("transpose strided", s, {"rows", "kh", 2, 1, 1, 1}, {"cols", "kw", 3}));
}

TEST_CASE("convolutions over one and three dims equal those of which they are a part") {
  OpCase line;
  line.name = "conv 1-D";
  line.inputs = {{"x", {{"n", 2}, {"length", 7}, {"in", 2}}},
                 {"filter", {{"k", 3}, {"in", 2}, {"out", 2}}}};
  line.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::conv(in[0], in[1], {{"length", "k"}}, ops::Padding::same);
  };
  const Sizes of_line{2, 7, 1, 1, 2, 2, 3, 1};
  line.reference =
      conv_case("", of_line, {"rows", "kh", 1, 1, 1, 1}, {"cols", "kw"}, false).reference;
  check_op(line);

  OpCase cube;
  cube.name = "conv 3-D";
  cube.inputs = {{"x", {{"n", 1}, {"depth", 1}, {"rows", 4}, {"cols", 3}, {"in", 2}}},
                 {"filter", {{"kd", 1}, {"kh", 2}, {"kw", 2}, {"in", 2}, {"out", 2}}}};
  cube.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::conv(in[0], in[1], {{"depth", "kd"}, {"rows", "kh"}, {"cols", "kw"}},
                     ops::Padding::valid);
  };
  const Sizes of_cube{1, 4, 3, 1, 2, 2, 2, 2};
  cube.reference = conv_case("", of_cube, {"rows", "kh"}, {"cols", "kw"}, false).reference;
  check_op(cube);
}

namespace {

const Shape kCube{{"n", 1}, {"depth", 5}, {"rows", 4}, {"cols", 3}, {"in", 2}};
const Shape kCubeFilter{{"kd", 3}, {"kh", 2}, {"kw", 2}, {"in", 2}, {"out", 2}};
const Shape kCubeResult{{"n", 1}, {"depth", 3}, {"rows", 3}, {"cols", 3}, {"out", 2}};
const std::vector<ConvDim> kCubeSpace{
    {"depth", "kd", 2, 1, 1, 1}, {"rows", "kh", 1, 2, 1, 0}, {"cols", "kw", 1, 1, 0, 1}};

/// f(place in kCube, place in kCubeFilter, place in kCubeResult) for all products.
void for_each_cube_product(const std::function<void(std::size_t, std::size_t, std::size_t)>& f) {
  for (std::int64_t i = 0; i < kCubeResult.size() / 2; ++i)
    for (std::int64_t k = 0; k < kCubeFilter.size() / 4; ++k) {
      const std::int64_t to[] = {i / 9, i / 3 % 3, i % 3}, tap[] = {k / 4, k / 2 % 2, k % 2};
      const std::int64_t d = 2 * to[0] + tap[0] - 1, r = to[1] + 2 * tap[1] - 1, c = to[2] + tap[2];
      if (d < 0 || d >= 5 || r < 0 || r >= 4 || c >= 3) continue;
      for (std::int64_t a = 0; a < 2; ++a)
        for (std::int64_t b = 0; b < 2; ++b)
          f(at(kCube, {0, d, r, c, a}), at(kCubeFilter, {tap[0], tap[1], tap[2], a, b}),
            at(kCubeResult, {0, to[0], to[1], to[2], b}));
    }
}

}  // namespace

TEST_CASE("3-D convolutions on all meshes, strided along one dim and dilated along another") {
  OpCase c;
  c.name = "conv 3-D, strided and dilated";
  c.inputs = {{"x", kCube}, {"filter", kCubeFilter}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::conv(in[0], in[1], kCubeSpace);
  };
  c.reference = [](const Values& values) {
    std::vector<double> y(static_cast<std::size_t>(kCubeResult.size()));
    for_each_cube_product([&](std::size_t x, std::size_t f, std::size_t to) {
      y[to] += values.at("x")[x] * values.at("filter")[f];
    });
    return y;
  };
  check_op(c);

  c.name = "transpose 3-D, strided and dilated";
  c.inputs = {{"y", kCubeResult}, {"filter", kCubeFilter}};
  c.build = [](Graph&, const std::vector<Tensor>& in) {
    return ops::conv_transpose(in[0], in[1], kCubeSpace, {5, 4, 3});
  };
  c.reference = [](const Values& values) {
    std::vector<double> x(static_cast<std::size_t>(kCube.size()));
    for_each_cube_product([&](std::size_t to, std::size_t f, std::size_t y) {
      x[to] += values.at("y")[y] * values.at("filter")[f];
    });
    return x;
  };
  check_op(c);
}

TEST_CASE("windows wider than tiles, wider than the picture, and outside of it") {
  Sizes s;
  s.n = 1, s.in = 1, s.out = 2, s.kh = 5, s.kw = 4;
  check_op(conv_case("wide", s, {"rows", "kh", 1, 2, 5, 6}, {"cols", "kw", 1, 1, 5, 5}, false));
  check_op(
      conv_case("wide strided", s, {"rows", "kh", 3, 1, 4, 2}, {"cols", "kw", 2, 1, 3, 0}, false));
}

TEST_CASE("a halo is two messages for each side and dim that is cut") {
  // Forward, then the gradients: x's halo is fetched again for the filter's gradient, and x's
  // gradient goes back over the borders.
  for (const auto& [mesh, layout, messages] :
       {std::tuple{"p:4", "rows:p", 2}, {"p:4", "cols:p", 2}, {"p:2,q:2", "rows:p,cols:q", 1}}) {
    VariableSet variables;
    Graph graph("op", variables);
    const Sizes s{1, 12, 12, 1, 2, 2, 3, 3};
    const Tensor x = graph.input("x", {image_shape(s, 12, 12, false, "in", 2), DType::f64});
    const Tensor w = graph.input("w", {filter_shape(s, false), DType::f64});
    const Tensor y =
        ops::conv(x, w, std::vector<ConvDim>{{"rows", "kh"}, {"cols", "kw"}}, ops::Padding::same);
    const Tensor loss = ops::reduce_sum(ops::square(y), Shape{});
    const auto slopes = gradients(loss, {x, w});
    graph.fetch("dx", ops::reduce_sum(ops::square(slopes[0]), Shape{}));
    graph.fetch("dw", ops::reduce_sum(ops::square(slopes[1]), Shape{}));
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(layout);
    const auto program = plan::compile(variables, {&graph}, options);
    INFO(mesh << " " << layout);
    std::int64_t exchanges = 0, sent = 0;
    for (const auto& row : plan::collectives_of(program, program.sections[0])) {
      CHECK(row.op != program::CollectiveKind::all_gather);
      if (row.op != program::CollectiveKind::neighbour_exchange) continue;
      exchanges += row.count;
      sent += row.messages;
    }
    const std::int64_t dims = options.mesh.rank();
    CHECK(exchanges == 3 * dims);
    CHECK(sent == 3 * dims * messages);
  }
}

TEST_CASE("convolutions that do not fit are refused in words") {
  VariableSet variables;
  Graph graph("g", variables);
  const Tensor x = graph.input("x", {{{"n", 1}, {"rows", 4}, {"in", 2}}, DType::f32});
  const Tensor w = graph.input("w", {{{"k", 5}, {"in", 2}, {"out", 2}}, DType::f32});
  const Tensor other = graph.input("o", {{{"k", 3}, {"in", 3}, {"out", 2}}, DType::f32});
  using Space = std::vector<ConvDim>;
  CHECK_THROWS_AS(ops::conv(x, w, Space{{"rows", "k"}}), UserError);      // the window is too wide
  CHECK_THROWS_AS(ops::conv(x, other, Space{{"rows", "k"}}), UserError);  // sizes of 'in' differ
  CHECK_THROWS_AS(ops::conv(x, w, Space{{"height", "k"}}), UserError);    // no such dim
  CHECK_THROWS_AS(ops::conv(x, w, Space{{"rows", "in"}}), UserError);     // 'in' is a dim of both
  CHECK_THROWS_AS(ops::conv(x, w, Space{{"rows", "k", 0}}), UserError);   // no stride
  CHECK_THROWS_AS(ops::conv(x, w, Space{{"rows", "k", 1, 1, 2, 2}}, {"out"}), UserError);
  const Tensor y = graph.input("y", {{{"n", 1}, {"rows", 4}, {"out", 2}}, DType::f32});
  CHECK_THROWS_AS(ops::conv_transpose(y, w, {{"rows", "k", 2}}, {10}), UserError);
}
