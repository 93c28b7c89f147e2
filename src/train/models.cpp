// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/models.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::train {

void Models::add(const std::string& name, ModelFactory factory) {
  for (const auto& model : models_)
    TESSERA_CHECK(model.first != name, "model '", name, "' is added twice");
  models_.emplace_back(name, std::move(factory));
}

std::vector<std::string> Models::names() const {
  std::vector<std::string> names;
  for (const auto& model : models_) names.push_back(model.first);
  return names;
}

std::unique_ptr<replicate::Model> Models::make(const std::string& name) const {
  for (const auto& [known, factory] : models_)
    if (known == name) return factory();
  throw UserError(concat("model.name: there is no model '", name, "', only ", join(names(), ", "),
                         did_you_mean(name, names())));
}

}  // namespace tessera::train
