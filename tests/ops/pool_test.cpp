// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/pool.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;
using ops::PoolDim;

namespace {

const Shape kImages{{"n", 2}, {"rows", 6}, {"cols", 5}, {"c", 3}};

std::int64_t outputs(const PoolDim& d, std::int64_t n) {
  return (n + d.before + d.after - d.window) / d.stride + 1;
}

/// Each window's elements through `f`, for x [n, rows, cols, c].
OpCase pool_case(const std::string& name, PoolDim h, PoolDim w, bool max) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", kImages}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    const std::vector<PoolDim> space{h, w};
    return max ? ops::max_pool(in[0], space) : ops::average_pool(in[0], space);
  };
  c.reference = [=](const Values& values) {
    const auto& x = values.at("x");
    std::vector<double> y;
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t i = 0; i < outputs(h, 6); ++i)
        for (std::int64_t j = 0; j < outputs(w, 5); ++j)
          for (std::int64_t k = 0; k < 3; ++k) {
            std::vector<double> seen;
            for (std::int64_t r = i * h.stride - h.before; r < i * h.stride - h.before + h.window;
                 ++r)
              for (std::int64_t s = j * w.stride - w.before; s < j * w.stride - w.before + w.window;
                   ++s)
                if (r >= 0 && r < 6 && s >= 0 && s < 5)
                  seen.push_back(x[at(kImages, {n, r, s, k})]);
            double sum = 0;
            for (const double value : seen) sum += value;
            y.push_back(max ? *std::max_element(seen.begin(), seen.end())
                            : sum / static_cast<double>(seen.size()));
          }
    return y;
  };
  return c;
}

}  // namespace

TEST_CASE("pooling on all meshes: apart, overlapping, padded, uneven") {
  for (const bool max : {true, false}) {
    const std::string kind = max ? "max" : "average";
    check_op(pool_case(kind + " 2x2", {"rows", 2, 2}, {"cols", 2, 2, 0, 1}, max));
    check_op(pool_case(kind + " 3x3 same", {"rows", 3, 1, 1, 1}, {"cols", 3, 1, 1, 1}, max));
    check_op(pool_case(kind + " 3x2 strided", {"rows", 3, 2, 1, 1}, {"cols", 2, 3}, max));
  }
}

TEST_CASE("pooling over three dims on all meshes") {
  const Shape cube{{"n", 1}, {"depth", 4}, {"rows", 3}, {"cols", 3}, {"c", 2}};
  const std::vector<PoolDim> space{{"depth", 2, 2}, {"rows", 2, 1, 1, 0}, {"cols", 3, 2, 1, 1}};
  for (const bool max : {true, false}) {
    OpCase c;
    c.name = max ? "max 3-D" : "average 3-D";
    c.inputs = {{"x", cube}};
    c.build = [=](Graph&, const std::vector<Tensor>& in) {
      return max ? ops::max_pool(in[0], space) : ops::average_pool(in[0], space);
    };
    c.reference = [=](const Values& values) {
      std::vector<double> y;
      for (std::int64_t i = 0; i < 2 * 3 * 2 * 2; ++i) {
        const std::int64_t depth = i / 12 * 2, row = i / 4 % 3 - 1, col = i / 2 % 2 * 2 - 1;
        std::vector<double> seen;
        for (std::int64_t d = depth; d < depth + 2; ++d)
          for (std::int64_t r = std::max<std::int64_t>(0, row); r < row + 2; ++r)
            for (std::int64_t s = std::max<std::int64_t>(0, col);
                 s < std::min<std::int64_t>(3, col + 3); ++s)
              seen.push_back(values.at("x")[at(cube, {0, d, r, s, i % 2})]);
        double sum = 0;
        for (const double value : seen) sum += value;
        y.push_back(max ? *std::max_element(seen.begin(), seen.end())
                        : sum / static_cast<double>(seen.size()));
      }
      return y;
    };
    check_op(c);
  }
}

TEST_CASE("gradients of poolings have gradients") {
  for (const bool max : {true, false}) {
    OpCase c;
    c.name = "gradient of a pooling";
    const Shape line{{"n", 2}, {"rows", 6}};
    c.inputs = {{"x", line}};
    // d/dx of sum(pool(x)^2) is 2 pool(x) spread to the maxima, or in equal shares.
    c.build = [=](Graph&, const std::vector<Tensor>& in) {
      const std::vector<PoolDim> space{{"rows", 2, 2}};
      const Tensor y = max ? ops::max_pool(in[0], space) : ops::average_pool(in[0], space);
      return gradients(ops::reduce_sum(ops::square(y), Shape{}), {in[0]})[0];
    };
    c.reference = [=](const Values& values) {
      const auto& x = values.at("x");
      std::vector<double> d(12);
      for (std::size_t i = 0; i < 12; i += 2) {
        const double mean = (x[i] + x[i + 1]) / 2;
        if (max) {
          d[x[i] >= x[i + 1] ? i : i + 1] = 2 * std::max(x[i], x[i + 1]);
        } else {
          d[i] = d[i + 1] = mean;
        }
      }
      return d;
    };
    check_op(c);
  }
}

TEST_CASE("poolings that do not fit are refused in words") {
  VariableSet variables;
  Graph graph("g", variables);
  const Tensor x = graph.input("x", {{{"n", 1}, {"rows", 4}}, DType::f32});
  using Space = std::vector<PoolDim>;
  CHECK_THROWS_AS(ops::max_pool(x, Space{{"rows", 5}}), UserError);
  CHECK_THROWS_AS(ops::max_pool(x, Space{{"rows", 2, 0}}), UserError);
  CHECK_THROWS_AS(ops::max_pool(x, Space{{"rows", 2, 1, 2, 0}}), UserError);
  CHECK_THROWS_AS(ops::max_pool(x, Space{{"height", 2}}), UserError);
  CHECK_THROWS_AS(ops::max_pool(x, Space{}), UserError);
}
