// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/graph/variable.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

int VariableSet::declare(Variable variable) {
  const auto found = index_.find(variable.name);
  if (found != index_.end()) {
    const Variable& known = (*this)[found->second];
    TESSERA_CHECK(known.spec == variable.spec && known.kind == variable.kind, "variable '",
                  variable.name, "' is declared twice, as ", known.spec.shape.to_string(),
                  " and as ", variable.spec.shape.to_string());
    return found->second;
  }
  index_[variable.name] = size();
  variables_.push_back(std::move(variable));
  return size() - 1;
}

int VariableSet::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

std::int64_t VariableSet::parameters() const {
  std::int64_t count = 0;
  for (const auto& variable : variables_)
    if (variable.kind == Variable::Kind::weight) count += variable.spec.shape.size();
  return count;
}

}  // namespace tessera
