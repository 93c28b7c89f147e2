// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <variant>
#include <vector>

#include "relayout_copies.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/program/program.hpp"

namespace tessera::runtime {

/// Steps with every address and count of the local ranks filled in: nothing is computed twice.
struct PreparedKernel {
  struct Rank {
    std::vector<kernels::Tile> inputs;
    std::vector<kernels::Tile> outputs;
    void* workspace = nullptr;
  };
  kernels::Kernel kernel = nullptr;
  const Attributes* attributes = nullptr;
  std::vector<Rank> ranks;
};

struct PreparedAllReduce {
  DType dtype = DType::f32;
  std::vector<void*> data;                         ///< by local rank: what is reduced in place
  std::vector<std::int64_t> counts;                ///< by local rank: elements
  std::vector<std::vector<BoxCopy>> pack, unpack;  ///< by local rank
};

struct PreparedRelayout {
  DType dtype = DType::f32;
  std::vector<const void*> send;
  std::vector<void*> receive;
  std::vector<std::vector<std::int64_t>> send_counts, receive_counts;
  std::vector<std::vector<BoxCopy>> pack, unpack;
};

/// A move along a ring: what is sent to the rank before and received from the rank after.
struct PreparedRing : PreparedRelayout {};

/// A message from one stage to another.
struct PreparedTransfer : PreparedRelayout {};

struct PreparedLocal {
  struct Rank {
    BoxCopy copy;
    bool zero = false;  ///< instead of the copy: clear the output
    std::size_t bytes = 0;
  };
  std::vector<Rank> ranks;
};

/// All that a finish needs its start knows.
struct PreparedFinish {};

struct PreparedExchange {
  struct Rank {
    const void* send = nullptr;
    void* receive = nullptr;
    std::vector<std::int64_t> send_counts, receive_counts;  ///< by member; empty: nothing to do
    // In this order: pack; fill, own, add_own; unpack, add.
    std::vector<BoxCopy> pack, fill, own, add_own, unpack, add;
  };
  DType dtype = DType::f32;
  std::vector<Rank> ranks;
};

using PreparedStep =
    std::variant<PreparedKernel, PreparedAllReduce, PreparedRelayout, PreparedLocal,
                 PreparedExchange, PreparedRing, PreparedFinish, PreparedTransfer>;

/// Where the local ranks' arenas are and which coordinates they have.
struct Places {
  const MeshShape* mesh = nullptr;
  std::vector<char*> arenas;
  std::vector<Coordinates> coordinates;

  kernels::Tile tile(const program::Buffer& buffer, std::size_t rank,
                     std::int64_t iteration = 0) const;
  /// True if a local rank is at one of these stages.
  bool are_on(const program::Stages& stages, std::size_t rank) const;
  /// Local ranks that take part in a step.
  std::vector<bool> taking_part(const program::Section& section, const program::Step& step) const;
};

/// `iteration`: of the Repeat that the step is in.
PreparedStep prepare(const program::Section& section, const program::Step& step,
                     const Places& places, std::int64_t iteration = 0);

}  // namespace tessera::runtime
