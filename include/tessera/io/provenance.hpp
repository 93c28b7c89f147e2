// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/base/attributes.hpp"

namespace tessera::io {

/// What two runs must share to be bitwise equal. Kept in "/meta" of each checkpoint.
struct Provenance {
  std::string version;    ///< release and commit
  std::string build;      ///< compiler, build type
  std::string mpi;        ///< library and version
  std::string libraries;  ///< device::describe(): Kokkos, BLAS, kernels' instruction set
  std::string cpu;        ///< model name
  std::string mesh;       ///< "batch:2,model:2"
  int ranks_per_node = 1;

  /// This build on this machine; `mpi`, `libraries`, `mesh` and `ranks_per_node` are the caller's.
  static Provenance here();
  /// Adds one attribute for each field.
  void add_to(Attributes& attributes) const;
  /// One line for each field that differs from what a checkpoint holds ("mesh: batch:2 then,
  /// batch:4 now"): a resumed run is bitwise equal only if there is none.
  std::vector<std::string> differences(const Attributes& stored) const;
};

}  // namespace tessera::io
