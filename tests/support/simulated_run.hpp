// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/runtime/executor.hpp"

namespace tessera::test {

/// The instance that tests launch on; starts Kokkos on first use.
const device::Exec& shared_exec();

/// Whole tensors by name, row-major, as doubles.
using Values = std::map<std::string, std::vector<double>>;

/// The tile `box` of a whole tensor as bytes of the spec's dtype.
std::vector<char> cut_tile(const std::vector<double>& values, const TensorSpec& spec,
                           const Box& box);

/// A Program with all ranks of its mesh simulated in this process, its arenas poisoned outside live
/// ranges. Or, with collectives over processes, with the rank of this process: `run` and `fetch`.
class SimulatedRun {
 public:
  SimulatedRun(const VariableSet& variables, const std::vector<const Graph*>& graphs,
               const plan::PlanOptions& options,
               std::shared_ptr<comm::Collectives> collectives = nullptr);

  const program::Program& program() const { return program_; }
  runtime::Executor& executor() { return *executor_; }
  comm::Collectives& collectives() { return *collectives_; }

  /// Gives each rank its tile of the section's inputs, then runs it.
  void run(const std::string& section, const Values& inputs,
           const kernels::Feeds& feeds = {1, 0, {}});
  /// A fetched tensor or scalar. Every rank must hold the same; partial scalars are summed.
  std::vector<double> fetch(const std::string& section, const std::string& name);

  /// A whole variable, put together of the ranks' tiles.
  std::vector<double> variable(const std::string& name);
  void set_variable(const std::string& name, const std::vector<double>& values);

 private:
  program::Program program_;
  std::shared_ptr<comm::Collectives> collectives_;
  std::unique_ptr<runtime::Executor> executor_;
};

}  // namespace tessera::test
