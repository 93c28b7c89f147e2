// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/attributes.hpp"
#include "tessera/comm/collectives.hpp"
#include "tessera/io/digest.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/shape/placement.hpp"
#include "tessera/shape/tensor_spec.hpp"

/// Global checkpoints: one HDF5 file with one dataset for each tensor in its natural shape,
/// whatever the mesh. The file's schema stands in src/io/CHECKPOINT.md.
namespace tessera::io {

/// A tensor to save. Paths: "/variables/<name>", "/optimizer/<slot>/<name>", "/state/<name>".
struct SavedTensor {
  std::string path;
  TensorSpec spec;
  Placement placement;  ///< as stored; never partial
  /// The tile of a local rank in host memory: dense, row-major. Valid until the next call.
  std::function<const void*(int local_rank)> tile;
};

struct CheckpointContent {
  std::int64_t step = 0;
  std::vector<SavedTensor> tensors;
  /// By group, e.g. "/meta" (deck, provenance) and "/data" (position). The same on all ranks.
  /// "/meta" gets `step`, `format` and `digest` besides.
  std::map<std::string, Attributes> attributes;
};

/// Writes `folder`/step_00000042.h5 from all ranks and returns its path. Aside first
/// (….h5.part), made durable, then renamed; `latest` (a symbolic link) follows; then all but the
/// newest `keep` files (0: all stay) are removed. Whatever goes wrong on one rank is thrown on all,
/// and older checkpoints stay as they are.
/// UserError: too little space (path, needed and free bytes). Error: replicas of a tensor that
/// differ (tensor and ranks), or the system's reason.
std::string save_checkpoint(const std::string& folder, const CheckpointContent& content,
                            comm::Collectives& collectives, int keep);

/// Makes `folder`/best.h5 the same file as a saved checkpoint; it stays when that one is removed.
/// Call on one rank.
void keep_as_best(const std::string& checkpoint);

/// A checkpoint that was opened; nothing of the tensors is read yet.
class Checkpoint {
 public:
  struct Tensor {
    std::string path;
    TensorSpec spec;
    Digest digest;
    std::int64_t offset = -1;  ///< of the first element in the file; -1 if there is none
  };

  /// Reads and checks all but the tensors. UserError naming the file and what is broken.
  explicit Checkpoint(const std::string& file);

  const std::string& file() const { return file_; }
  std::int64_t step() const { return step_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(const std::string& path) const;
  /// Attributes of "/meta", "/data", …; an empty set if there is no such group.
  const Attributes& attributes(const std::string& group) const& { return index_.group(group); }
  /// Not of a temporary: the attributes would be gone at the end of the statement.
  const Attributes& attributes(const std::string& group) const&& = delete;
  const std::map<std::string, Attributes>& groups() const { return index_.groups; }

 private:
  std::string file_;
  FileIndex index_;
  std::int64_t step_ = 0;
  std::vector<Tensor> tensors_;
};

/// Where a tensor goes when a checkpoint is loaded.
struct LoadedTensor {
  std::string path;
  TensorSpec spec;
  Placement placement;
  /// Takes the tile of a local rank from host memory: dense, row-major.
  std::function<void(int local_rank, const void* tile)> put;
  bool optional = false;  ///< a file may lack it; then nothing is put
};

/// Reads tensors on any mesh: each tile is read once and broadcast along the mesh dims that
/// replicate it, and each digest is checked. UserError, the same on all ranks, if a tensor is
/// missing, has another shape or dtype, or is damaged; then some tensors may have been replaced.
/// Tensors of the file that nobody asks for are an error too, unless their paths begin with
/// `ignored` ("/": all; "": none).
void load_checkpoint(const Checkpoint& checkpoint, std::span<const LoadedTensor> tensors,
                     comm::Collectives& collectives, const std::string& ignored = "");

/// Complete files `folder`/step_*.h5 by falling step; best.h5 and unfinished ones are not among
/// them.
std::vector<std::string> find_checkpoints(const std::string& folder);
/// Collective: the same on all ranks, as rank 0 sees the folder. From another node it may look
/// different for a while.
std::vector<std::string> find_checkpoints(const std::string& folder,
                                          comm::Collectives& collectives);

/// Called on the process that holds rank 0.
using Warn = std::function<void(const std::string& message)>;

/// Loads the newest whole checkpoint in `folder`. A file that is not whole (for any rank) is
/// skipped with a warning that names it and the reason. `accept` (may be empty) sees each candidate
/// before it is loaded, on all ranks, and throws if the run must not resume from it: that ends the
/// search. Nothing if there is no checkpoint; UserError if there are some and all are broken, or if
/// one does not fit (load_checkpoint).
std::optional<Checkpoint> restore_newest(const std::string& folder,
                                         const std::function<void(const Checkpoint&)>& accept,
                                         std::span<const LoadedTensor> tensors,
                                         comm::Collectives& collectives, const Warn& warn,
                                         const std::string& ignored = "");

}  // namespace tessera::io
