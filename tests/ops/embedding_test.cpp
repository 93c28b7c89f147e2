// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/embedding.hpp"

#include "support/catch.hpp"
#include "support/op_case.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("rows of a table, whole or cut along vocabulary, width or ids") {
  const Shape table{{"vocab", 7}, {"d_model", 4}};
  OpCase c;
  c.name = "embedding";
  c.inputs = {{"table", table}, {"ids", {{"batch", 3}, {"length", 5}}, OpInput::Fill::ids, 7}};
  c.build = [](Graph&, const std::vector<Tensor>& in) { return ops::embedding(in[0], in[1]); };
  c.reference = [=](const Values& values) {
    std::vector<double> y;
    for (double id : values.at("ids"))
      for (int d = 0; d < 4; ++d)
        y.push_back(values.at("table")[at(table, {static_cast<std::int64_t>(id), d})]);
    return y;
  };
  check_op(c);
}
