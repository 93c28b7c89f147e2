// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/shape/shape.hpp"

namespace tessera::ops {

/// Small integers for the dims of several operands: equal names, equal labels (kernels `einsum` and
/// `reduce`).
class Labels {
 public:
  explicit Labels(const std::vector<const Shape*>& operands) {
    for (const Shape* shape : operands) {
      std::vector<std::int64_t> labels;
      for (const auto& dim : *shape) labels.push_back(label_of(dim.name));
      labels_.push_back(std::move(labels));
    }
  }
  const std::vector<std::int64_t>& operator[](std::size_t operand) const {
    return labels_[operand];
  }

 private:
  std::int64_t label_of(const std::string& name) {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return static_cast<std::int64_t>(i);
    names_.push_back(name);
    return static_cast<std::int64_t>(names_.size()) - 1;
  }
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> labels_;
};

}  // namespace tessera::ops
