// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"

/// Lookups by ids (i32), done where the data lies: no one-hot product. Ids index one dim, or up to
/// four together by their row-major index. Dims that both operands have are walked together. Ids
/// outside give zeros (gather) or are left out (scatter_add); they have no gradient.
namespace tessera::ops {

/// y[ids' dims…, x's other dims…] = x[…, id, …] along `dim`. Where the dim is cut, each rank looks
/// up its own rows and the result is a partial sum: an all_reduce of y's bytes, or less where the
/// consumer is cut. Other cuts move nothing.
Tensor gather(Tensor x, Tensor ids, const std::string& dim);
Tensor gather(Tensor x, Tensor ids, const std::vector<std::string>& dims);
/// result[…, id, …] += values, over `dim`, one of `output`'s; each other dim of `output` is one of
/// the values', and values' dims that `output` lacks are summed. f32 of bf16. Where `dim` is cut,
/// each rank adds its own rows; where a summed dim is cut, the result is a partial sum.
Tensor scatter_add(Tensor values, Tensor ids, const std::string& dim, const Shape& output);
Tensor scatter_add(Tensor values, Tensor ids, const std::vector<std::string>& dims,
                   const Shape& output);
/// x without `dim`: its elements at index 0.
Tensor reduce_first(Tensor x, const std::string& dim);
/// [ids' dims…, dim] with `on` at the ids and `off` elsewhere. Made in place under every layout;
/// `dim` has at most 2^24 elements.
Tensor one_hot(Tensor ids, const Dim& dim, DType dtype, double on = 1, double off = 0);

}  // namespace tessera::ops
