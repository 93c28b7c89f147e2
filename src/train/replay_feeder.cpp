// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/replay_feeder.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/train/acting.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {
namespace {

constexpr const char* kPriority = "priority";

bool gives_priorities(const program::Section& section) {
  return std::any_of(section.fetches.begin(), section.fetches.end(),
                     [](const auto& fetch) { return fetch.name == kPriority; });
}

/// The part `box` of a field [rows, width] whose rows begin at the box's.
std::vector<std::byte> cut(const std::vector<float>& field, std::int64_t width, const Box& box) {
  const Interval columns = box.size() > 1 ? box[1] : Interval{0, 1};
  std::vector<std::byte> bytes(static_cast<std::size_t>(volume(box)) * sizeof(float));
  const auto row_bytes = static_cast<std::size_t>(columns.size()) * sizeof(float);
  for (std::int64_t row = 0; row < box[0].size(); ++row)
    std::memcpy(bytes.data() + static_cast<std::size_t>(row) * row_bytes,
                field.data() + row * width + columns.begin, row_bytes);
  return bytes;
}

/// (size x probability)^-beta of each item, the largest being 1.
std::vector<double> importance(const std::vector<env::ReplayItem>& items, std::int64_t size,
                               double beta) {
  std::vector<double> weights;
  for (const auto& item : items)
    weights.push_back(std::pow(static_cast<double>(size) * item.probability, -beta));
  const double largest = *std::max_element(weights.begin(), weights.end());
  for (auto& weight : weights) weight /= largest;
  return weights;
}

}  // namespace

ReplayFeeder::ReplayFeeder(const Session& session)
    : session_(session),
      placement_(environment_placement(session)),
      actors_(session.settings.env.actors(session.experience_seed()), placement_,
              *session.collectives),
      replay_(session.settings.env.memory(), placement_, *session.collectives) {}

std::string ReplayFeeder::text() const {
  const auto& config = session_.settings.env;
  const auto& spec = actors_.spec();
  return concat(config.name, ", ", config.count, " environments with ", spec.observation,
                " numbers to see and ", spec.action, " to act by, episodes of ", spec.horizon,
                " steps, the last ", with_commas(replay_.config().rounds * config.count),
                " transitions kept");
}

data::DataIdentity ReplayFeeder::identity() const {
  return {actors_.spec().state, "environment " + actors_.spec().name};
}

/// The environments go on by what one update asks for, or for the first time.
void ReplayFeeder::live() {
  const auto& config = session_.settings.env;
  const bool is_new = position_.index == 0;
  const double begin = seconds_since_start();
  const std::int64_t rounds =
      is_new ? (config.warmup + config.count - 1) / config.count : config.steps_per_update;
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (!is_new) {
      act(session_, actors_, env::Explore::noise, &replay_);
      continue;
    }
    for (int r = 0; r < session_.executor->local_ranks(); ++r)
      actors_.step(r, {}, env::Explore::uniform, &replay_);
  }
  replay_.publish();
  position_.index += rounds * config.count;
  acting_seconds_ = seconds_since_start() - begin;
}

Fed ReplayFeeder::next() {
  live();
  make_batch();
  ++position_.step;
  return {&batch_, {}};
}

void ReplayFeeder::make_batch() {
  const auto& settings = session_.settings;
  const std::int64_t rows = settings.data.batch, parts = settings.train.micro_batches;
  batch_.at = position_;
  batch_.rows = batch_.targets = rows;
  batch_.weight = static_cast<double>(rows);
  items_ = replay_.draw(rows, session_.experience_seed(), position_.step);
  weights_ = importance(items_, replay_.size(), settings.env.priority_beta);
  const Shape shape{{"batch", rows / parts}};
  const Placement placement =
      session_.compiled.layout.placement("batch", shape, session_.compiled.mesh);
  batch_.tiles.clear();
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto first = part * rows / parts;
    const auto drawn =
        replay_.rows(std::span(items_).subspan(static_cast<std::size_t>(first),
                                               static_cast<std::size_t>(rows / parts)),
                     placement);
    auto& tiles = batch_.tiles.emplace_back();
    for (int r = 0; r < session_.executor->local_ranks(); ++r)
      tiles.push_back(tile_of(drawn[static_cast<std::size_t>(r)], first, r));
  }
}

data::TileData ReplayFeeder::tile_of(const env::ReplayRows& rows, std::int64_t first_row,
                                     int local_rank) const {
  const auto& spec = actors_.spec();
  data::TileData tile;
  for (const auto& input : session_.inputs(session_.compiled.task->first_micro())) {
    const Box& box = input.boxes[static_cast<std::size_t>(local_rank)];
    TESSERA_CHECK(box[0].size() == static_cast<std::int64_t>(rows.reward.size()), "input ",
                  input.name, " has ", box[0].size(), " rows, ", rows.reward.size(), " were drawn");
    if (input.name == "observation" || input.name == "next") {
      const auto& field = input.name == "next" ? rows.next : rows.observation;
      tile.inputs.push_back(cut(field, spec.observation, box));
    } else if (input.name == "action") {
      tile.inputs.push_back(cut(rows.action, spec.action, box));
    } else if (input.name == "weights") {
      const auto from = weights_.begin() + first_row + box[0].begin;
      tile.inputs.push_back(cut({from, from + box[0].size()}, 1, box));
    } else {
      check_user(input.name == "reward" || input.name == "discount", "model '",
                 session_.settings.model_name, "' wants the input '", input.name,
                 "'; experience gives observation, action, reward, discount, next, weights");
      tile.inputs.push_back(cut(input.name == "reward" ? rows.reward : rows.discount, 1, box));
    }
  }
  return tile;
}

void ReplayFeeder::ran(const std::string& section, std::int64_t micro) {
  if (replay_.config().priority_exponent == 0) return;
  const auto& planned = session_.compiled.program.section(section);
  if (!gives_priorities(planned)) return;
  constexpr double kLeast = 1e-6;
  const bool holds_all = planned.micro_batches > 1;
  auto priorities =
      session_.executor->fetch(section, kPriority, 0, holds_all ? static_cast<int>(micro) : 0);
  // A step that is not finite is stopped or skipped by the trainer.
  for (auto& priority : priorities)
    priority = std::isfinite(priority) ? std::max(priority, kLeast) : kLeast;
  const auto first = static_cast<std::size_t>(micro) * priorities.size();
  replay_.set_priorities(std::span(items_).subspan(first, priorities.size()), priorities);
}

std::vector<double> ReplayFeeder::shares() {
  std::vector<double> shares(3, 0);
  for (int r = 0; r < session_.executor->local_ranks(); ++r) {
    const auto episodes = actors_.take_episodes(r);
    if (!speaks_for_environments(session_, r)) continue;
    for (const auto& episode : episodes) {
      shares[0] += 1;
      shares[1] += episode.reward;
      shares[2] += episode.sparse_reward;
    }
  }
  return shares;
}

void ReplayFeeder::report(std::span<const double> sums, StepRecord& record) {
  record.counts.emplace_back("environment_steps", position_.index);
  if (sums[0] > 0) {
    record.metrics.emplace_back("episode_reward", sums[1] / sums[0]);
    record.metrics.emplace_back("episode_sparse_reward", sums[2] / sums[0]);
  }
  const auto& config = session_.settings.env;
  const double seconds = std::max(1e-9, record.step_seconds);
  const auto steps = static_cast<double>(config.count * config.steps_per_update);
  record.rates.emplace_back("act_s", acting_seconds_);
  record.rates.emplace_back("environment_steps_per_s", steps / seconds);
  record.rates.emplace_back("learner_steps_per_s", 1 / seconds);
}

std::vector<io::SavedTensor> ReplayFeeder::saved() const {
  auto tensors = actors_.saved();
  for (auto& tensor : replay_.saved()) tensors.push_back(std::move(tensor));
  return tensors;
}

std::vector<io::LoadedTensor> ReplayFeeder::loaded() {
  auto tensors = actors_.loaded();
  for (auto& tensor : replay_.loaded()) tensors.push_back(std::move(tensor));
  return tensors;
}

Evaluation ReplayFeeder::evaluate(bool /*all*/, const StopWatch* watch) {
  return evaluate_policy(session_, session_.settings.eval.episodes, watch);
}

}  // namespace tessera::train
