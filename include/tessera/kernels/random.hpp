// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera::kernels {

/// The smallest word that keeps an element under a dropout rate in [0, 1): a word w keeps it if
/// w >= rate 2^32, compared exactly.
std::uint64_t dropout_threshold(double rate);

/// The draw of `random_normal` for one element: Box-Muller from words 0 and 1 of the element's own
/// Philox block (counter: element, 0), computed in double. The kernel computes the same with its
/// own polynomials, equal to a few ulp of double and bit-equal on every x86-64 level.
double normal_draw(std::uint64_t key, std::uint64_t element);
/// The draw of `random_uniform`, in (-1, 1), from word 2 of the same block.
double uniform_draw(std::uint64_t key, std::uint64_t element);

}  // namespace tessera::kernels
