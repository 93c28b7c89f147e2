// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "io/posix_file.hpp"
#include "io/schema.hpp"
#include "io/team.hpp"
#include "io/tiles.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/io/checkpoint.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

/// Digest of each tensor; Error on all ranks if replicas of one differ.
std::vector<Digest> digest_content(const Team& team, const CheckpointContent& content) {
  const std::size_t tensors = content.tensors.size();
  TileDigests digests(team, tensors);
  team.agree(attempt([&] {
    for (std::size_t t = 0; t < tensors; ++t) {
      const SavedTensor& tensor = content.tensors[t];
      for (int r = 0; r < static_cast<int>(team.local_ranks().size()); ++r) {
        const LocalTile tile = local_tile(team, tensor.spec, tensor.placement, r);
        digests.add(t, r, tile, tensor.spec, tensor.tile(r));
      }
    }
  }));
  digests.reduce();
  std::vector<Digest> result;
  std::string complaint;
  int diverged = 0;
  for (std::size_t t = 0; t < tensors; ++t) {
    const SavedTensor& tensor = content.tensors[t];
    result.push_back(digests.of_owners(t));
    const auto replicas = team.mesh().group_size(tensor.placement.replicated_mesh_dims());
    if (digests.replicas_agree(t, replicas) || ++diverged > 5) continue;
    complaint += concat("\n  ", tensor.path, ' ',
                        digests.name_differing_ranks(t, tensor.spec, tensor.placement));
  }
  if (diverged > 0) {
    throw Error(concat("replicas have diverged, nothing is saved: ", diverged,
                       " tensors are not the same on ranks that must hold the same", complaint));
  }
  return result;
}

std::int64_t bytes_needed(const CheckpointContent& content) {
  std::int64_t bytes = 1 << 16;
  for (const SavedTensor& tensor : content.tensors) {
    bytes +=
        1024 + tensor.spec.shape.size() * static_cast<std::int64_t>(bytes_of(tensor.spec.dtype));
  }
  for (const auto& [group, attributes] : content.attributes) {
    bytes += static_cast<std::int64_t>(attributes.to_string().size());
  }
  return bytes;
}

void check_space(const std::string& folder, const std::string& file, std::int64_t needed) {
  const std::int64_t free = std::min(free_bytes(folder), largest_file());
  check_user(needed <= free, "checkpoint ", file, " needs ", needed, " bytes (",
             format_bytes(static_cast<double>(needed)), "), but only ", free, " bytes (",
             format_bytes(static_cast<double>(free)),
             ") are free there: make room, lower checkpoint.keep, or move run.dir");
}

/// The leader's share before the tiles: everything of the file but the elements. Returns where
/// each tensor's elements go.
std::vector<std::int64_t> lay_out(const std::string& part, const CheckpointContent& content,
                                  const std::vector<Digest>& digests) {
  FileIndex index = index_of(content, digests);
  fs::remove(part);  // of a killed run, which may still have it open: that is another file then
  write_index(part, index);
  std::vector<std::int64_t> offsets;
  for (const DatasetInfo& dataset : index.datasets) offsets.push_back(dataset.offset);
  return offsets;
}

void write_tiles(const Team& team, const std::string& part, const CheckpointContent& content,
                 const std::vector<std::int64_t>& offsets) {
  PosixFile file(part, O_WRONLY);
  for (std::size_t t = 0; t < content.tensors.size(); ++t) {
    const SavedTensor& tensor = content.tensors[t];
    for (int r = 0; r < static_cast<int>(team.local_ranks().size()); ++r) {
      const LocalTile tile = local_tile(team, tensor.spec, tensor.placement, r);
      if (!tile.owner || tile.count == 0) continue;
      write_tile(file, offsets[t], tensor.spec, tile.box, tensor.tile(r));
    }
  }
  file.sync();
  file.close();
}

void point_latest_at(const std::string& folder, const std::string& name) {
  const fs::path aside = fs::path(folder) / "latest.part";
  std::error_code ignored;  // a convenience for people: some file systems have no links
  fs::remove(aside, ignored);
  fs::create_symlink(name, aside, ignored);
  if (!ignored) fs::rename(aside, fs::path(folder) / "latest", ignored);
}

/// Later steps are of a run that was given up when an earlier checkpoint was resumed.
void remove_old(const std::string& folder, std::int64_t step, int keep) {
  int kept = 0;
  for (const std::string& file : find_checkpoints(folder)) {
    const std::int64_t other = step_of_name(fs::path(file).filename().string());
    const bool later = other > step;
    if (!later) ++kept;
    if (later || (keep > 0 && kept > keep)) fs::remove(file);
  }
}

void commit(const std::string& folder, const std::string& part, const std::string& file) {
  sync_folder(folder);
  if (std::rename(part.c_str(), file.c_str()) != 0)
    fail_with_errno(file, "can't rename into place");
  sync_folder(folder);
}

}  // namespace

std::string save_checkpoint(const std::string& folder, const CheckpointContent& content,
                            comm::Collectives& collectives, int keep) {
  const Team team(collectives);
  const std::string name = checkpoint_name(content.step);
  const std::string file = folder + "/" + name;
  const std::string part = file + ".part";
  const std::vector<Digest> digests = digest_content(team, content);
  try {
    std::vector<std::int64_t> offsets(content.tensors.size(), -1);
    team.leader_does([&] {
      fs::create_directories(folder);
      fs::remove(part);
      check_space(folder, file, bytes_needed(content));
      offsets = lay_out(part, content, digests);
    });
    offsets = team.from_leader(std::move(offsets));
    team.agree(attempt([&] { write_tiles(team, part, content, offsets); }));
    team.leader_does([&] { commit(folder, part, file); });
  } catch (...) {
    std::error_code ignored;
    if (team.leads()) fs::remove(part, ignored);
    throw;
  }
  team.leader_does([&] {
    point_latest_at(folder, name);
    remove_old(folder, content.step, keep);
  });
  return file;
}

void keep_as_best(const std::string& checkpoint) {
  const fs::path best = fs::path(checkpoint).parent_path() / "best.h5";
  const fs::path aside = best.string() + ".part";
  std::error_code failed;
  fs::remove(aside);
  fs::create_hard_link(checkpoint, aside, failed);
  if (failed) {
    fs::copy_file(checkpoint, aside);
    PosixFile(aside.string(), O_RDWR).sync();
  }
  fs::rename(aside, best);
  sync_folder(best.parent_path().string());
}

}  // namespace tessera::io
