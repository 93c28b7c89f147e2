// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/base/dtype.hpp"

/// Bytes of workspace that kernels need beside their operands: pure functions of the local tiles,
/// so that the plan is exact. A kernel stays inside what these say for its own tile, and they grow
/// with each argument, so the largest tile's bytes are enough on every rank.
namespace tessera::program {

/// Elements of an operand that a 16-bit matrix product holds in f32 at a time.
inline constexpr std::int64_t kPanelElements = std::int64_t{1} << 20;
/// Rows of queries, and keys, that attention treats at a time; a row of scores is a multiple of
/// kScoreLanes wide.
inline constexpr std::int64_t kQueryBlock = 64;
inline constexpr std::int64_t kKeyBlock = 512;
inline constexpr std::int64_t kScoreLanes = 16;
/// Widest panel of any x86-64 level.
inline constexpr std::int64_t kPanelWidth = 32;

/// Every part of a workspace starts at a multiple of 64 bytes.
constexpr std::int64_t round_up_workspace(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// `einsum`: f32 panels of 16-bit operands. Sizes in elements of the local tiles.
constexpr std::int64_t einsum_workspace(DType a, DType b, DType c, std::int64_t a_size,
                                        std::int64_t b_size, std::int64_t c_size) {
  const auto panel = [](DType dtype, std::int64_t size) {
    return dtype == DType::bf16 ? round_up_workspace(4 * std::min(size, kPanelElements)) : 0;
  };
  return panel(a, a_size) + panel(b, b_size) + panel(c, c_size);
}

/// `embedding_backward`: the places of the ids, sorted by id.
constexpr std::int64_t embedding_backward_workspace(std::int64_t ids) {
  return round_up_workspace(4 * ids);
}

/// Local extents of `attention_forward` and `attention_backward`.
struct AttentionSize {
  std::int64_t batch = 0;
  std::int64_t queries = 0;  ///< length
  std::int64_t keys = 0;     ///< memory length
  std::int64_t heads = 0;    ///< of k and v
  std::int64_t group = 1;    ///< query heads for each of these
  std::int64_t depth = 0;    ///< d
  std::int64_t buckets = 0;  ///< of the relative position bias; 0: none
};

/// Bytes of a head's bias by distance: one for each diagonal of the scores.
constexpr std::int64_t diagonal_bytes(DType dtype, const AttentionSize& size) {
  if (size.buckets == 0) return 0;
  return round_up_workspace((dtype == DType::f64 ? 8 : 4) * (size.queries + size.keys));
}

/// Elements from one row of a block of scores to the next: one group of lanes more than the row
/// has, as rows a power of two apart would share few sets of the first cache.
constexpr std::int64_t score_row(std::int64_t keys) {
  const std::int64_t columns = std::min(keys, kKeyBlock);
  return ((columns + kScoreLanes - 1) / kScoreLanes + 1) * kScoreLanes;
}

/// Bytes of one block of scores.
constexpr std::int64_t score_block_bytes(DType dtype, const AttentionSize& size) {
  const std::int64_t rows = std::min(size.queries, kQueryBlock);
  return round_up_workspace((dtype == DType::f64 ? 8 : 4) * rows * score_row(size.keys));
}

/// Columns of a right factor that is packed in panels.
constexpr std::int64_t panel_columns(std::int64_t n) {
  return (n + kPanelWidth - 1) / kPanelWidth * kPanelWidth;
}

/// Bytes of one head's keys (or values) packed as a right factor [keys, depth], or transposed.
constexpr std::int64_t head_panel_bytes(const AttentionSize& size, bool transposed) {
  return round_up_workspace(4 * (transposed ? size.depth * panel_columns(size.keys)
                                            : size.keys * panel_columns(size.depth)));
}

/// A block of scores with its rows' statistics; the bias by distance; except in f64 one head of k
/// and v in panels; for 16-bit tensors also that head in f32, and a block of q and out.
constexpr std::int64_t attention_forward_workspace(DType dtype, const AttentionSize& size) {
  const std::int64_t bytes = dtype == DType::f64 ? 8 : 4;
  const std::int64_t rows = std::min(size.queries, kQueryBlock);
  std::int64_t total = score_block_bytes(dtype, size);
  total += 3 * round_up_workspace(bytes * kQueryBlock);
  total += diagonal_bytes(dtype, size);
  if (dtype != DType::f64) total += head_panel_bytes(size, true) + head_panel_bytes(size, false);
  if (dtype == DType::bf16) {
    total += 2 * round_up_workspace(4 * size.keys * size.depth);
    total += 2 * round_up_workspace(4 * rows * size.depth);
  }
  return total;
}

/// Two such blocks; for each query row the sum of dout times out, and its part of the bias's
/// gradient; the bias and its gradient by distance; except in f64 one head of k (both ways), v, q
/// and dout in panels; for 16-bit tensors also one head of k, v, dk, dv, q, dout and dq in f32.
constexpr std::int64_t attention_backward_workspace(DType dtype, const AttentionSize& size) {
  const std::int64_t bytes = dtype == DType::f64 ? 8 : 4;
  std::int64_t total = 2 * score_block_bytes(dtype, size);
  const std::int64_t all_rows = size.batch * size.heads * size.group * size.queries;
  total += round_up_workspace(bytes * all_rows);
  if (size.buckets > 0) {
    total += std::max(2 * diagonal_bytes(dtype, size),
                      round_up_workspace(bytes * all_rows * size.buckets));
  }
  if (dtype != DType::f64) {
    total += 2 * head_panel_bytes(size, true) + head_panel_bytes(size, false);
    total += 2 * round_up_workspace(4 * size.queries * panel_columns(size.depth));
  }
  if (dtype == DType::bf16) {
    total += 4 * round_up_workspace(4 * size.keys * size.depth);
    total += 3 * round_up_workspace(4 * size.queries * size.depth);
  }
  return total;
}

/// Local extents of a convolution: x [batch, x, groups, in], filter [taps, groups, in, out],
/// y [batch, y, groups, out], with three dims of space.
struct ConvSize {
  std::int64_t batch = 0;
  std::int64_t groups = 1;
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t x[3] = {1, 1, 1};
  std::int64_t y[3] = {1, 1, 1};
  std::int64_t taps[3] = {1, 1, 1};
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t dilation[3] = {1, 1, 1};
};

/// As many images as fit into this are treated at a time, at least one.
inline constexpr std::int64_t kConvImageBytes = std::int64_t{1} << 20;
/// Rows of a product that are treated at a time at most.
inline constexpr std::int64_t kConvRows = 192;
/// The same of `total` rows in blocks of about one size, a multiple of the tiles of all levels.
constexpr std::int64_t conv_block_rows(std::int64_t total) {
  const std::int64_t blocks = std::max<std::int64_t>(1, (total + kConvRows - 1) / kConvRows);
  return std::max<std::int64_t>(1, ((total + blocks - 1) / blocks + 11) / 12) * 12;
}

/// Extent of x that `y` outputs read.
constexpr std::int64_t conv_reach(const ConvSize& size, int d) {
  return size.y[d] < 1
             ? 0
             : (size.y[d] - 1) * size.stride[d] + (size.taps[d] - 1) * size.dilation[d] + 1;
}
/// Extent of y, with what lies outside, that `x` inputs meet.
constexpr std::int64_t conv_back_reach(const ConvSize& size, int d) {
  return size.x[d] < 1
             ? 0
             : (size.x[d] - 1 + (size.taps[d] - 1) * size.dilation[d]) / size.stride[d] + 1;
}
constexpr std::int64_t conv_taps(const ConvSize& size) {
  return size.taps[0] * size.taps[1] * size.taps[2];
}
constexpr std::int64_t conv_element(DType dtype) {
  return dtype == DType::f64 ? 8 : 4;
}
/// Bytes of as many images as are treated at a time.
constexpr std::int64_t conv_images(std::int64_t batch, std::int64_t image_bytes) {
  return round_up_workspace(std::max(image_bytes, std::min(batch * image_bytes, kConvImageBytes)));
}
/// How many these are.
constexpr std::int64_t conv_image_count(std::int64_t batch, std::int64_t image_bytes) {
  return std::max<std::int64_t>(
      1, std::min(batch, kConvImageBytes / std::max<std::int64_t>(image_bytes, 1)));
}

/// Distance of neighbouring pixels in a copied image, in elements: rows of a product that lie a
/// multiple of 1 KiB apart would share few sets of the cache.
constexpr std::int64_t conv_pitch(std::int64_t line) {
  return line % 256 == 0 ? line + 16 : line;
}

/// `conv`: the filter in panels, padded images, and rows of 16-bit results.
constexpr std::int64_t conv_workspace(DType dtype, const ConvSize& size) {
  const std::int64_t image = conv_reach(size, 0) * conv_reach(size, 1) * conv_reach(size, 2) *
                             (size.groups * size.in + 16);
  return conv_element(dtype) * conv_taps(size) * size.groups * size.in * panel_columns(size.out) +
         conv_images(size.batch, conv_element(dtype) * image) +
         round_up_workspace(conv_element(dtype) * kConvRows * size.out);
}

/// `conv_input_grad`: the same with the filter turned.
constexpr std::int64_t conv_input_grad_workspace(DType dtype, const ConvSize& size) {
  const std::int64_t image = conv_back_reach(size, 0) * conv_back_reach(size, 1) *
                             conv_back_reach(size, 2) *
                             (std::max(size.in, size.out) * size.groups + 16);
  return conv_element(dtype) * conv_taps(size) * size.groups * size.out * panel_columns(size.in) +
         conv_images(size.batch, conv_element(dtype) * image) +
         round_up_workspace(conv_element(dtype) * kConvRows * size.in);
}

/// Elements of an image's channels turned to planes, columns of one remainder side by side.
constexpr std::int64_t conv_planes(const ConvSize& size) {
  const std::int64_t columns = (conv_reach(size, 2) + size.stride[2] - 1) / size.stride[2];
  return conv_reach(size, 0) * conv_reach(size, 1) * size.stride[2] * columns * size.groups *
         size.in;
}
constexpr std::int64_t conv_pixels(const ConvSize& size) {
  return size.y[0] * size.y[1] * size.y[2];
}

/// `conv_filter_grad`: images turned, y's gradient in panels, and a 16-bit result in f32.
constexpr std::int64_t conv_filter_grad_workspace(DType dtype, const ConvSize& size) {
  const std::int64_t image = conv_planes(size) + conv_pixels(size) * panel_columns(size.out);
  return conv_images(size.batch, conv_element(dtype) * image) + 64 +
         round_up_workspace(conv_element(dtype) * conv_taps(size) * size.groups * size.in *
                            size.out);
}

}  // namespace tessera::program
