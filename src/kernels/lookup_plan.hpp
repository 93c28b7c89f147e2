// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/base/function.hpp"

/// Operands of `gather` and `scatter_add`, which are each other's transpose: plain data and the
/// arithmetic of indices that host and portable variant share.
namespace tessera::kernels {

/// Elements of the flat side (gather: the output; scatter_add: the values), row-major, meet
/// elements of the table along its indexed dims. An id is the row-major index over the whole
/// indexed dims.
struct LookupPlan {
  int rank;  ///< of the flat side
  std::int64_t extent[8];
  std::int64_t id_stride[8];     ///< 0 where ids lack the dim
  std::int64_t table_stride[8];  ///< 0 where the table lacks the dim
  bool in_table[8];
  std::int64_t size;  ///< of the flat side
  /// Of the flat side's innermost elements that lie side by side in one row of the table.
  std::int64_t width;
  int indexed;             ///< dims that ids index, in the order of an id
  std::int64_t global[4];  ///< their whole extents
  std::int64_t first[4];   ///< global index of the first one here
  std::int64_t here[4];    ///< extents here
  std::int64_t stride[4];  ///< in the table
  const std::int32_t* ids;
};

/// Where flat element `i` lies in the table; -1 if that is another rank's, or nowhere.
TESSERA_FUNCTION std::int64_t table_place(const LookupPlan& plan, std::int64_t i) {
  std::int64_t at = 0, id_at = 0;
  for (int d = plan.rank - 1; d >= 0; --d) {
    const std::int64_t index = i % plan.extent[d];
    i /= plan.extent[d];
    id_at += index * plan.id_stride[d];
    at += index * plan.table_stride[d];
  }
  std::int64_t id = plan.ids[id_at];
  if (id < 0) return -1;
  for (int d = plan.indexed - 1; d >= 0; --d) {
    const std::int64_t index = id % plan.global[d] - plan.first[d];
    if (index < 0 || index >= plan.here[d]) return -1;
    at += index * plan.stride[d];
    id /= plan.global[d];
  }
  return id == 0 ? at : -1;
}

/// Flat index of number `n` among the flat elements whose dims outside (`kept`) or inside the table
/// are 0.
TESSERA_FUNCTION std::int64_t flat_offset(const LookupPlan& plan, std::int64_t n, bool kept) {
  std::int64_t offset = 0, stride = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    if (plan.in_table[d] == kept) {
      offset += n % plan.extent[d] * stride;
      n /= plan.extent[d];
    }
    stride *= plan.extent[d];
  }
  return offset;
}

}  // namespace tessera::kernels
