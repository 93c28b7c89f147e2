// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/feeder.hpp"

#include "tessera/base/error.hpp"
#include "tessera/env/environment.hpp"
#include "tessera/train/data_feeder.hpp"
#include "tessera/train/replay_feeder.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

namespace {

/// On the servers of an asynchronous run: the experience is the groups'.
class ElsewhereFeeder final : public Feeder {
 public:
  explicit ElsewhereFeeder(const Session& session)
      : config_(session.settings.env), environment_(config_.environment()()) {}

  std::string unit() const override { return "transitions"; }
  std::int64_t targets_per_row() const override { return 1; }
  std::string text() const override {
    return concat(config_.name, ", ", config_.count, " environments of each group's own");
  }
  data::DataIdentity identity() const override {
    return {environment_->spec().state, "environment " + environment_->spec().name};
  }
  data::Position position() const override { return {}; }
  void seek(const data::Position& /*position*/) override {}
  Fed next() override { throw Error("servers have no experience"); }
  void check_evaluates() const override {}
  bool evaluates() const override { return true; }
  Evaluation evaluate(bool /*all*/, const StopWatch* /*watch*/) override {
    throw Error("servers do not act");
  }

 private:
  const env::EnvConfig& config_;
  std::unique_ptr<env::Environment> environment_;
};

}  // namespace

std::unique_ptr<Feeder> make_feeder(const Session& session) {
  if (session.settings.model->acts() && !session.compiled.program.has_section("act"))
    return std::make_unique<ElsewhereFeeder>(session);
  if (session.settings.model->acts()) return std::make_unique<ReplayFeeder>(session);
  return std::make_unique<DataFeeder>(session);
}

}  // namespace tessera::train
