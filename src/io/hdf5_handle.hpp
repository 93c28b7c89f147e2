// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::io {

/// What HDF5 last complained of on this thread, innermost reason first.
std::string hdf5_reason();

/// To be called before any use of HDF5. It shall not print its error stack (we put the reason into
/// our own messages), nor tidy up at exit: after a damaged file it can't, and says so.
void prepare_hdf5();

/// The result of an HDF5 call; Error saying what was tried and HDF5's reason if it is negative.
template <class Result, class... Args>
Result check_hdf5(Result result, const Args&... what) {
  if (result < 0) throw Error(concat(what..., ": ", hdf5_reason()));
  return result;
}

/// Owns an HDF5 identifier.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  template <class... Args>
  explicit Handle(hid_t id, const Args&... what) : id_(check_hdf5(id, what...)) {}
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }

  hid_t id() const { return id_; }
  /// Closes now, so that a failure (a full disk) is seen.
  void close() {
    if (id_ >= 0) check_hdf5(Close(std::exchange(id_, -1)), "closing");
  }

 private:
  hid_t id_ = -1;
};

using FileHandle = Handle<H5Fclose>;
using GroupHandle = Handle<H5Gclose>;
using DatasetHandle = Handle<H5Dclose>;
using ObjectHandle = Handle<H5Oclose>;
using AttributeHandle = Handle<H5Aclose>;
using TypeHandle = Handle<H5Tclose>;
using SpaceHandle = Handle<H5Sclose>;
using PropertyHandle = Handle<H5Pclose>;

}  // namespace tessera::io
