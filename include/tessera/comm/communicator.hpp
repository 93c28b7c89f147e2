// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <utility>

#include "tessera/comm/mpi_error.hpp"

namespace tessera::comm {

/// Owns a communicator and frees it, unless MPI has ended before. Its errors return.
class Communicator {
 public:
  Communicator() = default;
  /// Takes over `handle` (MPI_COMM_NULL is allowed).
  explicit Communicator(MPI_Comm handle);
  ~Communicator();
  Communicator(Communicator&& other) noexcept
      : handle_(std::exchange(other.handle_, MPI_COMM_NULL)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /// MPI_Comm_split.
  static Communicator split(MPI_Comm of, int color, int key);
  /// The ranks of `of` that share memory (a node), in their order.
  static Communicator split_by_node(MPI_Comm of);

  MPI_Comm get() const { return handle_; }
  int rank() const;
  int size() const;

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

}  // namespace tessera::comm
