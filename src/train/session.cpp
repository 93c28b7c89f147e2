// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/session.hpp"

#include <ostream>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/data/pipelines.hpp"
#include "tessera/replicate/replica_context.hpp"
#include "tessera/train/memory.hpp"

namespace tessera::train {

data::Wanted wanted_data(const Settings& settings) {
  data::Wanted wanted;
  wanted.model = settings.model_name;
  wanted.vocab = settings.model->vocab();
  wanted.seed = static_cast<std::uint64_t>(settings.run.seed);
  for (const auto& input : settings.model->inputs(1, settings.data.length)) {
    const Shape& shape = input.spec.shape;
    TESSERA_CHECK(shape.rank() > 0 && shape[0].name == "batch", "input '", input.name, "' ",
                  shape.to_string(), " of model '", settings.model_name,
                  "' does not begin with the dim batch");
    wanted.inputs.push_back({input.name, {shape.without("batch"), input.spec.dtype}, input.limit});
  }
  return wanted;
}

namespace {

/// The pipelines of a model that has some, as one.
data::SamplesPtr open_pipelines(const Settings& settings, const Compiled& compiled,
                                bool is_validation) {
  const auto& model = *settings.model;
  const replicate::RowShares shares = compiled.task->config().shares();
  const std::int64_t count =
      replicate::pipelines_of(*model.input_mode(), shares.replicas,
                              replicate::ways_of_replicas(compiled.layout, compiled.mesh));
  std::vector<data::SamplesPtr> pipelines;
  for (std::int64_t id = 0; id < count; ++id) {
    auto context = replicate::input_context(shares, count, id);
    context.seed = static_cast<std::uint64_t>(settings.run.seed);
    context.is_validation = is_validation;
    pipelines.push_back(model.open_pipeline(context));
    if (is_validation && !pipelines.back()) return nullptr;
    check_user(pipelines.back() != nullptr, "the input function gave no samples for pipeline ", id,
               " of ", count);
  }
  return data::join_pipelines(std::move(pipelines), shares);
}

data::Corpus open_data(const Settings& settings, const Compiled& compiled) {
  const data::Wanted wanted = wanted_data(settings);
  if (!settings.model->input_mode()) return data::open_corpus(settings.data, wanted);
  data::Corpus corpus;
  corpus.train = open_pipelines(settings, compiled, false);
  corpus.validation = open_pipelines(settings, compiled, true);
  for (const auto& samples : {corpus.train, corpus.validation})
    if (samples) data::check_inputs("the input function", wanted, *samples);
  corpus.text = concat(with_commas(corpus.train->size()), " training and ",
                       with_commas(corpus.validation ? corpus.validation->size() : 0),
                       " validation ", corpus.train->unit());
  return corpus;
}

/// How much a rank has found to read: folders that change, or look different from another node,
/// would give ranks different samples.
std::uint64_t sizes_of(const data::Corpus& corpus) {
  std::uint64_t hash = 0;
  for (const auto& samples : {corpus.train, corpus.validation})
    if (samples)
      for (const std::int64_t size : {samples->size(), samples->per_epoch()})
        hash = hash_combine(hash, static_cast<std::uint64_t>(size));
  return hash;
}

}  // namespace

void check_node_memory(const Backend& backend,
                       const std::function<const Compiled&(std::int64_t)>& compiled_for) {
  if (!device::Exec::is_host()) return;  // the arenas lie in the accelerators' memory
  const auto here = backend.node_ranks();
  std::vector<double> bytes;
  for (std::int64_t rank = here.first; rank < here.first + here.count; ++rank)
    bytes.push_back(static_cast<double>(compiled_for(rank).program.arena_bytes));
  check_memory(bytes, available_memory(), base::host_name());
}

void Session::say(const std::string& line) const {
  if (backend.is_root()) out << line << std::endl;
}

std::vector<double> Session::sum(const std::vector<double>& values) const {
  return backend.world().sum(values);
}

std::vector<data::LoadedInput> Session::inputs(const std::string& section) const {
  std::vector<data::LoadedInput> inputs;
  for (const auto& input : compiled.program.section(section).inputs) {
    if (input.micro > 0) continue;  // as those of the first micro-batch
    inputs.push_back({input.name, {}});
    for (int r = 0; r < executor->local_ranks(); ++r)
      inputs.back().boxes.push_back(executor->input_box(section, input.name, r));
  }
  return inputs;
}

std::uint64_t Session::experience_seed() const {
  const auto seed = static_cast<std::uint64_t>(settings.run.seed);
  return stream == 0 ? seed : hash_combine(seed, stream);
}

std::vector<std::string> Session::metrics(const std::string& section) const {
  return metric_names(compiled.program, section);
}

std::vector<std::string> metric_names(const program::Program& program, const std::string& section) {
  const std::string prefix = replicate::kMetricPrefix;
  std::vector<std::string> names;
  for (const auto& fetch : program.section(section).fetches)
    if (fetch.micro == 0 && fetch.name.starts_with(prefix))
      names.push_back(fetch.name.substr(prefix.size()));
  return names;
}

std::vector<Session::ResultName> Session::results(const std::string& section) const {
  using replicate::ReplicaContext;
  const std::string prefix = ReplicaContext::kResultPrefix;
  const auto& planned = compiled.program.section(section);
  std::vector<ResultName> names;
  for (const auto& fetch : planned.fetches) {
    if (fetch.micro > 0 || !fetch.name.starts_with(prefix)) continue;
    const auto& shape = planned.buffers[static_cast<std::size_t>(fetch.buffer)].spec.shape;
    names.push_back({fetch.name.substr(prefix.size()), shape.contains(ReplicaContext::kReplica)});
  }
  return names;
}

std::string checkpoint_path(const Variable& variable) {
  switch (variable.kind) {
    case Variable::Kind::weight:
      return "/variables/" + variable.name;
    case Variable::Kind::slot:
      return "/" + variable.name;  // "optimizer/<slot>/<weight>"
    default:
      return "/state/" + variable.name;
  }
}

std::vector<io::LoadedTensor> Session::loaded_tensors(bool with_slots) const {
  std::vector<io::LoadedTensor> tensors;
  const auto& stored = compiled.program.variables;
  for (int i = 0; i < static_cast<int>(stored.size()); ++i) {
    const auto& variable = stored[static_cast<std::size_t>(i)].variable;
    if (!variable.is_saved()) continue;
    if (variable.kind == Variable::Kind::slot && !with_slots) continue;
    tensors.push_back({checkpoint_path(variable), variable.spec,
                       stored[static_cast<std::size_t>(i)].placement,
                       [this, i](int local_rank, const void* tile) {
                         executor->write_variable(i, local_rank, tile);
                       }});
  }
  return tensors;
}

std::unique_ptr<Session> open_session(Backend& backend, Settings& settings, std::ostream& out) {
  return open_session(backend, settings, out, [&] {
    Compiled compiled = compile(settings, backend.ranks());
    check_node_memory(backend, [&](std::int64_t) -> const Compiled& { return compiled; });
    return compiled;
  });
}

std::unique_ptr<Session> open_session(Backend& backend, Settings& settings, std::ostream& out,
                                      const std::function<Compiled()>& compile,
                                      std::uint64_t stream) {
  auto session = std::make_unique<Session>(backend, settings, out);
  session->stream = stream;
  const auto& world = backend.world();
  comm::agree_on(world, [&] {
    session->compiled = compile();
    if (!settings.model->acts()) session->corpus = open_data(settings, session->compiled);
  });
  comm::check_same(world, hash_text(settings.schema.resolved()), "the deck",
                   "give all ranks the same command line, and environment");
  comm::check_same(world, session->compiled.program.hash(), "the program",
                   "start the same executable on all ranks");
  comm::check_same(world, sizes_of(session->corpus), "the data",
                   "all nodes must see the same files, and nobody may change them now");
  session->collectives =
      backend.make_collectives(session->compiled.mesh, settings.numerics, session->exec);
  comm::agree_on(world, [&] {
    session->executor = std::make_unique<runtime::Executor>(session->compiled.program,
                                                            *session->collectives, session->exec);
    session->feeder = make_feeder(*session);
  });
  return session;
}

}  // namespace tessera::train
