// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/graph/variable.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::string device_text(int device) {
  return device == kEverywhere ? "all logical devices" : concat("logical device ", device);
}

int VariableSet::declare(Variable variable) {
  const auto found = index_.find(variable.name);
  if (found != index_.end()) {
    const Variable& known = (*this)[found->second];
    TESSERA_CHECK(known.spec == variable.spec && known.kind == variable.kind, "variable '",
                  variable.name, "' is declared twice, as ", known.spec.shape.to_string(),
                  " and as ", variable.spec.shape.to_string());
    check_user(variable.device == kEverywhere || variable.device == known.device, "variable '",
               variable.name, "' ", variable.spec.shape.to_string(), " lives on ",
               device_text(known.device), " and is made again on ", device_text(variable.device),
               "; make it on one logical device and read it (Graph::read) on the others");
    return found->second;
  }
  const int owner = find(variable.of);
  if (variable.spec.shape.rank() == 0)
    variable.device = kEverywhere;
  else if (variable.device == kEverywhere && owner >= 0)
    variable.device = (*this)[owner].device;
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
