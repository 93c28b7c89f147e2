// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/attention.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/builtin.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

void read_extents(const Tile& q, const Tile& k, const Tile& v, bool grouped, Attention& at) {
  const int last = grouped ? 4 : 3;
  TESSERA_CHECK(q.rank == last + 1 && k.rank == 4 && v.rank == 4, "attention: ranks ", q.rank, ", ",
                k.rank, ", ", v.rank, grouped ? " with a group dim" : "");
  auto& size = at.size;
  size.batch = q.extent[0], size.queries = q.extent[1], size.heads = q.extent[2];
  size.group = grouped ? q.extent[3] : 1, size.depth = q.extent[last];
  size.keys = k.extent[1];
  TESSERA_CHECK(k.extent[0] == size.batch && k.extent[2] == size.heads && k.extent[3] == size.depth,
                "attention: k is ", k.extent[0], " x ", k.extent[1], " x ", k.extent[2], " x ",
                k.extent[3], " beside q with batch ", size.batch, ", heads ", size.heads,
                ", depth ", size.depth);
  for (int d = 0; d < 4; ++d) {
    TESSERA_CHECK(k.extent[d] == v.extent[d], "attention: dim ", d, " of k and v has extents ",
                  k.extent[d], " and ", v.extent[d]);
  }
}

void read_mask(const Call& call, const Tile& q, const Tile& k, bool grouped, Attention& at) {
  const double rate = call.attributes.real_or("dropout", 0.0);
  TESSERA_CHECK(rate >= 0 && rate < 1, "attention: dropout ", rate);
  at.query_offset = q.offset[1], at.key_offset = k.offset[1];
  if (rate == 0) return;
  at.drops = true;
  at.key = static_cast<std::uint64_t>(call.attributes.integer("key"));
  at.step = static_cast<std::uint64_t>(call.feeds.step);
  at.threshold = static_cast<std::uint64_t>(rate * 4294967296.0);
  at.factor = 1 / (1 - rate);
  at.first_batch = q.offset[0] + call.feeds.micro * q.global[0];
  at.first_head = q.offset[2], at.all_heads = q.global[2];
  at.first_group = grouped ? q.offset[3] : 0, at.all_group = grouped ? q.global[3] : 1;
  at.all_queries = q.global[1], at.all_keys = k.global[1];
}

void read_distances(const Call& call, Attention& at) {
  const bool causal = call.attributes.integer_or("causal", 0) != 0;
  const std::int64_t window = call.attributes.integer_or("window", 0);
  TESSERA_CHECK(window >= 0, "attention: window ", window);
  if (causal) at.right = 0;
  if (window == 0) return;
  at.left = window - 1;
  if (!causal) at.right = window - 1;
}

void read_segments(const Tile& queries, const Tile& keys, Attention& at) {
  const auto fits = [&](const Tile& ids, std::int64_t length) {
    return ids.dtype == DType::i32 && ids.rank == 2 && ids.extent[0] == at.size.batch &&
           ids.extent[1] == length;
  };
  TESSERA_CHECK(fits(queries, at.size.queries) && fits(keys, at.size.keys),
                "attention: segments of ", queries.extent[0], " x ", queries.extent[1], " and ",
                keys.extent[0], " x ", keys.extent[1], " beside ", at.size.batch, " rows of ",
                at.size.queries, " queries and ", at.size.keys, " keys");
  at.query_segments = queries.as<const std::int32_t>();
  at.key_segments = keys.as<const std::int32_t>();
}

void read_bias(const Call& call, const Tile& bias, bool grouped, Attention& at) {
  const int last = grouped ? 2 : 1;
  TESSERA_CHECK(bias.rank == last + 1 && bias.extent[0] == at.size.heads &&
                    (!grouped || bias.extent[1] == at.size.group),
                "attention: a bias of rank ", bias.rank, " for ", bias.extent[0], " of ",
                at.size.heads, " heads");
  at.bias = bias.data;
  at.size.buckets = bias.extent[last];
  at.buckets = program::relative_buckets(static_cast<int>(bias.extent[last]),
                                         call.attributes.integer_or("causal", 0) == 0,
                                         call.attributes.integer("max_distance"));
}

/// The operands after q, k, v (and out, lse) that the attributes announce.
int masks_of(const Call& call) {
  return call.attributes.integer_or("segments", 0) != 0 ? 2 : 0;
}
int biases_of(const Call& call) {
  return call.attributes.integer_or("bias", 0) != 0 ? 1 : 0;
}

/// True if the masks by distance hide all keys from all queries.
bool sees_nothing(const Attention& at) {
  if (at.size.queries == 0) return true;
  return visible_keys(at, at.size.queries - 1).end == 0 ||
         visible_keys(at, 0).begin == at.size.keys;
}

void attention_forward(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 3 + masks_of(call) + biases_of(call) && call.output_count == 2,
                "attention_forward: ", call.input_count, " inputs, ", call.output_count,
                " outputs");
  const Attention at = attention_of(call, 0, 3);
  if (at.accumulates && sees_nothing(at)) return;
  if (use_portable()) {
    attention_forward_portable(exec, at, call);
  } else {
    attention_forward_host(exec, at, call);
  }
}

void attention_backward(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 6 + masks_of(call) + biases_of(call) &&
                    call.output_count == 3 + biases_of(call),
                "attention_backward: ", call.input_count, " inputs, ", call.output_count,
                " outputs");
  const Attention at = attention_of(call, 1, 6);
  if (at.accumulates && sees_nothing(at)) return;
  if (use_portable()) {
    attention_backward_portable(exec, at, call);
  } else {
    attention_backward_host(exec, at, call);
  }
}

}  // namespace

Attention attention_of(const Call& call, int first, int masks) {
  Attention at;
  const Tile &q = call.inputs[first], &k = call.inputs[first + 1], &v = call.inputs[first + 2];
  const bool grouped = call.attributes.integer_or("group", 0) != 0;
  at.scale = call.attributes.real_or("scale", 1.0);
  at.accumulates = call.attributes.integer_or("accumulate", 0) != 0;
  read_extents(q, k, v, grouped, at);
  read_mask(call, q, k, grouped, at);
  read_distances(call, at);
  if (masks_of(call) > 0) read_segments(call.inputs[masks], call.inputs[masks + 1], at);
  if (biases_of(call) > 0) {
    read_bias(call, call.inputs[masks + masks_of(call)], grouped, at);
  }
  return at;
}

void register_attention_kernels() {
  register_kernel("attention_forward", attention_forward);
  register_kernel("attention_backward", attention_backward);
}

}  // namespace tessera::kernels
