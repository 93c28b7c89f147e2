// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "io/posix_file.hpp"
#include "io/team.hpp"
#include "tessera/shape/tensor_spec.hpp"
#include "tessera/shape/tile.hpp"

/// Tiles of tensors on the local ranks, and their way to and from the file.
namespace tessera::io {

/// A local rank's part in a tensor's storage.
struct LocalTile {
  Box box;
  /// Of the ranks that hold this box, the one with coordinate 0 on all mesh dims that replicate
  /// the tensor: it writes and reads the tile.
  bool owner = true;
  std::int64_t count = 0;  ///< elements
};

LocalTile local_tile(const Team& team, const TensorSpec& spec, const Placement& placement,
                     int local_rank);

void write_tile(const PosixFile& file, std::int64_t offset, const TensorSpec& spec, const Box& box,
                const void* tile);
void read_tile(const PosixFile& file, std::int64_t offset, const TensorSpec& spec, const Box& box,
               void* tile);

/// Digests of tensors, gathered tile by tile on each rank.
class TileDigests {
 public:
  TileDigests(const Team& team, std::size_t tensors);
  void add(std::size_t tensor, int local_rank, const LocalTile& tile, const TensorSpec& spec,
           const void* data);
  /// Collective: `of_owners`, each tensor's digest, and whether all replicas hold the same.
  void reduce();

  const Digest& of_owners(std::size_t tensor) const { return total_[2 * tensor]; }
  /// Sum over all ranks is `replicas` times the owners', as it must be if all hold the same.
  bool replicas_agree(std::size_t tensor, std::int64_t replicas) const;
  /// Collective: for one tensor, a text that names the ranks that differ from their owners.
  std::string name_differing_ranks(std::size_t tensor, const TensorSpec& spec,
                                   const Placement& placement) const;

 private:
  const Team& team_;
  std::vector<std::vector<Digest>> local_;  // [local rank][2 tensor + (0: as owner, 1: always)]
  std::vector<Digest> total_;
};

}  // namespace tessera::io
