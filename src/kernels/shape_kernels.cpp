// SPDX-License-Identifier: BSD-3-Clause

#include "kernels/box.hpp"
#include "kernels/builtin.hpp"
#include "kernels/feeds.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/copy_box.hpp"
#include "tessera/kernels/kernel.hpp"

// select: copies of boxes between tiles, placed by global indices.
namespace tessera::kernels {
namespace {

void zero(const device::Exec& exec, const Tile& y) {
  set_zero(exec, y.data, static_cast<std::size_t>(y.size()) * bytes_of(y.dtype));
}

/// Zeros where the selected index lies in another rank's tile, so that the parts add up.
void select(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "select takes one input");
  const Tile& x = call.inputs[0];
  const Tile& y = call.outputs[0];
  const auto dim = static_cast<int>(call.attributes.integer("dim"));
  TESSERA_CHECK(dim >= 0 && dim < x.rank && y.rank == x.rank - 1 && x.dtype == y.dtype,
                "select: dim ", dim, " of rank ", x.rank, " to rank ", y.rank);
  const std::int64_t index = fed_index(call);
  TESSERA_CHECK(index >= 0 && index < x.global[dim], "select: index ", index, ", the dim has ",
                x.global[dim]);
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
  register_kernel("select", select);
}

}  // namespace tessera::kernels
