// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/header.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/replicate/replica_context.hpp"
#include "tessera/train/progress.hpp"

namespace tessera::train {
namespace {

/// "mesh      batch:2": the word in a column of its own.
std::string line(const std::string& word, const std::string& text) {
  return word + std::string(10 - std::min<std::size_t>(9, word.size()), ' ') + text + "\n";
}

std::string collectives_text(const plan::Report& report) {
  std::int64_t calls = 0;
  double bytes = 0;
  for (const auto& row : report.collectives) {
    calls += row.count;
    bytes += static_cast<double>(row.bytes);
  }
  return calls == 0
             ? "no collectives"
             : std::to_string(calls) + (calls == 1 ? " collective with " : " collectives with ") +
                   format_bytes(bytes) + " per rank";
}

std::string memory_text(const plan::BytesPerRank& bytes) {
  const auto text = [](std::int64_t value) { return format_bytes(static_cast<double>(value)); };
  return text(bytes.total) + " per rank: parameters " + text(bytes.parameters) + ", gradients " +
         text(bytes.gradients) + ", optimizer " + text(bytes.optimizer) +
         (bytes.caches > 0 ? ", caches " + text(bytes.caches) : "") + ", activations " +
         text(bytes.activations) + ", workspace " + text(bytes.workspace);
}

/// "8 x 128 tokens", "200 samples".
std::string samples_text(const Session& session) {
  const std::int64_t targets = session.feeder->targets_per_row();
  return std::to_string(session.settings.data.batch) + " " +
         (targets > 1 ? "x " + std::to_string(targets) + " " : "") + session.feeder->unit();
}

/// "4 of 8 rows over data:2".
std::string replicas_text(const Compiled& compiled) {
  const auto shares = compiled.task->config().shares();
  const std::int64_t rows = shares.rows() * shares.micro_batches;
  const auto mesh_dim = compiled.layout.mesh_dim_of(replicate::ReplicaContext::kReplica);
  return concat(shares.replicas, " of ", rows, rows == 1 ? " row" : " rows",
                mesh_dim ? " over " + *mesh_dim : ", all on each rank");
}

}  // namespace

std::string header_text(const Session& session, const std::vector<std::string>& notes) {
  const auto& settings = session.settings;
  const auto report = session.compiled.report();
  const auto machine = session.backend.notes(*session.collectives);
  std::string text =
      "Tessera " + base::version() + " (" + base::git_commit() + "; " + base::build_flags() + ")\n";
  text += line("libraries", device::describe() + "; " + session.backend.library());
  for (const auto& note : machine.lines) text += line("ranks", note);
  const std::string mesh = session.compiled.mesh.to_string();
  const std::string layout = session.compiled.layout.to_string();
  text +=
      line("mesh",
           (mesh.empty() ? "one rank" : mesh) + (layout.empty() ? "" : "   layout " + layout) +
               (settings.optim.shard.empty() ? "" : "   optimizer over " + settings.optim.shard) +
               (settings.mesh.store.empty() ? "" : "   weights over " + settings.mesh.store));
  if (!report.recomputed.empty())
    text += line("recompute", join(report.recomputed, ", ") + " run again in the backward pass");
  text += line("model", settings.model_name + ", " +
                            with_commas(session.compiled.task->variables().parameters()) +
                            " parameters, " + settings.train.dtype);
  if (settings.model->is_replicated()) text += line("replicas", replicas_text(session.compiled));
  text += line("data", session.feeder->text());
  text += line("memory", memory_text(report.bytes_per_rank));
  text += line("step", samples_text(session) + ", " +
                           format_operations(report.flops_per_step_all_ranks) + "FLOP, " +
                           collectives_text(report));
  text += line("run", settings.run.dir);
  for (const auto& note : notes)
    text += note.rfind("warning: ", 0) == 0 ? note + "\n" : line("", note);
  for (const auto& warning : machine.warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace tessera::train
