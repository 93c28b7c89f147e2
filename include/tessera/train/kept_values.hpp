// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/runtime/executor.hpp"

namespace tessera::train {

/// The values that some variables have on this process's ranks, kept on the host to be put back.
class KeptValues {
 public:
  /// Variables of the executor's Program by their names; those that it lacks are left out.
  KeptValues(runtime::Executor& executor, const std::vector<std::string>& names);

  void keep();
  /// As they were at the last keep(), if there was one.
  void put_back();

 private:
  struct Tile {
    int variable = 0;
    int local_rank = 0;
    std::vector<char> bytes;
  };

  runtime::Executor& executor_;
  std::vector<Tile> tiles_;
  bool kept_ = false;
};

}  // namespace tessera::train
