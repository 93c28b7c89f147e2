// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/program/workspace.hpp"

namespace tessera::kernels {

/// Hands out parts of the workspace, each at a multiple of 64 bytes.
class Workspace {
 public:
  explicit Workspace(void* data) : next_(static_cast<char*>(data)) {}

  template <class T>
  T* take(std::int64_t elements) {
    auto* part = reinterpret_cast<T*>(next_);
    next_ += program::round_up_workspace(elements * static_cast<std::int64_t>(sizeof(T)));
    return part;
  }

 private:
  char* next_;
};

}  // namespace tessera::kernels
