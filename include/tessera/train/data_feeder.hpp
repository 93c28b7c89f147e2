// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/train/feeder.hpp"

namespace tessera::train {

/// Feeds a run from the samples of its corpus, epoch after epoch.
class DataFeeder final : public Feeder {
 public:
  explicit DataFeeder(const Session& session) : session_(session) {}

  std::string unit() const override;
  std::int64_t targets_per_row() const override;
  std::string text() const override;
  data::DataIdentity identity() const override;
  std::optional<double> baseline() const override;
  data::Position position() const override;
  void seek(const data::Position& position) override;
  Status status() override;
  Fed next() override;
  void check_evaluates() const override;
  bool evaluates() const override;
  Evaluation evaluate(bool all, const StopWatch* watch) override;

 private:
  data::Loader& loader();

  const Session& session_;
  std::unique_ptr<data::Loader> loader_;  // made when training begins, as it reads ahead
  std::optional<data::Batch> batch_;
};

}  // namespace tessera::train
