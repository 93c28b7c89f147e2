// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/builtin.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/copy_box.hpp"
#include "tessera/kernels/kernel.hpp"

// slice, pad and select: copies of boxes between tiles, placed by global indices.
namespace tessera::kernels {
namespace {

void row_major(const Tile& tile, std::int64_t (&strides)[kMaxRank]) {
  std::int64_t stride = 1;
  for (int d = tile.rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= tile.extent[d];
  }
}

const std::vector<std::int64_t>& begin_of(const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "slice and pad take one input");
  const auto& begin = call.attributes.integers("begin");
  TESSERA_CHECK(call.inputs[0].rank == call.outputs[0].rank &&
                    static_cast<int>(begin.size()) == call.inputs[0].rank &&
                    call.inputs[0].dtype == call.outputs[0].dtype,
                "slice and pad keep rank and type");
  return begin;
}

/// Copies what the tiles share, where y's index is x's minus `begin`. Returns whether that is all
/// of y.
bool copy_shared(const device::Exec& exec, const Tile& x, const Tile& y,
                 const std::vector<std::int64_t>& begin) {
  std::int64_t extent[kMaxRank], to_stride[kMaxRank], from_stride[kMaxRank];
  row_major(y, to_stride);
  row_major(x, from_stride);
  std::int64_t to = 0, from = 0;
  bool all = true;
  for (int d = 0; d < y.rank; ++d) {
    // In x's global indices.
    const std::int64_t y_first = y.offset[d] + begin[static_cast<std::size_t>(d)];
    const std::int64_t low = std::max(y_first, x.offset[d]);
    const std::int64_t high = std::min(y_first + y.extent[d], x.offset[d] + x.extent[d]);
    extent[d] = std::max<std::int64_t>(high - low, 0);
    all = all && extent[d] == y.extent[d];
    to += (low - y_first) * to_stride[d];
    from += (low - x.offset[d]) * from_stride[d];
  }
  for (int d = 0; d < y.rank; ++d) {
    if (extent[d] == 0) return all;
  }
  const auto bytes = bytes_of(x.dtype);
  copy_box(exec, y.as<char>() + to * static_cast<std::int64_t>(bytes),
           x.as<char>() + from * static_cast<std::int64_t>(bytes), y.rank, extent, to_stride,
           from_stride, bytes);
  return all;
}

void zero(const device::Exec& exec, const Tile& y) {
  set_zero(exec, y.data, static_cast<std::size_t>(y.size()) * bytes_of(y.dtype));
}

void slice(const device::Exec& exec, const Call& call) {
  const bool all = copy_shared(exec, call.inputs[0], call.outputs[0], begin_of(call));
  TESSERA_CHECK(all || call.outputs[0].size() == 0, "slice: its part of the input isn't here");
}

void pad(const device::Exec& exec, const Call& call) {
  std::vector<std::int64_t> begin = begin_of(call);
  for (std::int64_t& b : begin) b = -b;
  zero(exec, call.outputs[0]);
  copy_shared(exec, call.inputs[0], call.outputs[0], begin);
}

/// Zeros where the selected index lies in another rank's tile, so that the parts add up.
void select(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "select takes one input");
  const Tile& x = call.inputs[0];
  const Tile& y = call.outputs[0];
  const auto dim = static_cast<int>(call.attributes.integer("dim"));
  TESSERA_CHECK(dim >= 0 && dim < x.rank && y.rank == x.rank - 1 && x.dtype == y.dtype,
                "select: dim ", dim, " of rank ", x.rank, " to rank ", y.rank);
  const std::string& feed = call.attributes.text("feed");
  const auto found = call.feeds.values.find(feed);
  TESSERA_CHECK(found != call.feeds.values.end(), "select: there is no feed '", feed, "'");
  const auto index = static_cast<std::int64_t>(std::llround(found->second));
  TESSERA_CHECK(index >= 0 && index < x.global[dim], "select: feed '", feed, "' is ", index,
                ", the dim has ", x.global[dim]);
  const std::int64_t local = index - x.offset[dim];
  if (local < 0 || local >= x.extent[dim]) return zero(exec, y);
  std::int64_t from_stride[kMaxRank], to_stride[kMaxRank], kept_stride[kMaxRank];
  row_major(x, from_stride);
  row_major(y, to_stride);
  for (int d = 0; d < y.rank; ++d) kept_stride[d] = from_stride[d < dim ? d : d + 1];
  const auto bytes = static_cast<std::int64_t>(bytes_of(x.dtype));
  copy_box(exec, y.data, x.as<char>() + local * from_stride[dim] * bytes, y.rank, y.extent,
           to_stride, kept_stride, bytes_of(x.dtype));
}

}  // namespace

void register_shape_kernels() {
  register_kernel("slice", slice);
  register_kernel("pad", pad);
  register_kernel("select", select);
}

}  // namespace tessera::kernels
