// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/attention.hpp"

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

void attention_forward(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 3 && call.output_count == 2,
                "attention_forward: ", call.input_count, " inputs, ", call.output_count,
                " outputs");
  const Attention at = attention_of(call, 0);
  if (use_portable()) {
    attention_forward_portable(exec, at, call);
  } else {
    attention_forward_host(exec, at, call);
  }
}

void attention_backward(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 6 && call.output_count == 3,
                "attention_backward: ", call.input_count, " inputs, ", call.output_count,
                " outputs");
  const Attention at = attention_of(call, 1);
  if (use_portable()) {
    attention_backward_portable(exec, at, call);
  } else {
    attention_backward_host(exec, at, call);
  }
}

}  // namespace

Attention attention_of(const Call& call, int first) {
  Attention at;
  const Tile &q = call.inputs[first], &k = call.inputs[first + 1], &v = call.inputs[first + 2];
  const bool grouped = call.attributes.integer_or("group", 0) != 0;
  at.causal = call.attributes.integer_or("causal", 0) != 0;
  at.scale = call.attributes.real_or("scale", 1.0);
  read_extents(q, k, v, grouped, at);
  read_mask(call, q, k, grouped, at);
  return at;
}

void register_attention_kernels() {
  register_kernel("attention_forward", attention_forward);
  register_kernel("attention_backward", attention_backward);
}

}  // namespace tessera::kernels
