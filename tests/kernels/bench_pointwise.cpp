// SPDX-License-Identifier: BSD-3-Clause
// Rates of the kernels that work element by element or row by row, beside memcpy. Not a test:
//   bench_pointwise [elements]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "tessera/program/pointwise_code.hpp"

using namespace tessera;
using program::PointOp;
using Numbers = std::vector<std::int64_t>;

namespace {

/// Best of many short repetitions, so that others on the machine disturb little; seconds per call.
double seconds(const std::function<void()>& f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int repeat = 0; repeat < 60; ++repeat) {
    int calls = 0;
    const auto start = Clock::now();
    double passed = 0;
    while (passed < 0.001) {
      f();
      ++calls;
      passed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    best = std::min(best, passed / calls);
  }
  return best;
}

class Bench {
 public:
  explicit Bench(std::int64_t n) : n_(n) {}

  void report(const std::string& name, double bytes_per_element, const std::function<void()>& f) {
    const double s = seconds(f);
    const auto n = static_cast<double>(n_);
    std::printf("%-34s %10.2f GB/s %10.3f Gelem/s\n", name.c_str(),
                bytes_per_element * n / s * 1e-9, n / s * 1e-9);
  }
  std::int64_t size() const { return n_; }

 private:
  std::int64_t n_;
};

class Code {
 public:
  explicit Code(int inputs) : next_(inputs) {}
  int constant(double value) {
    attributes_.set("c" + std::to_string(constants_), value);
    return add(PointOp::constant, constants_++);
  }
  int add(PointOp op, std::int64_t a, std::int64_t b = 0, std::int64_t c = 0) {
    words_.insert(words_.end(), {static_cast<std::int64_t>(op), next_, a, b, c});
    return next_++;
  }
  Attributes attributes(Numbers stores, const std::vector<Numbers>& maps) {
    attributes_.set("code", words_).set("stores", std::move(stores));
    for (std::size_t i = 0; i < maps.size(); ++i)
      attributes_.set("map" + std::to_string(i), maps[i]);
    return attributes_;
  }

 private:
  std::int64_t next_;
  std::int64_t constants_ = 0;
  Numbers words_;
  Attributes attributes_;
};

Attributes adam() {
  // Inputs: weight, gradient, m, v, lr and two corrections. Outputs: weight, m, v.
  Code code(7);
  const auto b1 = code.constant(0.9), b2 = code.constant(0.999), r1 = code.constant(0.1),
             r2 = code.constant(0.001), eps = code.constant(1e-8), decay = code.constant(0.01);
  const auto m = code.add(PointOp::multiply_add, code.add(PointOp::multiply, 1, r1),
                          code.constant(1.0), code.add(PointOp::multiply, 2, b1));
  const auto v = code.add(PointOp::multiply_add, code.add(PointOp::square, 1), r2,
                          code.add(PointOp::multiply, 3, b2));
  const auto root = code.add(PointOp::sqrt, code.add(PointOp::multiply, v, 6));
  const auto step = code.add(PointOp::divide, code.add(PointOp::multiply, m, 5),
                             code.add(PointOp::add, root, eps));
  const auto full = code.add(PointOp::multiply_add, 0, decay, step);
  const auto w = code.add(PointOp::subtract, 0, code.add(PointOp::multiply, full, 4));
  const Numbers all = {0, 1}, none = {-1, -1};
  return code.attributes({w, m, v}, {all, all, all, all, none, none, none});
}

void run_all(std::int64_t rows, std::int64_t columns) {
  Bench bench(rows * columns);
  const Numbers shape = {rows, columns}, all = {0, 1};
  std::printf("[%lld, %lld]\n", static_cast<long long>(rows), static_cast<long long>(columns));
  std::vector<test::TestTensor> t;
  for (int i = 0; i < 4; ++i) {
    t.emplace_back(DType::f32, shape);
    t.back().fill([](std::int64_t j) { return 0.001 * static_cast<double>(j % 1000) - 0.4; });
  }
  test::TestTensor bias(DType::f32, {columns}), scalar(DType::f32, {}), stat(DType::f32, {rows}),
      rstd(DType::f32, {rows}), turned(DType::f32, {columns, rows});
  bias.fill([](auto) { return 0.1; });
  scalar.fill([](auto) { return 0.5; });
  const auto bytes = static_cast<std::size_t>(bench.size()) * 4;
  bench.report("memcpy", 8, [&] { std::memcpy(t[0].tile().data, t[1].tile().data, bytes); });

  const auto point = [&](const std::string& name, double width, const Attributes& a,
                         const std::vector<kernels::Tile>& in,
                         const std::vector<kernels::Tile>& out) {
    bench.report(name, width, [&] { test::run_kernel("pointwise", a, in, out); });
  };
  const auto unary = [&](const std::string& name, PointOp op) {
    Code code(1);
    const auto r = code.add(op, 0);
    point(name, 8, code.attributes({r}, {all}), {t[1].tile()}, {t[0].tile()});
  };
  {
    Code code(2);
    const auto r = code.add(PointOp::add, 0, 1);
    point("add", 12, code.attributes({r}, {all, all}), {t[1].tile(), t[2].tile()}, {t[0].tile()});
  }
  {
    Code code(2);
    const auto r = code.add(PointOp::gelu, code.add(PointOp::add, 0, 1));
    point("bias + gelu", 8, code.attributes({r}, {all, {-1, 0}}), {t[1].tile(), bias.tile()},
          {t[0].tile()});
  }
  {
    Code code(3);
    const auto r = code.add(PointOp::multiply,
                            code.add(PointOp::gelu_derivative, code.add(PointOp::add, 0, 1)), 2);
    point("gelu backward", 12, code.attributes({r}, {all, {-1, 0}, all}),
          {t[1].tile(), bias.tile(), t[2].tile()}, {t[0].tile()});
  }
  point("Adam", 28, adam(),
        {t[0].tile(), t[1].tile(), t[2].tile(), t[3].tile(), scalar.tile(), scalar.tile(),
         scalar.tile()},
        {t[0].tile(), t[2].tile(), t[3].tile()});
  unary("exp", PointOp::exp);
  unary("tanh", PointOp::tanh);
  unary("erf", PointOp::erf);
  unary("silu", PointOp::silu);

  const auto reduce = [&](const std::string& name, const Numbers& out, const kernels::Tile& y,
                          double width, const std::string& op) {
    const Attributes a{{"in", all}, {"out", out}, {"op", op}};
    bench.report(name, width, [&] { test::run_kernel("reduce", a, {t[1].tile()}, {y}); });
  };
  reduce("sum over rows", {1}, bias.tile(), 4, "sum");
  reduce("sum over columns", {0}, stat.tile(), 4, "sum");
  reduce("sum of squares", {}, scalar.tile(), 4, "sum_squares");
  reduce("transpose", {1, 0}, turned.tile(), 8, "sum");

  const Attributes norm{{"axis", std::int64_t{1}},
                        {"epsilon", 1e-5},
                        {"scale", std::int64_t{1}},
                        {"bias", std::int64_t{1}}};
  test::TestTensor dscale(bias), dbias(bias);
  bench.report("layer norm", 8, [&] {
    test::run_kernel("norm_forward", norm, {t[1].tile(), bias.tile(), bias.tile()},
                     {t[0].tile(), stat.tile(), rstd.tile()});
  });
  bench.report("layer norm backward", 12, [&] {
    test::run_kernel("norm_backward", norm,
                     {t[2].tile(), t[1].tile(), bias.tile(), stat.tile(), rstd.tile()},
                     {t[0].tile(), dscale.tile(), dbias.tile()});
  });

  test::TestTensor labels(DType::i32, {rows}), sums(DType::f32, {3, rows});
  labels.fill([](auto) { return 0; });
  bench.report("softmax max", 4,
               [&] { test::run_kernel("softmax_max", {}, {t[1].tile()}, {stat.tile()}); });
  bench.report("softmax sums", 4, [&] {
    test::run_kernel("softmax_sums", {}, {t[1].tile(), stat.tile(), labels.tile()}, {sums.tile()});
  });
  bench.report("softmax backward", 8, [&] {
    test::run_kernel("softmax_backward", {{"vocab", columns}},
                     {t[1].tile(), stat.tile(), labels.tile(), rstd.tile()}, {t[0].tile()});
  });
  const Attributes drop{{"rate", 0.1}, {"key", std::int64_t{3}}};
  bench.report("dropout", 8,
               [&] { test::run_kernel("dropout", drop, {t[1].tile()}, {t[0].tile()}); });
  const Attributes draw{{"mean", 0.0}, {"scale", 1.0}, {"key", std::int64_t{3}}};
  bench.report("normal draws", 4,
               [&] { test::run_kernel("random_normal", draw, {}, {t[0].tile()}); });
}

}  // namespace

int main(int argc, char** argv) {
  test::exec();
  std::printf("%s\n", device::describe().c_str());
  if (argc > 1) {
    run_all(std::atoll(argv[1]) / 1024, 1024);
    return 0;
  }
  run_all(256, 256);     // second-level cache
  run_all(2048, 1024);   // a layer's activations
  run_all(16384, 1024);  // main memory
  return 0;
}
