// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/state.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/io/provenance.hpp"
#include "tessera/io/weights.hpp"
#include "tessera/train/experience.hpp"
#include "tessera/train/finite.hpp"

namespace tessera::train {
namespace {

/// Where checkpoints have what models lived through.
constexpr const char* kExperience = "/env/";

std::int64_t whole_bytes(const Box& box, DType dtype) {
  return volume(box) * static_cast<std::int64_t>(bytes_of(dtype));
}

/// The variables that are saved, read tile by tile through one buffer.
std::vector<io::SavedTensor> saved_tensors(const Session& session, std::vector<char>& buffer) {
  std::vector<io::SavedTensor> tensors;
  const auto& stored = session.compiled.program.variables;
  for (int i = 0; i < static_cast<int>(stored.size()); ++i) {
    const auto& entry = stored[static_cast<std::size_t>(i)];
    if (!entry.variable.is_saved()) continue;
    const auto read = [&session, &buffer, &entry, i](int local_rank) -> const void* {
      const Box box = session.executor->variable_box(i, local_rank);
      buffer.resize(static_cast<std::size_t>(whole_bytes(box, entry.variable.spec.dtype)));
      session.executor->read_variable(i, local_rank, buffer.data());
      return buffer.data();
    };
    tensors.push_back(
        {checkpoint_path(entry.variable), entry.variable.spec, entry.placement, read});
  }
  return tensors;
}

io::Provenance provenance_of(const Session& session) {
  io::Provenance provenance = io::Provenance::here();
  provenance.mpi = session.backend.library();
  provenance.libraries = device::describe();
  provenance.mesh = session.compiled.mesh.to_string();
  provenance.ranks_per_node = session.backend.ranks_on_node();
  return provenance;
}

void read_state(const io::Checkpoint& checkpoint, RunState& state) {
  const auto& meta = checkpoint.attributes("/meta");
  const auto& data = checkpoint.attributes("/data");
  state.step = checkpoint.step();
  state.targets = meta.integer_or("tokens", 0);
  state.best_validation = meta.real_or("best_validation", std::numeric_limits<double>::infinity());
  state.evaluation_due = meta.integer_or("evaluation_due", 0) != 0;
  state.skipped = meta.contains("skipped") ? meta.integers("skipped") : std::vector<std::int64_t>();
  state.position.epoch = data.integer("epoch");
  state.position.index = data.integer("index");
  state.position.step = data.integer("step");
  if (!data.contains("applied")) return;
  state.first_batch.epoch = data.integer("first_epoch");
  state.first_batch.index = data.integer("first_index");
  state.first_batch.step = data.integer("first_batch");
  state.first_step = data.integer("first_step");
  state.applied = data.integers("applied");
}

/// UserError unless the checkpoint's identity keys and data are this run's.
void check_identity(Session& session, const io::Checkpoint& checkpoint,
                    const data::DataIdentity& data) {
  auto& settings = session.settings;
  const std::string deck = checkpoint.attributes("/meta").text("deck");
  if (!settings.schedule_steps_given) {
    const auto stored = config::Deck::parse(deck, "stored deck").find("optim.schedule_steps");
    std::int64_t steps = 0;
    if (stored && parse_integer(*stored, steps) && steps > 0) {
      settings.optim.schedule_steps = steps;
      session.compiled.task->set_schedule_steps(steps);
    }
  }
  const auto& accepted = settings.train.override_keys;
  std::string message;
  std::vector<std::string> keys;
  for (const auto& it : config::identity_differences(settings.schema, deck)) {
    if (std::find(accepted.begin(), accepted.end(), it.key) != accepted.end()) continue;
    // A first start with train.steps = 0 counted on nothing.
    if (it.key == "optim.schedule_steps" && it.deck_value == "0") continue;
    message += concat("\n  ", it.key, " = ", it.deck_value.empty() ? "(empty)" : it.deck_value,
                      " in the checkpoint, ", it.value.empty() ? "(empty)" : it.value, " now");
    keys.push_back(it.key);
  }
  check_user(
      keys.empty(), "cannot resume from ", checkpoint.file(), ":", message,
      "\nGive them their old values, or accept the new ones by train.override = ", join(keys, ","));
  const auto& stored = checkpoint.attributes("/data");
  const bool accepts_data =
      std::find(accepted.begin(), accepted.end(), "data.path") != accepted.end();
  if (!accepts_data)
    data::check_same_data({stored.integer("tokens"), stored.text("digest")}, data,
                          session.feeder->unit());
}

/// What the checkpoint calls weights that train.init_map names, and the states in their scopes as
/// far as it has them.
std::map<std::string, std::string> name_map(const std::vector<std::string>& entries,
                                            const std::vector<io::LoadedTensor>& tensors,
                                            const io::Checkpoint& checkpoint) {
  std::map<std::string, std::string> renamed;
  const std::string root = "/variables/", states = "/state/";
  for (const auto& entry : entries) {
    const auto equals = entry.find('=');
    check_user(equals != std::string::npos && equals > 0 && equals + 1 < entry.size(),
               "train.init_map: '", entry, "' is not of the form ours=theirs");
    const std::string ours = entry.substr(0, equals), theirs = entry.substr(equals + 1);
    if (ours.back() != '/') {
      renamed[root + ours] = root + theirs;
      continue;
    }
    bool is_used = false;
    for (const auto& tensor : tensors) {
      if (tensor.path.starts_with(states + ours)) {
        const std::string there = states + theirs + tensor.path.substr(states.size() + ours.size());
        if (checkpoint.find(there)) renamed[tensor.path] = there;
      }
      if (!tensor.path.starts_with(root + ours)) continue;
      renamed[tensor.path] = root + theirs + tensor.path.substr(root.size() + ours.size());
      is_used = true;
    }
    check_user(is_used, "train.init_map: no weight's name begins with '", ours, "'");
  }
  return renamed;
}

std::vector<std::string> init_from_weights(Session& session) {
  const auto& settings = session.settings;
  // Running statistics and copies of weights belong to them.
  const auto weights = session.loaded_tensors(false);
  std::optional<io::Checkpoint> checkpoint;
  std::map<std::string, std::string> renamed;
  comm::agree_on(session.backend.world(), [&] {
    checkpoint.emplace(settings.train.init_from);
    renamed = name_map(settings.train.init_map, weights, *checkpoint);
  });
  const auto report = io::load_weights(*checkpoint, weights, renamed, *session.collectives);
  std::vector<std::string> notes{concat("weights from ", settings.train.init_from, " (step ",
                                        checkpoint->step(), "): ", report.loaded.size(),
                                        " tensors")};
  if (!report.missing.empty())
    notes.push_back("not in that file, so they begin anew: " + join(report.missing, ", "));
  if (!report.extra.empty())
    notes.push_back("only in that file, so left out: " + join(report.extra, ", "));
  return notes;
}

/// The newest whole checkpoint in the folder, or the file that train.resume names.
std::optional<io::Checkpoint> load_for_resume(Session& session, const data::DataIdentity& data,
                                              const std::string& folder,
                                              std::vector<std::string>& notes) {
  auto tensors = session.loaded_tensors(true);
  for (auto& tensor : session.feeder->loaded()) {
    tensor.optional = true;  // groups of an asynchronous run keep it beside the file
    tensors.push_back(std::move(tensor));
  }
  const auto accept = [&](const io::Checkpoint& candidate) {
    check_identity(session, candidate, data);
  };
  if (session.settings.train.resume == "auto")
    return io::restore_newest(
        folder, accept, tensors, *session.collectives,
        [&](const std::string& warning) { notes.push_back("warning: " + warning); }, kExperience);
  std::optional<io::Checkpoint> checkpoint;
  comm::agree_on(session.backend.world(), [&] {
    checkpoint.emplace(session.settings.train.resume);
    accept(*checkpoint);
  });
  io::load_checkpoint(*checkpoint, tensors, *session.collectives, kExperience);
  return checkpoint;
}

/// Where experience goes on that lies beside the checkpoint, or that it begins anew.
void find_experience(Session& session, const io::Checkpoint& checkpoint, RunState& state,
                     std::vector<std::string>& notes) {
  const auto& tensors = checkpoint.tensors();
  if (std::ranges::any_of(tensors, [](const auto& it) { return it.path.starts_with(kExperience); }))
    return session.feeder->restored();
  if (!session.compiled.program.has_section("act")) return;
  const auto found = load_experience(session, checkpoint.file(), 0);
  notes.push_back(found ? "experience: that of the first group goes on"
                        : "warning: there is no experience beside the checkpoint, it begins anew");
  state.position = found.value_or(data::Position());
}

}  // namespace

std::vector<PhaseRunner> make_runners(Session& session, const RunState& state) {
  const auto& phases = session.compiled.task->phases();
  // A checkpoint of a step with other phases says nothing of these.
  const bool is_known = state.skipped.size() == phases.size();
  std::vector<PhaseRunner> runners;
  for (std::size_t p = 0; p < phases.size(); ++p)
    runners.emplace_back(session, phases[p], is_known ? state.skipped[p] : 0);
  return runners;
}

std::vector<std::int64_t> skipped_by(const std::vector<PhaseRunner>& runners) {
  std::vector<std::int64_t> skipped;
  for (const auto& runner : runners) skipped.push_back(runner.skipped());
  return skipped;
}

std::string save_state(const Session& session, const RunState& state,
                       const data::DataIdentity& data, const std::string& folder) {
  require_finite_variables(session);
  std::vector<char> buffer;
  io::CheckpointContent content;
  content.step = state.step;
  content.tensors = saved_tensors(session, buffer);
  for (auto& tensor : session.feeder->saved()) content.tensors.push_back(std::move(tensor));
  auto& meta = content.attributes["/meta"];
  meta.set("deck", session.settings.schema.resolved());
  meta.set("tokens", state.targets);
  if (std::isfinite(state.best_validation)) meta.set("best_validation", state.best_validation);
  meta.set("evaluation_due", std::int64_t{state.evaluation_due});
  if (std::ranges::any_of(state.skipped, [](auto count) { return count > 0; }))
    meta.set("skipped", state.skipped);
  provenance_of(session).add_to(meta);
  auto& position = content.attributes["/data"];
  position.set("epoch", state.position.epoch);
  position.set("index", state.position.index);
  position.set("step", state.position.step);
  position.set("tokens", data.size);
  position.set("digest", data.digest);
  if (!state.applied.empty())
    position.set("first_epoch", state.first_batch.epoch)
        .set("first_index", state.first_batch.index)
        .set("first_batch", state.first_batch.step)
        .set("first_step", state.first_step)
        .set("applied", state.applied);
  return io::save_checkpoint(folder, content, *session.collectives,
                             static_cast<int>(session.settings.checkpoint.keep));
}

Restored restore_state(Session& session, RunState& state, const data::DataIdentity& data,
                       const std::string& folder) {
  Restored restored;
  const auto& train = session.settings.train;
  session.executor->initialize(static_cast<std::uint64_t>(session.settings.run.seed));
  if (train.resume != "never") {
    const auto checkpoint = load_for_resume(session, data, folder, restored.notes);
    if (checkpoint) {
      read_state(*checkpoint, state);
      // What a stop left due, unless this deck has no evaluations any more.
      const bool evaluates = session.feeder->evaluates() && session.settings.eval.every > 0;
      state.evaluation_due = state.evaluation_due && evaluates;
      restored.resumed = true;
      restored.file = checkpoint->file();
      restored.is_on_disk = train.resume == "auto";
      restored.notes.push_back(
          concat("resumed from ", checkpoint->file(), " at step ", state.step));
      find_experience(session, *checkpoint, state, restored.notes);
      for (const auto& difference :
           provenance_of(session).differences(checkpoint->attributes("/meta")))
        restored.notes.push_back("warning: not bitwise the same run any more, " + difference);
      return restored;
    }
  }
  if (train.init_from.empty()) {
    restored.notes.push_back(concat("new run, seed ", session.settings.run.seed));
  } else {
    restored.notes = init_from_weights(session);
  }
  return restored;
}

std::string load_for_use(Session& session, const std::string& file) {
  const auto tensors = session.loaded_tensors(false);
  const std::string folder = session.settings.run_file("checkpoints");
  auto files =
      file.empty() ? io::find_checkpoints(folder, *session.collectives) : std::vector{file};
  const std::string& first = session.settings.train.init_from;
  if (files.empty() && !first.empty()) files.push_back(first);
  check_user(!files.empty(), "there is no checkpoint in ", folder,
             ": train first, or name a file by train.init_from");
  for (const auto& candidate : files) {
    // The optimizer's state in the file is of no use here.
    const Status status = attempt([&] {
      std::optional<io::Checkpoint> checkpoint;
      comm::agree_on(session.backend.world(), [&] { checkpoint.emplace(candidate); });
      io::load_checkpoint(*checkpoint, tensors, *session.collectives, "/");
    });
    if (status.ok()) return candidate;
    if (candidate == files.back()) throw_unless_ok(status);
    session.say("warning: " + status.message);
  }
  return "";
}

}  // namespace tessera::train
