// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// One dim along which a window moves: `dim` of x (and of the result, where it keeps its name and
/// gets a new size), and for a convolution `kernel`, the filter's dim of taps. Output i meets
/// input i * stride + tap * dilation - before.
struct ConvDim {
  std::string dim;
  std::string kernel;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  ///< zeros in front of x
  std::int64_t after = 0;   ///< and behind it
};

enum class Padding : std::uint8_t {
  valid,  ///< no zeros: windows lie within x
  same,   ///< ceil(n / stride) outputs; of the zeros needed the smaller half goes in front
};

/// The dim's padding for x of size `n` and a window of `taps`.
ConvDim padded(ConvDim dim, Padding padding, std::int64_t n, std::int64_t taps);

/// Convolution over 1 to 3 dims (a correlation, as in all deep learning). Roles follow from names:
/// - in `space`, a dim of x with the filter's dim of taps;
/// - in both x and the filter: summed, or, if listed in `groups`, a dim of independent convolutions
///   (a depthwise one has its channels there and no other dims in common);
/// - in x only: batch; in the filter only: output channels.
/// Result: [batch…, space…, groups…, output channels…]. x is best ordered [batch…, space…,
/// groups…, channels…] and the filter [taps…, groups…, channels in…, out…]; other orders are
/// transposed first. UserError if dims or sizes do not fit. Any dim may be cut; where one of
/// `space` is, neighbours exchange what windows reach across borders.
Tensor conv(Tensor x, Tensor filter, const std::vector<ConvDim>& space,
            const std::vector<std::string>& groups = {});

/// The same with one padding for all dims of `space`.
Tensor conv(Tensor x, Tensor filter, std::vector<ConvDim> space, Padding padding,
            const std::vector<std::string>& groups = {});

/// The adjoint of a convolution in its first argument, "transposed convolution": y [batch…,
/// space…, groups…, out…] and the filter of that convolution give [batch…, space…, groups…, in…]
/// with the sizes `sizes` along space, one for each of them; of those from which the convolution
/// gives y's sizes, any is possible. UserError else.
Tensor conv_transpose(Tensor y, Tensor filter, const std::vector<ConvDim>& space,
                      const std::vector<std::int64_t>& sizes,
                      const std::vector<std::string>& groups = {});

}  // namespace tessera::ops
