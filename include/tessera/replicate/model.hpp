// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/config/schema.hpp"
#include "tessera/graph/graph.hpp"

namespace tessera::replicate {

/// How a forward pass is used.
enum class Mode { train, eval };

/// The rows that one section run sees, as tensors over named dims.
struct Batch {
  std::map<std::string, Tensor> inputs;  ///< by input name: "tokens", "targets", "weights"
  std::int64_t rows = 0;                 ///< of the section: the batch, or one micro-batch
  std::int64_t total_rows = 0;           ///< of the whole step: for random draws' global index
  Mode mode = Mode::train;
  DType dtype = DType::f32;  ///< of activations
  std::uint64_t seed = 0;

  Tensor operator[](const std::string& name) const;  ///< Error if the model declared no such input
};

/// A tensor that the data gives in each micro-batch. The dim "batch" counts rows.
struct InputSpec {
  std::string name;
  TensorSpec spec;
};

/// What a model tells Tessera: its deck keys, its inputs and its loss. It never mentions ranks,
/// layouts or MPI. A user's own model derives from it (tessera::App::add_model).
class Model {
 public:
  virtual ~Model() = default;

  /// Registers the model's own deck keys ("model.layers") with the fields that receive them.
  virtual void describe(config::Schema& schema) = 0;
  /// Checks the parsed keys; UserError that names the key.
  virtual void validate() const {}

  /// Inputs for `rows` rows of `length` tokens. Default: tokens and targets i32 [batch, length],
  /// weights f32 [batch, length] (0 for padding).
  virtual std::vector<InputSpec> inputs(std::int64_t rows, std::int64_t length) const;
  /// Sum over the batch of weight x loss, a scalar (f32, or f64 in f64): the caller divides it by
  /// the step's global sum of weights.
  virtual Tensor loss(Graph& graph, const Batch& batch) = 0;
  /// Next-token logits f32 [batch, length, vocab] for `sample`; an empty Tensor: cannot sample.
  virtual Tensor logits(Graph& graph, const Batch& batch);
  /// Size of the vocabulary that ids must stay below; 0: no token ids.
  virtual std::int64_t vocab() const { return 0; }
  /// Longest sequence the model takes; 0: any.
  virtual std::int64_t max_length() const { return 0; }
};

}  // namespace tessera::replicate
