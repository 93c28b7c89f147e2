// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/graph/graph.hpp"

/// Tensors without inputs whose elements are functions of their place in the whole tensor: made
/// where they are needed under every layout, bit-equal on every mesh, without communication.
namespace tessera::ops {

/// Which draws. Each step has its own; equal seeds and names give equal ones.
struct DrawOptions {
  /// The run's seed and the stream's name under the open scopes.
  std::uint64_t seed = 0;
  std::string name = "random";
  /// The dim that micro-batches cut, and its size in the whole step (0: the tensor's); "": none.
  std::string batch_dim = "batch";
  std::int64_t batch_total = 0;
};

/// Uniform between `low` and `high`: 2^24 equally likely values, rounded to the dtype.
Tensor random_uniform(Graph& graph, const TensorSpec& spec, double low, double high,
                      const DrawOptions& options);
/// Normal (Box-Muller), computed in double and rounded to the dtype.
Tensor random_normal(Graph& graph, const TensorSpec& spec, double mean, double deviation,
                     const DrawOptions& options);
/// 1 with a probability in [0, 1] (in steps of 2^-24), else 0.
Tensor random_bernoulli(Graph& graph, const TensorSpec& spec, double probability,
                        const DrawOptions& options);
/// start, start + step, … along a dim.
Tensor range(Graph& graph, const Dim& dim, DType dtype, double start = 0, double step = 1);

}  // namespace tessera::ops
