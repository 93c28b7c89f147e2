// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tessera {

/// A failure of the program or the machine: printed with its rank, ends the job with exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Something that the user can mend (deck, layout, data, checkpoint): exit code 2. The message
/// names the key or tensor, what was found, what is legal and the nearest fix.
class UserError : public Error {
 public:
  using Error::Error;
};

/// All arguments streamed into one string.
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// Throws UserError with the concatenated message unless `ok`. Stays in every build type.
template <class... Args>
void check_user(bool ok, const Args&... message) {
  if (!ok) throw UserError(concat(message...));
}

namespace detail {
[[noreturn]] void fail(const char* condition, const char* file, int line,
                       const std::string& message);
}

}  // namespace tessera

/// An invariant of Tessera itself. Stays in every build type; throws tessera::Error with the place.
#define TESSERA_CHECK(condition, ...)                                                          \
  do {                                                                                         \
    if (!(condition))                                                                          \
      ::tessera::detail::fail(#condition, __FILE__, __LINE__, ::tessera::concat(__VA_ARGS__)); \
  } while (false)
