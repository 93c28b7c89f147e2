// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/base/dtype.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// What a tensor is, whatever its layout.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  bool operator==(const TensorSpec&) const = default;
};

}  // namespace tessera
