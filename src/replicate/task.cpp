// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/task.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/optim/update.hpp"
#include "tessera/replicate/replica_context.hpp"

namespace tessera::replicate {
namespace {

void check(const Model& model, const TaskConfig& config) {
  check_user(model.is_replicated() || config.replicas == 1,
             "replicate.replicas = ", config.replicas,
             ": the model is no step of a replica; its batch is cut by layout.rules instead");
  config.shares().check(config.uneven);
  check_user(model.max_length() == 0 || config.length <= model.max_length(),
             "data.length = ", config.length,
             " is longer than model.max_length = ", model.max_length(),
             "; lower the one or raise the other");
  check_user(model.max_length() == 0 || config.decode.length <= model.max_length(),
             "translate.length = ", config.decode.length,
             " is longer than model.max_length = ", model.max_length(), "; lower it");
}

/// Declares the inputs of a batch and returns them under their names.
Batch make_batch(Graph& graph, const std::vector<InputSpec>& inputs, const TaskConfig& config,
                 Mode mode) {
  Batch batch;
  for (const auto& input : inputs) batch.inputs[input.name] = graph.input(input.name, input.spec);
  batch.mode = mode;
  batch.dtype = config.dtype;
  batch.seed = config.seed;
  batch.replicas = config.replicas;
  const auto shares = config.shares();
  batch.padded =
      config.padded || shares.rows() * shares.micro_batches * shares.replicas != shares.batch;
  return batch;
}

/// Inputs of a section that sees rows of the data.
std::vector<InputSpec> data_inputs(const Model& model, const TaskConfig& config) {
  auto inputs = model.inputs(config.shares().rows(), config.length);
  if (!model.is_replicated()) return inputs;
  for (auto& input : inputs) {
    std::vector<Dim> dims{{ReplicaContext::kReplica, config.replicas}};
    for (const auto& dim : input.spec.shape) dims.push_back(dim);
    input.spec.shape = Shape(std::move(dims));
  }
  return inputs;
}

/// Marks the weights known so far that optim.freeze matches.
void freeze(VariableSet& variables, const optim::OptimConfig& optim) {
  for (int i = 0; i < variables.size(); ++i)
    if (variables[i].kind == Variable::Kind::weight && optim.is_frozen(variables[i].name))
      variables[i].trainable = false;
}

/// UserError if a pattern of optim.freeze matches no weight.
void check_freeze(const VariableSet& variables, const optim::OptimConfig& optim) {
  std::vector<std::string> names;
  for (const auto& variable : variables)
    if (variable.kind == Variable::Kind::weight) names.push_back(variable.name);
  for (const auto& pattern : optim.freeze)
    check_user(std::any_of(names.begin(), names.end(),
                           [&](const auto& name) { return matches_pattern(pattern, name); }),
               "optim.freeze: no weight matches '", pattern, "'", did_you_mean(pattern, names),
               "; the weights are ", join(names, ", "));
}

/// UserError unless the loss is a number that the host can scale and read.
void check_loss(Tensor sum) {
  check_user(sum.dtype() == DType::f32 || sum.dtype() == DType::f64, "the model's loss '",
             sum.name(), "' has dtype ", name_of(sum.dtype()),
             "; it must be f32 or f64: cast what it is the sum of (ops::cast)");
}

/// Puts the gradient of one weight into its gradient variable.
void keep_gradient(Graph& graph, const std::string& weight, Tensor gradient, bool first) {
  const Variable& of = graph.variables()[graph.variables().find(weight)];
  check_user(static_cast<bool>(gradient), "the loss does not depend on weight '", weight,
             "'; remove it from the model or freeze it (optim.freeze)");
  Variable variable;
  variable.name = optim::gradient_name(weight);
  variable.spec = of.spec;
  variable.kind = Variable::Kind::gradient;
  variable.of = weight;
  graph.variables().declare(variable);
  graph.accumulate(variable.name, ops::cast(gradient, of.spec.dtype), first);
}

}  // namespace

Task::Task(Model& model, const optim::OptimConfig& optim, const TaskConfig& config)
    : model_(model), optim_(optim), config_(config) {
  ops::install();
  model_.validate();
  optim_.validate();
  check(model_, config_);
  check_user(model_.logical_devices() >= 1, "the model has ", model_.logical_devices(),
             " logical devices; there must be at least 1");
  variables_.set_logical_devices(model_.logical_devices());
  if (config_.decode.length == 0) config_.decode.length = config_.length;
  if (config_.decode.source_length == 0) config_.decode.source_length = config_.length;
  add_phases();
  for (const auto& phase : phases_) build_phase(phase);
  check_freeze(variables_, optim_);
  check_phases();
  build_finish();
  if (config_.act.environments > 0)
    build_act();
  else
    build_eval();
  if (config_.decode.rows > 0) build_decoding();
  if (config_.draw.rows > 0) build_draw();
}

std::vector<const Graph*> Task::graphs() const {
  std::vector<const Graph*> graphs;
  for (const auto& graph : graphs_) graphs.push_back(graph.get());
  return graphs;
}

std::vector<SectionCount> Task::step_sections() const {
  std::vector<SectionCount> sections;
  if (config_.act.environments > 0) sections.push_back({"act", config_.act.runs});
  for (const auto& [phase, optim] : phases_) {
    sections.push_back({phase.section("micro"), phase.runs});
    const std::int64_t next = config_.micro_batches - 1 - (has_last() ? 1 : 0);
    if (next > 0) sections.push_back({phase.section("micro_next"), phase.runs * next});
    if (has_last()) sections.push_back({phase.section("micro_last"), phase.runs});
    sections.push_back({phase.section("update"), phase.runs});
  }
  if (has_finish_) sections.push_back({"finish", 1});
  return sections;
}

std::vector<std::string> Task::last_micros() const {
  std::vector<std::string> sections;
  if (config_.micro_batches > 1 && !has_last()) return sections;
  for (const auto& update : phases_)
    sections.push_back(update.phase.section(has_last() ? "micro_last" : "micro"));
  return sections;
}

optim::OptimConfig Task::optim_of(const Phase& phase) const {
  optim::OptimConfig optim = optim_;
  if (phase.adjust) phase.adjust(optim);
  return optim;
}

void Task::set_schedule_steps(std::int64_t steps) {
  optim_.schedule_steps = steps;
  for (auto& [phase, optim] : phases_) optim.schedule_steps = optim_of(phase).schedule_steps;
}

void Task::add_phases() {
  for (const auto& phase : model_.phases()) {
    optim::OptimConfig optim = optim_of(phase);
    optim.validate();
    TESSERA_CHECK(phase.runs >= 1, "phase '", phase.name, "' runs ", phase.runs, " times");
    phases_.push_back({phase, optim});
  }
  TESSERA_CHECK(!phases_.empty() && phases_.front().phase.fresh_batch,
                "the first phase of a step takes a batch");
}

void Task::build_phase(const PhaseUpdate& update) {
  build_micro(update, "micro");
  if (config_.micro_batches > (has_last() ? 2 : 1)) build_micro(update, "micro_next");
  if (has_last()) build_micro(update, "micro_last");
  Graph& graph =
      *graphs_.emplace_back(std::make_unique<Graph>(update.phase.section("update"), variables_));
  optim::build_update(graph, update.optim, update.phase.weights);
}

void Task::build_micro(const PhaseUpdate& update, const std::string& part) {
  Graph& graph =
      *graphs_.emplace_back(std::make_unique<Graph>(update.phase.section(part), variables_));
  graph.set_recompute(config_.recompute);
  if (part == "micro_next") graph.follow(update.phase.section("micro"), config_.micro_batches - 1);
  Batch batch = make_batch(graph, data_inputs(model_, config_), config_, Mode::train);
  batch.rows = config_.shares().rows();
  batch.total_rows = batch.rows * config_.micro_batches;
  batch.phase = update.phase.name;
  const Tensor sum = model_.loss(graph, batch);
  check_loss(sum);
  const Tensor loss = ops::multiply(sum, graph.feed("inverse_weight", sum.dtype()));
  freeze(variables_, optim_);
  const auto weights = optim::trainable_weights(variables_, update.phase.weights);
  std::vector<Tensor> targets;
  for (const auto& weight : weights) targets.push_back(graph.read(weight));
  const auto results = gradients(loss, targets);
  for (std::size_t i = 0; i < weights.size(); ++i)
    keep_gradient(graph, weights[i], results[i], part == "micro");
  graph.fetch("loss", loss);
}

/// Every weight has one optimizer.
void Task::check_phases() const {
  std::map<std::string, std::string> owners;
  for (const auto& update : phases_)
    for (const auto& weight : optim::trainable_weights(variables_, update.phase.weights)) {
      const auto [owner, is_new] = owners.emplace(weight, update.phase.name);
      TESSERA_CHECK(is_new, "weight '", weight, "' is trained in two phases, '", owner->second,
                    "' and '", update.phase.name, "'");
    }
  for (const auto& weight : optim::trainable_weights(variables_))
    TESSERA_CHECK(owners.contains(weight), "weight '", weight, "' is trained in no phase");
}

void Task::build_finish() {
  auto graph = std::make_unique<Graph>("finish", variables_);
  model_.finish(*graph);
  has_finish_ = !graph->assignments().empty();
  if (has_finish_) graphs_.push_back(std::move(graph));
}

void Task::build_eval() {
  Graph& graph = *graphs_.emplace_back(std::make_unique<Graph>("eval", variables_));
  Batch batch = make_batch(graph, data_inputs(model_, config_), config_, Mode::eval);
  batch.rows = batch.total_rows = config_.shares().rows();
  graph.fetch("loss", model_.loss(graph, batch));
}

void Task::build_act() {
  Graph& graph = *graphs_.emplace_back(std::make_unique<Graph>("act", variables_));
  const std::int64_t rows = config_.act.environments;
  const Dim environment{"environment", rows};
  const Dim observation{"observation", config_.act.spaces.observation};
  Batch batch = make_batch(graph, {{"observation", {Shape{environment, observation}, DType::f32}}},
                           config_, Mode::eval);
  batch.rows = batch.total_rows = rows;
  const Tensor action = ops::cast(model_.act(graph, batch), DType::f32);
  Variable variable;
  variable.name = "action";
  variable.spec = action.spec();
  variable.kind = Variable::Kind::cache;
  variables_.declare(variable);
  graph.assign(variable.name, action);
}

void Task::build_decoding() {
  const bool has_start = model_.source_inputs(1, 1).empty() ? build_prefill() : build_encode();
  if (!has_start || !model_.can_cache()) return;
  build_decode();
  if (config_.decode.beam > 0) build_reorder();
}

bool Task::build_encode() {
  Graph& graph = *graphs_.emplace_back(std::make_unique<Graph>("encode", variables_));
  Batch batch =
      make_batch(graph, model_.source_inputs(config_.decode.rows, config_.decode.source_length),
                 config_, Mode::eval);
  batch.rows = batch.total_rows = config_.decode.rows;
  batch.caching = caching(nn::Caching::Phase::fill);
  model_.encode(graph, batch);
  return true;
}

/// Texts from their beginning on. All that is known of them is the tokens so far.
bool Task::build_prefill() {
  auto graph = std::make_unique<Graph>("prefill", variables_);
  auto inputs = model_.inputs(config_.decode.rows, config_.decode.length);
  std::erase_if(inputs, [](const InputSpec& input) { return input.name != "tokens"; });
  if (inputs.empty()) return false;
  Batch batch = make_batch(*graph, inputs, config_, Mode::eval);
  batch.rows = batch.total_rows = config_.decode.rows;
  if (model_.can_cache()) batch.caching = caching(nn::Caching::Phase::fill);
  const Tensor all = model_.logits(*graph, batch);
  if (!all) return false;
  if (config_.decode.beam == 0) {
    const Tensor logits = ops::select(all, "length", nn::kLastFeed);
    graph->fetch("ids", nn::draw(logits, config_.decode.draw));
  }
  graphs_.push_back(std::move(graph));
  return true;
}

void Task::build_decode() {
  const DecodeConfig& decode = config_.decode;
  Graph& graph = *graphs_.emplace_back(std::make_unique<Graph>("decode", variables_));
  std::vector<Dim> dims{{"batch", decode.rows}};
  if (decode.beam > 0) dims.push_back({"beam", decode.beam});
  Batch batch = make_batch(graph, {{"tokens", {Shape(dims), DType::i32}}}, config_, Mode::eval);
  batch.rows = batch.total_rows = decode.rows;
  batch.caching = caching(nn::Caching::Phase::step);
  const Tensor logits = model_.logits(graph, batch);
  if (decode.beam == 0) {
    graph.fetch("ids", nn::draw(logits, decode.draw));
    return;
  }
  const auto best = nn::likeliest(logits, 2 * decode.beam);
  graph.fetch("log_probabilities", best.log_probabilities);
  graph.fetch("ids", best.ids);
}

void Task::build_reorder() {
  Graph& graph = *graphs_.emplace_back(std::make_unique<Graph>("reorder", variables_));
  const Shape places{{"batch", config_.decode.rows}, {"beam_next", config_.decode.beam}};
  const Tensor parents = graph.input("parents", {places, DType::i32});
  std::vector<std::string> names;
  for (const auto& variable : variables_)
    if (variable.kind == Variable::Kind::cache && variable.spec.shape.contains("beam"))
      names.push_back(variable.name);
  for (const auto& name : names)
    graph.assign(name,
                 ops::rename(ops::gather(graph.read(name), parents, "beam"), "beam_next", "beam"));
}

void Task::build_draw() {
  auto graph = std::make_unique<Graph>("draw", variables_);
  Batch batch = make_batch(*graph, {}, config_, Mode::eval);
  batch.rows = config_.draw.rows;
  batch.total_rows = config_.draw.total;
  batch.seed = config_.draw.seed;
  const auto fields = model_.draw(*graph, batch);
  for (const auto& field : fields) graph->fetch(field.name, field.value);
  if (!fields.empty()) graphs_.push_back(std::move(graph));
}

nn::Caching Task::caching(nn::Caching::Phase phase) const {
  return {.phase = phase, .length = config_.decode.length, .beam = config_.decode.beam};
}

}  // namespace tessera::replicate
