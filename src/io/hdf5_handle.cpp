// SPDX-License-Identifier: BSD-3-Clause
#include "io/hdf5_handle.hpp"

#include <algorithm>

namespace tessera::io {
namespace {

herr_t keep_first(unsigned /*index*/, const H5E_error2_t* error, void* data) {
  auto& reason = *static_cast<std::string*>(data);
  if (reason.empty() && error->desc) reason = error->desc;
  return 0;
}

}  // namespace

std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  reason.resize(std::min(reason.size(), reason.find(": time =")));  // file names and addresses
  return reason.empty() ? "HDF5 gives no reason" : reason;
}

void prepare_hdf5() {
  static const bool done = [] {
    H5dont_atexit();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace tessera::io
