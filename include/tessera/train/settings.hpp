// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/config/deck.hpp"
#include "tessera/data/config.hpp"
#include "tessera/env/config.hpp"
#include "tessera/optim/optim_config.hpp"
#include "tessera/replicate/replicate_config.hpp"
#include "tessera/replicate/task.hpp"
#include "tessera/train/config.hpp"
#include "tessera/train/models.hpp"

namespace tessera::train {

/// Everything that a deck says, checked: the sections of all modules and the model with its own.
struct Settings {
  RunConfig run;
  MeshConfig mesh;
  data::DataConfig data;
  env::EnvConfig env;
  optim::OptimConfig optim;
  replicate::ReplicateConfig replicate;
  TrainConfig train;
  AsyncConfig async;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  PlanConfig plan;
  SampleConfig sample;
  TranslateConfig translate;
  bool translates = false;  ///< the verb is translate: its sections are wanted, no sample's
  NumericsConfig numerics;
  std::string model_name = "transformer";
  std::unique_ptr<replicate::Model> model;
  config::Schema schema;
  /// True if the deck itself says how many steps the schedule counts on; else it is train.steps of
  /// the run's first start.
  bool schedule_steps_given = false;

  Settings() = default;
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  replicate::TaskConfig task_config() const;
  /// What the environment shows and takes.
  replicate::Spaces spaces() const;
  /// <run.dir>/<name>.
  std::string run_file(const std::string& name) const;
};

/// All keys with their defaults, for one model (none given: the first one). UserError if it is
/// unknown.
std::unique_ptr<Settings> describe_settings(const Models& models,
                                            const std::optional<std::string>& model);

/// Describes all keys for the model that the deck names, applies the deck and checks what can be
/// checked without data. UserError that names the key.
std::unique_ptr<Settings> read_settings(const config::Deck& deck, const Models& models);

}  // namespace tessera::train
