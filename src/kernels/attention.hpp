// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/base/philox.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/program/relative_buckets.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::kernels {

/// Local extents, global positions and masks of one call of attention.
struct Attention {
  /// A distance that no mask reaches.
  static constexpr std::int64_t kFar = std::int64_t{1} << 60;

  program::AttentionSize size;
  double scale = 1;
  std::int64_t query_offset = 0;  ///< global position of the first query, and of the first key
  std::int64_t key_offset = 0;
  std::int64_t left = kFar;  ///< a query at i sees keys at i - left .. i + right
  std::int64_t right = kFar;
  bool accumulates = false;  ///< goes on from what the outputs hold

  /// i32 [batch, queries] and [batch, keys]: equal ones that are not 0 see each other; null: all.
  const std::int32_t* query_segments = nullptr;
  const std::int32_t* key_segments = nullptr;

  const void* bias = nullptr;  ///< [heads, group, buckets] in the type of the sums
  program::RelativeBuckets buckets;

  bool drops = false;
  std::uint64_t key = 0;
  std::uint64_t step = 0;
  std::uint64_t threshold = 0;   ///< a word from this on keeps its element
  double factor = 1;             ///< of a kept probability
  std::int64_t first_batch = 0;  ///< over the whole step
  std::int64_t first_head = 0;
  std::int64_t first_group = 0;
  std::int64_t all_heads = 0, all_group = 0, all_queries = 0, all_keys = 0;

  /// Distances of neighbouring rows of q and of k, in elements.
  TESSERA_FUNCTION std::int64_t query_row() const { return size.heads * size.group * size.depth; }
  TESSERA_FUNCTION std::int64_t key_row() const { return size.heads * size.depth; }
};

/// Reads a call whose inputs from `first` on are q, k and v, and from `masks` on the segments and
/// the bias, if the attributes announce them; Error that names what is wrong.
Attention attention_of(const Call& call, int first, int masks);

/// Places in the tensors of one head: element 0 of row 0.
TESSERA_FUNCTION std::int64_t query_place(const Attention& at, std::int64_t batch,
                                          std::int64_t head, std::int64_t group) {
  const auto& s = at.size;
  return ((batch * s.queries * s.heads + head) * s.group + group) * s.depth;
}
TESSERA_FUNCTION std::int64_t key_place(const Attention& at, std::int64_t batch,
                                        std::int64_t head) {
  return (batch * at.size.keys * at.size.heads + head) * at.size.depth;
}
TESSERA_FUNCTION std::int64_t row_place(const Attention& at, std::int64_t batch, std::int64_t head,
                                        std::int64_t group) {
  const auto& s = at.size;
  return ((batch * s.heads + head) * s.group + group) * s.queries;
}
/// Index in the random stream of query 0 and key 0 of a head.
TESSERA_FUNCTION std::uint64_t mask_index(const Attention& at, std::int64_t batch,
                                          std::int64_t head, std::int64_t group, std::int64_t query,
                                          std::int64_t key) {
  std::uint64_t index = static_cast<std::uint64_t>(at.first_batch + batch);
  index = index * static_cast<std::uint64_t>(at.all_heads) +
          static_cast<std::uint64_t>(at.first_head + head);
  index = index * static_cast<std::uint64_t>(at.all_group) +
          static_cast<std::uint64_t>(at.first_group + group);
  index = index * static_cast<std::uint64_t>(at.all_queries) +
          static_cast<std::uint64_t>(at.query_offset + query);
  return index * static_cast<std::uint64_t>(at.all_keys) +
         static_cast<std::uint64_t>(at.key_offset + key);
}
/// Local keys [begin, end) that the masks by distance let a local query see.
struct KeyRange {
  std::int64_t begin, end;
};
TESSERA_FUNCTION KeyRange visible_keys(const Attention& at, std::int64_t query) {
  const std::int64_t position = at.query_offset + query - at.key_offset, keys = at.size.keys;
  std::int64_t begin = position - at.left, end = position + at.right + 1;
  end = end < 0 ? 0 : end > keys ? keys : end;
  begin = begin < 0 ? 0 : begin > end ? end : begin;
  return {begin, end};
}
/// True if the segments let a query see a key.
TESSERA_FUNCTION bool same_segment(const Attention& at, std::int64_t batch, std::int64_t query,
                                   std::int64_t key) {
  if (at.query_segments == nullptr) return true;
  const std::int32_t id = at.query_segments[batch * at.size.queries + query];
  return id != 0 && id == at.key_segments[batch * at.size.keys + key];
}

void attention_forward_host(const device::Exec& exec, const Attention& at, const Call& call);
void attention_backward_host(const device::Exec& exec, const Attention& at, const Call& call);
void attention_forward_portable(const device::Exec& exec, const Attention& at, const Call& call);
void attention_backward_portable(const device::Exec& exec, const Attention& at, const Call& call);

}  // namespace tessera::kernels
