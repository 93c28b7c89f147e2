// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "tessera/comm/collectives.hpp"
#include "tessera/runtime/executor.hpp"

namespace tessera::io {

/// Records when each step and each collective ran on each rank, as a Chrome trace
/// (chrome://tracing, ui.perfetto.dev): one row for a rank, colours by kind, and beside it a row
/// for each flight from its start to the test or finish that saw it landed. Times are true on a GPU
/// only with ExecutorOptions::synchronous. Every process writes its events beside the trace as they
/// come; finish() joins them.
class TraceRecorder : public runtime::Recorder {
 public:
  /// Collective: clocks start together. `file` is what finish() writes, e.g. run.dir/trace.json, on
  /// a file system that all ranks see. UserError, the same on all ranks, if it can't be written.
  TraceRecorder(std::string file, comm::Collectives& collectives);
  ~TraceRecorder() override;

  void begin(const std::string& section, const program::Step& step) override;
  void end(const std::string& section, const program::Step& step) override;
  void landed(const std::string& section, const program::Step& start) override;
  /// A phase of the host (e.g. "checkpoint", "data") as one event.
  void begin_phase();
  void end_phase(const std::string& name);

  /// Collective: joins all ranks' events into the trace. To be called once.
  void finish();

 private:
  double now() const;  // microseconds
  void write(const std::string& text);

  std::string file_;
  comm::Collectives& collectives_;
  std::string part_;  // this process's events
  std::FILE* out_ = nullptr;
  std::chrono::steady_clock::time_point start_;
  double begun_ = 0;
  std::map<int, double> started_;  // by flight
  double phase_begun_ = 0;
};

}  // namespace tessera::io
