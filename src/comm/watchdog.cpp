// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/watchdog.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::comm {
namespace {

constexpr double kTimesSlowestStep = 10;

std::chrono::duration<double> poll_interval(double timeout_s) {
  return std::chrono::duration<double>(std::clamp(timeout_s / 20, 0.001, 1.0));
}

/// Prints the rank's line, lets the other ranks print theirs, and ends the process.
[[noreturn]] void end_process(const std::string& message) {
  const std::string line = concat("tessera: ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  // Ranks look once a second, and notice a hang at about the same time.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  std::_Exit(1);
}

}  // namespace

Watchdog::Watchdog(double timeout_s, int rank, OnHang on_hang)
    : timeout_s_(timeout_s),
      rank_(rank),
      on_hang_(on_hang ? std::move(on_hang) : OnHang(end_process)),
      last_step_(Clock::now()) {
  if (timeout_s_ <= 0) return;
  // Signals are for the main thread: blocked here while the thread inherits the mask.
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void Watchdog::at(const char* section, const char* label) {
  section_.store(section, std::memory_order_relaxed);
  label_.store(label, std::memory_order_relaxed);
  progress_.fetch_add(1, std::memory_order_release);
}

void Watchdog::took_off(int flight, const char* label) {
  const std::lock_guard lock(flights_mutex_);
  flights_[flight] = label;
}

void Watchdog::landed(int flight) {
  const std::lock_guard lock(flights_mutex_);
  flights_.erase(flight);
}

/// ", under way: flight 2 of 'gradients'"; "" if nothing is.
std::string Watchdog::flights() const {
  const std::lock_guard lock(flights_mutex_);
  std::string text;
  for (const auto& [flight, label] : flights_)
    text += concat(text.empty() ? ", under way: " : ", ", "flight ", flight, " of '", label, "'");
  return text;
}

void Watchdog::step_done() {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last_step_).count();
  last_step_ = now;
  if (!step_interrupted_.exchange(false) && seconds > slowest_step_s_) slowest_step_s_ = seconds;
  progress_.fetch_add(1, std::memory_order_release);
}

Watchdog::Pause::Pause(Watchdog& watchdog) : watchdog_(watchdog) {
  watchdog_.pauses_ += 1;
  watchdog_.step_interrupted_ = true;
}

Watchdog::Pause::~Pause() {
  watchdog_.progress_ += 1;
  watchdog_.pauses_ -= 1;
}

std::string Watchdog::message(double idle_s) const {
  const char* section = section_.load(std::memory_order_relaxed);
  const char* label = label_.load(std::memory_order_relaxed);
  const std::string place =
      section ? concat("in section '", section, "', step '", label ? label : "", "'")
              : std::string("before the first step");
  return concat("rank ", rank_, ": no progress for ", static_cast<std::int64_t>(idle_s),
                " s, the job hangs (run.hang_timeout = ", format_double(timeout_s_), "): ", place,
                flights());
}

void Watchdog::watch() {
  std::uint64_t seen = progress_;
  auto since = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, poll_interval(timeout_s_), [this] { return stopping_; })) {
    const auto now = Clock::now();
    const std::uint64_t progress = progress_.load(std::memory_order_acquire);
    if (progress != seen || pauses_ > 0) {
      seen = progress;
      since = now;
      continue;
    }
    const double idle_s = std::chrono::duration<double>(now - since).count();
    if (idle_s <= std::max(timeout_s_, kTimesSlowestStep * slowest_step_s_)) continue;
    on_hang_(message(idle_s));
    return;
  }
}

}  // namespace tessera::comm
