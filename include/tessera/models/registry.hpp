// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/replicate/model.hpp"

namespace tessera::models {

using ModelFactory = std::function<std::unique_ptr<replicate::Model>()>;

/// A model that a deck can ask for (model.name).
struct ModelEntry {
  std::string name;
  std::string help;
  ModelFactory make;
};

/// The models that come with Tessera.
const std::vector<ModelEntry>& builtin_models();

}  // namespace tessera::models
