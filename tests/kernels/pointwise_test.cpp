// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/program/pointwise_code.hpp"

using namespace tessera;
using program::PointOp;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

double normal_distribution(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double tanh_gate(double x) {
  return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

double reference(PointOp op, double a, double b, double c) {
  switch (op) {
    case PointOp::constant:
    case PointOp::copy:
      return a;
    case PointOp::add:
      return a + b;
    case PointOp::subtract:
      return a - b;
    case PointOp::multiply:
      return a * b;
    case PointOp::divide:
      return a / b;
    case PointOp::minimum:
      return std::min(a, b);
    case PointOp::maximum:
      return std::max(a, b);
    case PointOp::negate:
      return -a;
    case PointOp::absolute:
      return std::fabs(a);
    case PointOp::square:
      return a * a;
    case PointOp::sqrt:
      return std::sqrt(a);
    case PointOp::rsqrt:
      return 1 / std::sqrt(a);
    case PointOp::reciprocal:
      return 1 / a;
    case PointOp::exp:
      return std::exp(a);
    case PointOp::log:
      return std::log(a);
    case PointOp::sin:
      return std::sin(a);
    case PointOp::cos:
      return std::cos(a);
    case PointOp::tanh:
      return std::tanh(a);
    case PointOp::erf:
      return std::erf(a);
    case PointOp::sigmoid:
      return sigmoid(a);
    case PointOp::power:
      return std::pow(a, b);
    case PointOp::relu:
      return a > 0 ? a : 0;
    case PointOp::relu_derivative:
      return a > 0 ? 1 : 0;
    case PointOp::gelu:
      return a * normal_distribution(a);
    case PointOp::gelu_derivative:
      return normal_distribution(a) + a * std::exp(-a * a / 2) / std::sqrt(2 * M_PI);
    case PointOp::gelu_tanh:
      return 0.5 * a * (1 + std::tanh(tanh_gate(a)));
    case PointOp::gelu_tanh_derivative: {
      const double t = std::tanh(tanh_gate(a));
      const double slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * a * a);
      return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * slope;
    }
    case PointOp::silu:
      return a * sigmoid(a);
    case PointOp::silu_derivative:
      return sigmoid(a) * (1 + a * (1 - sigmoid(a)));
    case PointOp::less:
      return a < b ? 1 : 0;
    case PointOp::equal:
      return a == b ? 1 : 0;
    case PointOp::select:
      return a != 0 ? b : c;
    case PointOp::multiply_add:
      return a * b + c;
    case PointOp::is_finite:
      return std::isfinite(a) ? 1 : 0;
    case PointOp::floor:
      return std::floor(a);
  }
  return 0;
}

Numbers identity_map(int rank) {
  Numbers map;
  for (int d = 0; d < rank; ++d) map.push_back(d);
  return map;
}

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 4e-6 : 0.02;
}

}  // namespace

TEST_CASE("every instruction computes its function, in f32, f64 and bf16") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> any(-4, 4);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (int op = 0; op <= static_cast<int>(PointOp::floor); ++op) {
      const auto point = static_cast<PointOp>(op);
      if (point == PointOp::constant) continue;
      const bool positive = point == PointOp::sqrt || point == PointOp::rsqrt ||
                            point == PointOp::log || point == PointOp::power;
      TestTensor in[3] = {{dtype, {37, 19}}, {dtype, {37, 19}}, {dtype, {37, 19}}};
      for (TestTensor& t : in) {
        t.fill([&](auto) { return positive ? std::fabs(any(random)) + 0.01 : any(random); });
      }
      if (point == PointOp::equal || point == PointOp::select) {
        for (int i = 0; i < in[0].size(); i += 3) in[0].set(i, 0), in[1].set(i, 0);
      }
      test::for_each_variant([&](const std::string& variant) {
        INFO(variant << ", " << name_of(dtype) << ", instruction " << op);
        TestTensor out(dtype, {37, 19});
        const Attributes attributes{{"code", Numbers{op, 3, 0, 1, 2}},
                                    {"stores", Numbers{3}},
                                    {"map0", identity_map(2)},
                                    {"map1", identity_map(2)},
                                    {"map2", identity_map(2)}};
        test::run_kernel("pointwise", attributes, {in[0].tile(), in[1].tile(), in[2].tile()},
                         {out.tile()});
        for (int i = 0; i < out.size(); ++i) {
          const double want = reference(point, in[0].get(i), in[1].get(i), in[2].get(i));
          const double scale = std::fabs(want) + (dtype == DType::f64 ? 1 : 0.5);
          if (!(std::fabs(out.get(i) - want) <= tolerance(dtype) * scale)) {
            FAIL_CHECK("f(" << in[0].get(i) << ", " << in[1].get(i) << ", " << in[2].get(i)
                            << ") = " << out.get(i) << ", not " << want);
            break;
          }
        }
      });
    }
  }
}

namespace {

/// A random program over random operands, and what it has to give.
struct RandomCase {
  std::mt19937 random;
  Numbers shape;
  std::vector<TestTensor> inputs;
  std::vector<Numbers> maps;
  std::vector<DType> output_types;
  Attributes attributes;
  Numbers code, stores;
  std::vector<double> constants;

  explicit RandomCase(unsigned seed) : random(seed) {
    make_shape();
    const int count = pick(0, 5);
    for (int i = 0; i < count; ++i) make_input();
    make_code(count);
    const int outputs = pick(1, 4);
    for (int k = 0; k < outputs; ++k) {
      stores.push_back(pick(0, registers - 1));
      output_types.push_back(pick_type());
    }
    attributes.set("code", code).set("stores", stores);
    for (std::size_t i = 0; i < maps.size(); ++i)
      attributes.set("map" + std::to_string(i), maps[i]);
    for (std::size_t i = 0; i < constants.size(); ++i) {
      attributes.set("c" + std::to_string(i), constants[i]);
    }
  }

  int registers = 0;

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  DType pick_type() {
    const int die = pick(0, 5);
    return die < 3 ? DType::f32 : die == 3 ? DType::f64 : die == 4 ? DType::bf16 : DType::i32;
  }

  void make_shape() {
    const int rank = pick(0, 4);
    const Numbers sizes = {1, 2, 3, 5, 7, 16, 33, 130, 300};
    std::int64_t size = 1;
    for (int d = 0; d < rank; ++d) {
      std::int64_t extent = sizes[static_cast<std::size_t>(pick(0, 8))];
      if (size * extent > 20000) extent = 2;
      size *= extent;
      shape.push_back(extent);
    }
  }

  void make_input() {
    const int rank = static_cast<int>(shape.size());
    Numbers map(shape.size(), -1), extents, order;
    for (int d = 0; d < rank; ++d) {
      if (pick(0, 3) != 0) order.push_back(d);
    }
    if (pick(0, 3) == 0) std::shuffle(order.begin(), order.end(), random);
    for (std::size_t k = 0; k < order.size(); ++k) {
      map[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
      extents.push_back(shape[static_cast<std::size_t>(order[k])]);
    }
    TestTensor tensor(pick_type(), extents);
    std::uniform_real_distribution<double> any(-2, 2);
    tensor.fill([&](auto) { return any(random); });
    inputs.push_back(tensor);
    maps.push_back(map);
  }

  void make_code(int count) {
    // All results stay within a few units, so one tolerance serves any program.
    const std::vector<PointOp> ops = {PointOp::tanh,    PointOp::minimum, PointOp::maximum,
                                      PointOp::sigmoid, PointOp::relu,    PointOp::negate,
                                      PointOp::copy,    PointOp::gelu,    PointOp::absolute};
    registers = count;
    const auto emit = [&](PointOp op, int to) {
      code.insert(code.end(), {static_cast<std::int64_t>(op), to, 0, 0, 0});
      std::int64_t* word = code.data() + code.size() - 5;
      for (int k = 2; k < 5 && registers > 0; ++k) word[k] = pick(0, registers - 1);
    };
    const int length = pick(count == 0 ? 1 : 0, 14);
    for (int i = 0; i < length; ++i) {
      const int to = registers > 0 && pick(0, 4) == 0 ? pick(0, registers - 1) : registers;
      const int die = pick(0, 9);
      if (registers == 0 || die == 0) {
        emit(PointOp::constant, to);
        code[code.size() - 3] = static_cast<std::int64_t>(constants.size());
        constants.push_back(0.25 * pick(-6, 6));
      } else if (die < 3) {
        emit(PointOp::multiply_add, to);
        registers += to == registers ? 1 : 0;
        emit(PointOp::tanh, to);
        code[code.size() - 3] = to;
        continue;
      } else if (die < 5) {
        const PointOp two[] = {PointOp::add, PointOp::subtract, PointOp::multiply, PointOp::add};
        emit(two[pick(0, 3)], to);
        registers += to == registers ? 1 : 0;
        emit(PointOp::tanh, to);
        code[code.size() - 3] = to;
        continue;
      } else {
        emit(ops[static_cast<std::size_t>(pick(0, static_cast<int>(ops.size()) - 1))], to);
      }
      registers += to == registers ? 1 : 0;
    }
  }

  double input_at(std::size_t i, std::int64_t index) const {
    std::int64_t at = 0, stride = 1;
    Numbers coordinate(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
      coordinate[d] = index % shape[d];
      index /= shape[d];
    }
    const kernels::Tile& tile = inputs[i].tile();
    for (int k = tile.rank - 1; k >= 0; --k) {
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (maps[i][d] == k) at += coordinate[d] * stride;
      }
      stride *= tile.extent[k];
    }
    return inputs[i].get(at);
  }

  std::vector<double> expected(std::int64_t index) const {
    std::vector<double> reg(48);
    for (std::size_t i = 0; i < inputs.size(); ++i) reg[i] = input_at(i, index);
    for (std::size_t w = 0; w < code.size(); w += 5) {
      const auto op = static_cast<PointOp>(code[w]);
      reg[static_cast<std::size_t>(code[w + 1])] =
          op == PointOp::constant ? constants[static_cast<std::size_t>(code[w + 2])]
                                  : reference(op, reg[static_cast<std::size_t>(code[w + 2])],
                                              reg[static_cast<std::size_t>(code[w + 3])],
                                              reg[static_cast<std::size_t>(code[w + 4])]);
    }
    std::vector<double> result;
    for (const std::int64_t r : stores) result.push_back(reg[static_cast<std::size_t>(r)]);
    return result;
  }
};

/// What storing rounds off, and f32 arithmetic before it.
bool agrees(DType dtype, double got, double want) {
  const double error = std::fabs(got - want);
  if (dtype == DType::bf16) return error <= 0.01 * (std::fabs(want) + 0.01);
  if (dtype == DType::i32) {
    return got == std::trunc(want) || std::fabs(want - std::round(want)) < 1e-4;
  }
  return error <= 1e-4;
}

}  // namespace

TEST_CASE("random code over random broadcasts, permutations and types") {
  for (unsigned seed = 0; seed < 250; ++seed) {
    const RandomCase random(seed);
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", seed " << seed);
      std::vector<TestTensor> outputs;
      std::vector<kernels::Tile> in, out;
      for (const TestTensor& t : random.inputs) in.push_back(t.tile());
      for (const DType t : random.output_types) outputs.emplace_back(t, random.shape);
      for (const TestTensor& t : outputs) out.push_back(t.tile());
      test::run_kernel("pointwise", random.attributes, in, out);
      for (std::int64_t i = 0; i < outputs[0].size(); ++i) {
        const std::vector<double> want = random.expected(i);
        for (std::size_t k = 0; k < want.size(); ++k) {
          if (!agrees(random.output_types[k], outputs[k].get(i), want[k])) {
            FAIL("output " << k << ", element " << i << ": " << outputs[k].get(i) << ", not "
                           << want[k]);
          }
        }
      }
    });
  }
}

TEST_CASE("outputs may take the memory of inputs") {
  const std::int64_t n = 5000;
  // x, y, z -> y + x in x's memory, x - y in y's, and z's old value elsewhere while z gets y.
  const auto op = [](PointOp p) { return static_cast<std::int64_t>(p); };
  const Attributes attributes{
      {"code", Numbers{op(PointOp::subtract), 3, 0, 1, 0, op(PointOp::add), 4, 1, 0, 0}},
      {"stores", Numbers{4, 3, 1, 2}},
      {"map0", identity_map(1)},
      {"map1", identity_map(1)},
      {"map2", identity_map(1)}};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      TestTensor x(dtype, {n}), y(dtype, {n}), z(dtype, {n}), old(dtype, {n});
      x.fill([](std::int64_t i) { return i % 17; });
      y.fill([](std::int64_t i) { return i % 5; });
      z.fill([](std::int64_t i) { return i % 11; });
      test::run_kernel("pointwise", attributes, {x.tile(), y.tile(), z.tile()},
                       {x.tile(), y.tile(), z.tile(), old.tile()});
      for (std::int64_t i = 0; i < n; ++i) {
        if (x.get(i) != i % 17 + i % 5 || y.get(i) != i % 17 - i % 5 || z.get(i) != i % 5 ||
            old.get(i) != i % 11) {
          FAIL("element " << i << ": " << x.get(i) << " " << y.get(i) << " " << z.get(i) << " "
                          << old.get(i));
        }
      }
    });
  }
}

TEST_CASE("infinities and NaNs go through as users expect") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto run = [&](PointOp op, DType dtype, double a, double b) {
    TestTensor x(dtype, {9}), y(dtype, {9}), out(dtype, {9});
    x.fill([&](auto) { return a; });
    y.fill([&](auto) { return b; });
    const Attributes attributes{{"code", Numbers{static_cast<std::int64_t>(op), 2, 0, 1, 0}},
                                {"stores", Numbers{2}},
                                {"map0", identity_map(1)},
                                {"map1", identity_map(1)}};
    test::run_kernel("pointwise", attributes, {x.tile(), y.tile()}, {out.tile()});
    for (int i = 1; i < 9; ++i) {
      CHECK((out.get(i) == out.get(0) || (std::isnan(out.get(i)) && std::isnan(out.get(0)))));
    }
    return out.get(0);
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    test::for_each_variant([&](const std::string& variant) {
      INFO(variant << ", " << name_of(dtype));
      CHECK(run(PointOp::is_finite, dtype, inf, 0) == 0);
      CHECK(run(PointOp::is_finite, dtype, nan, 0) == 0);
      CHECK(run(PointOp::is_finite, dtype, -3e38, 0) == 1);
      CHECK(run(PointOp::exp, dtype, 1000, 0) == inf);
      CHECK(run(PointOp::exp, dtype, -inf, 0) == 0);
      CHECK(run(PointOp::log, dtype, 0, 0) == -inf);
      CHECK(run(PointOp::log, dtype, inf, 0) == inf);
      CHECK(run(PointOp::tanh, dtype, -inf, 0) == -1);
      CHECK(run(PointOp::erf, dtype, inf, 0) == 1);
      CHECK(run(PointOp::sigmoid, dtype, -inf, 0) == 0);
      CHECK(run(PointOp::gelu, dtype, -inf, 0) == 0);
      CHECK(run(PointOp::gelu, dtype, inf, 0) == inf);
      for (const PointOp op : {PointOp::exp, PointOp::log, PointOp::tanh, PointOp::erf,
                               PointOp::sigmoid, PointOp::gelu, PointOp::gelu_derivative,
                               PointOp::relu, PointOp::silu, PointOp::sqrt, PointOp::sin}) {
        INFO("instruction " << static_cast<int>(op));
        CHECK(std::isnan(run(op, dtype, nan, 0)));
      }
      CHECK(std::isnan(run(PointOp::log, dtype, -1, 0)));
      CHECK(std::isnan(run(PointOp::maximum, dtype, nan, 1)));
      CHECK(std::isnan(run(PointOp::maximum, dtype, 1, nan)));
      CHECK(std::isnan(run(PointOp::minimum, dtype, nan, 1)));
      CHECK(std::isnan(run(PointOp::minimum, dtype, 1, nan)));
    });
  }
}

TEST_CASE("empty tiles and code that breaks its rules") {
  const auto op = [](PointOp p) { return static_cast<std::int64_t>(p); };
  TestTensor x(DType::f32, {0, 3}), y(DType::f32, {0, 3}), wide(DType::f32, {2, 3});
  Attributes attributes{{"code", Numbers{op(PointOp::exp), 1, 0, 0, 0}},
                        {"stores", Numbers{1}},
                        {"map0", identity_map(2)}};
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    test::run_kernel("pointwise", attributes, {x.tile()}, {y.tile()});
    CHECK_THROWS(test::run_kernel("pointwise", attributes, {wide.tile()}, {y.tile()}));
    Attributes unwritten = attributes;
    unwritten.set("stores", Numbers{2});
    CHECK_THROWS(test::run_kernel("pointwise", unwritten, {x.tile()}, {y.tile()}));
    Attributes unread = attributes;
    unread.set("code", Numbers{op(PointOp::add), 1, 0, 5, 0});
    CHECK_THROWS(test::run_kernel("pointwise", unread, {x.tile()}, {y.tile()}));
  });
}
