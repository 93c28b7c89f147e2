// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/signals.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::comm {
namespace {

volatile std::sig_atomic_t pending = 0;

extern "C" void leave_mark(int signal) {
  pending = signal;
}

constexpr std::array<std::pair<const char*, int>, 12> kNames{{{"HUP", SIGHUP},
                                                              {"INT", SIGINT},
                                                              {"QUIT", SIGQUIT},
                                                              {"USR1", SIGUSR1},
                                                              {"USR2", SIGUSR2},
                                                              {"ALRM", SIGALRM},
                                                              {"TERM", SIGTERM},
                                                              {"CONT", SIGCONT},
                                                              {"TSTP", SIGTSTP},
                                                              {"URG", SIGURG},
                                                              {"XCPU", SIGXCPU},
                                                              {"XFSZ", SIGXFSZ}}};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& [name, number] : kNames) names.emplace_back(name);
  return names;
}

int parse_signal(const std::string& key, const std::string& text) {
  const std::string name = text.starts_with("SIG") ? text.substr(3) : text;
  std::int64_t wanted = -1;
  parse_integer(text, wanted);
  for (const auto& [known, number] : kNames)
    if (name == known || wanted == number) return number;
  throw UserError(concat(key, ": '", text, "' is no signal that a run can be stopped by",
                         did_you_mean(name, known_names()), "; there are ",
                         join(known_names(), ", ")));
}

}  // namespace

std::vector<int> parse_signals(const std::string& key, std::string_view text) {
  std::vector<int> signals;
  for (const std::string& piece : split(text, ',')) signals.push_back(parse_signal(key, piece));
  return signals;
}

std::string signal_name(int signal) {
  for (const auto& [name, number] : kNames)
    if (number == signal) return concat("SIG", name);
  return concat("signal ", signal);
}

struct StopSignals::Previous {
  int signal;
  struct sigaction action;
};

StopSignals::StopSignals(const std::vector<int>& signals) {
  clear_pending_signal();
  struct sigaction action = {};
  action.sa_handler = leave_mark;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes go on as if nothing had come
  for (int signal : signals) {
    Previous previous{signal, {}};
    TESSERA_CHECK(sigaction(signal, &action, &previous.action) == 0, "can't catch ",
                  signal_name(signal));
    previous_.push_back(previous);
  }
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  for (const auto& [name, signal] : kNames) {
    Previous previous{signal, {}};
    sigaction(signal, nullptr, &previous.action);
    const bool is_caught = previous.action.sa_handler == leave_mark;
    if (!is_caught || std::ranges::find(signals, signal) != signals.end()) continue;
    sigaction(signal, &plain, nullptr);
    previous_.push_back(previous);
  }
}

StopSignals::~StopSignals() {
  // Backwards, so that a signal that was named twice gets its first handler back.
  for (auto previous = previous_.rbegin(); previous != previous_.rend(); ++previous)
    sigaction(previous->signal, &previous->action, nullptr);
}

IgnoredSignal::IgnoredSignal(const std::string& name) : signal_(parse_signal("signal", name)) {
  struct sigaction now = {};
  sigaction(signal_, nullptr, &now);
  if (now.sa_handler == leave_mark) return;
  previous_ = now.sa_handler;
  std::signal(signal_, SIG_IGN);
}

IgnoredSignal::~IgnoredSignal() {
  struct sigaction now = {};
  sigaction(signal_, nullptr, &now);
  if (now.sa_handler == SIG_IGN) std::signal(signal_, previous_);
}

int pending_signal() {
  return pending;
}

void clear_pending_signal() {
  pending = 0;
}

}  // namespace tessera::comm
