// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/evaluation.hpp"

#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/train/feeding.hpp"

namespace tessera::train {
namespace {

/// Sums over one batch and this process's ranks: weight x loss, then the metrics.
std::vector<double> sums_of(const Session& session, const data::Batch& batch) {
  auto& executor = *session.executor;
  std::vector<double> sums(1 + session.metrics("eval").size(), 0);
  for (std::size_t micro = 0; micro < batch.tiles.size(); ++micro) {
    set_inputs(session, "eval", batch.tiles[micro]);
    kernels::Feeds feeds;
    feeds.micro = static_cast<std::int64_t>(micro);
    executor.run("eval", feeds);
    for (int r = 0; r < executor.local_ranks(); ++r)
      sums[0] += executor.fetch_share("eval", "loss", r);
    const auto metrics = metric_shares(session, "eval");
    for (std::size_t i = 0; i < metrics.size(); ++i) sums[1 + i] += metrics[i];
  }
  return sums;
}

}  // namespace

Evaluation evaluate(const Session& session, std::shared_ptr<const data::Samples> samples,
                    std::int64_t max_batches, const StopWatch* watch) {
  TESSERA_CHECK(samples, "there are no validation samples");
  data::Loader loader(samples, loader_config(session, 1), session.inputs("eval"));
  const std::int64_t batches = max_batches > 0 ? std::min(max_batches, loader.batches_per_epoch())
                                               : loader.batches_per_epoch();
  // Later failures to read are told by the sum of each batch; the first has no batch to stand in.
  comm::agree(session.backend.world(), loader.status());
  const auto names = session.metrics("eval");
  Evaluation result;
  std::vector<double> totals(1 + names.size(), 0);
  double weight = 0;
  std::optional<data::Batch> batch;
  for (std::int64_t i = 0; i < batches; ++i) {
    const Fed fed = take_batch(loader, batch);
    // One small sum for each batch: its loss, whether it could be read, and reasons to stop.
    std::vector<double> shares = sums_of(session, *batch);
    shares.push_back(fed.status.ok() ? 0.0 : 1.0);
    if (watch)
      for (double vote : watch->votes()) shares.push_back(vote);
    const auto sums = session.sum(shares);
    if (sums[totals.size()] > 0) comm::agree(session.backend.world(), fed.status);
    for (std::size_t t = 0; t < totals.size(); ++t) totals[t] += sums[t];
    result.record.targets += batch->targets;
    weight += batch->weight;
    if (watch) result.stop = StopWatch::decide(&sums[totals.size() + 1]);
    if (result.stop != Stop::none && i + 1 < batches) return result;
    result.stop = Stop::none;
  }
  weight = weight > 0 ? weight : 1;
  result.record.unit = samples->unit();
  result.record.value = totals[0] / weight;
  for (std::size_t i = 0; i < names.size(); ++i)
    result.record.metrics.emplace_back(names[i], totals[1 + i] / weight);
  return result;
}

}  // namespace tessera::train
