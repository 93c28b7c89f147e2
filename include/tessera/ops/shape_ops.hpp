// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/graph/graph.hpp"

/// Operations that move elements and compute nothing. All are linear: partial sums pass through.
namespace tessera::ops {

/// x with dim `from` called `to`. Where the layout's rules place the two names differently, the
/// planner moves the tensor: a slice, all_gather or all_to_all.
Tensor rename(Tensor x, const std::string& from, const std::string& to);
/// The same for several dims at once, so that a cut passes from one of them to another: where the
/// rules cut `batch` before and `experts` after on the same mesh dim, by one all_to_all.
Tensor rename(Tensor x, const std::vector<std::pair<std::string, std::string>>& names);
/// The elements in row-major order under other dims: splits a dim into several or merges
/// neighbours. UserError if the sizes differ. A cut on the outermost of the dims that change
/// passes; where its borders are not the same before and after, ranks exchange what lies between
/// them. A cut on an inner one of such dims can't pass: every rank's elements would be scattered
/// over the result. It is brought to the outermost dim if the rules cut the result there, else
/// gathered.
Tensor reshape(Tensor x, const Shape& shape);
/// Elements begin, begin + step, ... of a dim, `size` of them. Along a cut dim, as for pad and
/// shift, ranks whose tiles share elements exchange one message each; UserError if the elements are
/// not within the dim.
Tensor slice(Tensor x, const std::string& dim, std::int64_t begin, std::int64_t size,
             std::int64_t step = 1);
/// x with zeros around it along a dim: element i of x becomes begin + i * step of `size`.
Tensor pad(Tensor x, const std::string& dim, std::int64_t begin, std::int64_t size,
           std::int64_t step = 1);
/// Element i of a dim moved to i + offset (which may be negative): what leaves at one end comes in
/// at the other with `wrap`, else is lost and zeros come in.
Tensor shift(Tensor x, const std::string& dim, std::int64_t offset, bool wrap);
/// The tensors one after the other along a dim, in which alone they may differ.
Tensor concat(const std::vector<Tensor>& xs, const std::string& dim);
/// Stretches of these sizes along a dim; UserError if they do not add up to its size.
std::vector<Tensor> split(Tensor x, const std::string& dim, const std::vector<std::int64_t>& sizes);
/// Tensors of one shape as the elements of a new dim, the place-th of the result.
Tensor stack(const std::vector<Tensor>& xs, const std::string& dim, int place = 0);
/// The elements of a dim as tensors without it.
std::vector<Tensor> unstack(Tensor x, const std::string& dim);
/// x without a dim: the elements at the index that the feed `feed` holds. No gradient.
Tensor select(Tensor x, const std::string& dim, const std::string& feed);

}  // namespace tessera::ops
