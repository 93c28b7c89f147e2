// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/weights.hpp"

#include <memory>
#include <set>

#include "io/load.hpp"
#include "io/tiles.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::io {
namespace {

constexpr const char* kVariables = "/variables/";

std::string as_path(const std::string& name) {
  return !name.empty() && name.front() == '/' ? name : kVariables + name;
}

/// Takes tiles of the file's dtype and hands them on in the model's.
std::function<void(int, const void*)> converting(const Team& team, const LoadedTensor& tensor,
                                                 DType from) {
  const DType to = tensor.spec.dtype;
  if (from == to) return tensor.put;
  check_user(is_floating(from) && is_floating(to), tensor.path, ": ", name_of(from),
             " in the file can't become ", name_of(to));
  return [&team, &tensor, from, to](int local_rank, const void* tile) {
    const auto count = local_tile(team, tensor.spec, tensor.placement, local_rank).count;
    const auto bytes = static_cast<std::size_t>(count) * bytes_of(to);
    const auto converted = std::make_unique_for_overwrite<char[]>(bytes + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      set_number(converted.get(), to, i, number_at(tile, from, i));
    }
    tensor.put(local_rank, converted.get());
  };
}

void check_renamed(const Checkpoint& checkpoint, std::span<const LoadedTensor> tensors,
                   const std::map<std::string, std::string>& renamed) {
  std::vector<std::string> ours;
  std::vector<std::string> theirs;
  for (const LoadedTensor& tensor : tensors) ours.push_back(tensor.path);
  for (const auto& tensor : checkpoint.tensors()) theirs.push_back(tensor.path);
  for (const auto& [here, there] : renamed) {
    bool known = false;
    for (const std::string& path : ours) known = known || path == as_path(here);
    check_user(known, "train.init_map: this model has no weight ", here,
               did_you_mean(as_path(here), ours));
    check_user(checkpoint.find(as_path(there)) != nullptr, "train.init_map: ", checkpoint.file(),
               " has no tensor ", there, did_you_mean(as_path(there), theirs));
  }
}

std::vector<Assignment> match(const Team& team, const Checkpoint& checkpoint,
                              std::span<const LoadedTensor> tensors,
                              const std::map<std::string, std::string>& renamed,
                              WeightsReport& report) {
  check_renamed(checkpoint, tensors, renamed);
  std::map<std::string, std::string> path_in_file;
  for (const auto& [here, there] : renamed) path_in_file[as_path(here)] = as_path(there);
  std::vector<Assignment> assignments;
  for (const LoadedTensor& tensor : tensors) {
    const auto other = path_in_file.find(tensor.path);
    const std::string path = other == path_in_file.end() ? tensor.path : other->second;
    const Checkpoint::Tensor* stored = checkpoint.find(path);
    if (!stored) {
      report.missing.push_back(tensor.path);
      continue;
    }
    check_user(stored->spec.shape == tensor.spec.shape, "train.init_from: ", path, " of ",
               checkpoint.file(), " is ", stored->spec.shape.to_string(), ", but ", tensor.path,
               " of this model is ", tensor.spec.shape.to_string());
    assignments.push_back({stored, tensor.placement, converting(team, tensor, stored->spec.dtype)});
    report.loaded.push_back(path);
  }
  const std::set<std::string> used(report.loaded.begin(), report.loaded.end());
  for (const auto& tensor : checkpoint.tensors()) {
    const bool weight = tensor.path.rfind(kVariables, 0) == 0;
    if (weight && used.count(tensor.path) == 0) report.extra.push_back(tensor.path);
  }
  check_user(!assignments.empty(), "train.init_from: no weight of ", checkpoint.file(),
             " has the name of one of this model's: give train.init_map");
  return assignments;
}

}  // namespace

WeightsReport load_weights(const Checkpoint& checkpoint, std::span<const LoadedTensor> tensors,
                           const std::map<std::string, std::string>& renamed,
                           comm::Collectives& collectives) {
  const Team team(collectives);
  WeightsReport report;
  std::vector<Assignment> assignments;
  team.agree(attempt([&] { assignments = match(team, checkpoint, tensors, renamed, report); }));
  const std::string reason = load_tensors(team, checkpoint, assignments);
  check_user(reason.empty(), checkpoint.file(), ": ", reason);
  return report;
}

}  // namespace tessera::io
