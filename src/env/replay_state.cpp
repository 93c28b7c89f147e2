// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/env/replay.hpp"

namespace tessera::env {
namespace {

constexpr const char* kTransitions = "/env/replay/transitions";
constexpr const char* kCounts = "/env/replay/counts";
constexpr const char* kWeights = "/env/replay/weights";

}  // namespace

std::vector<io::SavedTensor> Replay::saved() const {
  const Placement whole(placement_.mesh_rank());
  std::vector<io::SavedTensor> tensors;
  tensors.push_back(
      {kTransitions,
       {{{"environment", config_.environments}, {"slot", config_.rounds}, {"number", width()}},
        DType::f32},
       placement_,
       [this](int r) -> const void* { return shards_[static_cast<std::size_t>(r)].data.data(); }});
  saved_counts_.assign(published_.begin(), published_.end());
  tensors.push_back({kCounts,
                     {{{"environment", config_.environments}}, DType::f64},
                     whole,
                     [this](int) -> const void* { return saved_counts_.data(); }});
  if (!tree_) return tensors;
  saved_weights_.clear();
  for (std::int64_t i = 0; i < tree_->size(); ++i) saved_weights_.push_back(tree_->weight(i));
  saved_weights_.push_back(highest_);
  tensors.push_back(
      {kWeights, {{{"item", tree_->size() + 1}}, DType::f64}, whole, [this](int) -> const void* {
         return saved_weights_.data();
       }});
  return tensors;
}

std::vector<io::LoadedTensor> Replay::loaded() {
  std::vector<io::LoadedTensor> tensors;
  const auto saved_tensors = saved();
  for (const auto& saved : saved_tensors)
    tensors.push_back({saved.path, saved.spec, saved.placement, {}});
  tensors[0].put = [this](int r, const void* tile) {
    auto& data = shards_[static_cast<std::size_t>(r)].data;
    std::copy_n(static_cast<const float*>(tile), data.size(), data.begin());
  };
  tensors[1].put = [this](int, const void* tile) {
    std::copy_n(static_cast<const double*>(tile), saved_counts_.size(), saved_counts_.begin());
  };
  if (tree_)
    tensors[2].put = [this](int, const void* tile) {
      std::copy_n(static_cast<const double*>(tile), saved_weights_.size(), saved_weights_.begin());
    };
  return tensors;
}

void Replay::done() {
  for (std::size_t e = 0; e < published_.size(); ++e)
    published_[e] = static_cast<std::int64_t>(saved_counts_[e]);
  for (auto& shard : shards_)
    for (std::size_t i = 0; i < shard.added.size(); ++i)
      shard.added[i] = published_[static_cast<std::size_t>(shard.environments.begin) + i];
  count_items();
  if (!tree_) return;
  for (std::int64_t i = 0; i < tree_->size(); ++i)
    tree_->set(i, saved_weights_[static_cast<std::size_t>(i)]);
  highest_ = saved_weights_.back();
}

}  // namespace tessera::env
