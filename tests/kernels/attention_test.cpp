// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/support.hpp"
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;
using Extents = std::vector<std::int64_t>;

namespace {

struct Case {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, group = 0, depth = 4;
  bool causal = false;
  double dropout = 0;
  std::int64_t query_offset = 0;  ///< of the q tile
  double scale = 0.3;
  std::int64_t step = 3, micro = 0;

  std::int64_t groups() const { return group == 0 ? 1 : group; }
  Extents query_shape() const {
    return group == 0 ? Extents{batch, queries, heads, depth}
                      : Extents{batch, queries, heads, group, depth};
  }
  Extents key_shape() const { return {batch, keys, heads, depth}; }
  Extents lse_shape() const {
    return group == 0 ? Extents{batch, heads, queries} : Extents{batch, heads, group, queries};
  }
  std::string text() const {
    return concat("batch ", batch, ", queries ", queries, " from ", query_offset, ", keys ", keys,
                  ", heads ", heads, ", group ", group, ", depth ", depth, causal ? ", causal" : "",
                  ", dropout ", dropout);
  }
  Attributes attributes() const {
    return {{"causal", std::int64_t{causal}},   {"scale", scale},
            {"group", std::int64_t{group > 0}}, {"dropout", dropout},
            {"key", std::int64_t{12345}},       {"batch_total", batch}};
  }
};

TestTensor random_tensor(DType dtype, const Extents& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  TestTensor tensor(dtype, shape);
  return tensor.fill([&](std::int64_t) { return normal(random); });
}

/// A tensor of queries, placed in the whole length.
TestTensor query_tensor(const Case& c, DType dtype, unsigned seed) {
  const TestTensor values = random_tensor(dtype, c.query_shape(), seed);
  Extents offset(values.tile().rank, 0), global = c.query_shape();
  offset[1] = c.query_offset;
  global[1] = c.query_offset + c.queries;
  TestTensor tensor(dtype, c.query_shape(), offset, global);
  return tensor.fill([&](std::int64_t i) { return values.get(i); });
}

struct Operands {
  TestTensor q, k, v, dout, out, lse, dq, dk, dv;

  Operands(const Case& c, DType dtype)
      : q(query_tensor(c, dtype, 1)),
        k(random_tensor(dtype, c.key_shape(), 2)),
        v(random_tensor(dtype, c.key_shape(), 3)),
        dout(query_tensor(c, dtype, 4)),
        out(query_tensor(c, dtype, 5)),
        lse(dtype == DType::f64 ? DType::f64 : DType::f32, c.lse_shape()),
        dq(query_tensor(c, dtype, 6)),
        dk(random_tensor(dtype, c.key_shape(), 7)),
        dv(random_tensor(dtype, c.key_shape(), 8)) {}
};

/// Exactly the planned workspace, filled with what is not a number, and a canary behind it.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::int64_t bytes)
      : memory_(static_cast<std::size_t>(bytes) + 64), end_(bytes) {
    std::fill_n(at(0), bytes, 0xFF);
    std::fill_n(at(bytes), 64, 0xC5);
  }
  ~GuardedWorkspace() {
    CHECK(std::all_of(at(end_), at(end_) + 64, [](unsigned char byte) { return byte == 0xC5; }));
  }
  void* data() const { return memory_.data(); }

 private:
  unsigned char* at(std::int64_t byte) const {
    return static_cast<unsigned char*>(memory_.data()) + byte;
  }
  device::Memory memory_;
  std::int64_t end_;
};

void run(const Case& c, Operands& o, bool backward = true) {
  test::exec();
  const program::AttentionSize size{c.batch, c.queries, c.keys, c.heads, c.groups(), c.depth};
  kernels::Feeds feeds;
  feeds.step = c.step, feeds.micro = c.micro;
  const DType dtype = o.q.tile().dtype;
  const GuardedWorkspace forward(program::attention_forward_workspace(dtype, size));
  test::run_kernel("attention_forward", c.attributes(), {o.q.tile(), o.k.tile(), o.v.tile()},
                   {o.out.tile(), o.lse.tile()}, forward.data(), feeds);
  if (!backward) return;
  const GuardedWorkspace room(program::attention_backward_workspace(dtype, size));
  test::run_kernel("attention_backward", c.attributes(),
                   {o.dout.tile(), o.q.tile(), o.k.tile(), o.v.tile(), o.out.tile(), o.lse.tile()},
                   {o.dq.tile(), o.dk.tile(), o.dv.tile()}, room.data(), feeds);
}

struct Reference {
  std::vector<double> out, lse, dq, dk, dv;
};

/// All in double, by definition: probabilities row by row, and the derivative of each formula.
Reference by_definition(const Case& c, const Operands& o) {
  Reference ref;
  ref.out.assign(o.q.size(), 0), ref.dq.assign(o.q.size(), 0);
  ref.dk.assign(o.k.size(), 0), ref.dv.assign(o.k.size(), 0);
  ref.lse.assign(o.lse.size(), 0);
  const std::int64_t groups = c.groups(), length = c.query_offset + c.queries;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t g = 0; g < groups; ++g)
        for (std::int64_t i = 0; i < c.queries; ++i) {
          const auto at_q = [&](std::int64_t d) {
            return (((b * c.queries + i) * c.heads + h) * groups + g) * c.depth + d;
          };
          const auto at_k = [&](std::int64_t j, std::int64_t d) {
            return ((b * c.keys + j) * c.heads + h) * c.depth + d;
          };
          std::vector<double> p(c.keys), mask(c.keys), dp(c.keys);
          double sum = 0;
          for (std::int64_t j = 0; j < c.keys; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < c.depth; ++d)
              score += o.q.get(at_q(d)) * o.k.get(at_k(j, d));
            const bool visible = !c.causal || j <= i + c.query_offset;
            p[j] = visible ? std::exp(c.scale * score) : 0;
            sum += p[j];
            const std::int64_t batch_index = b + c.micro * c.batch;
            const std::uint64_t index =
                (((std::uint64_t(batch_index) * c.heads + h) * groups + g) * length + i +
                 c.query_offset) *
                    c.keys +
                j;
            mask[j] = c.dropout == 0 ? 1
                      : random_word(12345, c.step, index) >= c.dropout * 4294967296.0
                          ? 1 / (1 - c.dropout)
                          : 0;
          }
          ref.lse[((b * c.heads + h) * groups + g) * c.queries + i] = std::log(sum);
          double delta = 0;
          for (std::int64_t j = 0; j < c.keys; ++j) {
            p[j] = sum == 0 ? 0 : p[j] / sum;
            for (std::int64_t d = 0; d < c.depth; ++d) {
              ref.out[at_q(d)] += p[j] * mask[j] * o.v.get(at_k(j, d));
              dp[j] += mask[j] * o.dout.get(at_q(d)) * o.v.get(at_k(j, d));
              ref.dv[at_k(j, d)] += p[j] * mask[j] * o.dout.get(at_q(d));
            }
            delta += p[j] * dp[j];
          }
          for (std::int64_t j = 0; j < c.keys; ++j)
            for (std::int64_t d = 0; d < c.depth; ++d) {
              const double ds = c.scale * p[j] * (dp[j] - delta);
              ref.dq[at_q(d)] += ds * o.k.get(at_k(j, d));
              ref.dk[at_k(j, d)] += ds * o.q.get(at_q(d));
            }
        }
  return ref;
}

double distance(const TestTensor& found, const std::vector<double>& expected) {
  double worst = 0;
  for (std::int64_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found.get(i) - expected[i]);
    worst = difference <= worst ? worst : difference;  // a NaN becomes the worst
  }
  return worst;
}

double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : 0.15;
}

void check_case(const Case& c, DType dtype) {
  INFO(c.text() << ", " << name_of(dtype));
  Operands o(c, dtype);
  run(c, o);
  const Reference ref = by_definition(c, o);
  const double tolerance = tolerance_of(dtype) * (1 + std::sqrt(double(c.keys)) / 8);
  CHECK(distance(o.out, ref.out) <= tolerance);
  CHECK(distance(o.dq, ref.dq) <= tolerance);
  CHECK(distance(o.dk, ref.dk) <= tolerance);
  CHECK(distance(o.dv, ref.dv) <= tolerance);
  bool all_visible = c.keys > 0 && !(c.causal && c.query_offset < 0);
  if (all_visible) CHECK(distance(o.lse, ref.lse) <= tolerance);
}

const DType kFloats[] = {DType::f64, DType::f32, DType::bf16};

}  // namespace

TEST_CASE("attention and its gradients follow the definition") {
  const Case cases[] = {
      {1, 1, 1, 1, 0, 4},
      {2, 7, 9, 3, 0, 5},
      {2, 7, 7, 3, 0, 8, true},
      {1, 70, 70, 2, 0, 16, true},
      {1, 65, 530, 1, 0, 8},  // more than a block of keys
      {1, 140, 600, 1, 0, 4, true, 0, 460},
      {2, 6, 9, 2, 3, 4, true, 0, 3},  // shared keys, later queries
      {1, 5, 9, 1, 2, 4, false, 0.3},
      {2, 20, 20, 2, 2, 4, true, 0.5},
      {1, 67, 67, 2, 0, 40, true},  // a depth of several panels, the last one not whole
      {1, 70, 600, 1, 0, 4, true, 0.2, 530},
  };
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    for (const Case& c : cases)
      for (const DType dtype : kFloats) check_case(c, dtype);
  });
}

TEST_CASE("micro-batches count on in the random stream") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    Case c{2, 6, 6, 2, 0, 4, true, 0.4};
    c.micro = 3;
    check_case(c, DType::f64);
  });
}

TEST_CASE("empty extents") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    for (const DType dtype : kFloats) {
      check_case({0, 3, 3, 2, 0, 4}, dtype);
      check_case({2, 0, 3, 2, 0, 4}, dtype);
      check_case({2, 3, 3, 0, 0, 4, true}, dtype);
      check_case({2, 3, 0, 2, 0, 4}, dtype);  // no keys: zeros
    }
  });
}

TEST_CASE("rows that see no key give zeros, whatever the values hold") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    Case c{1, 5, 4, 1, 0, 4, true};
    for (const DType dtype : kFloats) {
      Operands o(c, dtype);
      // Keys that start two positions after the queries.
      kernels::Tile k = o.k.tile(), v = o.v.tile();
      k.offset[1] = v.offset[1] = 2;
      k.global[1] = v.global[1] = 6;
      const program::AttentionSize size{1, 5, 4, 1, 1, 4};
      const GuardedWorkspace room(program::attention_forward_workspace(dtype, size));
      test::run_kernel("attention_forward", c.attributes(), {o.q.tile(), k, v},
                       {o.out.tile(), o.lse.tile()}, room.data());
      const GuardedWorkspace more(program::attention_backward_workspace(dtype, size));
      test::run_kernel("attention_backward", c.attributes(),
                       {o.dout.tile(), o.q.tile(), k, v, o.out.tile(), o.lse.tile()},
                       {o.dq.tile(), o.dk.tile(), o.dv.tile()}, more.data());
      for (int i = 0; i < 8; ++i) {
        CHECK(o.out.get(i) == 0);
        CHECK(o.dq.get(i) == 0);
      }
      // The first query that sees a key sees that one alone.
      for (int d = 0; d < 4; ++d) CHECK(o.out.get(8 + d) == Approx(o.v.get(d)).margin(1e-6));
      for (int d = 0; d < 4; ++d) CHECK(o.dk.get(12 + d) == 0);
      for (int d = 0; d < 4; ++d) CHECK(o.dv.get(12 + d) == 0);
    }
  });
}

TEST_CASE("gradients equal finite differences") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    const Case c{1, 5, 6, 2, 2, 3, true, 0.25, 1};
    Operands o(c, DType::f64);
    run(c, o);
    const auto loss = [&] {
      Operands changed(c, DType::f64);
      changed.q.fill([&](std::int64_t i) { return o.q.get(i); });
      changed.k.fill([&](std::int64_t i) { return o.k.get(i); });
      changed.v.fill([&](std::int64_t i) { return o.v.get(i); });
      run(c, changed, false);
      double sum = 0;
      for (std::int64_t i = 0; i < o.dout.size(); ++i) sum += o.dout.get(i) * changed.out.get(i);
      return sum;
    };
    const auto check = [&](TestTensor& x, const TestTensor& dx) {
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const double old = x.get(i), h = 1e-5;
        x.set(i, old + h);
        const double up = loss();
        x.set(i, old - h);
        const double down = loss();
        x.set(i, old);
        CHECK(dx.get(i) == Approx((up - down) / (2 * h)).margin(1e-8).epsilon(1e-6));
      }
    };
    check(o.q, o.dq);
    check(o.k, o.dk);
    check(o.v, o.dv);
  });
}

TEST_CASE("a tile of the queries gives its part of the whole") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Case whole{1, 12, 12, 1, 0, 4, true, 0.3};
      Operands all(whole, dtype);
      run(whole, all);
      std::vector<double> dk(all.dk.size()), dv(all.dv.size());
      for (const std::int64_t begin : {0, 5}) {
        const std::int64_t end = begin == 0 ? 5 : 12;
        Case part = whole;
        part.queries = end - begin;
        part.query_offset = begin;
        Operands o(part, dtype);
        // The random stream counts by the whole length.
        kernels::Tile q = o.q.tile();
        q.global[1] = 12;
        for (std::int64_t i = 0; i < o.q.size(); ++i) {
          o.q.set(i, all.q.get(begin * 4 + i));
          o.dout.set(i, all.dout.get(begin * 4 + i));
        }
        const program::AttentionSize size{1, part.queries, 12, 1, 1, 4};
        const GuardedWorkspace forward(program::attention_forward_workspace(dtype, size));
        const GuardedWorkspace room(program::attention_backward_workspace(dtype, size));
        kernels::Feeds feeds;
        feeds.step = part.step;
        test::run_kernel("attention_forward", part.attributes(), {q, all.k.tile(), all.v.tile()},
                         {o.out.tile(), o.lse.tile()}, forward.data(), feeds);
        test::run_kernel("attention_backward", part.attributes(),
                         {o.dout.tile(), q, all.k.tile(), all.v.tile(), o.out.tile(), o.lse.tile()},
                         {o.dq.tile(), o.dk.tile(), o.dv.tile()}, room.data(), feeds);
        for (std::int64_t i = 0; i < o.q.size(); ++i) {
          CHECK(o.out.get(i) == Approx(all.out.get(begin * 4 + i)).margin(1e-5));
          CHECK(o.dq.get(i) == Approx(all.dq.get(begin * 4 + i)).margin(1e-5));
        }
        for (std::int64_t i = 0; i < all.dk.size(); ++i) dk[i] += o.dk.get(i), dv[i] += o.dv.get(i);
      }
      CHECK(distance(all.dk, dk) <= 1e-5);
      CHECK(distance(all.dv, dv) <= 1e-5);
    }
  });
}

TEST_CASE("dropout keeps the mean of the probabilities") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    Case c{4, 64, 64, 4, 0, 4};
    c.dropout = 0.25;
    Operands o(c, DType::f32);
    o.v.fill([](std::int64_t) { return 1.0; });
    run(c, o, false);
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < o.out.size(); i += 4) {
      sum += o.out.get(i), squares += o.out.get(i) * o.out.get(i);
    }
    const double rows = static_cast<double>(o.out.size()) / 4;
    const double mean = sum / rows, deviation = std::sqrt(squares / rows - mean * mean);
    // Each row is a mean of kept keys: expectation 1, five standard errors of it allowed.
    CHECK(std::abs(mean - 1) < 5 * deviation / std::sqrt(rows));
    CHECK(deviation > 0.01);
  });
}

TEST_CASE("large scores neither overflow nor lose the maximum") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    Case c{1, 3, 600, 1, 0, 4};
    c.scale = 1000;
    Operands o(c, DType::f32);
    run(c, o);
    for (std::int64_t i = 0; i < o.out.size(); ++i) CHECK(std::isfinite(o.out.get(i)));
    for (std::int64_t i = 0; i < o.dk.size(); ++i) CHECK(std::isfinite(o.dk.get(i)));
  });
}

TEST_CASE("operands that do not fit together are named") {
  Case c{1, 3, 4, 2, 0, 4};
  Operands o(c, DType::f32);
  const TestTensor wrong(DType::f32, {1, 4, 3, 4});
  CHECK_THROWS_AS(
      test::run_kernel("attention_forward", c.attributes(), {o.q.tile(), wrong.tile(), o.v.tile()},
                       {o.out.tile(), o.lse.tile()}),
      Error);
}
