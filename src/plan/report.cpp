// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/report.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "exchange_count.hpp"
#include "storage.hpp"
#include "tessera/base/json.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/work.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::CollectiveKind;
using program::CollectiveRow;
using program::Section;

/// Elements of all ranks' tiles together: every dim's tiles add up to the dim, and each mesh dim
/// that cuts nothing multiplies, unless the tensor is at one coordinate of it.
std::int64_t elements_of_all_ranks(const Shape& shape, const Placement& placement,
                                   const MeshShape& mesh) {
  std::int64_t elements = shape.size();
  for (int m = 0; m < mesh.rank(); ++m)
    if (!placement[m].is_split() && !placement[m].is_at()) elements *= mesh[m].size;
  return elements;
}

class Counter {
 public:
  Counter(const program::Program& program, const Section& section)
      : mesh_(program.mesh), section_(section) {
    if (const auto stage = mesh_.find(kStageDim))
      stages_ = static_cast<std::size_t>(mesh_[*stage].size);
  }

  std::vector<CollectiveRow> run() {
    for (std::size_t i = 0; i < section_.steps.size(); ++i) {
      const auto& step = section_.steps[i];
      times_ = section_.times(static_cast<int>(i));
      if (const auto* reduce = std::get_if<program::AllReduceStep>(&step)) count(*reduce);
      if (const auto* relayout = std::get_if<program::RelayoutStep>(&step)) count(*relayout);
      if (const auto* exchange = std::get_if<program::ExchangeStep>(&step))
        if (!exchange->mesh_dims.empty())
          exchanges_[exchange->mesh_dims].push_back({exchange, times_});
      if (const auto* ring = std::get_if<program::RingStep>(&step))
        exchanges_[{ring->mesh_dim}].push_back({ring, times_});
      if (const auto* transfer = std::get_if<program::TransferStep>(&step))
        exchanges_[{transfer->mesh_dim}].push_back({transfer, times_});
    }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      rows_[r].bytes = *std::max_element(by_stage_[r].begin(), by_stage_[r].end());
    for (const auto& [mesh_dims, steps] : exchanges_) {
      rows_.push_back({section_.name, CollectiveKind::neighbour_exchange, mesh_dims, 0, 0, 0});
      count_exchanges(steps, section_.buffers, mesh_, rows_.back());
    }
    return std::move(rows_);
  }

 private:
  const Buffer& buffer(program::BufferId id) const {
    return section_.buffers[static_cast<std::size_t>(id)];
  }
  void add(CollectiveKind op, const std::vector<int>& mesh_dims, std::int64_t bytes,
           std::int64_t all, int stage) {
    if (mesh_.group_size(mesh_dims) == 1) return;
    auto row = std::find_if(rows_.begin(), rows_.end(), [&](const CollectiveRow& known) {
      return known.op == op && known.mesh_dims == mesh_dims;
    });
    if (row == rows_.end())
      row = rows_.insert(rows_.end(), {section_.name, op, mesh_dims, 0, 0, 0});
    by_stage_.resize(rows_.size(), std::vector<std::int64_t>(stages_));
    auto& of_row = by_stage_[static_cast<std::size_t>(row - rows_.begin())];
    for (std::size_t s = 0; s < stages_; ++s)
      if (stage < 0 || s == static_cast<std::size_t>(stage)) of_row[s] += times_ * bytes;
    row->count += times_;
    row->bytes_all_ranks += times_ * all;
  }
  void count(const program::AllReduceStep& step) {
    std::int64_t bytes = 0, all = 0;
    for (program::BufferId id : step.buffers) {
      bytes += buffer(id).bytes;
      all += bytes_of_all(buffer(id));
    }
    if (step.contiguous && step.buffers.size() > 1) {
      // One stretch of memory, gaps behind smaller tiles included.
      const Buffer& last = buffer(step.buffers.back());
      bytes = last.offset + last.bytes - buffer(step.buffers[0]).offset;
      all = bytes * mesh_.size();
      if (program::stage_of(last.placement) >= 0) all /= static_cast<std::int64_t>(stages_);
    }
    add(CollectiveKind::all_reduce, step.mesh_dims, bytes, all,
        program::stage_of(buffer(step.buffers[0]).placement));
  }
  void count(const program::RelayoutStep& step) {
    std::int64_t bytes = 0, all = 0;
    for (program::BufferId id :
         step.kind == CollectiveKind::all_gather ? step.outputs : step.inputs) {
      bytes += buffer(id).bytes;
      all += bytes_of_all(buffer(id));
    }
    add(step.kind, {step.mesh_dim}, bytes, all,
        program::stage_of(buffer(step.inputs[0]).placement));
  }
  std::int64_t bytes_of_all(const Buffer& buffer) const {
    return elements_of_all_ranks(buffer.spec.shape, buffer.placement, mesh_) *
           static_cast<std::int64_t>(bytes_of(buffer.spec.dtype));
  }

  const MeshShape& mesh_;
  const Section& section_;
  std::vector<CollectiveRow> rows_;
  std::size_t stages_ = 1;
  std::vector<std::vector<std::int64_t>> by_stage_;  ///< bytes, by row and stage
  std::int64_t times_ = 1;                           ///< how often the step at hand runs
  std::map<std::vector<int>, std::vector<CountedExchange>> exchanges_;
};

std::string mesh_dims_text(const std::vector<int>& mesh_dims, const MeshShape& mesh) {
  std::vector<std::string> names;
  for (int m : mesh_dims) names.push_back(mesh[m].name);
  return join(names, "+");
}

/// Adds a section's flights.
void count_flights(const Section& section, const MeshShape& mesh, std::int64_t runs,
                   Report& report) {
  std::map<int, std::int64_t> under_way;
  std::int64_t bytes = 0;
  for (const auto& step : section.steps) {
    if (const int flight = program::started_by(step); flight >= 0) {
      under_way[flight] = static_cast<std::int64_t>(transfer_of(section, step, mesh).bytes);
      bytes += under_way[flight];
      report.flights += runs;
    } else if (const auto* finish = std::get_if<program::FinishStep>(&step)) {
      bytes -= under_way[finish->flight];
    }
    report.bytes_in_flight = std::max(report.bytes_in_flight, bytes);
  }
}

/// The variables of a rank of one stage.
BytesPerRank variables_at(const program::Program& program, int stage) {
  BytesPerRank bytes;
  for (const auto& stored : program.variables) {
    const int at = program::stage_of(stored.placement);
    if (at >= 0 && at != stage) continue;
    const std::int64_t size = align(stored.bytes);
    if (stored.variable.kind == Variable::Kind::slot)
      bytes.optimizer += size;
    else if (stored.variable.kind == Variable::Kind::cache)
      bytes.caches += size;
    else if (stored.variable.kind != Variable::Kind::gradient)
      bytes.parameters += size;
    else
      bytes.gradients += size;
  }
  bytes.total = bytes.parameters + bytes.optimizer + bytes.caches + bytes.gradients;
  return bytes;
}

BytesPerRank memory_of(const program::Program& program) {
  const auto stage_dim = program.mesh.find(kStageDim);
  const std::int64_t stages = stage_dim ? program.mesh[*stage_dim].size : 1;
  BytesPerRank bytes;
  for (int stage = 0; stage < stages; ++stage)
    if (const auto here = variables_at(program, stage); here.total > bytes.total) bytes = here;
  bytes.gradients = program.variable_bytes - bytes.parameters - bytes.optimizer - bytes.caches;
  for (const auto& section : program.sections)
    if (section.arena_bytes > bytes.activations + bytes.workspace) {
      bytes.workspace = std::min(section.workspace_bytes, section.arena_bytes);
      bytes.activations = section.arena_bytes - bytes.workspace;
    }
  bytes.total = program.arena_bytes;
  return bytes;
}

void write_mesh_dims(JsonWriter& json, const std::vector<int>& mesh_dims, const MeshShape& mesh) {
  json.key("mesh_dims").begin_array();
  for (int m : mesh_dims) json.value(mesh[m].name);
  json.end_array();
}

void write_prediction(JsonWriter& json, const Report& report, const MeshShape& mesh) {
  const Prediction& seconds = *report.predicted;
  json.key("predicted_step_s").value(seconds.step);
  if (report.items > 0 && seconds.step > 0)
    json.key("predicted_" + report.unit + "_per_s")
        .value(static_cast<double>(report.items) / seconds.step);
  json.key("predicted").begin_object().key("machine").value(report.machine);
  json.key("compute_s").value(seconds.compute);
  json.key("communication_s").value(seconds.communication);
  json.key("exposed_s").value(seconds.exposed).key("host_s").value(seconds.host);
  if (!seconds.stages.empty()) {
    json.key("waiting_s").value(seconds.waiting).key("bubble").value(seconds.bubble);
    json.key("stages_s").begin_array();
    for (const double busy : seconds.stages) json.value(busy);
    json.end_array();
  }
  json.key("by_mesh_dims").begin_array();
  for (const auto& [mesh_dims, part] : seconds.by_mesh_dims) {
    json.begin_object();
    write_mesh_dims(json, mesh_dims, mesh);
    json.key("seconds").value(part).end_object();
  }
  json.end_array().key("by_kernel").begin_object();
  for (const auto& [kind, part] : seconds.by_kind) json.key(kind).value(part);
  json.end_object().end_object();
}

std::string line(const std::string& name, const std::string& value) {
  char text[256];
  std::snprintf(text, sizeof text, "  %-26s %s\n", name.c_str(), value.c_str());
  return text;
}

std::string seconds_text(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, seconds < 1 ? "%.3f ms" : "%.3f s",
                seconds < 1 ? 1e3 * seconds : seconds);
  return text;
}

std::string prediction_table(const Report& report, const MeshShape& mesh) {
  const Prediction& seconds = *report.predicted;
  std::string text = "predicted step on " + report.machine + "\n";
  text += line("compute", seconds_text(seconds.compute));
  for (const auto& [mesh_dims, part] : seconds.by_mesh_dims)
    text += line("communication " + mesh_dims_text(mesh_dims, mesh), seconds_text(part));
  text += line("exposed communication", seconds_text(seconds.exposed));
  if (!seconds.stages.empty()) {
    std::vector<std::string> busy;
    for (const double stage : seconds.stages) busy.push_back(seconds_text(stage));
    text += line("busy by stage", join(busy, ", "));
    text += line("waiting for stages", seconds_text(seconds.waiting));
    char bubble[32];
    std::snprintf(bubble, sizeof bubble, "%.1f %%", 100 * seconds.bubble);
    text += line("bubble", bubble);
  }
  text += line("host", seconds_text(seconds.host));
  text += line("step", seconds_text(seconds.step));
  if (report.items > 0 && seconds.step > 0)
    text += line("rate", format_count(static_cast<double>(report.items) / seconds.step) + " " +
                             report.unit + "/s");
  return text;
}

}  // namespace

std::vector<CollectiveRow> collectives_of(const program::Program& program, const Section& section) {
  return Counter(program, section).run();
}

Report report(const program::Program& program, const std::vector<SectionRuns>& step) {
  Report report;
  report.mesh = program.mesh.to_string();
  report.ranks = program.mesh.size();
  for (const auto& stored : program.variables)
    if (stored.variable.kind == Variable::Kind::weight)
      report.parameters += stored.variable.spec.shape.size();
  report.bytes_per_rank = memory_of(program);
  for (const auto& runs : step) {
    const Section& section = program.section(runs.section);
    report.flops_per_step += section.flops * static_cast<double>(runs.runs);
    count_flights(section, program.mesh, runs.runs, report);
    report.flops_per_step_all_ranks += section.flops_all_ranks * static_cast<double>(runs.runs);
    for (auto row : collectives_of(program, section)) {
      row.count *= runs.runs;
      row.bytes *= runs.runs;
      row.bytes_all_ranks *= runs.runs;
      row.messages *= runs.runs;
      report.collectives.push_back(std::move(row));
    }
  }
  return report;
}

void write_report(JsonWriter& json, const Report& report, const MeshShape& mesh) {
  json.key("mesh").value(report.mesh).key("ranks").value(report.ranks);
  json.key("parameters").value(report.parameters);
  const auto& bytes = report.bytes_per_rank;
  json.key("bytes_per_rank").begin_object();
  json.key("parameters").value(bytes.parameters).key("gradients").value(bytes.gradients);
  json.key("optimizer").value(bytes.optimizer).key("caches").value(bytes.caches);
  json.key("activations").value(bytes.activations);
  json.key("workspace").value(bytes.workspace).key("total").value(bytes.total);
  json.end_object();
  json.key("flops_per_step").value(report.flops_per_step);
  json.key("flops_per_step_all_ranks").value(report.flops_per_step_all_ranks);
  json.key("collectives").begin_array();
  for (const auto& row : report.collectives) {
    json.begin_object();
    json.key("section").value(row.section).key("op").value(name_of(row.op));
    write_mesh_dims(json, row.mesh_dims, mesh);
    json.key("count").value(row.count).key("bytes").value(row.bytes);
    json.key("bytes_all_ranks").value(row.bytes_all_ranks);
    if (row.op == CollectiveKind::neighbour_exchange) json.key("messages").value(row.messages);
    json.end_object();
  }
  json.end_array();
  json.key("flights").value(report.flights).key("bytes_in_flight").value(report.bytes_in_flight);
  json.key("recomputed").begin_array();
  for (const auto& region : report.recomputed) json.value(region);
  json.end_array();
  if (report.predicted) write_prediction(json, report, mesh);
}

std::string to_json(const Report& report, const MeshShape& mesh) {
  JsonWriter json;
  json.begin_object();
  write_report(json, report, mesh);
  json.end_object();
  return json.text() + "\n";
}

std::string to_table(const Report& report, const MeshShape& mesh) {
  const auto& bytes = report.bytes_per_rank;
  std::string text = "plan\n";
  text += line("mesh", report.mesh.empty()
                           ? "one rank"
                           : report.mesh + " (" + with_commas(report.ranks) + " ranks)");
  text += line("parameters", with_commas(report.parameters) + " (" +
                                 format_count(static_cast<double>(report.parameters)) + ")");
  text += line("flops per step and rank", format_count(report.flops_per_step));
  if (!report.recomputed.empty()) text += line("computed again", join(report.recomputed, ", "));
  text += "bytes per rank\n";
  text += line("parameters", format_bytes(static_cast<double>(bytes.parameters)));
  text += line("gradients", format_bytes(static_cast<double>(bytes.gradients)));
  text += line("optimizer", format_bytes(static_cast<double>(bytes.optimizer)));
  if (bytes.caches > 0) text += line("caches", format_bytes(static_cast<double>(bytes.caches)));
  text += line("activations", format_bytes(static_cast<double>(bytes.activations)));
  text += line("workspace", format_bytes(static_cast<double>(bytes.workspace)));
  text += line("total", format_bytes(static_cast<double>(bytes.total)));
  text +=
      report.collectives.empty()
          ? "no collectives\n"
          : "collectives per step              over        calls   bytes per rank   bytes of all\n";
  for (const auto& row : report.collectives) {
    char text_row[256];
    std::snprintf(text_row, sizeof text_row, "  %-10s %-18s %-14s %6lld %14s %14s\n",
                  row.section.c_str(), name_of(row.op), mesh_dims_text(row.mesh_dims, mesh).c_str(),
                  static_cast<long long>(row.count),
                  format_bytes(static_cast<double>(row.bytes)).c_str(),
                  format_bytes(static_cast<double>(row.bytes_all_ranks)).c_str());
    text += text_row;
  }
  if (report.flights > 0)
    text += line("under way beside work",
                 with_commas(report.flights) + " of them, at most " +
                     format_bytes(static_cast<double>(report.bytes_in_flight)) + " at once");
  if (report.predicted) text += prediction_table(report, mesh);
  return text;
}

}  // namespace tessera::plan
