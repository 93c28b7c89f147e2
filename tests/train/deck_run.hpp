// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/models/registry.hpp"
#include "tessera/train/async.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/verbs.hpp"

namespace tessera::test {

/// Runs of one deck on simulated meshes, in a folder of their own.
class DeckRun {
 public:
  explicit DeckRun(std::string deck) : deck_(std::move(deck)) {
    static const device::Runtime runtime;
    for (const auto& entry : models::builtin_models()) models_.add(entry.name, entry.make);
  }

  /// Makes a model known besides the built-in ones.
  void add_model(const std::string& name, train::ModelFactory factory) {
    models_.add(name, std::move(factory));
  }
  std::string path(const std::string& name) const { return scratch_.path(name); }

  /// Trains in the folder `name`; returns what was printed.
  std::string train(const std::string& name, const std::string& mesh,
                    const std::vector<std::string>& settings = {}) const {
    const auto read = this->settings(name, mesh, settings);
    std::ostringstream out;
    const auto backend = train::simulated_backend(MeshShape::parse(mesh, 0).size());
    REQUIRE(train::train(*backend, *read, out) == train::kDone);
    return out.str();
  }
  /// The message of the UserError that training ends with, "" if it does not.
  std::string refusal(const std::string& mesh, const std::vector<std::string>& settings) const {
    std::ostringstream out;
    const auto backend = train::simulated_backend(MeshShape::parse(mesh, 0).size());
    return test::message_of<UserError>([&] {
      const auto read = this->settings("refused", mesh, settings);
      train::train(*backend, *read, out);
    });
  }
  /// Trains asynchronously on so many ranks, of which a group has the mesh `mesh`.
  std::string train_async(const std::string& name, std::int64_t ranks, const std::string& mesh,
                          std::vector<std::string> settings,
                          const train::AsyncHooks& hooks = {}) const {
    settings.insert(settings.begin(), "--replicate.mode=async");
    const auto read = this->settings(name, mesh, settings);
    std::ostringstream out;
    const auto backend = train::simulated_backend(ranks);
    train::StopWatch watch(true, train::WallClock(0, 0), read->run.stop_file);
    REQUIRE(train::train_async(*backend, *read, watch, out, hooks) == train::kDone);
    return out.str();
  }
  /// The validation loss of the newest checkpoint in the folder `name`.
  double validation_loss(const std::string& name, const std::string& mesh,
                         const std::vector<std::string>& settings = {}) const {
    const auto read = this->settings(name, mesh, settings);
    std::ostringstream out;
    const auto backend = train::simulated_backend(MeshShape::parse(mesh, 0).size());
    REQUIRE(train::run_eval(*backend, *read, "", true, out) == train::kDone);
    return value_of(out.str(), "validation_loss").at(0);
  }

  /// The deck with more settings, for a run in the folder `name`.
  std::unique_ptr<train::Settings> settings(const std::string& name, const std::string& mesh,
                                            const std::vector<std::string>& more = {}) const {
    config::Deck deck = config::Deck::parse(deck_, path("deck.ini"));
    std::vector<std::string> given{"--run.dir=" + path(name), "--mesh.shape=" + mesh,
                                   "--run.overwrite=true"};
    given.insert(given.end(), more.begin(), more.end());
    deck.set(given);
    return train::read_settings(deck, models_);
  }

  /// Values of a key in the lines of a run's metrics.jsonl.
  std::vector<double> values(const std::string& name, const std::string& key) const {
    std::ifstream in(path(name + "/metrics.jsonl"));
    std::ostringstream text;
    text << in.rdbuf();
    return value_of(text.str(), key);
  }
  /// The largest difference of a key's values in two runs; infinite if their numbers differ.
  double difference(const std::string& one, const std::string& other,
                    const std::string& key) const {
    const auto a = values(one, key), b = values(other, key);
    if (a.size() != b.size() || a.empty()) return INFINITY;
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) worst = worse(worst, std::abs(a[i] - b[i]));
    return worst;
  }

 private:
  static std::vector<double> value_of(const std::string& text, const std::string& key) {
    std::vector<double> values;
    const std::string mark = "\"" + key + "\": ";
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
      values.push_back(std::stod(text.substr(at + mark.size())));
    return values;
  }
  std::string deck_;
  test::Scratch scratch_;
  train::Models models_;
};

}  // namespace tessera::test
