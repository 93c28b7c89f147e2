// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/graph/graph.hpp"

/// Keys and values of earlier positions, kept in variables while text is decoded.
namespace tessera::nn {

/// The feed that holds the position of the tokens of one decoding step, the same for all rows.
inline constexpr const char* kPositionFeed = "position";
/// The feed that holds the last known position while caches are filled.
inline constexpr const char* kLastFeed = "last";

/// What a section does with keys and values.
struct Caching {
  enum class Phase : std::uint8_t {
    none,  ///< nothing is kept: training, evaluation, decoding by computing everything anew
    fill,  ///< all positions [.., length, ..] at once: keys and values are kept
    step,  ///< one position, no dim `length`: added at kPositionFeed to what is kept
  };
  Phase phase = Phase::none;
  std::int64_t length = 0;  ///< positions kept, >= those of a `fill`
  std::int64_t beam = 0;    ///< hypotheses of a row, each with its own; 0: no dim "beam"

  bool is_step() const { return phase == Phase::step; }
};

/// Keeps x as the variable `name` under the open scopes, until a section keeps another.
void keep(const std::string& name, Tensor x);
/// What a section keeps as `name`.
Tensor kept(Graph& graph, const std::string& name, const TensorSpec& spec);
/// The same of a graph that was built before this one; Error if it keeps nothing of that name.
Tensor kept(Graph& graph, const std::string& name);

/// Keeps x [batch, memory, rest…] as the variable `name` under the open scopes, with the dim
/// `memory` as long as the caching says and, if it has beams, repeated along "beam" behind batch.
void fill_cache(const std::string& name, Tensor x, const std::string& memory,
                const Caching& caching);
/// Adds x [batch, (beam,) rest…] at the fed position of the variable that fill_cache would declare;
/// returns the whole [batch, (beam,) memory, rest…] with it.
Tensor extend_cache(const std::string& name, Tensor x, const std::string& memory,
                    const Caching& caching);

/// 1 for the positions along `memory` up to the one that `feed` holds, else 0: [memory].
Tensor visible_so_far(Graph& graph, const Dim& memory, DType dtype,
                      const char* feed = kPositionFeed);

/// The bias of each position along `memory` for a query at the fed one, [heads, (group,) memory],
/// of biases [heads, (group,) buckets] by distance (program::RelativeBuckets, causal).
Tensor relative_bias_at(Tensor biases, const Dim& memory, std::int64_t max_distance);

}  // namespace tessera::nn
