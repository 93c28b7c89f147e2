// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/optim/schedule.hpp"

#include <cmath>
#include <numbers>

#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace tessera;
using optim::learning_rate;

namespace {

optim::OptimConfig make(const std::string& schedule) {
  optim::OptimConfig config;
  config.lr = 0.5;
  config.schedule = schedule;
  config.schedule_steps = 100;
  config.warmup = 10;
  config.decay_steps = 20;
  return config;
}

std::string message(const optim::OptimConfig& config) {
  return test::message_of([&] { config.validate(); });
}

}  // namespace

TEST_CASE("factors of the learning rate") {
  CHECK(learning_rate(make("constant"), 1) == 0.5);
  CHECK(learning_rate(make("warmup"), 1) == Approx(0.05));
  CHECK(learning_rate(make("warmup"), 10) == 0.5);
  CHECK(learning_rate(make("warmup"), 11) == 0.5);
  CHECK(learning_rate(make("rsqrt"), 1) == Approx(0.5 / std::sqrt(10)));
  CHECK(learning_rate(make("rsqrt"), 64) == Approx(0.5 / 8));
  CHECK(learning_rate(make("linear_decay"), 80) == 0.5);
  CHECK(learning_rate(make("linear_decay"), 81) == 0.5);
  CHECK(learning_rate(make("linear_decay"), 91) == Approx(0.25));
  CHECK(learning_rate(make("linear_decay"), 100) == Approx(0.5 / 20));
  CHECK(learning_rate(make("linear_decay"), 101) == 0);
  CHECK(learning_rate(make("cosine"), 10) == Approx(0.5));
  CHECK(learning_rate(make("cosine"), 55) == Approx(0.25));
  CHECK(learning_rate(make("cosine"), 40) ==
        Approx(0.25 * (1 + std::cos(std::numbers::pi * 30 / 90))));
  CHECK(learning_rate(make("cosine"), 100) == Approx(0).margin(1e-15));
  auto config = make("cosine");
  config.final_share = 0.1;
  CHECK(learning_rate(config, 200) == Approx(0.05));
}

TEST_CASE("a rate falls in steps") {
  auto config = make("step*warmup");
  config.step_at = {"30", "60"};
  config.step_factor = 0.2;
  CHECK(learning_rate(config, 5) == Approx(0.25));
  CHECK(learning_rate(config, 30) == 0.5);
  CHECK(learning_rate(config, 31) == Approx(0.1));
  CHECK(learning_rate(config, 60) == Approx(0.1));
  CHECK(learning_rate(config, 61) == Approx(0.02));
  config.step_at = {"soon"};
  CHECK(message(config).find("optim.step_at: 'soon'") != std::string::npos);
  config.step_at.clear();
  CHECK(message(config).find("optim.step_at") != std::string::npos);
}

TEST_CASE("a schedule is a product") {
  CHECK(learning_rate(make("warmup*rsqrt*linear_decay"), 91) ==
        Approx(0.5 * 1 / std::sqrt(91) * 0.5));
  CHECK(learning_rate(make(" 0.1 * warmup "), 5) == Approx(0.025));
}

TEST_CASE("errors name the key and the nearest factor") {
  CHECK(message(make("warmup*rsqrt")).empty());
  CHECK(message(make("warmpu")).find("did you mean 'warmup'?") != std::string::npos);
  CHECK(message(make("")).find("optim.schedule") != std::string::npos);
  CHECK(message(make("-1")).find("'-1'") != std::string::npos);
  auto config = make("warmup");
  config.warmup = 0;
  CHECK(message(config).find("optim.warmup") != std::string::npos);
}
