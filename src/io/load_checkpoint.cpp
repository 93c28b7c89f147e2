// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <set>

#include "io/load.hpp"
#include "io/posix_file.hpp"
#include "io/tiles.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::io {
namespace {

std::string spec_text(const TensorSpec& spec) {
  return concat(spec.shape.to_string(), ' ', name_of(spec.dtype));
}

/// Each local rank's tile in memory.
class TileBuffers {
 public:
  TileBuffers(const Team& team, const TensorSpec& spec, const Placement& placement) {
    for (int r = 0; r < static_cast<int>(team.local_ranks().size()); ++r) {
      tiles_.push_back(local_tile(team, spec, placement, r));
      const auto bytes = static_cast<std::size_t>(tiles_.back().count) * bytes_of(spec.dtype);
      memory_.push_back(std::make_unique_for_overwrite<char[]>(std::max<std::size_t>(1, bytes)));
      pointers_.push_back(memory_.back().get());
      counts_.push_back(tiles_.back().count);
    }
  }
  const std::vector<LocalTile>& tiles() const { return tiles_; }
  void* data(std::size_t local_rank) const { return pointers_[local_rank]; }
  std::span<void* const> pointers() const { return pointers_; }
  std::span<const std::int64_t> counts() const { return counts_; }

 private:
  std::vector<LocalTile> tiles_;
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<void*> pointers_;
  std::vector<std::int64_t> counts_;
};

void read_owned(const PosixFile& file, const Checkpoint::Tensor& stored,
                const TileBuffers& buffers) {
  for (std::size_t r = 0; r < buffers.tiles().size(); ++r) {
    const LocalTile& tile = buffers.tiles()[r];
    if (!tile.owner || tile.count == 0) continue;
    read_tile(file, stored.offset, stored.spec, tile.box, buffers.data(r));
  }
}

}  // namespace

std::string load_tensors(const Team& team, const Checkpoint& checkpoint,
                         std::span<const Assignment> assignments) {
  std::unique_ptr<PosixFile> file;
  Status status = attempt([&] { file = std::make_unique<PosixFile>(checkpoint.file(), O_RDONLY); });
  TileDigests digests(team, assignments.size());
  team.collectives().ledger().set_section("");  // not part of any plan
  for (std::size_t t = 0; t < assignments.size(); ++t) {
    const auto& [stored, placement, put] = assignments[t];
    const TileBuffers buffers(team, stored->spec, placement);
    if (status.ok()) status = attempt([&] { read_owned(*file, *stored, buffers); });
    // A rank that failed broadcasts too: nobody may wait for it.
    if (!placement.replicated_mesh_dims().empty()) {
      team.collectives().broadcast(placement.replicated_mesh_dims(), stored->spec.dtype,
                                   buffers.pointers(), buffers.counts());
    }
    if (!status.ok()) continue;
    status = attempt([&] {
      for (std::size_t r = 0; r < buffers.tiles().size(); ++r) {
        const int rank = static_cast<int>(r);
        digests.add(t, rank, buffers.tiles()[r], stored->spec, buffers.data(r));
        put(rank, buffers.data(r));
      }
    });
  }
  status = team.agreed(status);
  if (!status.ok()) return status.message;
  digests.reduce();
  std::vector<std::string> damaged;
  for (std::size_t t = 0; t < assignments.size(); ++t) {
    const auto replicas = team.mesh().group_size(assignments[t].placement.replicated_mesh_dims());
    const bool whole = digests.of_owners(t) == assignments[t].stored->digest &&
                       digests.replicas_agree(t, replicas);
    if (!whole) damaged.push_back(assignments[t].stored->path);
  }
  if (damaged.empty()) return "";
  return concat("damaged: the elements of ", join(damaged, ", "), " don't have their digest");
}

std::vector<Assignment> match_all(const Checkpoint& checkpoint,
                                  std::span<const LoadedTensor> tensors,
                                  const std::string& ignored) {
  std::vector<Assignment> assignments;
  std::set<std::string> wanted;
  std::vector<std::string> paths;
  for (const auto& stored : checkpoint.tensors()) paths.push_back(stored.path);
  for (const LoadedTensor& tensor : tensors) {
    wanted.insert(tensor.path);
    const Checkpoint::Tensor* stored = checkpoint.find(tensor.path);
    if (stored == nullptr && tensor.optional) continue;
    check_user(stored != nullptr, checkpoint.file(), " has no tensor ", tensor.path,
               did_you_mean(tensor.path, paths));
    check_user(stored->spec == tensor.spec, checkpoint.file(), ": ", tensor.path, " is ",
               spec_text(stored->spec), " there, but this model's is ", spec_text(tensor.spec),
               ": resume with the deck that it was saved with (tessera inspect shows it)");
    assignments.push_back({stored, tensor.placement, tensor.put});
  }
  for (const std::string& path : paths) {
    const bool is_ignored = !ignored.empty() && path.starts_with(ignored);
    check_user(is_ignored || wanted.count(path) > 0, checkpoint.file(), " holds ", path,
               ", which this model lacks: resume with the deck that it was saved with (tessera "
               "inspect shows it)");
  }
  return assignments;
}

void load_checkpoint(const Checkpoint& checkpoint, std::span<const LoadedTensor> tensors,
                     comm::Collectives& collectives, const std::string& ignored) {
  const Team team(collectives);
  std::vector<Assignment> assignments;
  team.agree(attempt([&] { assignments = match_all(checkpoint, tensors, ignored); }));
  const std::string reason = load_tensors(team, checkpoint, assignments);
  check_user(reason.empty(), checkpoint.file(), ": ", reason);
}

}  // namespace tessera::io
