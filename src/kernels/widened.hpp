// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/pointwise_plan.hpp"
#include "tessera/base/bf16.hpp"

namespace tessera::kernels {

inline double element_at(const void* data, int element, std::int64_t i) {
  if (element == kElementF64) return static_cast<const double*>(data)[i];
  if (element == kElementBf16) return to_float(static_cast<const Bf16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

/// A parameter in the type of computing, `fallback` where it is absent.
class Widened {
 public:
  Widened(const void* data, int element, std::int64_t n, double fallback, bool as_double)
      : as_double_(as_double) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = data == nullptr ? fallback : element_at(data, element, i);
      if (as_double) {
        wide_.push_back(value);
      } else {
        narrow_.push_back(static_cast<float>(value));
      }
    }
  }
  const void* data() const {
    if (as_double_) return wide_.data();
    return narrow_.data();
  }

 private:
  bool as_double_;
  std::vector<float> narrow_;
  std::vector<double> wide_;
};

}  // namespace tessera::kernels
