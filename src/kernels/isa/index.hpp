// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/isa/element.hpp"
#include "kernels/pointwise_plan.hpp"
#include "kernels/reduce_plan.hpp"

// Odometers, and stores whose type is known at run time only.
namespace tessera::kernels::isa::TESSERA_ISA {

/// Walks the first `rank` loops in row-major order and knows the place in the input.
struct Odometer {
  const ReduceLoops& loops;
  int rank;
  int64_t at;
  int64_t index[8];

  Odometer(const ReduceLoops& over, int dims) : loops(over), rank(dims), at(0) {
    for (int d = 0; d < rank; ++d) index[d] = 0;
  }
  /// Number of steps until it is back where it began.
  int64_t size() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= loops.extent[d];
    return n;
  }
  void next() {
    for (int d = rank - 1; d >= 0; --d) {
      at += loops.stride[d];
      if (++index[d] < loops.extent[d]) return;
      at -= loops.stride[d] * loops.extent[d];
      index[d] = 0;
    }
  }
};

template <class E, class From>
static void store_run(E* to, const From* from, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) store(to[i], static_cast<Compute<E>>(from[i]));
}

/// Numbers into elements [first, first + n) of a tensor of any floating type.
template <class From>
static void store_elements(void* to, int element, int64_t first, const From* from, int64_t n) {
  if (element == kElementF64) {
    store_run(static_cast<double*>(to) + first, from, n);
  } else if (element == kElementBf16) {
    store_run(static_cast<Bf16*>(to) + first, from, n);
  } else {
    store_run(static_cast<float*>(to) + first, from, n);
  }
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
