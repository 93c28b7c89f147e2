// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/while_waiting.hpp"

#include <chrono>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Only the main thread calls MPI.
struct Hook {
  std::function<void()> call;
  Clock::duration interval{};
  Clock::time_point next;
};
Hook hook;

}  // namespace

WhileWaiting::WhileWaiting(double seconds, std::function<void()> call) {
  TESSERA_CHECK(!hook.call, "two calls while waiting");
  const auto interval = std::chrono::duration<double>(seconds);
  hook = {std::move(call), std::chrono::duration_cast<Clock::duration>(interval), {}};
}

WhileWaiting::~WhileWaiting() {
  hook = {};
}

void still_waiting() {
  if (!hook.call) return;
  const auto now = Clock::now();
  if (now < hook.next) return;
  hook.next = now + hook.interval;
  hook.call();
}

}  // namespace tessera::comm
