// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// Operands of the embedding kernels: plain data for the host levels and the portable variant.
namespace tessera::kernels {

struct EmbeddingPlan {
  int table_element;  ///< see pointwise_plan.hpp
  int element;        ///< of the looked-up vectors
  int64_t first;      ///< global index of the table's first row
  int64_t rows;       ///< of the table, here
  int64_t width;      ///< elements of a row
  int64_t count;      ///< ids
  const int32_t* ids;
  const void* from;  ///< forward: table; backward: dout [count, width]
  void* to;          ///< forward: out [count, width]; backward: dtable
  bool accumulate;
  int32_t* order;  ///< backward, portable: room for `count` places
};

}  // namespace tessera::kernels
