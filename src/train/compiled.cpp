// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/compiled.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/cost_model.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/recompute.hpp"

namespace tessera::train {

std::vector<plan::SectionRuns> Compiled::step() const {
  std::vector<plan::SectionRuns> runs;
  std::int64_t before = 0;  // runs of micro that micro_next follows
  for (const auto& count : task->step_sections()) {
    if (!program.has_section(count.section)) continue;
    // Micro-batches are shared; the first of a share assigns, as micro does.
    const std::int64_t runs_of_share =
        before > 0 ? (before + count.runs) / shares - before : count.runs;
    before = count.section.ends_with("micro") ? count.runs : 0;
    if (runs_of_share > 0) runs.push_back({count.section, runs_of_share});
  }
  return runs;
}

plan::Report Compiled::report() const {
  plan::Report report = plan::report(program, step());
  const Graph& micro = *task->graphs().front();
  if (!program.has_section(micro.section())) return report;
  for (int region = 0; region < static_cast<int>(micro.regions().size()); ++region)
    if (micro.is_recomputed(region))
      report.recomputed.push_back(micro.regions()[static_cast<std::size_t>(region)]);
  return report;
}

static void check_memory_limit(const Compiled& compiled, const std::string& limit) {
  if (limit.empty()) return;
  const auto bytes = static_cast<double>(compiled.program.arena_bytes);
  check_user(bytes <= parse_bytes("plan.memory_limit", limit), "plan.memory_limit = ", limit,
             " is exceeded: a rank of mesh '", compiled.mesh.to_string(), "' needs ",
             format_bytes(bytes),
             "; take more ranks, a layout that splits more dims, more train.micro_batches, "
             "train.recompute, optim.shard or layout.store");
}

plan::Candidate chosen(const Settings& settings, std::int64_t ranks) {
  plan::Candidate choice;
  choice.layout = Layout::parse(settings.mesh.rules);
  choice.mesh = resolve_mesh(settings.mesh.shape, choice.layout, ranks);
  if (settings.model->is_replicated())
    choice.layout = settings.replicate.layout_of(choice.layout, choice.mesh);
  choice.shard = settings.optim.shard;
  choice.store = settings.mesh.store;
  choice.micro_batches = settings.train.micro_batches;
  choice.recompute = settings.train.recompute;
  return choice;
}

std::int64_t replicas_of(const Settings& settings, const plan::Candidate& choice) {
  // A model without replicas refuses a number of them, but not that the deck leaves it open.
  return settings.model->is_replicated()
             ? settings.replicate.replicas_of(choice.layout, choice.mesh)
             : std::max<std::int64_t>(1, settings.replicate.replicas);
}

static bool overlaps(const Settings& settings) {
  return settings.numerics.overlap == "on";
}

plan::PlanOptions plan_options(const Settings& settings, const plan::Candidate& choice,
                               const replicate::Task& task) {
  plan::PlanOptions options;
  options.mesh = choice.mesh;
  options.layout = choice.layout;
  options.shard = choice.shard;
  options.store = choice.store;
  options.overlap = overlaps(settings);
  options.flight_bytes =
      static_cast<std::int64_t>(parse_bytes("comm.bucket", settings.numerics.bucket));
  if (!settings.async.is_async()) options.reducing = task.last_micros();
  return options;
}

std::unique_ptr<replicate::Task> make_task(const Settings& settings, const plan::Candidate& choice,
                                           std::vector<std::string> recompute) {
  auto config = settings.task_config();
  config.micro_batches = choice.micro_batches;
  config.replicas = replicas_of(settings, choice);
  config.uneven = settings.replicate.uneven;
  config.recompute = std::move(recompute);
  config.last_apart = overlaps(settings) && !settings.async.is_async();
  return std::make_unique<replicate::Task>(*settings.model, settings.optim, config);
}

plan::Machine machine_of(const Settings& settings) {
  return settings.plan.machine.empty() ? plan::Machine()
                                       : plan::Machine::read(settings.plan.machine);
}

namespace {

/// Which of a Task's sections become a Program, and where.
struct Role {
  plan::Part part = plan::Part::all;
  std::int64_t shares = 1;
};

/// "micro" of "micro" and of "discriminator/micro".
std::string kind_of(const std::string& section) {
  return section.substr(section.rfind('/') + 1);
}

bool has_role(const std::string& section, plan::Part part) {
  const std::string kind = kind_of(section);
  if (part == plan::Part::update) return kind == "update" || kind == "finish";
  return part == plan::Part::all || kind == "micro" || kind == "micro_next" || kind == "eval" ||
         kind == "act";
}

std::vector<const Graph*> graphs_of(const replicate::Task& task, plan::Part part) {
  auto graphs = task.graphs();
  std::erase_if(graphs, [&](const Graph* graph) { return !has_role(graph->section(), part); });
  return graphs;
}

Compiled compile_with(const Settings& settings, const plan::Candidate& choice, const Role& role,
                      std::vector<std::string> recompute) {
  Compiled compiled;
  compiled.layout = choice.layout;
  compiled.mesh = choice.mesh;
  compiled.shares = role.shares;
  plan::Candidate with_shares = choice;
  with_shares.micro_batches *= role.shares;
  compiled.task = make_task(settings, with_shares, std::move(recompute));
  const auto graphs = graphs_of(*compiled.task, role.part);
  const auto& variables = compiled.task->variables();
  compiled.layout.check_names(compiled.mesh, plan::tensor_dims(variables, graphs));
  plan::PlanOptions options = plan_options(settings, choice, *compiled.task);
  options.part = role.part;
  compiled.program = plan::compile(variables, graphs, options);
  return compiled;
}

/// A section with a backward pass that is to fit a limit of memory.
struct Tight {
  std::string section;
  std::vector<plan::RegionCost> costs;
  double ask = 0;  ///< bytes that regions computed again must save

  double excess(const program::Program& program, double limit) const {
    const auto bytes = program.variable_bytes + program.section(section).arena_bytes;
    return static_cast<double>(bytes) - limit;
  }
};

std::vector<Tight> tight_sections(const Settings& settings, const Compiled& compiled,
                                  const Role& role, double limit) {
  const auto machine = machine_of(settings);
  const plan::CostModel model(machine, compiled.mesh, settings.plan.ranks_per_node);
  std::vector<Tight> list;
  for (const Graph* graph : graphs_of(*compiled.task, role.part)) {
    Tight tight{graph->section(), {}, 0};
    if (!compiled.program.has_section(tight.section) || graph->regions().empty()) continue;
    if (!kind_of(tight.section).starts_with("micro")) continue;
    tight.ask = tight.excess(compiled.program, limit);
    tight.costs = plan::region_costs(*graph, compiled.program.section(tight.section), model);
    list.push_back(std::move(tight));
  }
  return list;
}

/// Names of the regions of all sections, each once.
std::vector<std::string> names_of(const std::vector<Tight>& sections) {
  std::vector<std::string> names;
  for (const auto& tight : sections)
    for (const auto& cost : tight.costs)
      if (std::find(names.begin(), names.end(), cost.region) == names.end())
        names.push_back(cost.region);
  return names;
}

/// What a set saves and costs by its regions: sets of equal regions are alike.
std::string worth_of(const std::vector<Tight>& sections, const std::vector<std::string>& regions) {
  std::string worth;
  for (const auto& tight : sections) {
    std::vector<std::pair<double, double>> costs;
    for (const auto& cost : tight.costs)
      if (std::find(regions.begin(), regions.end(), cost.region) != regions.end())
        costs.emplace_back(cost.bytes, cost.seconds);
    std::sort(costs.begin(), costs.end());
    for (const auto& [bytes, seconds] : costs) worth += concat(bytes, " ", seconds, ",");
    worth += "|";
  }
  return worth;
}

/// So many regions are few: each set of them is planned.
constexpr std::size_t kFewRegions = 6;

/// Of all sets of a few regions the quickest that fits; all of them if none does.
Compiled compile_best_set(const Settings& settings, const plan::Candidate& choice, const Role& role,
                          double limit, const std::vector<Tight>& sections) {
  const auto names = names_of(sections);
  const auto machine = machine_of(settings);
  std::optional<Compiled> best;
  double least = 0;
  std::set<std::string> tried;
  for (std::size_t set = 1; set < std::size_t{1} << names.size(); ++set) {
    std::vector<std::string> regions;
    for (std::size_t i = 0; i < names.size(); ++i)
      if ((set >> i & 1) != 0) regions.push_back(names[i]);
    if (!tried.insert(worth_of(sections, regions)).second) continue;
    Compiled compiled = compile_with(settings, choice, role, std::move(regions));
    if (static_cast<double>(compiled.program.arena_bytes) > limit) continue;
    const double seconds = plan::CostModel(machine, compiled.mesh, settings.plan.ranks_per_node)
                               .predict(compiled.program, compiled.step())
                               .step;
    if (best && seconds >= least) continue;
    least = seconds;
    best = std::move(compiled);
  }
  return best ? std::move(*best) : compile_with(settings, choice, role, names);
}

/// Regions that save what each section asks for at the least time. What a set saves is known from
/// its regions' costs but for what lies elsewhere at the peak, so a set that does not suffice is
/// followed by one that saves more.
Compiled compile_by_costs(const Settings& settings, const plan::Candidate& choice, const Role& role,
                          double limit, std::vector<Tight> sections) {
  while (true) {
    std::vector<std::string> regions;
    for (const auto& tight : sections)
      for (auto& region : plan::choose_regions(tight.costs, tight.ask))
        if (std::find(regions.begin(), regions.end(), region) == regions.end())
          regions.push_back(std::move(region));
    Compiled compiled = compile_with(settings, choice, role, std::move(regions));
    bool could_save_more = false;
    for (auto& tight : sections) {
      const double excess = tight.excess(compiled.program, limit);
      if (excess <= 0) continue;
      could_save_more = could_save_more ||
                        plan::choose_regions(tight.costs, tight.ask).size() < tight.costs.size();
      // At least a little more, so that the next set is another one.
      tight.ask = std::max(tight.ask, 0.0);
      tight.ask += std::max(excess, 1e-3 * tight.ask + 1);
    }
    if (!could_save_more) return compiled;
  }
}

/// The quickest run that fits the limit of memory, as far as regions computed again make it fit.
Compiled compile_within(const Settings& settings, const plan::Candidate& choice, const Role& role) {
  check_user(!settings.plan.memory_limit.empty(),
             "train.recompute = auto needs plan.memory_limit: the memory that a rank may take");
  const double limit = parse_bytes("plan.memory_limit", settings.plan.memory_limit);
  Compiled compiled = compile_with(settings, choice, role, {});
  if (static_cast<double>(compiled.program.arena_bytes) <= limit) return compiled;
  auto sections = tight_sections(settings, compiled, role, limit);
  if (sections.empty()) return compiled;
  return names_of(sections).size() <= kFewRegions
             ? compile_best_set(settings, choice, role, limit, sections)
             : compile_by_costs(settings, choice, role, limit, std::move(sections));
}

Compiled compile_role(const Settings& settings, const plan::Candidate& choice, const Role& role) {
  if (choice.recompute == "auto") return compile_within(settings, choice, role);
  return compile_with(
      settings, choice, role,
      choice.recompute == "all" ? std::vector<std::string>{"*"} : std::vector<std::string>{});
}

}  // namespace

Compiled compile(const Settings& settings, const plan::Candidate& choice) {
  return compile_role(settings, choice, {});
}

Compiled compile(const Settings& settings, std::int64_t ranks) {
  Compiled compiled = compile(settings, chosen(settings, ranks));
  check_memory_limit(compiled, settings.plan.memory_limit);
  return compiled;
}

Compiled compile_servers(const Settings& settings, const Groups& groups) {
  plan::Candidate choice;
  choice.mesh = MeshShape({{"server", groups.servers}});
  choice.micro_batches = settings.train.micro_batches;
  choice.shard = choice.store = "server";
  choice.recompute = "none";
  Compiled compiled =
      compile_role(settings, choice, {.part = plan::Part::update, .shares = groups.shares()});
  check_memory_limit(compiled, settings.plan.memory_limit);
  return compiled;
}

Compiled compile_workers(const Settings& settings, const Groups& groups) {
  Compiled compiled = compile_role(settings, chosen(settings, groups.group),
                                   {.part = plan::Part::compute, .shares = groups.shares()});
  check_memory_limit(compiled, settings.plan.memory_limit);
  return compiled;
}

}  // namespace tessera::train
