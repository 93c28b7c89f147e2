// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/device/exec.hpp"

namespace tessera::kernels {

/// Operands of the moments kernels; C is float or double.
struct MomentsPlan {
  bool as_double;  ///< C
  std::int64_t rows;
  double whole;         ///< elements of a row over all ranks
  const void* moments;  ///< C [rows, 3]: n, mean and M2 of this rank's part of a row
  const void* mean;     ///< C [rows]: of whole rows; null: 0
  void* share;          ///< C [rows]
};

namespace portable {
/// This rank's share of how many elements a row has: n.
void moments_count(const device::Exec& exec, const MomentsPlan& plan);
/// This rank's share of each row's mean, n mean / whole.
void moments_mean(const device::Exec& exec, const MomentsPlan& plan);
/// This rank's share of each row's variance about the whole mean: (M2 + n (own mean - mean)^2) /
/// whole.
void moments_variance(const device::Exec& exec, const MomentsPlan& plan);
}  // namespace portable

}  // namespace tessera::kernels
