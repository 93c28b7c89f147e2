// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/status.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/train/evaluation.hpp"
#include "tessera/train/progress.hpp"

namespace tessera::train {

struct Session;

/// The next batch, also if it could not be read in this process: then `status` says so and the
/// batch is the last one again, so that all ranks issue the same collectives until they agree to
/// end.
struct Fed {
  const data::Batch* batch = nullptr;  ///< valid until the next one
  Status status;
};

/// What a run learns from: data that are read, or experience that the model makes itself.
class Feeder {
 public:
  virtual ~Feeder() = default;

  /// What targets are: "tokens", "samples".
  virtual std::string unit() const = 0;
  /// Targets of a row at most.
  virtual std::int64_t targets_per_row() const = 0;
  /// What the header's line `data` says.
  virtual std::string text() const = 0;
  /// What must be the same when a run goes on. May read all data: call on one rank.
  virtual data::DataIdentity identity() const = 0;
  /// The validation loss, in nats, of a model that knows nothing but frequencies; nothing if no
  /// such number is of use. May read all data: call on one rank.
  virtual std::optional<double> baseline() const { return std::nullopt; }

  /// Where the next batch comes from.
  virtual data::Position position() const = 0;
  virtual void seek(const data::Position& position) = 0;
  /// Whether the next batch can be had, before anything is run.
  virtual Status status() { return {}; }
  /// The next batch. Collective if it is made of experience.
  virtual Fed next() = 0;
  /// Told that a section has run on micro-batch `micro` of the last batch.
  virtual void ran(const std::string& /*section*/, std::int64_t /*micro*/) {}

  /// This process's shares of what is summed over ranks in each step, and what the sums add to the
  /// step's line.
  virtual std::vector<double> shares() { return {}; }
  virtual void report(std::span<const double> /*sums*/, StepRecord& /*record*/) {}

  /// What a checkpoint holds of it beside the position. `restored` is called once all is put.
  virtual std::vector<io::SavedTensor> saved() const { return {}; }
  virtual std::vector<io::LoadedTensor> loaded() { return {}; }
  virtual void restored() {}

  /// UserError that says what is missing if there is nothing to evaluate on.
  virtual void check_evaluates() const = 0;
  virtual bool evaluates() const = 0;
  /// Evaluates: on all there is, or on what eval.* says of evaluations during training. `watch`
  /// (may be null) is asked now and then. Collective.
  virtual Evaluation evaluate(bool all, const StopWatch* watch) = 0;
};

/// Experience for models that act, else data. The session must have its executor.
std::unique_ptr<Feeder> make_feeder(const Session& session);

}  // namespace tessera::train
