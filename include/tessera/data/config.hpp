// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/schema.hpp"
#include "tessera/data/picture.hpp"

namespace tessera::data {

/// Section [data] of a deck.
struct DataConfig {
  std::string source = "text";
  std::vector<std::string> path;
  std::vector<std::string> validation;
  double validation_fraction = 0.05;
  std::int64_t batch = 8;
  std::int64_t length = 128;
  bool packing = true;
  std::int64_t vocab = 0;
  std::int64_t random_tokens = 1 << 20;
  std::int64_t seed = -1;
  int ahead = 2;
  int threads = 1;
  PictureConfig picture;

  void describe(config::Schema& schema);
};

}  // namespace tessera::data
