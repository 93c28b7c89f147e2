// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/train/sampler.hpp"

using namespace tessera;
using namespace tessera::train;

TEST_CASE("Temperature 0 takes the likeliest id, the lower one of equals") {
  SampleConfig config;
  config.temperature = 0;
  CHECK(draw({1, 5, 3}, config, 0.99) == 1);
  CHECK(draw({4, 2, 4, 4}, config, 0.5) == 0);
}

TEST_CASE("Draws follow the softmax of the scaled logits") {
  SampleConfig config;
  config.temperature = 2;
  const std::vector<double> logits{0.5, -1, 2, 1};
  double total = 0;
  std::vector<double> expected;
  for (double logit : logits) expected.push_back(std::exp(logit / 2));
  for (double e : expected) total += e;
  const int draws = 40000;
  std::vector<int> counts(4, 0);
  for (int i = 0; i < draws; ++i)
    ++counts[static_cast<std::size_t>(
        draw(logits, config, uniform_of(random_word(7, 0, static_cast<std::uint64_t>(i)))))];
  for (std::size_t id = 0; id < 4; ++id) {
    const double p = expected[id] / total;
    const double sigma = std::sqrt(p * (1 - p) / draws);
    CHECK(std::abs(counts[id] / static_cast<double>(draws) - p) < 5 * sigma);
  }
}

TEST_CASE("top_k leaves only the likeliest ids") {
  SampleConfig config;
  config.top_k = 2;
  for (double u : {0.001, 0.3, 0.6, 0.999}) {
    const auto id = draw({1, 0.9, 5, 4.9, 2}, config, u);
    CHECK((id == 2 || id == 3));
  }
  config.top_k = 100;
  CHECK(draw({0, 1}, config, 0.999999) == 0);
}

TEST_CASE("Impossible ids are never drawn") {
  SampleConfig config;
  const double never = -std::numeric_limits<double>::infinity();
  for (double u : {1e-9, 0.5, 1 - 1e-9}) CHECK(draw({never, 0, never}, config, u) == 1);
}
