// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/experience.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const fs::path& checkpoints, std::int64_t group) {
  return (checkpoints / concat("group_", group)).string();
}

/// Files that may hold it, the best first.
std::vector<std::string> candidates(const std::string& checkpoint, std::int64_t group) {
  std::vector<std::string> files{checkpoint};
  const fs::path beside = fs::path(checkpoint).parent_path();
  std::int64_t groups = 0;
  while (fs::is_directory(folder_of(beside, groups))) ++groups;
  if (groups == 0) return files;
  const std::int64_t step = io::Checkpoint(checkpoint).step();
  for (const auto& file : io::find_checkpoints(folder_of(beside, group % groups))) {
    bool is_newer = true;
    const Status status = attempt([&] { is_newer = io::Checkpoint(file).step() > step; });
    if (status.ok() && !is_newer) files.push_back(file);
  }
  return files;
}

/// The first rank's, since folders may look different from another node for a while.
std::vector<std::string> agreed_candidates(const Session& session, const std::string& checkpoint,
                                           std::int64_t group) {
  const auto& world = session.backend.world();
  std::string text;
  comm::agree_on(world, [&] {
    if (session.backend.is_root()) text = join(candidates(checkpoint, group), "\n");
  });
  return split(world.broadcast_text(text), '\n');
}

}  // namespace

void save_experience(const Session& session, std::int64_t group, std::int64_t step) {
  io::CheckpointContent content;
  content.step = step;
  content.tensors = session.feeder->saved();
  const auto position = session.feeder->position();
  content.attributes["/data"]
      .set("epoch", position.epoch)
      .set("index", position.index)
      .set("step", position.step);
  io::save_checkpoint(folder_of(session.settings.run_file("checkpoints"), group), content,
                      *session.collectives, static_cast<int>(session.settings.checkpoint.keep));
}

std::optional<data::Position> load_experience(Session& session, const std::string& checkpoint,
                                              std::int64_t group) {
  const auto& world = session.backend.world();
  for (const auto& file : agreed_candidates(session, checkpoint, group)) {
    std::optional<io::Checkpoint> from;
    const Status status = attempt([&] {
      comm::agree_on(world, [&] { from.emplace(file); });
      io::load_checkpoint(*from, session.feeder->loaded(), *session.collectives, "/");
    });
    if (!status.ok()) continue;
    session.feeder->restored();
    const auto& data = from->attributes("/data");
    data::Position position;
    position.epoch = data.integer("epoch");
    position.index = data.integer("index");
    position.step = data.integer("step");
    session.feeder->seek(position);
    return position;
  }
  return std::nullopt;
}

}  // namespace tessera::train
