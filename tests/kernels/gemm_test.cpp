// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/kernels/gemm.hpp"
#include "support/apart.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm_parts.hpp"
#include "kernels/support.hpp"
#include "support/catch.hpp"

using namespace tessera;
using kernels::Gemm;
using test::exec;

namespace {

template <class T>
std::vector<T> random_numbers(std::int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> numbers(static_cast<std::size_t>(n));
  for (T& x : numbers) x = static_cast<T>(uniform(random));
  return numbers;
}

/// A product with its operands, in rows somewhat longer than needed.
template <class T>
struct Problem {
  Gemm<T> product;
  std::vector<T> a, b, c;

  Problem(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, T beta,
          std::int64_t batch = 1) {
    std::mt19937 random(static_cast<unsigned>(m * 31 + n * 7 + k));
    auto& p = product;
    p.transpose_a = ta;
    p.transpose_b = tb;
    p.m = m, p.n = n, p.k = k, p.alpha = alpha, p.beta = beta, p.batch = batch;
    p.lda = (ta ? m : k) + 3, p.ldb = (tb ? k : n) + 1, p.ldc = n + 2;
    p.stride_a = p.lda * (ta ? k : m), p.stride_b = p.ldb * (tb ? n : k), p.stride_c = p.ldc * m;
    a = random_numbers<T>(p.stride_a * batch + 1, random);
    b = random_numbers<T>(p.stride_b * batch + 1, random);
    c = random_numbers<T>(p.stride_c * batch + 1, random);
    p.a = a.data(), p.b = b.data(), p.c = c.data();
  }

  /// By a double loop, gaps between rows included.
  std::vector<double> expected() const {
    const auto& p = product;
    const auto sa = kernels::matrix_strides(p.transpose_a, p.lda);
    const auto sb = kernels::matrix_strides(p.transpose_b, p.ldb);
    std::vector<double> result(c.begin(), c.end());
    for (std::int64_t x = 0; x < p.batch; ++x)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l)
            sum += double(a[x * p.stride_a + i * sa.first + l * sa.second]) *
                   double(b[x * p.stride_b + l * sb.first + j * sb.second]);
          double& out = result[x * p.stride_c + i * p.ldc + j];
          out = double(p.alpha) * sum + (p.beta == 0 ? 0 : double(p.beta) * out);
        }
    return result;
  }
};

template <class T>
void check_equal(const std::vector<T>& found, const std::vector<double>& expected, double scale) {
  const double tolerance = 4 * scale * std::numeric_limits<T>::epsilon();
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    worst = test::worse(worst, std::abs(double(found[i]) - expected[i]));
  CHECK(worst <= tolerance);
}

template <class T>
void check_product(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
                   T beta, std::int64_t batch = 1) {
  INFO("transpose " << ta << tb << ", m " << m << ", n " << n << ", k " << k << ", alpha " << alpha
                    << ", beta " << beta);
  Problem<T> problem(ta, tb, m, n, k, alpha, beta, batch);
  const auto expected = problem.expected();
  kernels::gemm(exec(), problem.product);
  exec().fence();
  check_equal(problem.c, expected, 2.0 + static_cast<double>(k));
}

template <class T>
void check_all() {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {5, 7, 3},   {1, 9, 4}, {9, 1, 4},    {64, 33, 65},
                                   {17, 96, 31}, {2, 3, 200}, {4, 5, 1}, {130, 20, 70}};
  for (const auto& s : sizes)
    for (int t = 0; t < 4; ++t) {
      check_product<T>(t & 1, t & 2, s[0], s[1], s[2], T(1), T(0));
      check_product<T>(t & 1, t & 2, s[0], s[1], s[2], T(-0.5), T(1));
      check_product<T>(t & 1, t & 2, s[0], s[1], s[2], T(2), T(0.25), 3);
    }
}

}  // namespace

TEST_CASE("products equal a double loop for all transposes") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    check_all<float>();
    check_all<double>();
  });
}

TEST_CASE("empty extents write what remains to be written") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    check_product<float>(false, false, 0, 4, 5, 1.0f, 0.0f);
    check_product<float>(true, true, 4, 0, 5, 1.0f, 0.0f);
    check_product<float>(false, true, 4, 3, 0, 1.0f, 0.5f);
    check_product<double>(false, true, 4, 3, 0, 1.0, 0.0, 2);
    check_product<double>(false, true, 4, 3, 5, 1.0, 0.0, 0);
  });
}

TEST_CASE("beta = 0 overwrites what is not a number") {
  test::for_each_variant([](const std::string& variant) {
    INFO(variant);
    for (const std::int64_t k : {0, 3}) {
      Problem<float> problem(false, false, 6, 5, k, 1.0f, 0.0f);
      problem.product.ldc = 5;
      problem.c.assign(30, std::numeric_limits<float>::quiet_NaN());
      problem.product.c = problem.c.data();
      kernels::gemm(exec(), problem.product);
      exec().fence();
      for (const float x : problem.c) CHECK(std::isfinite(x));
    }
  });
}

TEST_CASE("extents and leading dims beyond BLAS' integers are split") {
  exec();
  for (int t = 0; t < 4; ++t)
    for (const std::int64_t limit : {1, 2, 3, 8, 9, 100}) {
      INFO("transposes " << t << ", limit " << limit);
      Problem<double> problem(t & 1, t & 2, 7, 5, 6, 2.0, 0.5);
      const auto expected = problem.expected();
      kernels::split_gemm(problem.product, limit, [&](const Gemm<double>& piece) {
        CHECK(std::max({piece.m, piece.n, piece.k}) <= limit);
        CHECK(std::max({piece.lda, piece.ldb, piece.ldc}) <= limit);
        kernels::gemm_blas(piece);
      });
      check_equal(problem.c, expected, 8);
    }
}
