// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/evaluation.hpp"

#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/train/feeding.hpp"

namespace tessera::train {
namespace {

data::LoaderConfig one_epoch(const Settings& settings) {
  data::LoaderConfig config;
  config.batch = settings.data.batch;
  config.micro_batches = settings.train.micro_batches;
  config.epochs = 1;
  config.ahead = settings.data.ahead;
  return config;
}

/// Sum of weight x loss of one batch over this process's ranks.
double loss_of(const Session& session, const data::Batch& batch) {
  auto& executor = *session.executor;
  double loss = 0;
  for (std::size_t micro = 0; micro < batch.tiles.size(); ++micro) {
    set_inputs(session, "eval", batch.tiles[micro]);
    kernels::Feeds feeds;
    feeds.micro = static_cast<std::int64_t>(micro);
    executor.run("eval", feeds);
    for (int r = 0; r < executor.local_ranks(); ++r)
      loss += executor.fetch_share("eval", "loss", r);
  }
  return loss;
}

}  // namespace

Evaluation evaluate(const Session& session, std::shared_ptr<const data::Samples> samples,
                    std::int64_t max_batches, const StopWatch* watch) {
  TESSERA_CHECK(samples, "there are no validation samples");
  data::Loader loader(samples, one_epoch(session.settings), session.input_boxes("eval"));
  const std::int64_t batches = max_batches > 0 ? std::min(max_batches, loader.batches_per_epoch())
                                               : loader.batches_per_epoch();
  // Later failures to read are told by the sum of each batch; the first has no batch to stand in.
  comm::agree(session.backend.world(), loader.status());
  Evaluation result;
  double loss = 0;
  std::optional<data::Batch> batch;
  for (std::int64_t i = 0; i < batches; ++i) {
    Fed fed = take_batch(loader, batch);
    batch = std::move(fed.batch);
    // One small sum for each batch: its loss, whether it could be read, and reasons to stop.
    std::vector<double> shares{batch ? loss_of(session, *batch) : 0.0, fed.status.ok() ? 0.0 : 1.0};
    if (watch)
      for (double vote : watch->votes()) shares.push_back(vote);
    const auto sums = session.sum(shares);
    if (sums[1] > 0) comm::agree(session.backend.world(), fed.status);
    loss += sums[0];
    result.tokens += batch->targets;
    if (watch) result.stop = StopWatch::decide(&sums[2]);
    if (result.stop != Stop::none && i + 1 < batches) return result;
    result.stop = Stop::none;
  }
  result.loss = loss / static_cast<double>(std::max<std::int64_t>(1, result.tokens));
  return result;
}

}  // namespace tessera::train
