// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/loop.hpp"

#include <csignal>
#include <filesystem>
#include <iostream>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/signals.hpp"
#include "tessera/io/metrics.hpp"
#include "tessera/io/run_folder.hpp"
#include "tessera/train/header.hpp"
#include "tessera/train/sampler.hpp"
#include "tessera/train/trainer.hpp"

namespace tessera::train {
namespace {

io::RunFolder::Use use_of(const Settings& settings) {
  if (settings.train.resume != "never") return io::RunFolder::Use::resume;
  return settings.run.overwrite ? io::RunFolder::Use::overwrite : io::RunFolder::Use::fresh;
}

/// UserError if train.resume is neither a known word nor a file, so that a slip leaves no folder.
void check_resume(const std::string& resume) {
  const std::vector<std::string> words{"auto", "never"};
  std::error_code unknown;
  check_user(
      resume == words[0] || resume == words[1] || std::filesystem::is_regular_file(resume, unknown),
      "train.resume = ", resume, " is no file", did_you_mean(resume, words),
      "; legal are auto, never and the path of a checkpoint");
}

/// Opens the run's folder on rank 0, which alone writes there outside checkpoints.
std::unique_ptr<io::RunFolder> open_folder(const Backend& backend, const Settings& settings) {
  std::unique_ptr<io::RunFolder> folder;
  comm::agree_on(backend.world(), [&] {
    if (!backend.is_root()) return;
    check_resume(settings.train.resume);
    folder = std::make_unique<io::RunFolder>(settings.run.dir, use_of(settings));
  });
  return folder;
}

/// Reading all data for a digest is rank 0's work alone.
data::DataIdentity identity_on_all(const Session& session) {
  const auto& world = session.backend.world();
  data::DataIdentity identity;
  comm::agree_on(world, [&] {
    if (!session.backend.is_root()) return;
    identity = session.feeder->identity();
  });
  const auto parts = split(world.broadcast_text(concat(identity.size, "|", identity.digest)), '|');
  TESSERA_CHECK(parts.size() == 2 && parse_integer(parts[0], identity.size), "data identity");
  identity.digest = parts[1];
  return identity;
}

/// What a model without context reaches, to judge the validation loss by.
void add_baseline(const Session& session, std::vector<std::string>& notes) {
  if (session.settings.eval.every == 0) return;
  comm::agree_on(session.backend.world(), [&] {
    if (!session.backend.is_root()) return;
    if (const auto baseline = session.feeder->baseline())
      notes.push_back(
          concat("validation loss of single tokens' frequencies: ", *baseline, " nats"));
  });
}

/// What a save is expected to take before one has been measured.
double expected_save_seconds(const Session& session) {
  constexpr double kBytesPerSecond = 200e6;
  double bytes = 0;
  for (const auto& stored : session.compiled.program.variables)
    if (stored.variable.is_saved())
      bytes += static_cast<double>(stored.variable.spec.shape.size()) *
               static_cast<double>(bytes_of(stored.variable.spec.dtype));
  return 0.5 + bytes / kBytesPerSecond;
}

/// Steps, evaluations and checkpoints until the run is done or must stop.
Stop run_steps(Trainer& trainer) {
  Stop stop = trainer.poll();
  if (stop == Stop::none) stop = trainer.evaluate();  // one that a stop interrupted
  while (stop == Stop::none && !trainer.is_done()) {
    stop = trainer.step();
    if (stop == Stop::none) stop = trainer.evaluate();
    if (stop == Stop::none && trainer.is_checkpoint_step()) trainer.save();
  }
  trainer.save();
  return stop;
}

void sample_at_end(Session& session, Trainer& trainer) {
  if (session.settings.sample.length == 0) return;
  trainer.say("sample:");
  for (const auto& text : sample(session, {session.settings.sample.prompt}).texts)
    trainer.say(text);
}

/// The exit code of a run that was stopped, and what it says.
ExitCode end_stopped(Trainer& trainer, const StopWatch& watch, Stop stop, bool resumed) {
  if (stop == Stop::file) {
    watch.consume_file();
    trainer.say("stopped by the stop file, which was removed");
    return kDone;
  }
  // A job that is requeued for ever without getting on would never be noticed.
  if (resumed && trainer.new_steps() == 0) {
    trainer.say(concat("error: stopped by ", name_of(stop),
                       " before a single new step was done; give it more time"));
    return kFailure;
  }
  trainer.say(concat("stopped by ", name_of(stop), ": train.resume=auto goes on from here"));
  return kResumeMe;
}

}  // namespace

ExitCode train(Backend& backend, Settings& settings, std::ostream& out) {
  // 1. Signals only leave a mark from here on; the clock started with the process.
  const int early = comm::pending_signal();
  const comm::StopSignals signals(
      comm::parse_signals("run.stop_signals", join(settings.run.stop_signals, ",")));
  if (early != 0) std::raise(early);
  StopWatch watch(backend.is_root(), WallClock::from_environment(settings.run.walltime),
                  settings.run.stop_file);

  // 2. Task, Program, data, executor; nothing has been written yet.
  const auto session = open_session(backend, settings, out);
  const auto data = identity_on_all(*session);
  watch.clock().set_save_seconds(expected_save_seconds(*session));

  // 3. The run's folder is ours; the variables get their values.
  const auto folder = open_folder(backend, settings);
  RunState state;
  Restored restored = restore_state(*session, state, data, settings.run_file("checkpoints"));
  comm::agree_on(backend.world(), [&] {
    if (!folder) return;
    folder->store_deck(settings.schema.resolved());
    io::MetricsFile::cut_after(folder->metrics(), state.step);
  });
  add_baseline(*session, restored.notes);
  const std::string header = header_text(*session, restored.notes);
  if (folder) out << header << std::flush;

  // 4. Steps.
  Trainer trainer(*session, state, data, watch, folder.get());
  if (restored.is_on_disk) trainer.mark_saved();
  Stop stop = Stop::none;
  try {
    stop = run_steps(trainer);
  } catch (const Diverged& diverged) {
    trainer.finish();
    if (backend.is_root()) std::cerr << "tessera: " << diverged.what() << std::endl;
    return kFailure;
  }

  // 5. The end.
  const bool is_done = stop == Stop::none || (trainer.is_done() && !state.evaluation_due);
  if (is_done) {
    sample_at_end(*session, trainer);
    trainer.say(concat("done: ", state.step, " steps, ", with_commas(state.targets), " ",
                       session->feeder->unit(), ", ", format_time(watch.clock().elapsed())));
    if (stop == Stop::file) watch.consume_file();
  }
  trainer.finish();
  return is_done ? kDone : end_stopped(trainer, watch, stop, restored.resumed);
}

}  // namespace tessera::train
