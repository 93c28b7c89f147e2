// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/communicator.hpp"

namespace tessera::comm {

Communicator::Communicator(MPI_Comm handle) : handle_(handle) {
  if (handle_ != MPI_COMM_NULL) TESSERA_MPI(MPI_Comm_set_errhandler, handle_, MPI_ERRORS_RETURN);
}

Communicator::~Communicator() {
  if (handle_ == MPI_COMM_NULL) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&handle_);
}

Communicator Communicator::split(MPI_Comm of, int color, int key) {
  MPI_Comm made = MPI_COMM_NULL;
  TESSERA_MPI(MPI_Comm_split, of, color, key, &made);
  return Communicator(made);
}

Communicator Communicator::split_by_node(MPI_Comm of) {
  MPI_Comm made = MPI_COMM_NULL;
  TESSERA_MPI(MPI_Comm_split_type, of, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
  return Communicator(made);
}

int Communicator::rank() const {
  int rank = 0;
  TESSERA_MPI(MPI_Comm_rank, handle_, &rank);
  return rank;
}

int Communicator::size() const {
  int size = 0;
  TESSERA_MPI(MPI_Comm_size, handle_, &size);
  return size;
}

}  // namespace tessera::comm
