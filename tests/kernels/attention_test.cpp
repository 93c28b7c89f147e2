// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/attention_support.hpp"

using namespace tessera;
using namespace tessera::test::attention;
using test::TestTensor;

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
      const test::GuardedWorkspace room(program::attention_forward_workspace(dtype, size));
      test::run_kernel("attention_forward", c.attributes(), {o.q.tile(), k, v},
                       {o.out.tile(), o.lse.tile()}, room.data());
      const test::GuardedWorkspace more(program::attention_backward_workspace(dtype, size));
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
        const test::GuardedWorkspace forward(program::attention_forward_workspace(dtype, size));
        const test::GuardedWorkspace room(program::attention_backward_workspace(dtype, size));
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
