// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/abort.hpp"

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

std::atomic<int> message_rank{-1};

[[noreturn]] void on_terminate() {
  abort_job(std::current_exception() ? describe_current_exception()
                                     : "terminated without an exception");
}

/// Whether this thread may call MPI_Abort. Only the main thread calls MPI.
bool can_abort_through_mpi() {
  int initialized = 0, finalized = 0, main_thread = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized) return false;
  MPI_Is_thread_main(&main_thread);
  return main_thread != 0;
}

}  // namespace

void set_message_rank(int rank) {
  message_rank = rank;
}

void abort_job(const std::string& message, int code) {
  const int rank = message_rank;
  const std::string prefix = rank >= 0 ? concat("rank ", rank, ": ") : std::string();
  const std::string line = concat("tessera: ", prefix, message, "\n");
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  // A launcher that is told to end the job may drop what it has not yet forwarded.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (can_abort_through_mpi()) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void leave_job(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

void install_terminate_handler() {
  std::set_terminate(on_terminate);
}

std::string describe_current_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

}  // namespace tessera::comm
