// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/app.hpp"

#include <algorithm>
#include <iostream>
#include <optional>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/comm/abort.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/environment.hpp"
#include "tessera/comm/signals.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/models/registry.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/verbs.hpp"

namespace tessera {
namespace {

using config::CommandLine;

const std::vector<std::string> kVerbsOnRanks{"train", "eval", "sample", "translate", "calibrate"};
const std::vector<std::string> kVerbsWithoutRanks{"plan", "inspect", "help"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The first argument that is no option, "version" for --version; "help" if --help stands anywhere:
/// who asks for it wants no run.
std::string verb_of(int argc, char** argv) {
  std::string verb;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") return "help";
    if (!verb.empty()) continue;
    if (argument == "--version")
      verb = "version";
    else if (!argument.empty() && argument.front() != '-')
      verb = argument;
  }
  return verb;
}

/// The command line without what Kokkos left of its own options, of which it warns.
CommandLine read_command_line(int argc, char** argv, bool is_root) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") continue;
    if (argument.rfind("--kokkos-", 0) != 0)
      arguments.push_back(argument);
    else if (is_root)
      std::cerr << "warning: this Kokkos does not know " << argument << ", dropped\n";
  }
  return config::parse_command_line(arguments);
}

const std::string& only_file(const CommandLine& line) {
  check_user(line.files.size() == 1, "tessera ", line.verb, " needs one ",
             line.verb == "inspect"     ? "checkpoint"
             : line.verb == "calibrate" ? "file to write"
                                        : "deck",
             ", and was given ", line.files.empty() ? "none" : join(line.files, " "));
  return line.files.front();
}

/// UserError for a flag that is not known: "json" stands alone, "explain=" needs a text,
/// "json=full" may be this text.
void check_flags(const CommandLine& line, const std::vector<std::string>& known) {
  for (const auto& flag : line.flags) {
    const auto equals = flag.find('=');
    const std::string name = flag.substr(0, equals);
    const bool stands_alone = contains(known, name), takes_text = contains(known, name + "=");
    check_user(stands_alone || takes_text, "tessera ", line.verb, " knows no --", name,
               did_you_mean(name, known), "; deck keys are written --section.key=value");
    check_user(!takes_text || (equals != std::string::npos && equals + 1 < flag.size()), "--", name,
               " needs a text: --", name, "=TEXT");
    check_user(takes_text || equals == std::string::npos || contains(known, flag), "--", name,
               " takes no text");
  }
}

/// All ranks compute with kernels that every one of them has, so they compute alike.
void agree_on_isa(const comm::World& world) {
  int level = device::supported_isa_level();
  for (std::int64_t other : world.gather_integer(level))
    level = std::min(level, static_cast<int>(other));
  device::set_isa_level(level);
}

/// Rank 0 reads, everybody parses the same text.
std::unique_ptr<train::Settings> read_settings(const comm::World& world, const CommandLine& line,
                                               const train::Models& models) {
  std::string text;
  comm::agree_on(world, [&] {
    if (world.rank() == 0) text = train::read_deck_text(only_file(line));
  });
  text = world.broadcast_text(text);
  std::unique_ptr<train::Settings> settings;
  comm::agree_on(world, [&] {
    settings = train::read_settings(train::read_deck(only_file(line), text, line), models);
  });
  return settings;
}

int run_verb(const CommandLine& line, train::Backend& backend, train::Settings& settings) {
  if (line.verb == "train") return train::train(backend, settings, std::cout);
  const std::string& file = only_file(line);
  if (line.verb == "eval")
    return train::run_eval(backend, settings, file, line.has("json"), std::cout);
  if (line.verb == "translate")
    return train::run_translate(backend, settings, file, line.has("json"), std::cout);
  return train::run_sample(backend, settings, file, std::cout);
}

}  // namespace

App::App() {
  for (const auto& model : models::builtin_models()) models_.add(model.name, model.make);
}

App& App::add_model(const std::string& name, ModelFactory factory) {
  models_.add(name, std::move(factory));
  return *this;
}

int App::run_without_ranks(const std::string& verb, int argc, char** argv) const {
  const CommandLine line = read_command_line(argc, argv, false);
  if (verb == "help") return train::run_help(models_, line, std::cout);
  const std::string& file = only_file(line);
  if (verb == "inspect") {
    check_flags(line, {"json"});
    return train::run_inspect(file, line.has("json"), std::cout);
  }
  check_flags(line, {"json", "json=full", "search", "explain=", "deck"});
  const auto deck = train::read_deck(file, train::read_deck_text(file), line);
  return train::run_plan(*train::read_settings(deck, models_), line, std::cout);
}

int App::run_on_ranks(const std::string& verb, int argc, char** argv) const {
  // 1. A signal that comes while the job starts must not end it before the deck can say which
  //    signals are meant.
  std::optional<comm::StopSignals> early;
  if (verb == "train") early.emplace(comm::parse_signals("run.stop_signals", "USR1,TERM"));
  // 2. MPI, then Kokkos on this rank's device.
  comm::Environment environment(argc, argv);
  comm::install_terminate_handler();
  try {
    const device::Runtime runtime(argc, argv, environment.local_rank(),
                                  environment.ranks_on_node());
    agree_on_isa(environment.world());
    const auto backend = train::mpi_backend(environment);
    const CommandLine line = read_command_line(argc, argv, environment.rank() == 0);
    check_flags(line, verb == "eval" || verb == "translate" ? std::vector<std::string>{"json"}
                                                            : std::vector<std::string>{});
    check_user(verb != "calibrate" || line.settings.empty(),
               "tessera calibrate takes no deck keys, and was given ", join(line.settings, " "));
    if (verb == "calibrate") return train::run_calibrate(*backend, only_file(line), std::cout);
    // 3. The deck.
    const auto settings = read_settings(environment.world(), line, models_);
    // 4. The verb: mesh, program, data, steps.
    return run_verb(line, *backend, *settings);
  } catch (const UserError& error) {
    // The same on all ranks: phases that fail on one rank alone end in an agreement.
    if (environment.rank() == 0) std::cerr << "tessera: " << error.what() << std::endl;
    return train::kBadInput;
  } catch (...) {
    comm::abort_job(comm::describe_current_exception(), train::kFailure);
  }
}

int App::main(int argc, char** argv) const {
  const std::string verb = verb_of(argc, argv);
  try {
    if (verb == "version") {
      std::cout << "Tessera " << base::version() << " (" << base::git_commit() << ")\n";
      return train::kDone;
    }
    if (contains(kVerbsOnRanks, verb)) return run_on_ranks(verb, argc, argv);
    if (contains(kVerbsWithoutRanks, verb)) return run_without_ranks(verb, argc, argv);
    auto verbs = kVerbsOnRanks;
    verbs.insert(verbs.end(), kVerbsWithoutRanks.begin(), kVerbsWithoutRanks.end());
    std::cerr << (verb.empty()
                      ? ""
                      : "tessera: unknown verb '" + verb + "'" + did_you_mean(verb, verbs) + "\n")
              << train::usage();
    return train::kBadInput;
  } catch (const UserError& error) {
    std::cerr << "tessera: " << error.what() << std::endl;
    return train::kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "tessera: " << error.what() << std::endl;
    return train::kFailure;
  }
}

}  // namespace tessera
