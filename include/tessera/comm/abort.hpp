// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::comm {

/// Ends the whole job at once, for failures that other ranks can't know of: prints "rank N:
/// message" and calls MPI_Abort; without MPI, or in another thread than the main one, it ends this
/// process, upon which the launcher ends the others. `code` is the exit code.
[[noreturn]] void abort_job(const std::string& message, int code = 1);

/// Ends this process without MPI's end, which would wait for ranks that are lost.
[[noreturn]] void leave_job(int code);

/// Sends exceptions that nobody catches (also in threads and in noexcept functions) to abort_job.
void install_terminate_handler();

/// The rank that messages name; Environment sets it.
void set_message_rank(int rank);

/// What an exception says, in words for a person: "out of memory" for std::bad_alloc.
std::string describe_current_exception();

}  // namespace tessera::comm
