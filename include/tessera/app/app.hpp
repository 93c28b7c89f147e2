// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/train/models.hpp"

namespace tessera {

/// The executable: all verbs, for the built-in models and those that a program adds.
///
///   int main(int argc, char** argv) {
///     tessera::App app;
///     app.add_model("mine", [] { return std::make_unique<Mine>(); });
///     return app.main(argc, argv);
///   }
class App {
 public:
  using ModelFactory = train::ModelFactory;

  /// Knows the built-in models; a deck that names no model gets the Transformer.
  App();
  /// Makes a model known to decks as model.name = `name`. Error if the name is taken.
  App& add_model(const std::string& name, ModelFactory factory);

  /// Runs the verb of the command line; returns the process's exit code. Prints what goes wrong:
  /// bad input once, for all ranks; anything else with its rank, and ends the job.
  int main(int argc, char** argv) const;

 private:
  int run_without_ranks(const std::string& verb, int argc, char** argv) const;
  int run_on_ranks(const std::string& verb, int argc, char** argv) const;

  train::Models models_;
};

}  // namespace tessera
