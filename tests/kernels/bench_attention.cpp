// SPDX-License-Identifier: BSD-3-Clause
// Times of attention on this machine. Reads lines "batch length heads depth causal" and answers
// each with the CPU milliseconds of forward and backward in f32, each the best of three runs. For
// people; compare_attention.py sets it beside PyTorch.
#include <iostream>

#include "kernels/support.hpp"
#include "support/bench.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;

namespace {}  // namespace

int main() {
  test::exec();
  std::int64_t batch, length, heads, depth, causal;
  while (std::cin >> batch >> length >> heads >> depth >> causal) {
    const program::AttentionSize size{batch, length, length, heads, 1, depth};
    std::vector<TestTensor> t;
    for (int i = 0; i < 8; ++i) {
      t.emplace_back(DType::f32, std::vector<std::int64_t>{batch, length, heads, depth});
      t.back().fill(
          [&](std::int64_t j) { return 0.01 * static_cast<double>((j * 37 + i) % 101) - 0.5; });
    }
    const TestTensor lse(DType::f32, {batch, heads, length});
    const device::Memory room(static_cast<std::size_t>(
        std::max(program::attention_forward_workspace(DType::f32, size),
                 program::attention_backward_workspace(DType::f32, size))));
    const Attributes attributes{{"causal", causal}, {"scale", 0.125}};
    std::cout << test::best_of_three([&] {
      test::run_kernel("attention_forward", attributes, {t[0].tile(), t[1].tile(), t[2].tile()},
                       {t[3].tile(), lse.tile()}, room.data());
    }) << ' ' << test::best_of_three([&] {
      test::run_kernel(
          "attention_backward", attributes,
          {t[4].tile(), t[0].tile(), t[1].tile(), t[2].tile(), t[3].tile(), lse.tile()},
          {t[5].tile(), t[6].tile(), t[7].tile()}, room.data());
    }) << std::endl;
  }
  return 0;
}
