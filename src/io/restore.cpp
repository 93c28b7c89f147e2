// SPDX-License-Identifier: BSD-3-Clause
#include "io/load.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::io {

std::vector<std::string> find_checkpoints(const std::string& folder,
                                          comm::Collectives& collectives) {
  const Team team(collectives);
  std::string text;
  team.leader_does([&] {
    for (const std::string& file : find_checkpoints(folder)) text += file + '\n';
  });
  std::vector<std::string> files;
  for (std::string& file : split(team.text_from_leader(text), '\n')) {
    if (!file.empty()) files.push_back(std::move(file));
  }
  return files;
}

std::optional<Checkpoint> restore_newest(const std::string& folder,
                                         const std::function<void(const Checkpoint&)>& accept,
                                         std::span<const LoadedTensor> tensors,
                                         comm::Collectives& collectives, const Warn& warn,
                                         const std::string& ignored) {
  const Team team(collectives);
  const std::vector<std::string> files = find_checkpoints(folder, collectives);
  std::string broken;
  for (const std::string& file : files) {
    std::optional<Checkpoint> checkpoint;
    std::string reason = team.agreed(attempt([&] { checkpoint.emplace(file); })).message;
    if (reason.empty()) {
      std::vector<Assignment> assignments;
      team.agree(attempt([&] {
        if (accept) accept(*checkpoint);
        assignments = match_all(*checkpoint, tensors, ignored);
      }));
      reason = load_tensors(team, *checkpoint, assignments);
      if (reason.empty()) return checkpoint;
      reason = concat(file, ": ", reason);
    }
    broken += "\n  " + reason;
    if (team.leads() && warn) {
      warn(concat("checkpoint skipped, it is not whole: ", reason));
    }
  }
  check_user(files.empty(), "no checkpoint in ", folder,
             " is whole; train.resume=never with another run.dir starts afresh:", broken);
  return std::nullopt;
}

}  // namespace tessera::io
