// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/watchdog.hpp"

#include <atomic>
#include <future>

#include "support/catch.hpp"

using namespace std::chrono_literals;
using tessera::comm::Watchdog;

namespace {

/// Takes the message of a watchdog that has barked.
class Listener {
 public:
  Watchdog::OnHang on_hang() {
    return [this](const std::string& message) { message_.set_value(message); };
  }
  bool barked() { return future_.wait_for(0s) == std::future_status::ready; }
  /// Waits for it as long as it takes (the test has its own time limit).
  std::string message() { return future_.get(); }

 private:
  std::promise<std::string> message_;
  std::future<std::string> future_ = message_.get_future();
};

void take(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

}  // namespace

TEST_CASE("a hang is reported with the place where the rank stands") {
  Listener listener;
  Watchdog watchdog(0.05, 3, listener.on_hang());
  watchdog.at("micro", "block2/attention");
  const auto message = listener.message();
  CHECK(message.find("rank 3: no progress") == 0);
  CHECK(message.find("in section 'micro', step 'block2/attention'") != std::string::npos);
}

TEST_CASE("a hang names the collectives that are under way") {
  Listener listener;
  Watchdog watchdog(0.05, 3, listener.on_hang());
  watchdog.took_off(0, "gradients");
  watchdog.took_off(1, "gradients");
  watchdog.took_off(2, "embedding");
  watchdog.landed(1);
  watchdog.at("micro", "block2/attention");
  CHECK(listener.message().ends_with(
      "step 'block2/attention', under way: flight 0 of 'gradients', flight 2 of 'embedding'"));
}

TEST_CASE("a hang before the first step is reported too") {
  Listener listener;
  Watchdog watchdog(0.05, 0, listener.on_hang());
  CHECK(listener.message().find("before the first step") != std::string::npos);
}

TEST_CASE("progress and pauses keep the watchdog quiet") {
  Listener listener;
  Watchdog watchdog(1.0, 0, listener.on_hang());
  for (int i = 0; i < 150; ++i) {
    watchdog.at("micro", "step");
    take(10ms);
  }
  CHECK_FALSE(listener.barked());
  for (int i = 0; i < 150; ++i) {
    watchdog.others_work();
    take(10ms);
  }
  CHECK_FALSE(listener.barked());
  {
    const Watchdog::Pause pause(watchdog);
    take(1500ms);
  }
  CHECK_FALSE(listener.barked());
}

TEST_CASE("a wait within ten times the slowest step is no hang") {
  Listener listener;
  Watchdog watchdog(1.5, 0, listener.on_hang());
  watchdog.step_done();  // the first step compiles and reads ahead: not counted
  for (int i = 0; i < 60; ++i) {
    watchdog.at("micro", "step");
    take(10ms);
  }
  watchdog.step_done();
  take(2500ms);
  CHECK_FALSE(listener.barked());
}

TEST_CASE("a timeout of zero watches nothing") {
  Watchdog watchdog(0, 0, [](const std::string&) { FAIL("it barked"); });
  watchdog.at("micro", "step");
  take(100ms);
  watchdog.step_done();
}
