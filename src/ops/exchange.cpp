// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/exchange.hpp"

#include <algorithm>

#include "tessera/program/exchange.hpp"

namespace tessera::ops {
namespace {

program::Buffer cut_buffer(const TensorSpec& spec, int dim) {
  program::Buffer buffer;
  buffer.spec = spec;
  buffer.placement = Placement({State::split(dim)});
  return buffer;
}

}  // namespace

double sent_bytes(const std::vector<program::Buffer>& buffers, program::ExchangeStep step,
                  std::int64_t ways) {
  step.mesh_dims = {0};
  const auto load = program::load_of(buffers, step, MeshShape({{"ways", ways}}));
  const TensorSpec& spec = buffers[0].spec;
  double rest = static_cast<double>(bytes_of(spec.dtype));
  for (int d = 0; d < spec.shape.rank(); ++d)
    if (d != step.dim) rest *= static_cast<double>(spec.shape[d].size);
  return rest * static_cast<double>(*std::max_element(load.sent.begin(), load.sent.end()));
}

double exchange_bytes(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs,
                      int dim, const std::vector<program::ExchangeStep::Run>& runs,
                      std::int64_t ways) {
  std::vector<program::Buffer> buffers;
  program::ExchangeStep step;
  step.dim = dim;
  step.runs = runs;
  for (const auto& [specs, ids] : {std::pair{inputs, &step.inputs}, {outputs, &step.outputs}})
    for (const auto& spec : specs) {
      ids->push_back(static_cast<program::BufferId>(buffers.size()));
      buffers.push_back(cut_buffer(spec, dim));
    }
  return sent_bytes(buffers, std::move(step), ways);
}

double window_bytes(const TensorSpec& x, int dim, const Window& window, std::int64_t ways) {
  std::vector<program::Buffer> buffers(2, cut_buffer(x, dim));
  buffers[1].windows.assign(static_cast<std::size_t>(x.shape.rank()), Window::plain());
  buffers[1].windows[static_cast<std::size_t>(dim)] = window;
  program::ExchangeStep step;
  step.dim = dim;
  step.runs = program::runs_of(window, x.shape[dim].size);
  step.inputs = {0};
  step.outputs = {1};
  return sent_bytes(buffers, std::move(step), ways);
}

}  // namespace tessera::ops
