// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/verbs.hpp"

#include <iostream>
#include <ostream>

#include "tessera/base/error.hpp"
#include "tessera/base/json.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/io/inspect.hpp"
#include "tessera/train/drawing.hpp"
#include "tessera/train/evaluation.hpp"
#include "tessera/train/lines.hpp"
#include "tessera/train/sampler.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/state.hpp"
#include "tessera/train/translator.hpp"

namespace tessera::train {
namespace {

bool is_checkpoint(const std::string& file) {
  return file.size() > 3 && file.substr(file.size() - 3) == ".h5";
}

/// The file that eval, sample and translate are told to take weights from; "": they look for one.
std::string weights_of(const Settings& settings, const std::string& file) {
  if (is_checkpoint(file)) return file;
  const auto& resume = settings.train.resume;
  return resume == "auto" || resume == "never" ? "" : resume;
}

/// The prompt, or the lines of the prompts' file.
std::vector<std::string> prompts_of(const Session& session) {
  const auto& config = session.settings.sample;
  if (config.prompt_file.empty()) return {config.prompt};
  return read_lines(session.backend.world(), "sample.prompt_file", config.prompt_file);
}

void print(const Session& session, const Translations& result, bool json) {
  for (std::size_t i = 0; i < result.of_lines.size(); ++i)
    for (const auto& translation : result.of_lines[i]) {
      if (json) {
        JsonWriter text;
        text.begin_object().key("line").value(static_cast<std::int64_t>(i) + 1);
        text.key("text").value(translation.text).key("score").value(translation.score);
        text.key("log_probability").value(translation.log_probability).end_object();
        session.say(text.text());
      } else if (session.settings.translate.best == 1) {
        session.say(translation.text);
      } else {
        session.say(concat(i + 1, "\t", translation.score, "\t", translation.text));
      }
    }
  if (result.cut > 0 && session.backend.is_root())
    std::cerr << "warning: " << result.cut
              << " lines are longer than data.length = " << session.settings.data.length
              << " tokens and were cut\n";
}

}  // namespace

std::string read_deck_text(const std::string& file) {
  if (!is_checkpoint(file)) return config::read_deck_file(file);
  const io::Checkpoint checkpoint(file);
  const Attributes& meta = checkpoint.attributes("/meta");
  check_user(meta.contains("deck"), file, " holds no deck");
  return meta.text("deck");
}

config::Deck read_deck(const std::string& file, const std::string& text,
                       const config::CommandLine& line) {
  config::Deck deck = config::Deck::parse(text, file);
  deck.set(line.settings);
  return deck;
}

ExitCode run_eval(Backend& backend, Settings& settings, const std::string& file, bool json,
                  std::ostream& out) {
  settings.sample.length = settings.sample.count = 0;  // no memory for sections that are not run
  const auto session = open_session(backend, settings, out);
  session->feeder->check_evaluates();
  session->executor->initialize(static_cast<std::uint64_t>(settings.run.seed));
  const std::string loaded = load_for_use(*session, weights_of(settings, file));
  const auto result = session->feeder->evaluate(true, nullptr).record;
  if (json) {
    JsonWriter text;
    text.begin_object().key("checkpoint").value(loaded);
    text.key("validation_" + result.measure).value(result.value);
    for (const auto& [name, value] : result.metrics) text.key("validation_" + name).value(value);
    text.key("validation_" + result.unit).value(result.targets).end_object();
    session->say(text.text());
  } else {
    session->say("checkpoint " + loaded);
    session->say(result.to_string());
  }
  return kDone;
}

ExitCode run_sample(Backend& backend, Settings& settings, const std::string& file,
                    std::ostream& out) {
  constexpr std::int64_t kDefaultLength = 256, kDefaultCount = 100;
  if (settings.sample.length == 0) settings.sample.length = kDefaultLength;
  if (settings.sample.count == 0) settings.sample.count = kDefaultCount;
  const auto session = open_session(backend, settings, out);
  const bool draws = can_draw(*session);
  const auto prompts = draws ? std::vector<std::string>() : prompts_of(*session);
  session->executor->initialize(static_cast<std::uint64_t>(settings.run.seed));
  const std::string loaded = load_for_use(*session, weights_of(settings, file));
  if (draws) {
    session->say(draw_samples(*session, io::Checkpoint(loaded).step()));
    return kDone;
  }
  const auto result = sample(*session, prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts.size() > 1) session->say(concat("prompt ", i + 1, ":"));
    session->say(result.texts[i]);
  }
  // Not among the text, which is the same on every mesh.
  if (backend.is_root())
    std::cerr << with_commas(result.tokens) << " tokens, " << format_count(result.tokens_per_second)
              << " tokens/s\n";
  return kDone;
}

ExitCode run_translate(Backend& backend, Settings& settings, const std::string& file, bool json,
                       std::ostream& out) {
  check_user(!settings.translate.input.empty(),
             "translate.input names no file: give --translate.input=FILE, a line for each text");
  settings.translates = true;
  const auto session = open_session(backend, settings, out);
  check_user(session->compiled.program.has_section("encode"), "model '", settings.model_name,
             "' translates nothing: it has no source");
  const auto lines = read_lines(backend.world(), "translate.input", settings.translate.input);
  session->executor->initialize(static_cast<std::uint64_t>(settings.run.seed));
  load_for_use(*session, weights_of(settings, file));
  const auto result = translate(*session, lines);
  print(*session, result, json);
  if (backend.is_root())
    std::cerr << with_commas(result.tokens) << " tokens, " << format_count(result.tokens_per_second)
              << " tokens/s\n";
  return kDone;
}

ExitCode run_inspect(const std::string& file, bool json, std::ostream& out) {
  const auto inspection = io::inspect_checkpoint(file, json);
  out << inspection.text;
  if (!inspection.text.empty() && inspection.text.back() != '\n') out << '\n';
  return inspection.whole ? kDone : kFailure;
}

std::string usage() {
  return "usage: tessera VERB DECK|FILE [--section.key=value ...]\n"
         "  train DECK            train; train.resume=auto goes on after a stop\n"
         "  eval DECK|FILE.h5     loss over all validation samples (--json)\n"
         "  sample DECK|FILE.h5   continue sample.prompt, or draw sample.count samples\n"
         "  translate DECK|FILE.h5  translate the lines of translate.input (--json)\n"
         "  plan DECK             memory, operations and communication of a step, without "
         "running:\n"
         "                        --json, --json=full, --search, --explain=TENSOR, --deck\n"
         "  calibrate FILE        measure the machine, under its launcher, for plan.machine\n"
         "  inspect FILE.h5       what a checkpoint holds, and whether it is whole (--json)\n"
         "  help [KEY|SECTION]    what deck keys mean\n"
         "A deck is an INI file; settings of the command line win over it. Exit codes: 0 done,\n"
         "1 failure, 2 bad input, 85 stopped in time and saved: the same command with\n"
         "--train.resume=auto goes on.\n";
}

ExitCode run_help(const Models& models, const config::CommandLine& line, std::ostream& out) {
  config::Deck deck;
  deck.set(line.settings);
  const auto settings = describe_settings(models, deck.find("model.name"));
  if (line.files.empty() || line.verb != "help")  // "train DECK --help"
    out << usage() << "\n" << settings->schema.reference();
  else
    for (const auto& key : line.files) out << settings->schema.help(key);
  return kDone;
}

}  // namespace tessera::train
