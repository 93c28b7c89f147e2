// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/lines.hpp"

#include <fstream>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"

namespace tessera::train {

std::vector<std::string> read_lines(const comm::World& world, const std::string& key,
                                    const std::string& file) {
  std::string text;
  comm::agree_on(world, [&] {
    if (world.rank() != 0) return;
    std::ifstream in(file, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    check_user(in.is_open() && !in.bad() && !bytes.str().empty(), key, " = ", file,
               ": there is no such file, or nothing in it");
    text = bytes.str();
  });
  std::istringstream all(world.broadcast_text(text));
  std::vector<std::string> lines;
  for (std::string line; std::getline(all, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

}  // namespace tessera::train
