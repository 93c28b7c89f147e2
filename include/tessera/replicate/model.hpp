// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/schema.hpp"
#include "tessera/graph/graph.hpp"
#include "tessera/nn/cache.hpp"
#include "tessera/optim/optim_config.hpp"
#include "tessera/replicate/input.hpp"

namespace tessera::replicate {

/// How a forward pass is used.
enum class Mode { train, eval };

/// One of the updates that an optimizer step consists of: a GAN's discriminator and generator, an
/// actor's critic and policy. Phases run one after the other: each reads what the updates before it
/// left (weights and other state), and changes its own weights by its own optimizer.
struct Phase {
  std::string name;                       ///< "": the only one of its model
  std::vector<std::string> weights{"*"};  ///< patterns (* and ?) of the weights that it trains
  std::int64_t runs = 1;                  ///< times in each step
  bool fresh_batch = true;  ///< each run takes the next batch; else that of the phase before it
  std::function<void(optim::OptimConfig&)> adjust =
      {};  ///< its changes of the deck's [optim]; or none

  /// Name of a section of this phase: "micro", or "generator/micro".
  std::string section(const std::string& part) const {
    return name.empty() ? part : name + "/" + part;
  }
};

/// The rows that one section run sees, as tensors over named dims.
struct Batch {
  std::map<std::string, Tensor> inputs;  ///< by input name: "tokens", "targets", "weights"
  std::int64_t rows = 0;                 ///< of the section: the batch, or one micro-batch
  std::int64_t total_rows = 0;           ///< of the whole step: for random draws' global index
  /// Of a replicated model: inputs have the dim `replica` of this size before `batch`, and rows are
  /// those of one replica.
  std::int64_t replicas = 1;
  Mode mode = Mode::train;
  std::string phase;         ///< whose loss is wanted (Phase::name); "" in Mode::eval
  bool padded = false;       ///< rows of weight 0 may fill it up
  DType dtype = DType::f32;  ///< of activations
  std::uint64_t seed = 0;
  nn::Caching caching;  ///< of a section that decodes

  Tensor operator[](const std::string& name) const;  ///< Error if the model declared no such input
  /// What statistics over rows must heed (nn::BatchNormOptions::row_weights): the input "weights"
  /// where it has one number a row, 0 for those that only fill up the batch; empty where all count.
  Tensor row_weights() const;
};

/// A tensor that the data give in each micro-batch, i32 or f32. Its first dim, "batch", counts
/// rows.
struct InputSpec {
  std::string name;
  TensorSpec spec;
  std::int64_t limit = 0;  ///< integers must stay below it; 0: any
};

/// Adds a number to the lines of training steps and validations: `sum`, a scalar that is, like the
/// loss, a sum over the batch of weight x value, is divided by the sum of weights. Call it in
/// Model::loss; in Mode::train it costs time in each step.
void add_metric(Graph& graph, const std::string& name, Tensor sum);
/// The name under which a section fetches a metric: kMetricPrefix + name.
inline constexpr const char* kMetricPrefix = "metric/";

/// What a model that acts sees and does: numbers of an observation, and of an action, each of which
/// lies in [-1, 1].
struct Spaces {
  std::int64_t observation = 0;
  std::int64_t action = 0;
};

/// A tensor [batch, …] that a model draws, f32 or i32, under the name of the field in the data.
struct DrawnField {
  std::string name;
  Tensor value;
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

  /// Inputs for `rows` rows of `length` tokens: fields of the data by name (src/data/README.md).
  /// Default: tokens and targets i32 [batch, length], weights f32 [batch, length] (0 for padding).
  /// Rows that fill up a batch are zero: "weights" must tell them apart.
  virtual std::vector<InputSpec> inputs(std::int64_t rows, std::int64_t length) const;
  /// The updates of a step, in their order: one of all weights by default. Each trainable weight
  /// belongs to one phase. Called when the keys have been read.
  virtual std::vector<Phase> phases() const { return {Phase{}}; }
  /// Devices that the model places operations on by hand (Graph::Device): its layers in blocks,
  /// say. The mesh dim `stage` has at most as many ranks. Called when the keys have been read.
  virtual std::int64_t logical_devices() const { return 1; }
  /// Adds assignments that end each step, behind all updates (nn::follow): section `finish`, which
  /// exists if there are any.
  virtual void finish(Graph& graph);
  /// True: `loss` is one replica's step, called once for all replicas on inputs that have a further
  /// dim `replica` in front (ReplicaContext); inputs() then are one replica's. See Replicator.
  virtual bool is_replicated() const { return false; }
  /// How many pipelines give the model samples of its own (open_pipeline); none: the deck's
  /// data.source does.
  virtual std::optional<InputMode> input_mode() const { return std::nullopt; }
  virtual std::shared_ptr<const data::Samples> open_pipeline(const InputContext& context) const;
  /// Sum over the batch of weight x loss, a scalar (f32, or f64 in f64): the caller divides it by
  /// the step's global sum of weights.
  virtual Tensor loss(Graph& graph, const Batch& batch) = 0;
  /// Next-token logits f32 [batch, length, vocab] for `sample`; an empty Tensor: cannot sample.
  /// In a decoding step (batch.caching.is_step()) tokens are [batch, (beam)], all at one position,
  /// and so are the logits: [batch, (beam,) vocab].
  virtual Tensor logits(Graph& graph, const Batch& batch);
  /// True if `logits` heeds batch.caching; else each token is drawn by computing the text anew.
  virtual bool can_cache() const { return false; }
  /// Inputs of the section `encode`, for models that write a text about another one (source ids …)
  /// of up to `length` tokens; none: texts are only continued.
  virtual std::vector<InputSpec> source_inputs(std::int64_t rows, std::int64_t length) const;
  /// Section `encode`: keeps (nn::keep) what `logits` of later decoding steps reads of the source.
  virtual void encode(Graph& graph, const Batch& batch);
  /// True for a model that learns from what it lives through in an environment (section [env] of
  /// the deck), not from data. Its inputs are those that train::ReplayFeeder gives.
  virtual bool acts() const { return false; }
  /// Called once, before all that follows, if the model acts.
  virtual void set_spaces(const Spaces& spaces);
  /// Section `act`: actions f32 [environment, action] for the input observation [environment,
  /// observation].
  virtual Tensor act(Graph& graph, const Batch& batch);
  /// Section `draw`: batch.rows new samples out of random numbers, for `sample`; it has no inputs.
  /// batch.total_rows is the number of all that are drawn, the feed "first" that of those before.
  /// Nothing: the model draws no samples.
  virtual std::vector<DrawnField> draw(Graph& graph, const Batch& batch);
  /// Size of the vocabulary that ids must stay below; 0: no token ids.
  virtual std::int64_t vocab() const { return 0; }
  /// Longest sequence the model takes; 0: any.
  virtual std::int64_t max_length() const { return 0; }
};

}  // namespace tessera::replicate
