// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/feeding.hpp"

#include "tessera/base/error.hpp"

namespace tessera::train {

data::LoaderConfig loader_config(const Session& session, std::int64_t epochs) {
  const auto& settings = session.settings;
  data::LoaderConfig config;
  config.batch = settings.data.batch;
  config.micro_batches = session.micro_batches();
  config.epochs = epochs;
  config.ahead = settings.data.ahead;
  config.threads = settings.data.threads;
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
                const std::vector<data::TileData>& tiles) {
  auto& executor = *session.executor;
  const auto& inputs = session.compiled.program.section(section).inputs;
  for (int r = 0; r < executor.local_ranks(); ++r) {
    const auto& tile = tiles[static_cast<std::size_t>(r)];
    TESSERA_CHECK(tile.inputs.size() == inputs.size(), "section ", section, " has ", inputs.size(),
                  " inputs, the batch has ", tile.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      executor.set_input(section, inputs[i].name, r, tile.inputs[i].data());
  }
}

std::vector<double> metric_shares(const Session& session, const std::string& section) {
  std::vector<double> shares;
  for (const auto& name : session.metrics(section)) {
    double share = 0;
    for (int r = 0; r < session.executor->local_ranks(); ++r)
      share += session.executor->fetch_share(section, replicate::kMetricPrefix + name, r);
    shares.push_back(share);
  }
  return shares;
}

}  // namespace tessera::train
