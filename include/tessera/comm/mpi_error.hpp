// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera::comm {

/// Throws Error with the call's name and MPI's own text unless `code` is MPI_SUCCESS. It fires only
/// on communicators whose errors return, as all of ours do.
void check_mpi(int code, const char* call);

}  // namespace tessera::comm

/// Calls an MPI function and checks its result.
#define TESSERA_MPI(function, ...) ::tessera::comm::check_mpi(function(__VA_ARGS__), #function)
