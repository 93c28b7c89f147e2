// SPDX-License-Identifier: BSD-3-Clause
// Rates of matrix products and attention on this machine, in GFLOP/s: the best of several runs, and
// its share of the best rate of a large product. For people; ctest does not run it.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/support.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::exec;
using test::TestTensor;

namespace {

/// CPU time of this process, so that other processes on the machine disturb less.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// CPU seconds of the fastest of the runs that fit into `budget` seconds, at least three.
template <class Function>
double fastest(double budget, const Function& run) {
  const double start = cpu_seconds();
  double best = 1e30;
  for (int i = 0; i < 3 || cpu_seconds() - start < budget; ++i) {
    const double begin = cpu_seconds();
    run();
    best = std::min(best, cpu_seconds() - begin);
  }
  return best;
}

double g_peak = 0;
double g_budget = 0.2;

void report(double flops, double seconds) {
  const double rate = flops / seconds * 1e-9;
  std::printf(" %7.1f (%3.0f %%)", rate, 100 * rate / g_peak);
}

double product_seconds(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<float> a(static_cast<std::size_t>(m * k), 0.5f);
  std::vector<float> b(static_cast<std::size_t>(k * n), 0.25f);
  std::vector<float> c(static_cast<std::size_t>(m * n));
  kernels::Gemm<float> p;
  p.transpose_a = ta, p.transpose_b = tb;
  p.m = m, p.n = n, p.k = k;
  p.a = a.data(), p.lda = ta ? m : k;
  p.b = b.data(), p.ldb = tb ? k : n;
  p.c = c.data(), p.ldc = n;
  return fastest(g_budget, [&] { kernels::gemm(exec(), p); });
}

/// y = x W, dx = dy W^T and dW = x^T dy of x [m, k], W [k, n].
void bench_layer(std::int64_t m, std::int64_t k, std::int64_t n) {
  std::printf("layer %5ld x %5ld x %5ld: ", long(m), long(k), long(n));
  const double flops = 2.0 * m * n * k;
  report(flops, product_seconds(false, false, m, n, k));
  report(flops, product_seconds(false, true, m, k, n));
  report(flops, product_seconds(true, false, k, n, m));
  std::printf("\n");
}

void bench_attention(DType dtype, std::int64_t batch, std::int64_t length, std::int64_t heads,
                     std::int64_t depth, double dropout) {
  const program::AttentionSize size{batch, length, length, heads, 1, depth};
  std::vector<TestTensor> t;
  for (int i = 0; i < 8; ++i) {
    t.emplace_back(dtype, std::vector<std::int64_t>{batch, length, heads, depth});
    t.back().fill(
        [&](std::int64_t j) { return 0.01 * static_cast<double>((j * 37 + i) % 101) - 0.5; });
  }
  const TestTensor lse(DType::f32, {batch, heads, length});
  const device::Memory room(
      static_cast<std::size_t>(std::max(program::attention_forward_workspace(dtype, size),
                                        program::attention_backward_workspace(dtype, size))));
  const Attributes attributes{{"causal", std::int64_t{1}},
                              {"scale", 0.125},
                              {"dropout", dropout},
                              {"key", std::int64_t{7}},
                              {"batch_total", batch}};
  // Half of the scores are visible; the forward pass has two products, the backward pass five.
  const double flops = 2.0 * batch * heads * length * length * depth;
  std::printf("attention %-4s %ld x %5ld x %2ld x %3ld dropout %.1f: ", name_of(dtype), long(batch),
              long(length), long(heads), long(depth), dropout);
  report(flops, fastest(g_budget, [&] {
           test::run_kernel("attention_forward", attributes,
                            {t[0].tile(), t[1].tile(), t[2].tile()}, {t[3].tile(), lse.tile()},
                            room.data());
         }));
  report(2.5 * flops, fastest(g_budget, [&] {
           test::run_kernel(
               "attention_backward", attributes,
               {t[4].tile(), t[0].tile(), t[1].tile(), t[2].tile(), t[3].tile(), lse.tile()},
               {t[5].tile(), t[6].tile(), t[7].tile()}, room.data());
         }));
  std::printf("\n");
}

}  // namespace

/// Argument: seconds for each number (0.2).
int main(int argc, char** argv) {
  if (argc > 1) g_budget = std::stod(argv[1]);
  exec();
  std::printf("%s\n", device::describe().c_str());
  g_peak = 2.0 * 1024 * 1024 * 1024 / product_seconds(false, false, 1024, 1024, 1024) * 1e-9;
  std::printf("product 1024 x 1024 x 1024: %.1f GFLOP/s\n\n", g_peak);
  std::printf("                               forward NN       input NT      weight TN\n");
  const std::int64_t layers[][3] = {{2048, 256, 256}, {2048, 256, 1024}, {2048, 1024, 256},
                                    {2048, 256, 512}, {1024, 256, 768},  {1024, 256, 1024},
                                    {256, 768, 768},  {256, 768, 3072},  {256, 3072, 768},
                                    {128, 768, 3072}, {256, 768, 50304}, {1024, 768, 768}};
  for (const auto& layer : layers) bench_layer(layer[0], layer[1], layer[2]);
  std::printf("\n                                                       forward        backward\n");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    bench_attention(dtype, 8, 256, 4, 64, 0);
    bench_attention(dtype, 8, 256, 4, 64, 0.1);
    bench_attention(dtype, 4, 64, 12, 64, 0);
    bench_attention(dtype, 1, 1024, 12, 64, 0);
    bench_attention(dtype, 1, 8192, 1, 64, 0);
  }
  return 0;
}
