// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/softmax_cross_entropy.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

void check_loss(const std::string& name, std::int64_t vocab, double smoothing, double z_loss) {
  const Dim batch{"batch", 3}, length{"length", 2}, words{"vocab", vocab};
  OpCase c;
  c.name = name;
  c.inputs = {{"logits", {batch, length, words}},
              {"labels", {batch, length}, OpInput::Fill::ids, vocab}};
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::softmax_cross_entropy(in[0], in[1], {.smoothing = smoothing, .z_loss = z_loss});
  };
  c.reference = [=](const Values& values) {
    std::vector<double> losses;
    for (std::size_t row = 0; row < 6; ++row) {
      const double* logits = values.at("logits").data() + row * static_cast<std::size_t>(vocab);
      double sum = 0;
      for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(logits[v]);
      const double lse = std::log(sum);
      double loss = z_loss * lse * lse;
      for (std::int64_t v = 0; v < vocab; ++v) {
        const double target = smoothing / static_cast<double>(vocab) +
                              (v == values.at("labels")[row] ? 1 - smoothing : 0);
        loss -= target * (logits[v] - lse);
      }
      losses.push_back(loss);
    }
    return losses;
  };
  check_op(c);
}

}  // namespace

TEST_CASE("cross-entropy over a whole or cut vocabulary") {
  check_loss("cross-entropy", 11, 0, 0);
  check_loss("with label smoothing and z-loss", 11, 0.1, 0.01);
  check_loss("of fewer words than ranks", 3, 0.1, 0.01);
}
