// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tessera/base/attributes.hpp"
#include "tessera/base/dtype.hpp"

namespace tessera::device {
class Exec;  // device/exec.hpp: where kernels run
}

namespace tessera::kernels {

inline constexpr int kMaxRank = 8;

/// A rank's part of a tensor: dense, row-major, in the memory where the kernels run. Any extent may
/// be 0. `offset` and `global` place it in the whole tensor.
struct Tile {
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::int64_t extent[kMaxRank] = {};
  std::int64_t offset[kMaxRank] = {};  ///< global index of the first element, by dim
  std::int64_t global[kMaxRank] = {};  ///< extents of the whole tensor

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// The product of `count` extents from dim `from` on.
inline std::int64_t merged_extent(const Tile& tile, int from, int count) {
  std::int64_t n = 1;
  for (int d = from; d < from + count; ++d) n *= tile.extent[d];
  return n;
}

/// Scalars that the host gives in each run of a section, equal on all ranks.
struct Feeds {
  std::int64_t step = 0;                 ///< optimizer step, counted from 1
  std::int64_t micro = 0;                ///< micro-batch of the step, from 0
  std::map<std::string, double> values;  ///< by feed name
};

/// One call of a kernel.
struct Call {
  const Attributes& attributes;
  const Tile* inputs;
  int input_count;
  const Tile* outputs;
  int output_count;
  void* workspace;  ///< as many bytes as the step planned, 64-byte aligned
  const Feeds& feeds;
  const int* coordinates;  ///< of the rank on the mesh
};

/// Launches on the instance of `exec`, in its order; never fences globally.
using Kernel = void (*)(const device::Exec& exec, const Call& call);

/// Makes a kernel known under an id; Error if the id is taken. Call before the first Executor.
void register_kernel(const std::string& id, Kernel kernel);
/// The kernel under `id`; Error that names the id if there is none.
Kernel find_kernel(const std::string& id);

}  // namespace tessera::kernels
