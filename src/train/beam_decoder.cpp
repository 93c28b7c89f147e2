// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/beam_decoder.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/nn/cache.hpp"

namespace tessera::train {
namespace {

/// Gives every rank its tile of whole [batch, beam] ids.
void set_ids(runtime::Executor& executor, const std::string& section, const std::string& input,
             const std::vector<std::int32_t>& ids, std::int64_t beam) {
  for (int r = 0; r < executor.local_ranks(); ++r) {
    const Box box = executor.input_box(section, input, r);
    std::vector<std::int32_t> tile;
    for (std::int64_t row = box[0].begin; row < box[0].end; ++row)
      for (std::int64_t place = box[1].begin; place < box[1].end; ++place)
        tile.push_back(ids[static_cast<std::size_t>(row * beam + place)]);
    executor.set_input(section, input, r, tile.data());
  }
}

/// The candidates of one row: what the section decode has fetched [batch, beam, candidate].
std::vector<std::vector<Candidate>> candidates_of(const std::vector<double>& log_probabilities,
                                                  const std::vector<double>& ids, std::size_t row,
                                                  std::size_t beam, std::size_t each) {
  std::vector<std::vector<Candidate>> result(beam);
  for (std::size_t place = 0; place < beam; ++place)
    for (std::size_t i = 0; i < each; ++i) {
      const std::size_t at = (row * beam + place) * each + i;
      result[place].push_back({static_cast<std::int32_t>(ids[at]), log_probabilities[at]});
    }
  return result;
}

class Search {
 public:
  Search(runtime::Executor& executor, const BeamStart& start, const BeamOptions& options)
      : executor_(executor),
        beam_(options.beam),
        rows_(start.tokens.size(), BeamSearch(options)),
        position_(start.position) {
    for (std::int32_t token : start.tokens) tokens_.insert(tokens_.end(), beam(), token);
    parents_.assign(tokens_.size(), 0);
  }

  std::vector<std::vector<Hypothesis>> run() {
    while (!is_done()) step();
    std::vector<std::vector<Hypothesis>> results;
    for (const auto& row : rows_) results.push_back(row.results());
    return results;
  }

 private:
  std::size_t beam() const { return static_cast<std::size_t>(beam_); }
  bool is_done() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const auto& row) { return row.is_done(); });
  }

  void step() {
    set_ids(executor_, "decode", "tokens", tokens_, beam_);
    kernels::Feeds feeds;
    feeds.values[nn::kPositionFeed] = static_cast<double>(position_);
    executor_.run("decode", feeds);
    const auto log_probabilities = executor_.fetch("decode", "log_probabilities", 0);
    const auto ids = executor_.fetch("decode", "ids", 0);
    const std::size_t each = ids.size() / tokens_.size();
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].is_done()) continue;
      rows_[row].advance(candidates_of(log_probabilities, ids, row, beam(), each));
      const auto at = static_cast<std::ptrdiff_t>(row * beam());
      std::copy_n(rows_[row].last_tokens().begin(), beam(), tokens_.begin() + at);
      std::copy_n(rows_[row].parents().begin(), beam(), parents_.begin() + at);
    }
    ++position_;
    if (!is_done()) reorder();
  }

  /// Each place's keys and values become those of the hypothesis that it goes on with.
  void reorder() {
    bool moves = false;
    for (std::size_t i = 0; i < parents_.size(); ++i)
      moves = moves || parents_[i] != static_cast<std::int32_t>(i % beam());
    if (!moves) return;
    set_ids(executor_, "reorder", "parents", parents_, beam_);
    executor_.run("reorder", {});
    // Rows that are done stay as they are.
    for (std::size_t i = 0; i < parents_.size(); ++i)
      parents_[i] = static_cast<std::int32_t>(i % beam());
  }

  runtime::Executor& executor_;
  std::int64_t beam_;
  std::vector<BeamSearch> rows_;
  std::int64_t position_;
  std::vector<std::int32_t> tokens_, parents_;  ///< [batch, beam]
};

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(runtime::Executor& executor,
                                                 const BeamStart& start,
                                                 const BeamOptions& options) {
  const auto& section = executor.program().section("decode");
  const Shape& shape =
      section.buffers[static_cast<std::size_t>(section.inputs[0].buffer)].spec.shape;
  TESSERA_CHECK(shape.size_of("beam") == options.beam &&
                    shape.size_of("batch") == static_cast<std::int64_t>(start.tokens.size()),
                "the section decode takes ", shape.to_string());
  return Search(executor, start, options).run();
}

}  // namespace tessera::train
