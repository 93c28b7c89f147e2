// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::io {

struct Inspection {
  std::string text;   ///< for people, or one JSON object
  bool whole = true;  ///< all digests are right
};

/// Describes a checkpoint: step, mesh that wrote it, provenance, deck, and path, dims, dtype, bytes
/// and digest of each tensor, and checks every digest. A damaged tensor is named in the text.
/// `file` may be a run folder or its checkpoints folder: then the newest. UserError if there is no
/// checkpoint or it can't be opened. Needs neither MPI nor more than one core.
Inspection inspect_checkpoint(const std::string& file, bool json);

}  // namespace tessera::io
