// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>

#include "tessera/device/exec.hpp"

namespace tessera::comm {

/// Memory that only grows, so that a repeated call finds it ready.
class Scratch {
 public:
  void* reserve(std::size_t bytes);

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t bytes_ = 0;
};

/// Host memory in place of kernels' memory where the latter can't be read. When off, all pointers
/// pass unchanged.
class Staging {
 public:
  /// `exec` may be null where kernels run in the host's memory.
  Staging(bool on, const device::Exec* exec) : on_(on), exec_(exec) {}

  bool on() const { return on_; }
  /// Waits until kernels have written what is to be sent.
  void fence() const;
  /// The bytes of `from`, readable on the host.
  const void* read(Scratch& scratch, const void* from, std::size_t bytes) const;
  /// Host memory for what is to be stored in `to`; put() stores it.
  void* place(Scratch& scratch, void* to, std::size_t bytes) const;
  void put(void* to, const void* placed, std::size_t bytes) const;

 private:
  bool on_;
  const device::Exec* exec_;
};

}  // namespace tessera::comm
