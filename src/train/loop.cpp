// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/loop.hpp"

#include <csignal>
#include <iostream>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/signals.hpp"
#include "tessera/train/async.hpp"
#include "tessera/train/header.hpp"
#include "tessera/train/sampler.hpp"
#include "tessera/train/start.hpp"
#include "tessera/train/trainer.hpp"

namespace tessera::train {
namespace {

/// Steps, evaluations and checkpoints until the run is done or must stop.
Stop run_steps(Trainer& trainer) {
  Stop stop = trainer.poll();
  if (stop == Stop::none) stop = trainer.evaluate();  // one that a stop interrupted
  while (stop == Stop::none && !trainer.is_done()) {
    stop = trainer.step();
    if (stop == Stop::none) stop = trainer.evaluate();
    const bool is_end = stop != Stop::none || trainer.is_done();
    // Drawing can take longer than the time that is left.
    if (is_end || trainer.is_checkpoint_step()) trainer.save();
    trainer.draw();
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

}  // namespace

ExitCode train(Backend& backend, Settings& settings, std::ostream& out) {
  // 1. Signals only leave a mark from here on; the clock started with the process.
  const int early = comm::pending_signal();
  const comm::StopSignals signals(
      comm::parse_signals("run.stop_signals", join(settings.run.stop_signals, ",")));
  if (early != 0) std::raise(early);
  StopWatch watch(backend.is_root(), WallClock::from_environment(settings.run.walltime),
                  settings.run.stop_file);

  if (settings.async.is_async()) return train_async(backend, settings, watch, out);

  // 2. Task, Program, data, executor; nothing has been written yet.
  const auto session = open_session(backend, settings, out);
  if (settings.sample.length > 0) check_can_sample(*session);

  // 3. The run's folder is ours; the variables get their values.
  Start begun = start_run(*session, watch);
  auto& [data, folder, state, restored] = begun;
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
  return is_done ? kDone
                 : end_stopped([&](const std::string& line) { trainer.say(line); }, watch, stop,
                               restored.resumed && trainer.new_steps() == 0);
}

}  // namespace tessera::train
