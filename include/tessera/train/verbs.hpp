// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <iosfwd>
#include <string>

#include "tessera/config/deck.hpp"
#include "tessera/train/backend.hpp"
#include "tessera/train/settings.hpp"
#include "tessera/train/stops.hpp"

/// What `tessera VERB` does. Verbs without a Backend start neither MPI nor Kokkos.
namespace tessera::train {

/// The deck of a file: an INI file, or a checkpoint (*.h5), which holds the deck of its run; and
/// the settings of the command line.
config::Deck read_deck(const std::string& file, const std::string& text,
                       const config::CommandLine& line);
/// The text of a deck file, or the deck in a checkpoint.
std::string read_deck_text(const std::string& file);

/// Loss over all validation samples, by the weights of the checkpoint `file`; of a deck by those of
/// the file that train.resume names, else of the run's newest checkpoint, else of train.init_from.
ExitCode run_eval(Backend& backend, Settings& settings, const std::string& file, bool json,
                  std::ostream& out);
/// Prints sample.prompt and its continuation by the weights that run_eval would take.
ExitCode run_sample(Backend& backend, Settings& settings, const std::string& file,
                    std::ostream& out);
/// Prints the translations of the lines of translate.input by the weights that run_eval would take:
/// a text a line; with translate.best > 1 number, score and text; with json one object a line.
ExitCode run_translate(Backend& backend, Settings& settings, const std::string& file, bool json,
                       std::ostream& out);
/// Memory, flops and communication of a step. Flags: json, explain=TENSOR, deck (only the resolved
/// deck).
ExitCode run_plan(const Settings& settings, const config::CommandLine& line, std::ostream& out);
/// Measures the machine (plan/machine.hpp) on all ranks, in less than a minute, and writes `file`.
ExitCode run_calibrate(Backend& backend, const std::string& file, std::ostream& out);
/// Describes and verifies a checkpoint; kFailure if it is damaged.
ExitCode run_inspect(const std::string& file, bool json, std::ostream& out);
/// The help of one key or section, or usage and all keys.
ExitCode run_help(const Models& models, const config::CommandLine& line, std::ostream& out);
/// How the executable is called.
std::string usage();

}  // namespace tessera::train
