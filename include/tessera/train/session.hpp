// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>

#include "tessera/comm/collectives.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/runtime/executor.hpp"
#include "tessera/train/backend.hpp"
#include "tessera/train/compiled.hpp"
#include "tessera/train/feeder.hpp"
#include "tessera/train/settings.hpp"

namespace tessera::train {

/// What train, eval and sample share: the deck, its Program on the mesh, data and the executor.
struct Session {
  Backend& backend;
  Settings& settings;
  std::ostream& out;  ///< rank 0 prints here
  /// Groups that live through experience of their own draw it from streams of their own.
  std::uint64_t stream = 0;
  Compiled compiled;
  data::Corpus corpus;  ///< empty if the model acts
  std::unique_ptr<comm::Collectives> collectives;
  device::Exec exec;
  std::unique_ptr<runtime::Executor> executor;
  std::unique_ptr<Feeder> feeder;

  Session(Backend& where, Settings& deck, std::ostream& to)
      : backend(where), settings(deck), out(to) {}

  /// Prints a line on rank 0.
  void say(const std::string& line) const;
  /// Sums a vector over all ranks; `values` has the sum over this process's local ranks.
  std::vector<double> sum(const std::vector<double>& values) const;
  /// A section's inputs and what each local rank holds of them.
  std::vector<data::LoadedInput> inputs(const std::string& section) const;
  /// Names of the metrics that a section gives besides the loss.
  std::vector<std::string> metrics(const std::string& section) const;
  /// Results that a section's step function names (ReplicaContext::result).
  struct ResultName {
    std::string name;
    bool is_per_replica = false;
  };
  std::vector<ResultName> results(const std::string& section) const;
  /// Of experience: run.seed, mixed with the stream if it is not 0.
  std::uint64_t experience_seed() const;
  /// Into which the Task cuts a batch, shares of other groups included.
  std::int64_t micro_batches() const { return compiled.task->config().micro_batches; }
  /// Variables that are saved, for reading and writing: all but gradients, or weights and other
  /// state without optimizer slots.
  std::vector<io::LoadedTensor> loaded_tensors(bool with_slots) const;
};

/// Compiles, opens the data, compares Program and deck over all ranks, checks the node's memory and
/// makes the executor. The variables have no values yet. UserErrors are thrown by all ranks alike.
std::unique_ptr<Session> open_session(Backend& backend, Settings& settings, std::ostream& out);
/// The same with a Program that `compile` makes, whose memory is not checked.
std::unique_ptr<Session> open_session(Backend& backend, Settings& settings, std::ostream& out,
                                      const std::function<Compiled()>& compile,
                                      std::uint64_t stream = 0);

/// UserError if what the ranks of this process's node need, each by its Program, does not fit.
void check_node_memory(const Backend& backend,
                       const std::function<const Compiled&(std::int64_t rank)>& compiled_for);

/// Names of the metrics that a section of a Program gives besides the loss.
std::vector<std::string> metric_names(const program::Program& program, const std::string& section);

/// What a run wants of its data: the model's inputs as fields of one sample.
data::Wanted wanted_data(const Settings& settings);

/// The path of a variable in a checkpoint.
std::string checkpoint_path(const Variable& variable);

}  // namespace tessera::train
