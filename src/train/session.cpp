// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/session.hpp"

#include <ostream>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/train/memory.hpp"

namespace tessera::train {
namespace {

/// The data give token rows; a model that wants anything else cannot be trained by a deck.
void check_inputs(const Settings& settings) {
  for (const auto& input : settings.model->inputs(1, settings.data.length)) {
    const bool is_known =
        input.name == "tokens" || input.name == "targets" || input.name == "weights";
    const DType dtype = input.name == "weights" ? DType::f32 : DType::i32;
    check_user(is_known && input.spec.shape.rank() == 2 && input.spec.dtype == dtype, "model '",
               settings.model_name, "' needs the input '", input.name, "' ",
               input.spec.shape.to_string(), " ", name_of(input.spec.dtype),
               ", but data.source = ", settings.data.source,
               " gives tokens and targets (i32) and weights (f32) of [batch, length]");
  }
}

void check_node_memory(const Session& session) {
  const auto bytes = static_cast<double>(session.compiled.program.arena_bytes);
  check_memory(bytes, session.backend.ranks_on_node(), available_memory(), base::host_name());
}

}  // namespace

void Session::say(const std::string& line) const {
  if (backend.is_root()) out << line << std::endl;
}

std::vector<double> Session::sum(const std::vector<double>& values) const {
  return backend.world().sum(values);
}

std::vector<Box> Session::input_boxes(const std::string& section) const {
  std::vector<Box> boxes;
  for (int r = 0; r < executor->local_ranks(); ++r)
    boxes.push_back(executor->input_box(section, "tokens", r));
  return boxes;
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
    if (variable.kind == Variable::Kind::gradient) continue;
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
  auto session = std::make_unique<Session>(backend, settings, out);
  const auto& world = backend.world();
  comm::agree_on(world, [&] {
    check_inputs(settings);
    session->compiled = compile(settings, backend.ranks());
    session->corpus = data::open_corpus(settings.data, settings.model->vocab());
    check_node_memory(*session);
  });
  comm::check_same(world, hash_text(settings.schema.resolved()), "the deck",
                   "give all ranks the same command line, and environment");
  comm::check_same(world, session->compiled.program.hash(), "the program",
                   "start the same executable on all ranks");
  session->collectives =
      backend.make_collectives(session->compiled.mesh, settings.numerics, session->exec);
  comm::agree_on(world, [&] {
    session->executor = std::make_unique<runtime::Executor>(session->compiled.program,
                                                            *session->collectives, session->exec);
  });
  return session;
}

}  // namespace tessera::train
