// SPDX-License-Identifier: BSD-3-Clause
#include "support/pmpi_counter.hpp"

#include <mpi.h>

namespace {

bool counting = false;
tessera::test::MpiCounts counts;
int live = 0;

int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

void book(const char* what, MPI_Comm comm, std::int64_t elements, MPI_Datatype type) {
  if (!counting) return;
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  auto& row = counts[{what, size_of(comm)}];
  row.calls += 1;
  row.bytes += elements * bytes;
}

std::int64_t sum(const int* values, MPI_Comm comm) {
  std::int64_t total = 0;
  for (int i = 0; i < size_of(comm); ++i) total += values[i];
  return total;
}

int made(int code) {
  if (code == MPI_SUCCESS) ++live;
  return code;
}

}  // namespace

namespace tessera::test {

void start_counting() {
  counts.clear();
  counting = true;
}

MpiCounts stop_counting() {
  counting = false;
  return counts;
}

int live_communicators() {
  return live;
}

}  // namespace tessera::test

extern "C" {

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  book("all_reduce", comm, count, type);
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}

int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  book("all_reduce", comm, count, type);
  return PMPI_Iallreduce(send, receive, count, type, op, comm, request);
}

int MPI_Reduce_scatter(const void* send, void* receive, const int receive_counts[],
                       MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  book("reduce_scatter", comm, sum(receive_counts, comm), type);
  return PMPI_Reduce_scatter(send, receive, receive_counts, type, op, comm);
}

int MPI_Ireduce_scatter(const void* send, void* receive, const int receive_counts[],
                        MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  book("reduce_scatter", comm, sum(receive_counts, comm), type);
  return PMPI_Ireduce_scatter(send, receive, receive_counts, type, op, comm, request);
}

int MPI_Allgatherv(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                   const int receive_counts[], const int offsets[], MPI_Datatype type,
                   MPI_Comm comm) {
  book("all_gather", comm, sum(receive_counts, comm), type);
  return PMPI_Allgatherv(send, send_count, send_type, receive, receive_counts, offsets, type, comm);
}

int MPI_Iallgatherv(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                    const int receive_counts[], const int offsets[], MPI_Datatype type,
                    MPI_Comm comm, MPI_Request* request) {
  book("all_gather", comm, sum(receive_counts, comm), type);
  return PMPI_Iallgatherv(send, send_count, send_type, receive, receive_counts, offsets, type, comm,
                          request);
}

int MPI_Alltoallv(const void* send, const int send_counts[], const int send_offsets[],
                  MPI_Datatype send_type, void* receive, const int receive_counts[],
                  const int receive_offsets[], MPI_Datatype type, MPI_Comm comm) {
  book("all_to_all", comm, sum(send_counts, comm), send_type);
  return PMPI_Alltoallv(send, send_counts, send_offsets, send_type, receive, receive_counts,
                        receive_offsets, type, comm);
}

int MPI_Ialltoallv(const void* send, const int send_counts[], const int send_offsets[],
                   MPI_Datatype send_type, void* receive, const int receive_counts[],
                   const int receive_offsets[], MPI_Datatype type, MPI_Comm comm,
                   MPI_Request* request) {
  book("all_to_all", comm, sum(send_counts, comm), send_type);
  return PMPI_Ialltoallv(send, send_counts, send_offsets, send_type, receive, receive_counts,
                         receive_offsets, type, comm, request);
}

int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
  book("broadcast", comm, count, type);
  return PMPI_Ibcast(buffer, count, type, root, comm, request);
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  book("send", comm, count, type);
  return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* result) {
  return made(PMPI_Comm_dup(comm, result));
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* result, MPI_Request* request) {
  return made(PMPI_Comm_idup(comm, result, request));
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* result) {
  return made(PMPI_Comm_split(comm, color, key, result));
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* result) {
  return made(PMPI_Comm_split_type(comm, type, key, info, result));
}

int MPI_Cart_create(MPI_Comm comm, int dims, const int sizes[], const int periodic[], int reorder,
                    MPI_Comm* result) {
  return made(PMPI_Cart_create(comm, dims, sizes, periodic, reorder, result));
}

int MPI_Cart_sub(MPI_Comm comm, const int keep[], MPI_Comm* result) {
  return made(PMPI_Cart_sub(comm, keep, result));
}

int MPI_Comm_free(MPI_Comm* comm) {
  --live;
  return PMPI_Comm_free(comm);
}

}  // extern "C"
