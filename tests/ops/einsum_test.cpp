// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/einsum.hpp"

#include <map>

#include "support/catch.hpp"
#include "support/op_case.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Sum over all index tuples of the united dims, in plain loops.
std::vector<double> naive(const std::vector<OpInput>& inputs, const Shape& output,
                          const Values& values) {
  Shape joint = output;
  for (const auto& input : inputs) joint = joint.united(input.shape);
  std::vector<double> result(static_cast<std::size_t>(output.size()));
  std::map<std::string, std::int64_t> index;
  const auto offset = [&](const Shape& shape) {
    std::int64_t place = 0;
    for (const auto& dim : shape) place = place * dim.size + index[dim.name];
    return static_cast<std::size_t>(place);
  };
  for (std::int64_t i = 0; i < joint.size(); ++i) {
    std::int64_t rest = i;
    for (int d = joint.rank(); d-- > 0;) {
      index[joint[d].name] = rest % joint[d].size;
      rest /= joint[d].size;
    }
    double product = 1;
    for (const auto& input : inputs) product *= values.at(input.name)[offset(input.shape)];
    result[offset(output)] += product;
  }
  return result;
}

void check_einsum(const std::string& name, const std::vector<Shape>& shapes, const Shape& output) {
  OpCase c;
  c.name = name;
  for (const auto& shape : shapes)
    c.inputs.push_back({"x" + std::to_string(c.inputs.size()), shape});
  c.build = [output](Graph&, const std::vector<Tensor>& in) { return ops::einsum(in, output); };
  c.reference = [inputs = c.inputs, output](const Values& values) {
    return naive(inputs, output, values);
  };
  check_op(c);
}

const Dim n{"n", 5}, k{"k", 4}, m{"m", 3}, b{"b", 2}, p{"p", 3};

}  // namespace

TEST_CASE("matrix products in any orientation") {
  check_einsum("n k, k m -> n m", {{n, k}, {k, m}}, {n, m});
  check_einsum("k n, m k -> m n", {{k, n}, {m, k}}, {m, n});
  check_einsum("n k, k -> n", {{n, k}, {k}}, {n});
  check_einsum("n, m -> n m", {{n}, {m}}, {n, m});
  check_einsum("n, n -> scalar", {{n}, {n}}, Shape{});
}

TEST_CASE("batch dims, dims of one input alone, broadcast dims") {
  check_einsum("b n k, b k m -> b n m", {{b, n, k}, {b, k, m}}, {b, n, m});
  check_einsum("n b k, k b -> b n", {{n, b, k}, {k, b}}, {b, n});
  check_einsum("p n k, k m -> n m", {{p, n, k}, {k, m}}, {n, m});
  check_einsum("n k, k -> n p", {{n, k}, {k}}, {n, p});
  check_einsum("n k -> k", {{n, k}}, {k});
  check_einsum("n k -> p k n", {{n, k}}, {p, k, n});
  check_einsum("b n, b n -> b n", {{b, n}, {b, n}}, {b, n});
}

TEST_CASE("any number of inputs") {
  check_einsum("n k, k m, m p -> n p", {{n, k}, {k, m}, {m, p}}, {n, p});
  check_einsum("n k, k, n, m -> m", {{n, k}, {k}, {n}, {m}}, {m});
}

TEST_CASE("sizes below the number of ranks, and size 0") {
  const Dim one{"k", 1}, none{"n", 0};
  check_einsum("one", {{n, one}, {one, m}}, {n, m});
  check_einsum("none kept", {{none, k}, {k, m}}, {none, m});
  check_einsum("none summed", {{none, k}, {none, m}}, {k, m});
}
