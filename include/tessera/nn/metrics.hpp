// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/graph/graph.hpp"

namespace tessera::nn {

/// 1 (f32) for each row whose label's logit is none less than any other, else 0. logits [rows…,
/// classes], the classes last, labels i32 [rows…]; no logits are gathered where classes are cut. No
/// gradient.
Tensor correct(Tensor logits, Tensor labels);

/// 1 (f32) for each row whose label is among its `count` likeliest classes (of equal logits those
/// of lower index), else 0; the same operands. UserError unless 1 <= count <= classes.
Tensor among_likeliest(Tensor logits, Tensor labels, std::int64_t count);

}  // namespace tessera::nn
