// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include "tessera/base/dtype.hpp"
#include "tessera/program/program.hpp"

namespace tessera::comm {

/// The MPI type of elements that are only moved; bf16 travels as 2-byte words.
MPI_Datatype mpi_type(DType dtype);

/// MPI's operations for reductions. Its own max and min of a NaN depend on the order of the
/// operands, so ranks could see different results and part ways; these give NaN.
class ReduceOps {
 public:
  ReduceOps();
  ~ReduceOps();
  ReduceOps(const ReduceOps&) = delete;
  ReduceOps& operator=(const ReduceOps&) = delete;
  MPI_Op get(program::ReduceOp op, DType dtype) const;

 private:
  MPI_Op max_ = MPI_OP_NULL;
  MPI_Op min_ = MPI_OP_NULL;
};

}  // namespace tessera::comm
