// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/collectives.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/program/program.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::runtime {

/// Told of each step when it begins and ends, and of flights; for traces and the watchdog.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void begin(const std::string& section, const program::Step& step) = 0;
  virtual void end(const std::string& section, const program::Step& step) = 0;
  /// The flight that `start` started is seen to have landed, at its finish or at a test before.
  virtual void landed(const std::string& /*section*/, const program::Step& /*start*/) {}
};

struct ExecutorOptions {
  /// Fill every arena block outside its live range with signalling NaN (tests).
  bool poison = false;
  /// Restrict pending fences: wait after each step, so that recorded times are true on a GPU.
  bool synchronous = false;
};

/// Runs a Program's sections on the local ranks of a collectives backend: one arena for each.
class Executor {
 public:
  Executor(const program::Program& program, comm::Collectives& collectives,
           const device::Exec& exec, ExecutorOptions options = {});
  ~Executor();

  const program::Program& program() const;
  comm::Collectives& collectives() const;
  int local_ranks() const;
  void set_recorder(Recorder* recorder);

  /// Gives all variables their initial values: functions of (seed, name, global index).
  void initialize(std::uint64_t seed);

  /// A variable's tile on a local rank, in the kernels' memory.
  kernels::Tile variable_tile(int variable, int local_rank) const;
  Box variable_box(int variable, int local_rank) const;
  /// Copies a whole tile (dense, row-major) from or to host memory.
  void read_variable(int variable, int local_rank, void* to) const;
  void write_variable(int variable, int local_rank, const void* from);

  /// The box of an input that a local rank must be given.
  Box input_box(const std::string& section, const std::string& input, int local_rank) const;
  /// `micro`: which micro-batch, of those that the section holds.
  void set_input(const std::string& section, const std::string& input, int local_rank,
                 const void* from, int micro = 0);

  /// Runs one section on all local ranks.
  void run(const std::string& section, const kernels::Feeds& feeds);

  /// Elements of a fetched result's tile on a local rank, as doubles.
  std::vector<double> fetch(const std::string& section, const std::string& name, int local_rank,
                            int micro = 0) const;
  /// A fetched scalar's share of a local rank: its value, or 0 where another rank holds the same
  /// value (coordinate > 0 on a mesh dim that replicates it, another stage than the value's). The
  /// sum over ranks is the result.
  double fetch_share(const std::string& section, const std::string& name, int local_rank,
                     int micro = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::runtime
