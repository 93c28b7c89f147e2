// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/replicate/model.hpp"

namespace tessera::test {

/// A model without keys whose samples are single numbers "x".
class NumbersModel : public replicate::Model {
 public:
  void describe(config::Schema&) override {}
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t) const override {
    const Shape batch{{"batch", rows}};
    return {{"x", {batch, DType::f32}}, {"weights", {batch, DType::f32}}};
  }

 protected:
  /// The model's only weight, a scalar.
  static Tensor weight(Graph& graph, const std::string& name, double value) {
    Variable variable;
    variable.name = name;
    variable.spec.dtype = DType::f64;
    variable.initializer = Initializer::constant(value);
    return graph.variable(variable);
  }
};

}  // namespace tessera::test
