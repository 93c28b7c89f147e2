// SPDX-License-Identifier: BSD-3-Clause
#include "staging.hpp"

#include "tessera/base/error.hpp"

namespace tessera::comm {

void* Scratch::reserve(std::size_t bytes) {
  if (bytes > bytes_ || !data_) {  // never null, which would mean MPI_IN_PLACE
    data_.reset();                 // first, so that both never exist together
    bytes_ = 0;
    data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return data_.get();
}

void Staging::fence() const {
  if (device::Exec::is_host()) return;
  TESSERA_CHECK(exec_, "collectives on a device need the instance that kernels run on");
  exec_->fence();
}

const void* Staging::read(Scratch& scratch, const void* from, std::size_t bytes) const {
  if (!on_) return from;
  void* host = scratch.reserve(bytes);
  if (bytes > 0) device::copy_to_host(*exec_, host, from, bytes);
  return host;
}

void* Staging::place(Scratch& scratch, void* to, std::size_t bytes) const {
  return on_ ? scratch.reserve(bytes) : to;
}

void Staging::put(void* to, const void* placed, std::size_t bytes) const {
  if (on_ && bytes > 0) device::copy_from_host(*exec_, to, placed, bytes);
}

}  // namespace tessera::comm
