// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/io/checkpoint.hpp"

namespace tessera::io {

/// What starting from another run's weights left out.
struct WeightsReport {
  std::vector<std::string> loaded;   ///< paths of the file
  std::vector<std::string> missing;  ///< wanted tensors that the file lacks: they keep their values
  std::vector<std::string> extra;    ///< /variables of the file that nobody wants
};

/// Reads weights only, on any mesh. A tensor is looked up under its own path, or under the path
/// that `renamed` gives for it (ours -> the file's; without "/variables/" is fine). f32, f64 and
/// bf16 are converted into each other. UserError, the same on all ranks, if a shape differs (both
/// are named), if `renamed` names a tensor that neither side has, if nothing at all matches, or if
/// a digest is wrong.
WeightsReport load_weights(const Checkpoint& checkpoint, std::span<const LoadedTensor> tensors,
                           const std::map<std::string, std::string>& renamed,
                           comm::Collectives& collectives);

}  // namespace tessera::io
