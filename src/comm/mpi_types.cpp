// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_types.hpp"

#include "local_reduce.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi_error.hpp"

namespace tessera::comm {
namespace {

using program::ReduceOp;

DType dtype_of(MPI_Datatype type) {
  return type == MPI_DOUBLE ? DType::f64 : DType::f32;
}

void max_of(void* from, void* into, int* count, MPI_Datatype* type) {
  combine(ReduceOp::max, dtype_of(*type), into, from, *count);
}

void min_of(void* from, void* into, int* count, MPI_Datatype* type) {
  combine(ReduceOp::min, dtype_of(*type), into, from, *count);
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::bf16:
      return MPI_UINT16_T;
    default:
      return MPI_INT32_T;
  }
}

ReduceOps::ReduceOps() {
  TESSERA_MPI(MPI_Op_create, max_of, 1, &max_);
  TESSERA_MPI(MPI_Op_create, min_of, 1, &min_);
}

ReduceOps::~ReduceOps() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  MPI_Op_free(&max_);
  MPI_Op_free(&min_);
}

MPI_Op ReduceOps::get(ReduceOp op, DType dtype) const {
  if (op == ReduceOp::sum) return MPI_SUM;
  if (!is_floating(dtype)) return op == ReduceOp::max ? MPI_MAX : MPI_MIN;
  return op == ReduceOp::max ? max_ : min_;
}

}  // namespace tessera::comm
