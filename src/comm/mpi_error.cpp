// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/mpi_error.hpp"

#include <mpi.h>

#include <string>

#include "tessera/base/error.hpp"

namespace tessera::comm {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(concat(call, " failed: ", std::string(text, static_cast<std::size_t>(length))));
}

}  // namespace tessera::comm
