// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::comm {

/// Ends a job that hangs. A thread looks whether its rank gets on; when it has not for
/// `timeout_s` seconds (never below 10 times the slowest step so far) it prints where the rank
/// stands and ends the process, upon which the launcher ends the others. The thread calls no MPI.
class Watchdog {
 public:
  /// Called in the watchdog's thread with the message, instead of printing it and ending.
  using OnHang = std::function<void(const std::string& message)>;

  /// `timeout_s` <= 0: watches nothing. `rank` is for the message.
  Watchdog(double timeout_s, int rank, OnHang on_hang = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The rank begins a step of a section. The texts must live as long as the watchdog, or until the
  /// next call; costs a few nanoseconds.
  void at(const char* section, const char* label);
  /// A collective is under way while the rank goes on; the text must live until it has landed.
  void took_off(int flight, const char* label);
  void landed(int flight);
  /// Others, for whom this rank waits, get on.
  void others_work() { progress_.fetch_add(1, std::memory_order_release); }
  /// An optimizer step is done.
  void step_done();

  /// Not watched while it lives: writing a checkpoint may take any time.
  class Pause {
   public:
    explicit Pause(Watchdog& watchdog);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  std::string message(double idle_s) const;
  std::string flights() const;

  const double timeout_s_;
  const int rank_;
  const OnHang on_hang_;
  std::atomic<const char*> section_{nullptr};
  std::atomic<const char*> label_{nullptr};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<int> pauses_{0};
  std::atomic<double> slowest_step_s_{0};
  std::atomic<bool> step_interrupted_{true};  // the first step, and steps with a pause, don't count
  Clock::time_point last_step_;
  mutable std::mutex flights_mutex_;
  std::map<int, const char*> flights_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera::comm
