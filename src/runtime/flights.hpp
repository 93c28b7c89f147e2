// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prepared.hpp"
#include "tessera/comm/collectives.hpp"
#include "tessera/runtime/executor.hpp"

namespace tessera::runtime {

/// The collectives of a section that are under way.
class Flights {
 public:
  void begin_section(const std::string& section, Recorder* recorder);
  /// `prepared` lives as long as the section runs.
  void add(const program::Step& start, const PreparedStep& prepared,
           std::unique_ptr<comm::Flight> call);
  /// Lets all of them get on: MPI makes no progress without calls.
  void test();
  /// Waits for one and forgets it; what its start was prepared with.
  const PreparedStep& finish(const program::FinishStep& step);
  /// Error if one is still under way: its memory is about to be used again.
  void end_section() const;

 private:
  struct InAir {
    const program::Step* start;
    const PreparedStep* prepared;
    std::unique_ptr<comm::Flight> call;
    bool landed = false;
  };
  void note(InAir& flight);

  std::string section_;
  Recorder* recorder_ = nullptr;
  std::vector<InAir> in_air_;
};

}  // namespace tessera::runtime
