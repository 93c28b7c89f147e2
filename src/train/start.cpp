// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/start.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/io/metrics.hpp"

namespace tessera::train {
namespace {

/// Whether train.resume goes on with the run of run.dir. A checkpoint from elsewhere begins one
/// there, which must not cut another one short.
bool goes_on(const Settings& settings) {
  const std::string& resume = settings.train.resume;
  if (resume == "auto" || resume == "never") return resume == "auto";
  const auto folder = std::filesystem::absolute(resume).parent_path();
  std::error_code missing;
  return std::filesystem::equivalent(folder, settings.run_file("checkpoints"), missing);
}

io::RunFolder::Use use_of(const Settings& settings) {
  if (goes_on(settings)) return io::RunFolder::Use::resume;
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

}  // namespace

Start start_run(Session& session, StopWatch& watch) {
  const auto& settings = session.settings;
  Start start;
  start.data = identity_on_all(session);
  watch.clock().set_save_seconds(expected_save_seconds(session));
  start.folder = open_folder(session.backend, settings);
  start.restored =
      restore_state(session, start.state, start.data, settings.run_file("checkpoints"));
  comm::agree_on(session.backend.world(), [&] {
    if (!start.folder) return;
    start.folder->store_deck(settings.schema.resolved());
    io::MetricsFile::cut_after(start.folder->metrics(), start.state.step);
  });
  add_baseline(session, start.restored.notes);
  return start;
}

ExitCode end_stopped(const std::function<void(const std::string&)>& say, const StopWatch& watch,
                     Stop stop, bool in_vain) {
  if (stop == Stop::file) {
    watch.consume_file();
    say("stopped by the stop file, which was removed");
    return kDone;
  }
  // A job that is requeued for ever without getting on would never be noticed.
  if (in_vain) {
    say(concat("error: stopped by ", name_of(stop),
               " before a single new step was done; give it more time"));
    return kFailure;
  }
  say(concat("stopped by ", name_of(stop), ": train.resume=auto goes on from here"));
  return kResumeMe;
}

}  // namespace tessera::train
