// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/memory.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::train {
namespace {

/// The first number in a file, negative if there is none ("max" of an unlimited group).
double number_in(const std::string& file) {
  std::ifstream in(file);
  double value = -1;
  if (!(in >> value)) return -1;
  return value;
}

double available_on_node(const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    double kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return -1;
}

/// The folder of this process's control group (version 2: "0::/path"; version 1: the memory
/// controller's).
std::string group_folder(const std::string& root, bool& is_version_1) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line, folder;
  is_version_1 = false;
  while (std::getline(in, line)) {
    if (line.rfind("0::", 0) == 0 && folder.empty())
      folder = root + "/sys/fs/cgroup" + line.substr(3);
    const auto memory = line.find(":memory:");
    if (memory == std::string::npos) continue;
    is_version_1 = true;
    folder = root + "/sys/fs/cgroup/memory" + line.substr(memory + 8);
  }
  return folder;
}

/// What the group and those around it still allow.
double available_in_group(const std::string& root) {
  bool is_version_1 = false;
  std::string folder = group_folder(root, is_version_1);
  const std::string top = root + "/sys/fs/cgroup";
  double available = -1;
  while (folder.size() >= top.size()) {
    const double limit =
        number_in(folder + (is_version_1 ? "/memory.limit_in_bytes" : "/memory.max"));
    const double used =
        number_in(folder + (is_version_1 ? "/memory.usage_in_bytes" : "/memory.current"));
    if (limit > 0 && limit < 1e18 && used >= 0) {
      // Cached file pages count as used but are given back on demand.
      double cache = 0;
      std::ifstream statistics(folder + "/memory.stat");
      std::string name;
      double value = 0;
      while (statistics >> name >> value)
        if (name == "inactive_file" || name == "active_file") cache += value;
      const double left = std::max(0.0, limit - used + std::min(cache, used));
      available = available < 0 ? left : std::min(available, left);
    }
    const auto slash = folder.rfind('/');
    if (slash == std::string::npos || slash == 0) break;
    folder.resize(slash);
  }
  return available;
}

}  // namespace

double available_memory(const std::string& root) {
  const double node = available_on_node(root);
  const double group = available_in_group(root);
  if (node < 0 || group < 0) return std::max(node, group);
  return std::min(node, group);
}

void check_memory(std::span<const double> bytes, double available, const std::string& host) {
  const double needed = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  if (available < 0 || needed <= available) return;
  const auto [least, most] = std::ranges::minmax(bytes);
  throw UserError(concat(
      "not enough memory on ", host, ": ", bytes.size(), " rank(s) need ",
      least == most ? "" : format_bytes(least) + " to ", format_bytes(most), " each, ",
      format_bytes(needed), " together, and ", format_bytes(available),
      " are available. Take more nodes, a layout that splits more dims, more "
      "train.micro_batches, optim.shard or layout.store (`tessera plan` shows what that saves)"));
}

}  // namespace tessera::train
