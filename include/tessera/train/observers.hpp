// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tessera/comm/watchdog.hpp"
#include "tessera/io/trace.hpp"
#include "tessera/runtime/executor.hpp"

namespace tessera::train {

/// Who is told of every step of the Program: the watchdog and, if run.trace asks for it, the trace.
class Observers final : public runtime::Recorder {
 public:
  /// `trace_file` "": no trace; `on_hang`: see comm::Watchdog. Collective.
  Observers(double hang_timeout, const std::string& trace_file, comm::Collectives& collectives,
            comm::Watchdog::OnHang on_hang = {});

  void begin(const std::string& section, const program::Step& step) override;
  void end(const std::string& section, const program::Step& step) override;
  void landed(const std::string& section, const program::Step& start) override;
  void step_done();
  /// Others, for whom this rank waits, get on.
  void others_work() { watchdog_.others_work(); }
  /// Collective: joins the ranks' traces.
  void finish();

  /// A phase of the host that may take any time: not watched, one event of the trace.
  class Phase {
   public:
    Phase(Observers& observers, std::string name);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Observers& observers_;
    std::string name_;
    comm::Watchdog::Pause pause_;
  };

 private:
  /// Names of sections that have run: the watchdog's thread may look at the last one at any time,
  /// when whoever ran it has let go of its own.
  std::set<std::string> sections_;
  const std::string* section_ = nullptr;
  comm::Watchdog watchdog_;
  std::unique_ptr<io::TraceRecorder> trace_;
};

}  // namespace tessera::train
