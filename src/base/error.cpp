// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"

#include <cstring>

namespace tessera::detail {

void fail(const char* condition, const char* file, int line, const std::string& message) {
  const char* slash = std::strrchr(file, '/');
  throw Error(concat(slash ? slash + 1 : file, ":", line, ": ", message, message.empty() ? "" : " ",
                     "(", condition, " is false)"));
}

}  // namespace tessera::detail
