// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/feeding.hpp"

#include "tessera/base/error.hpp"

namespace tessera::train {

data::LoaderConfig loader_config(const Session& session, std::int64_t epochs) {
  const auto& task = *session.compiled.task;
  data::LoaderConfig config;
  config.batch = task.config().batch;
  config.micro_batches = task.config().micro_batches;
  config.replicas = task.model().is_replicated() ? task.config().replicas : 0;
  config.epochs = epochs;
  config.ahead = session.settings.data.ahead;
  config.threads = session.settings.data.threads;
  return config;
}

Fed take_batch(data::Loader& loader, std::optional<data::Batch>& batch) {
  Fed fed;
  fed.status = loader.status();
  if (fed.status.ok()) batch = loader.next();
  fed.batch = &*batch;
  return fed;
}

void set_inputs(const Session& session, const std::string& section,
                const std::vector<data::TileData>& tiles, int micro) {
  auto& executor = *session.executor;
  auto inputs = session.compiled.program.section(section).inputs;
  std::erase_if(inputs, [&](const auto& input) { return input.micro != micro; });
  for (int r = 0; r < executor.local_ranks(); ++r) {
    const auto& tile = tiles[static_cast<std::size_t>(r)];
    TESSERA_CHECK(tile.inputs.size() == inputs.size(), "section ", section, " has ", inputs.size(),
                  " inputs, the batch has ", tile.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      executor.set_input(section, inputs[i].name, r, tile.inputs[i].data(), micro);
  }
}

std::vector<double> metric_shares(const Session& session, const std::string& section, int micro) {
  std::vector<double> shares;
  for (const auto& name : session.metrics(section)) {
    double share = 0;
    for (int r = 0; r < session.executor->local_ranks(); ++r)
      share += session.executor->fetch_share(section, replicate::kMetricPrefix + name, r, micro);
    shares.push_back(share);
  }
  return shares;
}

}  // namespace tessera::train
