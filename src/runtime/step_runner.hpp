// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include "flights.hpp"
#include "prepared.hpp"
#include "tessera/comm/collectives.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::runtime {

/// Does one step of a Program at a time for all local ranks.
class StepRunner {
 public:
  /// All of them live as long as the runner.
  StepRunner(const program::Program& program, comm::Collectives& collectives,
             const device::Exec& exec, const Places& places, Flights& flights)
      : program_(program),
        collectives_(collectives),
        exec_(exec),
        places_(places),
        flights_(flights) {}

  /// `takes_part`: by local rank.
  void run(const program::Step& step, const PreparedStep& prepared,
           const std::vector<bool>& takes_part, const kernels::Feeds& feeds);
  /// In place of a step in which no local rank takes part.
  void book_absence(const program::Step& step) const;

 private:
  void before_messages() const;
  void run_kernel(const PreparedKernel& kernel, const std::vector<bool>& takes_part,
                  const kernels::Feeds& feeds) const;
  void run_local(const PreparedLocal& local, const std::vector<bool>& takes_part) const;
  void move(const comm::MeshDims& dims, const PreparedRelayout& prepared) const;
  void run_all_reduce(const program::Step& step, const PreparedStep& prepared);
  void run_relayout(const program::Step& step, const PreparedStep& prepared);
  std::unique_ptr<comm::Flight> start_relayout(const program::RelayoutStep& step,
                                               const PreparedRelayout& prepared);
  void finish(const program::FinishStep& step);
  void run_exchange(const program::ExchangeStep& step, const PreparedExchange& prepared) const;

  const program::Program& program_;
  comm::Collectives& collectives_;
  const device::Exec& exec_;
  const Places& places_;
  Flights& flights_;
};

}  // namespace tessera::runtime
