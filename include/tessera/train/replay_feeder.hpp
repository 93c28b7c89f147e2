// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/env/actors.hpp"
#include "tessera/env/replay.hpp"
#include "tessera/train/feeder.hpp"

namespace tessera::train {

/// Feeds a run from what its model lives through (section [env] of the deck). Before each update
/// the environments go env.steps_per_update steps, by the section `act` with the weights that the
/// last update left; what came of it joins the replay at once, and the batch is drawn from that. So
/// a run can be repeated, on any mesh.
///
/// The model's inputs: observation [batch, observation], action [batch, action], reward and
/// discount [batch], next [batch, observation] of a transition, and weights [batch], which undo
/// what priorities favour. A section that fetches "priority" [batch] gives the rows' new
/// priorities.
class ReplayFeeder final : public Feeder {
 public:
  explicit ReplayFeeder(const Session& session);

  std::string unit() const override { return "transitions"; }
  std::int64_t targets_per_row() const override { return 1; }
  std::string text() const override;
  data::DataIdentity identity() const override;
  data::Position position() const override { return position_; }
  void seek(const data::Position& position) override { position_ = position; }
  Fed next() override;
  void ran(const std::string& section, std::int64_t micro) override;
  std::vector<double> shares() override;
  void report(std::span<const double> sums, StepRecord& record) override;
  std::vector<io::SavedTensor> saved() const override;
  std::vector<io::LoadedTensor> loaded() override;
  void restored() override { replay_.done(); }
  void check_evaluates() const override {}
  bool evaluates() const override { return true; }
  Evaluation evaluate(bool all, const StopWatch* watch) override;

 private:
  void live();
  data::TileData tile_of(const env::ReplayRows& rows, std::int64_t first_row, int local_rank) const;
  void make_batch();

  const Session& session_;
  Placement placement_;  // of a tensor [environment]
  env::Actors actors_;
  env::Replay replay_;
  data::Position position_;  // index: steps of all environments
  std::vector<env::ReplayItem> items_;
  std::vector<double> weights_;
  data::Batch batch_;
  double acting_seconds_ = 0;
};

}  // namespace tessera::train
