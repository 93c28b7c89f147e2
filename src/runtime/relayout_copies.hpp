// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/kernels/kernel.hpp"
#include "tessera/program/program.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::runtime {

/// A box of elements copied between two dense places.
struct BoxCopy {
  const char* from = nullptr;
  char* to = nullptr;
  int rank = 0;
  std::int64_t extents[kernels::kMaxRank] = {};
  std::int64_t from_strides[kernels::kMaxRank] = {};
  std::int64_t to_strides[kernels::kMaxRank] = {};
  std::size_t element_bytes = 4;
};

/// Copies `region` (global indices) between a dense block that holds `from_box` and one that holds
/// `to_box`, both row-major.
BoxCopy copy_region(const Box& region, const char* from, const Box& from_box, char* to,
                    const Box& to_box, std::size_t element_bytes);

Box intersect(const Box& a, const Box& b);

/// What a rank sends and receives for each member of its group in a change of placement, as boxes
/// of global indices: [member][tensor].
struct Exchange {
  std::vector<std::vector<Box>> send;
  std::vector<std::vector<Box>> receive;
  std::vector<std::int64_t> send_counts;     ///< elements, by member
  std::vector<std::int64_t> receive_counts;  ///< elements, by member
};

/// The exchange of a relayout step for the rank at `at`, in closed form from the tiles' borders.
Exchange exchange_of(const program::RelayoutStep& step, const program::Section& section,
                     const MeshShape& mesh, const Coordinates& at);

}  // namespace tessera::runtime
