// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Units of work of one kind; what they count depends on the kind, see unit_names.
inline constexpr int kUnits = 6;
using Units = std::array<double, kUnits>;

/// What a local step does, in units that take about equally long on a machine whatever the model:
/// what the cost model multiplies with a machine's rates, and what `tessera calibrate` measures.
struct Work {
  std::string kind;  ///< kernel id and type of its numbers, e.g. "einsum.f32"; "copy" for moves
  Units units{};
};

/// Names of a kind's units, unused ones are "":
///   einsum      call, product (one of the library's), flop, and elements of A, B and C;
///   attention…  call, head, flop, byte;
///   pointwise   call, byte, far byte, and instruction x element of three prices: arithmetic, exp,
///               gelu;
///   others      call, byte, far byte, flop.
/// Far bytes are those of steps whose operands don't stay in a cache.
std::array<std::string, kUnits> unit_names(const std::string& kind);

/// Work of one step on the rank with the largest tiles, packing of a collective's buffers included.
std::vector<Work> works_of(const program::Section& section, const program::Step& step,
                           const MeshShape& mesh);

/// One collective on the rank with the largest tiles; `count` is 0 if the step is none.
struct Transfer {
  program::CollectiveKind kind = program::CollectiveKind::all_reduce;
  std::vector<int> mesh_dims;
  double bytes = 0;  ///< as CollectiveRow counts them
  int count = 0;
};
Transfer transfer_of(const program::Section& section, const program::Step& step,
                     const MeshShape& mesh);

}  // namespace tessera::plan
