// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/base/error.hpp"

namespace tessera::test {

/// The message of the exception of type E that `call` throws; "" if it throws none, others pass.
template <class E = UserError, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tessera::test
