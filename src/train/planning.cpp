// SPDX-License-Identifier: BSD-3-Clause
// `tessera plan`: what a step costs, without running it, and which layout costs least.
#include <cstdio>
#include <map>
#include <ostream>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/cost_model.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/search.hpp"
#include "tessera/train/compiled.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/stages.hpp"
#include "tessera/train/transfer.hpp"
#include "tessera/train/verbs.hpp"
#include "tessera/train/wall_clock.hpp"

namespace tessera::train {
namespace {

std::int64_t planned_ranks(const Settings& settings) {
  if (settings.plan.ranks > 0) return settings.plan.ranks;
  if (settings.async.is_async()) return settings.async.servers + ranks_of_group(settings);
  const auto& shape = settings.mesh.shape;
  if (shape.empty()) return 1;
  check_user(shape.find('*') == std::string::npos, "mesh.shape = ", shape,
             " needs a number of ranks: give plan.ranks");
  return MeshShape::parse(shape, 0).size();
}

plan::Report predicted_report(const Settings& settings, const plan::Machine& machine,
                              const Compiled& compiled) {
  const plan::CostModel model(machine, compiled.mesh, settings.plan.ranks_per_node);
  plan::Report report = compiled.report();
  report.machine = machine.name;
  report.predicted = model.predict(compiled.program, compiled.step());
  const auto fields = wanted_data(settings).inputs;
  report.unit = data::unit_of(fields);
  report.items = settings.data.batch * data::weights_of(fields);
  return report;
}

/// Costs of candidates: graphs are built once for each choice that shapes them.
class Evaluator {
 public:
  Evaluator(const Settings& settings, const plan::Machine& machine)
      : settings_(settings), machine_(machine) {}

  const replicate::Task& task(const plan::Candidate& choice) {
    auto& task = tasks_[{choice.micro_batches, choice.recompute, replicas_of(settings_, choice)}];
    if (!task)
      task = make_task(
          settings_, choice,
          choice.recompute == "all" ? std::vector<std::string>{"*"} : std::vector<std::string>{});
    return *task;
  }
  /// Graphs of one training step: what else there is needs less memory and no time.
  static std::vector<const Graph*> graphs_of(const replicate::Task& task) {
    std::vector<const Graph*> graphs;
    for (const Graph* graph : task.graphs())
      for (const auto& count : task.step_sections())
        if (count.section == graph->section()) graphs.push_back(graph);
    return graphs;
  }

  std::optional<plan::Evaluation> operator()(const plan::Candidate& choice) {
    try {
      const auto& made = task(choice);
      const auto program =
          plan::compile(made.variables(), graphs_of(made), plan_options(settings_, choice, made));
      std::vector<plan::SectionRuns> runs;
      for (const auto& count : made.step_sections())
        if (program.has_section(count.section)) runs.push_back({count.section, count.runs});
      const plan::CostModel model(machine_, choice.mesh, settings_.plan.ranks_per_node);
      return plan::Evaluation{model.predict(program, runs), program.arena_bytes};
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

 private:
  const Settings& settings_;
  const plan::Machine& machine_;
  using Key = std::tuple<std::int64_t, std::string, std::int64_t>;
  std::map<Key, std::unique_ptr<replicate::Task>> tasks_;
};

plan::SearchOptions search_options(const Settings& settings, const plan::Candidate& deck,
                                   std::int64_t ranks) {
  plan::SearchOptions options;
  options.ranks = ranks;
  if (!settings.plan.memory_limit.empty())
    options.memory_limit = parse_bytes("plan.memory_limit", settings.plan.memory_limit);
  options.time_limit = settings.plan.time_limit;
  options.objective =
      settings.plan.objective == "memory" ? plan::Objective::memory : plan::Objective::time;
  options.mesh_names = deck.layout.mesh_dims();
  options.seeds = {deck};
  options.now = seconds_since_start;
  if (options.objective == plan::Objective::memory) return options;
  options.recompute = {"none", "all"};
  constexpr std::int64_t kMostMicroBatches = 64;
  options.micro_batches.clear();
  for (std::int64_t parts = 1; parts <= std::min(settings.data.batch, kMostMicroBatches); ++parts)
    if (settings.data.batch % parts == 0) options.micro_batches.push_back(parts);
  return options;
}

std::string progress_of(const plan::SearchResult& result, double seconds) {
  char text[200];
  std::snprintf(
      text, sizeof text, "%lld plans on %zu of %zu meshes in %.1f s, %s",
      static_cast<long long>(result.evaluated), result.meshes_explored, result.meshes, seconds,
      result.finished ? "until no single change was better" : "then plan.time_limit was reached");
  return text;
}

void write_candidate(JsonWriter& json, const plan::Candidate& choice) {
  json.key("mesh_shape").value(choice.mesh.to_string());
  json.key("layout").value(choice.layout.to_string()).key("shard").value(choice.shard);
  json.key("store").value(choice.store);
  json.key("micro_batches").value(choice.micro_batches);
  json.key("recompute").value(choice.recompute);
}

std::string search_json(const plan::SearchResult& result, const plan::Report& best,
                        const std::string& progress) {
  JsonWriter json;
  json.begin_object().key("search").value(progress).key("finished").value(result.finished);
  json.key("evaluated").value(result.evaluated).key("best").begin_object();
  write_report(json, best, result.best.front().candidate.mesh);
  write_candidate(json, result.best.front().candidate);
  json.end_object().key("candidates").begin_array();
  for (const auto& found : result.best) {
    json.begin_object();
    write_candidate(json, found.candidate);
    json.key("predicted_step_s").value(found.evaluation.predicted.step);
    json.key("bytes_per_rank").value(found.evaluation.bytes);
    json.key("reason").value(found.reason).end_object();
  }
  json.end_array().end_object();
  return json.text() + "\n";
}

std::string search_text(const plan::SearchResult& result, const plan::Report& best,
                        const std::string& progress) {
  std::string text = "search: " + progress + "\n";
  int place = 0;
  for (const auto& found : result.best)
    text += concat(++place, ". ", found.candidate.to_string(), "\n   ", found.reason, "\n");
  return text + plan::to_table(best, result.best.front().candidate.mesh);
}

ExitCode run_search(const Settings& settings, bool json, std::ostream& out) {
  const double begin = seconds_since_start();
  check_user(!settings.async.is_async(),
             "--search looks for the mesh of a synchronous run: set replicate.mode = sync");
  const auto machine = machine_of(settings);
  const std::int64_t ranks = planned_ranks(settings);
  // A deck without a mesh of that size leaves its mesh to the search.
  plan::Candidate deck;
  deck.layout = Layout::parse(settings.mesh.rules);
  const auto& shape = settings.mesh.shape;
  if (shape.empty() || shape.find('*') != std::string::npos ||
      MeshShape::parse(shape, 0).size() == ranks)
    deck = chosen(settings, ranks);
  Evaluator evaluator(settings, machine);
  const auto& task = evaluator.task(deck);
  const plan::DimConflicts dims(task.variables(), Evaluator::graphs_of(task));
  const auto result =
      plan::search(dims, search_options(settings, deck, ranks), std::ref(evaluator));
  check_user(!result.best.empty(), "plan.time_limit = ", settings.plan.time_limit,
             " s is too short to plan one layout");
  const auto& best = result.best.front();
  const auto report = predicted_report(settings, machine, compile(settings, best.candidate));
  const std::string progress = progress_of(result, seconds_since_start() - begin);
  out << (json ? search_json(result, report, progress) : search_text(result, report, progress));
  const auto& limit = settings.plan.memory_limit;
  check_user(limit.empty() || static_cast<double>(best.evaluation.bytes) <=
                                  parse_bytes("plan.memory_limit", limit),
             "plan.memory_limit = ", limit, ": no layout was found that fits, the least needs ",
             format_bytes(static_cast<double>(best.evaluation.bytes)),
             "; give more plan.ranks or more memory");
  return kDone;
}

/// Servers and a group of an asynchronous run, and what travels between them in a step.
ExitCode plan_async(const Settings& settings, bool json, std::ostream& out) {
  const Groups groups = cut_into_groups(settings, planned_ranks(settings));
  const auto machine = machine_of(settings);
  const Compiled servers = compile_servers(settings, groups),
                 workers = compile_workers(settings, groups);
  const auto of_servers = predicted_report(settings, machine, servers),
             of_workers = predicted_report(settings, machine, workers);
  const Stages stages(*workers.task);
  std::int64_t pulled = 0, pushed = 0;
  for (const Stage& stage : stages.order) {
    const Traffic& traffic = stages.traffic[stage.phase];
    pulled += bytes_between(servers.program, workers.program, traffic.pulled);
    pushed += bytes_between(workers.program, servers.program, traffic.gradients) +
              bytes_between(workers.program, servers.program, traffic.states);
  }
  if (json) {
    JsonWriter writer;
    writer.begin_object().key("server_ranks").value(groups.servers);
    writer.key("groups").value(groups.workers).key("group_ranks").value(groups.group);
    writer.key("pulled_bytes").value(pulled).key("pushed_bytes").value(pushed);
    writer.key("servers").begin_object();
    write_report(writer, of_servers, servers.mesh);
    writer.end_object().key("group").begin_object();
    write_report(writer, of_workers, workers.mesh);
    out << writer.end_object().end_object().text() << "\n";
    return kDone;
  }
  const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  out << "servers: " << groups.servers << "\n"
      << plan::to_table(of_servers, servers.mesh) << "\ngroups: " << groups.workers << " of "
      << groups.group << (groups.group == 1 ? " rank\n" : " ranks\n")
      << plan::to_table(of_workers, workers.mesh) << "\nin a step a group pulls " << text(pulled)
      << " and pushes " << text(pushed) << "; the servers move "
      << text((pulled + pushed) * groups.shares()) << " for one update\n";
  return kDone;
}

}  // namespace

ExitCode run_plan(const Settings& settings, const config::CommandLine& line, std::ostream& out) {
  if (line.has("deck")) {
    out << settings.schema.resolved();
    return kDone;
  }
  if (line.has("search")) return run_search(settings, line.has("json"), out);
  if (settings.async.is_async() && !line.text_of("explain"))
    return plan_async(settings, line.has("json"), out);
  const Compiled compiled =
      settings.async.is_async()
          ? compile_workers(settings, cut_into_groups(settings, planned_ranks(settings)))
          : compile(settings, planned_ranks(settings));
  if (const auto tensor = line.text_of("explain")) {
    out << plan::explain(compiled.program, *tensor);
    return kDone;
  }
  const auto machine = machine_of(settings);
  const auto report = predicted_report(settings, machine, compiled);
  if (line.text_of("json") == "full") {
    JsonWriter json;
    json.begin_object();
    write_report(json, report, compiled.mesh);
    write_timeline(json, compiled.program, compiled.step(),
                   plan::CostModel(machine, compiled.mesh, settings.plan.ranks_per_node));
    out << json.end_object().text() << "\n";
    return kDone;
  }
  out << (line.has("json") ? plan::to_json(report, compiled.mesh)
                           : plan::to_table(report, compiled.mesh));
  return kDone;
}

}  // namespace tessera::train
