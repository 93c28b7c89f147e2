// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/base/attributes.hpp"
#include "tessera/program/emitter.hpp"

/// The steps of attention, which the operation leaves to a file of its own.
namespace tessera::ops {

inline bool has(const Attributes& attributes, const char* operand) {
  return attributes.integer(operand) != 0;
}

/// Multiply-adds of one of the products over what the masks by distance leave, twice.
double attention_product_flops(const Shape& q, const Shape& k, const Attributes& attributes);

/// The keys that a block of queries needs if their dim of n keys is cut as the queries' is.
Window attention_window(const Attributes& attributes, std::int64_t n);

/// q, k, v, [query segments, key segments], [bias] -> out, lse. Keys that are cut along their
/// length come in a window if there is one, else around the ring of the ranks that hold them (Liu
/// et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context", 2023).
void lower_attention(program::Emitter& emitter, const Attributes& attributes);
/// dout, q, k, v, out, lse, [segments], [bias] -> dq, dk, dv, [dbias]. On the ring the gradients of
/// keys and values travel with them.
void lower_attention_gradient(program::Emitter& emitter, const Attributes& attributes);

}  // namespace tessera::ops
