// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/base/status.hpp"

namespace tessera::train {
namespace {

/// Ids from the likeliest on, at most `count`.
std::vector<std::int32_t> likeliest(const std::vector<double>& logits, std::size_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), before);
  ids.erase(end, ids.end());
  return ids;
}

/// The logits tile that a local rank holds, as a part of the whole vector; nothing if another rank
/// counts the same tile.
void add_tile(const Session& session, const program::Buffer& buffer, int local_rank,
              std::vector<double>& logits) {
  const auto& mesh = session.compiled.mesh;
  const int rank = session.collectives->local_ranks()[static_cast<std::size_t>(local_rank)];
  const Coordinates at = mesh.coordinates(rank);
  for (int mesh_dim : buffer.placement.replicated_mesh_dims())
    if (at[static_cast<std::size_t>(mesh_dim)] != 0) return;
  const Box box = tile_box(buffer.spec.shape, buffer.placement, mesh, at);
  const auto tile = session.executor->fetch("sample", "logits", local_rank);
  TESSERA_CHECK(static_cast<std::int64_t>(tile.size()) == volume(box), "logits' tile");
  for (std::size_t i = 0; i < tile.size(); ++i)
    logits[static_cast<std::size_t>(box[0].begin) + i] += tile[i];
}

const program::Buffer& logits_buffer(const program::Section& section) {
  for (const auto& fetch : section.fetches)
    if (fetch.name == "logits") return section.buffers[static_cast<std::size_t>(fetch.buffer)];
  throw Error("section sample has no logits");
}

/// Logits of the token that follows `ids`, of which the last data.length count.
std::vector<double> next_logits(const Session& session, const std::vector<std::int32_t>& ids) {
  auto& executor = *session.executor;
  const auto& section = session.compiled.program.section("sample");
  const auto length = static_cast<std::size_t>(session.settings.data.length);
  const std::size_t known = std::min(ids.size(), length);
  const std::vector<std::int32_t> window(ids.end() - static_cast<std::ptrdiff_t>(known), ids.end());
  for (const auto& input : section.inputs) {
    for (int r = 0; r < executor.local_ranks(); ++r) {
      const Box box = executor.input_box("sample", input.name, r);
      std::vector<std::int32_t> tile(static_cast<std::size_t>(volume(box)), 0);
      for (std::size_t i = 0; i < tile.size() && input.name == "tokens"; ++i) {
        const std::size_t column = static_cast<std::size_t>(box[1].begin) + i;
        tile[i] = column < known ? window[column] : 0;
      }
      executor.set_input("sample", input.name, r, tile.data());
    }
  }
  kernels::Feeds feeds;
  feeds.values["position"] = static_cast<double>(known - 1);
  executor.run("sample", feeds);
  const auto& buffer = logits_buffer(section);
  std::vector<double> logits(static_cast<std::size_t>(buffer.spec.shape.size()), 0);
  for (int r = 0; r < executor.local_ranks(); ++r) add_tile(session, buffer, r, logits);
  return session.sum(logits);
}

/// A sequence needs a first token; without a prompt it is the end of a line, if there is such an
/// id.
std::int32_t first_id(const data::Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  const Status status = attempt([&] { ids = vocabulary.encode("\n"); });
  return status.ok() && !ids.empty() ? ids.front() : 0;
}

}  // namespace

std::int32_t draw(const std::vector<double>& logits, const SampleConfig& config, double uniform) {
  TESSERA_CHECK(!logits.empty(), "no logits to draw from");
  const bool is_greedy = config.temperature == 0;
  const std::size_t count = is_greedy          ? 1
                            : config.top_k > 0 ? static_cast<std::size_t>(config.top_k)
                                               : logits.size();
  const auto ids = likeliest(logits, count);
  if (is_greedy) return ids.front();
  const double top = logits[static_cast<std::size_t>(ids.front())];
  std::vector<double> weights;
  double total = 0;
  for (std::int32_t id : ids) {
    weights.push_back(std::exp((logits[static_cast<std::size_t>(id)] - top) / config.temperature));
    total += weights.back();
  }
  double left = uniform * total;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids.back();
}

std::string sample_text(const Session& session) {
  const auto& config = session.settings.sample;
  const auto& vocabulary = session.corpus.vocabulary;
  check_user(session.compiled.program.has_section("sample"), "model '", session.settings.model_name,
             "' cannot sample: set sample.length = 0");
  std::vector<std::int32_t> ids = vocabulary.encode(config.prompt);
  const std::size_t invented = ids.empty() ? 1 : 0;
  if (invented) ids.push_back(first_id(vocabulary));
  const std::uint64_t key =
      stream_key(static_cast<std::uint64_t>(config.seed), hash_text("sample"));
  for (std::int64_t i = 0; i < config.length; ++i) {
    const auto word = random_word(key, 0, static_cast<std::uint64_t>(i));
    ids.push_back(draw(next_logits(session, ids), config, uniform_of(word)));
  }
  return vocabulary.decode(std::span(ids).subspan(invented, ids.size() - invented));
}

}  // namespace tessera::train
