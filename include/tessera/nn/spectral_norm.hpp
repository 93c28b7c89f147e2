// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::nn {

/// Whether a layer's weight is divided by its largest singular value.
enum class Spectral : std::uint8_t {
  none,
  kept,    ///< it is, and the singular vector stays as it is: evaluation, another net's section
  moving,  ///< the vector also takes the step of power iteration
};

/// weight / sigma, with sigma its largest singular value as a matrix from the dims that are not in
/// `out` to those in `out` (Miyato et al., "Spectral Normalization for Generative Adversarial
/// Networks", 2018). One step of power iteration from the left vector u:
///   v = W^T u / |W^T u|,  u' = W v / |W v|,  sigma = u' . W v
/// Gradients flow through W alone: u' and v count as constants, as in the paper. u is the variable
/// `name`_u [out] of kind state under the open scopes, so it is in checkpoints and equal wherever
/// it is replicated; with `moving` it becomes u' at the end of the section, once in each run, and a
/// section may ask for it only once. The weight may be cut along any of its dims. Returns the
/// weight itself for `none`.
Tensor spectral_norm(Tensor weight, const std::vector<std::string>& out, const std::string& name,
                     Spectral spectral);

}  // namespace tessera::nn
