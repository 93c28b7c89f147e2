// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/box.hpp"
#include "kernels/builtin.hpp"
#include "kernels/feeds.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/copy_box.hpp"
#include "tessera/kernels/kernel.hpp"

// write_at: what keeps keys and values of earlier positions.
namespace tessera::kernels {
namespace {

void copy_tile(const device::Exec& exec, const Tile& from, const Tile& to) {
  if (from.data == to.data || to.size() == 0) return;
  std::int64_t strides[kMaxRank];
  row_major(to, strides);
  copy_box(exec, to.data, from.data, to.rank, to.extent, strides, strides, bytes_of(to.dtype));
}

/// Where the index lies in another rank's tile nothing is written.
void write_at(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "write_at takes two inputs");
  const Tile &whole = call.inputs[0], &slice = call.inputs[1], &y = call.outputs[0];
  const auto dim = static_cast<int>(call.attributes.integer("dim"));
  TESSERA_CHECK(dim >= 0 && dim < y.rank && slice.rank == y.rank - 1 && whole.rank == y.rank &&
                    slice.dtype == y.dtype && whole.dtype == y.dtype && whole.size() == y.size(),
                "write_at: dim ", dim, " of rank ", y.rank, ", a slice of rank ", slice.rank);
  const std::int64_t index = fed_index(call);
  TESSERA_CHECK(index >= 0 && index < y.global[dim], "write_at: index ", index, ", the dim has ",
                y.global[dim]);
  copy_tile(exec, whole, y);
  const std::int64_t local = index - y.offset[dim];
  if (local < 0 || local >= y.extent[dim] || slice.size() == 0) return;
  std::int64_t to_stride[kMaxRank], from_stride[kMaxRank], kept_stride[kMaxRank];
  row_major(y, to_stride);
  row_major(slice, from_stride);
  for (int d = 0; d < slice.rank; ++d) kept_stride[d] = to_stride[d < dim ? d : d + 1];
  const auto bytes = static_cast<std::int64_t>(bytes_of(y.dtype));
  copy_box(exec, y.as<char>() + local * to_stride[dim] * bytes, slice.data, slice.rank,
           slice.extent, kept_stride, from_stride, bytes_of(y.dtype));
}

}  // namespace

std::int64_t fed_index(const Call& call) {
  const std::string& feed = call.attributes.text("feed");
  const auto found = call.feeds.values.find(feed);
  TESSERA_CHECK(found != call.feeds.values.end(), "there is no feed '", feed, "'");
  return static_cast<std::int64_t>(std::llround(found->second));
}

void register_decoding_kernels() {
  register_kernel("write_at", write_at);
}

}  // namespace tessera::kernels
