// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/replicate/model.hpp"

namespace tessera::train {

using ModelFactory = std::function<std::unique_ptr<replicate::Model>()>;

/// The models that a deck may name as model.name.
class Models {
 public:
  /// Error if the name is taken.
  void add(const std::string& name, ModelFactory factory);
  std::vector<std::string> names() const;
  /// UserError with the nearest name if there is no such model.
  std::unique_ptr<replicate::Model> make(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, ModelFactory>> models_;
};

}  // namespace tessera::train
