// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/replay.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::env {
namespace {

/// 48 random bits: rows of large memories are more than the 2^24 values of one word tell apart.
double wide_uniform(std::uint64_t key, std::uint64_t step, std::uint64_t index) {
  const std::uint64_t high = random_word(key, step, 2 * index);
  const std::uint64_t low = random_word(key, step, 2 * index + 1);
  return (static_cast<double>((high << 16) | (low >> 16)) + 0.5) / 281474976710656.0;
}

}  // namespace

Replay::Replay(const ReplayConfig& config, Placement placement, comm::Collectives& collectives)
    : config_(config), placement_(std::move(placement)), collectives_(&collectives) {
  check_user(config_.environments >= 1, "a replay of ", config_.environments, " environments");
  check_user(config_.rounds >= 1, "a replay of ", config_.rounds, " transitions an environment");
  const Shape shape{{"environment", config_.environments}};
  for (int rank : collectives.local_ranks()) {
    const auto& mesh = collectives.mesh();
    Shard shard;
    shard.environments = tile_box(shape, placement_, mesh, mesh.coordinates(rank))[0];
    shard.data.assign(
        static_cast<std::size_t>(shard.environments.size() * config_.rounds * width()), 0.0F);
    shard.added.assign(static_cast<std::size_t>(shard.environments.size()), 0);
    shards_.push_back(std::move(shard));
  }
  published_.assign(static_cast<std::size_t>(config_.environments), 0);
  if (config_.priority_exponent > 0) tree_.emplace(config_.environments * config_.rounds);
  count_items();
}

Interval Replay::environments(int local_rank) const {
  return shards_[static_cast<std::size_t>(local_rank)].environments;
}

float* Replay::record(int local_rank, std::int64_t environment, std::int64_t slot) const {
  Shard& shard = shards_[static_cast<std::size_t>(local_rank)];
  const std::int64_t local = environment - shard.environments.begin;
  TESSERA_CHECK(local >= 0 && environment < shard.environments.end, "environment ", environment,
                " lives on another rank");
  return shard.data.data() + (local * config_.rounds + slot) * width();
}

void Replay::add(int local_rank, std::int64_t environment, const Transition& transition) {
  Shard& shard = shards_[static_cast<std::size_t>(local_rank)];
  const auto local = static_cast<std::size_t>(environment - shard.environments.begin);
  float* to = record(local_rank, environment, shard.added[local] % config_.rounds);
  to = std::copy(transition.observation.begin(), transition.observation.end(), to);
  to = std::copy(transition.action.begin(), transition.action.end(), to);
  *to++ = static_cast<float>(transition.reward);
  *to++ = static_cast<float>(transition.discount);
  std::copy(transition.next.begin(), transition.next.end(), to);
  ++shard.added[local];
}

void Replay::publish() {
  const auto& mesh = collectives_->mesh();
  std::vector<std::vector<double>> shares;
  for (std::size_t r = 0; r < shards_.size(); ++r) {
    auto& share = shares.emplace_back(published_.size(), 0.0);
    const Coordinates at = mesh.coordinates(collectives_->local_ranks()[r]);
    const auto copies = placement_.replicated_mesh_dims();
    const bool counts = std::all_of(copies.begin(), copies.end(), [&](int dim) {
      return at[static_cast<std::size_t>(dim)] == 0;
    });
    if (!counts) continue;
    for (std::size_t e = 0; e < shards_[r].added.size(); ++e)
      share[static_cast<std::size_t>(shards_[r].environments.begin) + e] =
          static_cast<double>(shards_[r].added[e]);
  }
  const auto counts = collectives_->sum_over_ranks(shares);
  const double weight = std::pow(highest_, config_.priority_exponent);
  for (std::size_t e = 0; e < published_.size(); ++e) {
    const auto now = static_cast<std::int64_t>(counts[e]);
    for (std::int64_t i = std::max(published_[e], now - config_.rounds); tree_ && i < now; ++i)
      tree_->set(static_cast<std::int64_t>(e) * config_.rounds + i % config_.rounds, weight);
    published_[e] = now;
  }
  count_items();
}

std::int64_t Replay::stored(std::int64_t environment) const {
  return std::min(published_[static_cast<std::size_t>(environment)], config_.rounds);
}

void Replay::count_items() {
  begins_.clear();
  size_ = 0;
  for (std::int64_t e = 0; e < config_.environments; ++e) {
    begins_.push_back(size_);
    size_ += stored(e);
  }
}

ReplayItem Replay::uniform_item(double draw) const {
  const auto index =
      std::min(static_cast<std::int64_t>(draw * static_cast<double>(size_)), size_ - 1);
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), index);
  const auto environment = after - begins_.begin() - 1;
  return {environment, index - begins_[static_cast<std::size_t>(environment)],
          1 / static_cast<double>(size_)};
}

std::vector<ReplayItem> Replay::draw(std::int64_t count, std::uint64_t seed,
                                     std::int64_t step) const {
  TESSERA_CHECK(size_ > 0, "a draw from an empty replay");
  const auto key = stream_key(seed, hash_text("replay"));
  std::vector<ReplayItem> items;
  for (std::int64_t i = 0; i < count; ++i) {
    const double draw =
        wide_uniform(key, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i));
    if (!tree_) {
      items.push_back(uniform_item(draw));
      continue;
    }
    const auto leaf = tree_->find(draw * tree_->total());
    items.push_back(
        {leaf / config_.rounds, leaf % config_.rounds, tree_->weight(leaf) / tree_->total()});
  }
  return items;
}

void Replay::set_priorities(std::span<const ReplayItem> items, std::span<const double> priorities) {
  if (!tree_) return;
  for (std::size_t i = 0; i < items.size(); ++i) {
    TESSERA_CHECK(priorities[i] > 0, "a priority of ", priorities[i]);
    highest_ = std::max(highest_, priorities[i]);
    tree_->set(items[i].environment * config_.rounds + items[i].slot,
               std::pow(priorities[i], config_.priority_exponent));
  }
}

ReplayRows Replay::unpack(const std::vector<float>& records, std::int64_t count) const {
  ReplayRows rows;
  auto move = [from = records.data()](std::vector<float>& to, int size) mutable {
    to.insert(to.end(), from, from + size);
    from += size;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    move(rows.observation, config_.observation);
    move(rows.action, config_.action);
    move(rows.reward, 1);
    move(rows.discount, 1);
    move(rows.next, config_.observation);
  }
  return rows;
}

}  // namespace tessera::env
