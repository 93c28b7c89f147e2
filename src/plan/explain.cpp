// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/report.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::BufferId;
using program::Section;
using program::Step;

std::string mesh_names(const std::vector<int>& mesh_dims, const MeshShape& mesh) {
  std::vector<std::string> names;
  for (int m : mesh_dims) names.push_back(mesh[m].name);
  return join(names, ", ");
}

/// Which dims the tile holds a window of, with what each block needs.
std::string windows_text(const Buffer& buffer) {
  std::string text;
  for (std::size_t d = 0; d < buffer.windows.size(); ++d) {
    const Window& window = buffer.windows[d];
    if (window.is_plain()) continue;
    text +=
        concat(", window of ", buffer.spec.shape[static_cast<int>(d)].name, " for ", window.count,
               " x ", window.extent, " every ", window.stride, " from ", window.offset);
  }
  return text;
}

std::string ring_text(const Buffer& buffer, const MeshShape& mesh) {
  if (buffer.ring.mesh_dim < 0) return "";
  return concat(", of the rank ", buffer.ring.places, " further along ",
                mesh[buffer.ring.mesh_dim].name);
}

std::string buffer_text(const Buffer& buffer, const MeshShape& mesh) {
  std::vector<std::string> extents;
  for (auto extent : largest_tile(buffer, mesh)) extents.push_back(std::to_string(extent));
  return concat(buffer.name, " ", name_of(buffer.spec.dtype), " ", buffer.spec.shape.to_string(),
                " ", buffer.placement.to_string(buffer.spec.shape, mesh), ", tile [",
                join(extents, ", "), "]", windows_text(buffer), ring_text(buffer, mesh), ", ",
                format_bytes(static_cast<double>(buffer.bytes)), " at ", buffer.offset);
}

std::string flight_text(int flight) {
  return flight < 0 ? "" : concat(", start of flight ", flight);
}

std::string step_text(const Step& step, const MeshShape& mesh) {
  if (const auto* kernel = std::get_if<program::KernelStep>(&step))
    return concat("kernel ", kernel->kernel, "  ", kernel->attributes.to_string());
  if (const auto* reduce = std::get_if<program::AllReduceStep>(&step))
    return concat("all_reduce ", name_of(reduce->op), " over ", mesh_names(reduce->mesh_dims, mesh),
                  ", ", reduce->buffers.size(),
                  reduce->buffers.size() == 1 ? " tensor" : " tensors in one bucket",
                  flight_text(reduce->flight));
  if (const auto* relayout = std::get_if<program::RelayoutStep>(&step))
    return concat(name_of(relayout->kind), " over ", mesh[relayout->mesh_dim].name, ", ",
                  relayout->inputs.size(),
                  relayout->inputs.size() == 1 ? " tensor" : " tensors in one bucket",
                  flight_text(relayout->flight));
  if (const auto* finish = std::get_if<program::FinishStep>(&step))
    return concat("finish of flight ", finish->flight);
  if (const auto* exchange = std::get_if<program::ExchangeStep>(&step)) {
    const bool local = exchange->mesh_dims.empty();
    return concat(
        local ? "copy" : "neighbour_exchange over " + mesh_names(exchange->mesh_dims, mesh),
        exchange->mode == program::ExchangeStep::Mode::accumulate ? ", summed" : "", ", ",
        exchange->runs.size(), exchange->runs.size() == 1 ? " run" : " runs", " along dim ",
        exchange->dim);
  }
  if (const auto* ring = std::get_if<program::RingStep>(&step))
    return concat("one place along the ring of ", mesh[ring->mesh_dim].name, ", ",
                  ring->inputs.size(), ring->inputs.size() == 1 ? " tensor" : " tensors");
  if (const auto* transfer = std::get_if<program::TransferStep>(&step))
    return concat("message from ", mesh[transfer->mesh_dim].name, " ", transfer->from, " to ",
                  transfer->to);
  const auto& local = std::get<program::LocalStep>(step);
  return concat(local.kind == program::LocalStep::Kind::slice
                    ? std::string("slice")
                    : concat("keep at coordinate ", local.origin),
                " on ", mesh[local.mesh_dim].name);
}

bool names_tensor(const Section& section, const Step& step, const std::string& tensor) {
  if (program::label_of(step) == tensor) return true;
  for (const auto& ids : {program::reads_of(step), program::writes_of(step)})
    for (BufferId id : ids)
      if (section.buffers[static_cast<std::size_t>(id)].name == tensor) return true;
  return false;
}

std::string times_text(const Section& section, std::size_t step) {
  const program::Repeat* repeat = section.repeat_of(static_cast<int>(step));
  if (repeat == nullptr) return "";
  return concat(", ", repeat->count, " times with steps ", repeat->first, " to ", repeat->end - 1);
}

std::string explain_section(const Section& section, const std::string& tensor,
                            const MeshShape& mesh) {
  std::string text;
  for (const auto& buffer : section.buffers)
    if (buffer.name == tensor) text += "  held as " + buffer_text(buffer, mesh) + "\n";
  for (std::size_t i = 0; i < section.steps.size(); ++i) {
    const Step& step = section.steps[i];
    if (!names_tensor(section, step, tensor)) continue;
    text += concat("  step ", i, "  ", program::label_of(step), times_text(section, i), "\n    ",
                   step_text(step, mesh), "\n");
    for (BufferId id : program::reads_of(step))
      text +=
          "    reads  " + buffer_text(section.buffers[static_cast<std::size_t>(id)], mesh) + "\n";
    for (BufferId id : program::writes_of(step))
      text +=
          "    writes " + buffer_text(section.buffers[static_cast<std::size_t>(id)], mesh) + "\n";
  }
  return text;
}

}  // namespace

std::string explain(const program::Program& program, const std::string& tensor) {
  std::string text;
  std::vector<std::string> names;
  for (const auto& section : program.sections) {
    const std::string part = explain_section(section, tensor, program.mesh);
    if (!part.empty()) text += "section " + section.name + "\n" + part;
    for (const auto& buffer : section.buffers) names.push_back(buffer.name);
  }
  check_user(!text.empty(), "no tensor or operation is named '", tensor, "'",
             did_you_mean(tensor, names), "; names are scoped, e.g. '",
             names.empty() ? std::string() : names[names.size() / 2], "'");
  return text;
}

}  // namespace tessera::plan
