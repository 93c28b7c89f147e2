// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/seq2seq.hpp"

#include <cmath>

#include "models/block_keys.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/cache.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/positions.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"

namespace tessera::models {

/// Names of one side's inputs; `causal`: a token sees those before it.
struct Seq2Seq::Side {
  std::string length, tokens, segments, positions;
  bool causal;

  static Side source() {
    return {"source_length", "source", "source_segments", "source_positions", false};
  }
  static Side target() { return {"length", "tokens", "segments", "positions", true}; }
};

namespace {

/// Of learned positions, beside embeddings that are scaled to a deviation of 1.
constexpr double kPositionDeviation = 0.5;

/// What the section `encode` keeps to tell source tokens from what is behind them.
constexpr const char* kVisible = "source_visible";

double rate_of(const replicate::Batch& batch, double dropout) {
  return batch.mode == replicate::Mode::train ? dropout : 0;
}

}  // namespace

void Seq2Seq::describe(config::Schema& schema) {
  Seq2SeqConfig& c = config_;
  describe_blocks(schema, c, {"learned", "sinusoid", "relative", "none"});
  schema.add("model.layers", c.layers, "blocks of the decoder").range(1, 100000);
  schema.add("model.encoder_layers", c.encoder_layers, "blocks of the encoder; 0: model.layers")
      .range(0, 100000);
  schema.add("model.vocab", c.vocab, "size of the vocabulary of source and target")
      .range(2, 2147483647.0);
}

void Seq2Seq::validate() const {
  validate_blocks(config_);
}

std::vector<replicate::InputSpec> Seq2Seq::inputs_of(const Side& side, std::int64_t rows,
                                                     std::int64_t length) const {
  const TensorSpec spec{Shape{{"batch", rows}, {side.length, length}}, DType::i32};
  std::vector<replicate::InputSpec> inputs{{side.tokens, spec, config_.vocab},
                                           {side.segments, spec}};
  if (has_table()) inputs.push_back({side.positions, spec});
  return inputs;
}

std::vector<replicate::InputSpec> Seq2Seq::inputs(std::int64_t rows, std::int64_t length) const {
  std::vector<replicate::InputSpec> inputs = inputs_of(Side::source(), rows, length);
  for (auto& input : inputs_of(Side::target(), rows, length)) inputs.push_back(std::move(input));
  const Shape shape{{"batch", rows}, {"length", length}};
  inputs.push_back({"targets", {shape, DType::i32}, config_.vocab});
  inputs.push_back({"weights", {shape, DType::f32}});
  return inputs;
}

Tensor Seq2Seq::table(Graph& graph, DType dtype) const {
  return nn::weight(graph, "embedding", {{"vocab", config_.vocab}, {"d_model", config_.d_model}},
                    dtype,
                    Initializer::normal(1 / std::sqrt(static_cast<double>(config_.d_model))));
}

Tensor Seq2Seq::normed(Tensor x, const std::string& name) const {
  return nn::norm(x, "d_model", config_.norm == "rms" ? nn::Norm::rms : nn::Norm::layer,
                  config_.bias, config_.epsilon, name);
}

Tensor Seq2Seq::positions(Graph& graph, const Side& side, const replicate::Batch& batch) const {
  const Shape shape{{"max_length", config_.max_length}, {"d_model", config_.d_model}};
  const DType wide = nn::weight_dtype(batch.dtype);
  const bool is_step = batch.caching.is_step();
  if (is_step && config_.positions == "sinusoid")
    return ops::sinusoid_at(graph, {shape.without("max_length"), wide}, nn::kPositionFeed);
  const Tensor table = config_.positions == "learned"
                           ? nn::weight(graph, "positions", shape, batch.dtype,
                                        Initializer::normal(kPositionDeviation))
                           : ops::sinusoid(graph, {shape, wide});
  return is_step ? ops::select(table, "max_length", nn::kPositionFeed)
                 : ops::embedding(table, batch[side.positions]);
}

Tensor Seq2Seq::embed(Graph& graph, const Side& side, const replicate::Batch& batch) const {
  // The table is one, the positions are each side's own.
  Tensor x = ops::embedding(table(graph, batch.dtype), batch[side.tokens]);
  const double scale = std::sqrt(static_cast<double>(config_.d_model));
  const Graph::Scope scope(graph, side.causal ? "decoder" : "encoder");
  std::vector<Tensor> terms{x};
  if (has_table()) terms.push_back(positions(graph, side, batch));
  x = ops::pointwise1(terms,
                      [&](std::span<const ops::Value> in) {
                        const ops::Value word = scale * in[0];
                        return in.size() == 2 ? word + in[1] : word;
                      },
                      {.shape = x.shape(), .dtypes = {batch.dtype}, .name = "embedded"});
  return ops::dropout(x, {.rate = rate_of(batch, config_.dropout),
                          .seed = batch.seed,
                          .name = "embedding_dropout",
                          .batch_total = batch.total_rows});
}

nn::SelfAttentionOptions Seq2Seq::attention(const Side& queries, const Side& keys,
                                            const replicate::Batch& batch) const {
  nn::SelfAttentionOptions options{.heads = config_.key_heads(),
                                   .group = config_.heads / config_.key_heads(),
                                   .d_kv = config_.head_size(),
                                   .bias = config_.bias,
                                   .dropout = rate_of(batch, config_.dropout),
                                   .seed = batch.seed,
                                   .total_rows = batch.total_rows,
                                   .output_gain = gain_of(queries),
                                   .causal = keys.causal,
                                   .keys = config_.attention,
                                   // Nothing looks at the encoder's own keys again.
                                   .caching = queries.causal ? batch.caching : nn::Caching{}};
  if (batch.caching.is_step()) return options;
  options.query_segments = batch[queries.segments];
  options.key_segments = batch[keys.segments];
  return options;
}

nn::SelfAttentionOptions Seq2Seq::self_attention(Graph& graph, const Side& side,
                                                 const replicate::Batch& batch) const {
  nn::SelfAttentionOptions options = attention(side, side, batch);
  options.window = config_.window;
  options.max_distance = config_.relative_distance;
  if (config_.positions == "relative")
    options.relative_bias =
        nn::relative_bias(graph, options, config_.relative_buckets, batch.dtype);
  return options;
}

Tensor Seq2Seq::attend(Tensor x, const Read& memory, const Side& queries, const std::string& name,
                       const replicate::Batch& batch) const {
  const Side source = Side::source();
  const Tensor before = normed(x, name + "_norm");
  nn::Branch branch;
  {
    const Graph::Scope scope(x.graph(), name);
    if (memory.visible)
      branch = nn::attention_to_kept(before, source.length, memory.visible, "d_model",
                                     attention(queries, source, batch));
    else if (memory.whole)
      branch =
          nn::cross_attention(before, memory.whole, "d_model", attention(queries, source, batch));
    else
      branch = nn::self_attention(before, "d_model", self_attention(x.graph(), queries, batch));
  }
  return nn::residual(x, branch,
                      {.dropout = rate_of(batch, config_.dropout),
                       .seed = batch.seed,
                       .name = name + "_output_dropout",
                       .total_rows = batch.total_rows});
}

Tensor Seq2Seq::feed_forward(Tensor x, const Side& side, const replicate::Batch& batch) const {
  const auto kind = feed_forward_kind(config_.activation);
  const Tensor before = normed(x, "ffn_norm");
  nn::Branch branch;
  {
    const Graph::Scope scope(x.graph(), "ffn");
    branch = nn::feed_forward(before, "d_model", {"d_ff", config_.d_ff},
                              {.activation = kind.activation,
                               .gated = kind.gated,
                               .bias = config_.bias,
                               .output_gain = gain_of(side)});
  }
  return nn::residual(x, branch,
                      {.dropout = rate_of(batch, config_.dropout),
                       .seed = batch.seed,
                       .name = "ffn_output_dropout",
                       .total_rows = batch.total_rows});
}

/// The parts that are added to a stream shall together not outgrow it.
double Seq2Seq::gain_of(const Side& side) const {
  const std::int64_t parts = side.causal ? 3 * config_.layers : 2 * config_.depth_of_encoder();
  return 1 / std::sqrt(static_cast<double>(parts));
}

Tensor Seq2Seq::encoder(Graph& graph, const replicate::Batch& batch) const {
  const Side side = Side::source();
  Tensor x = embed(graph, side, batch);
  const Graph::Scope scope(graph, "encoder");
  for (std::int64_t layer = 0; layer < config_.depth_of_encoder(); ++layer) {
    const std::string name = "layer_" + std::to_string(layer);
    const Graph::Region region(graph, name);
    const Graph::Scope block(graph, name);
    x = attend(x, {}, side, "self_attention", batch);
    x = feed_forward(x, side, batch);
  }
  return normed(x, "final_norm");
}

Tensor Seq2Seq::decoder(Graph& graph, const Read& memory, const replicate::Batch& batch) const {
  const Side target = Side::target();
  Tensor x = embed(graph, target, batch);
  {
    const Graph::Scope scope(graph, "decoder");
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string name = "layer_" + std::to_string(layer);
      const Graph::Region region(graph, name);
      const Graph::Scope block(graph, name);
      x = attend(x, {}, target, "self_attention", batch);
      x = attend(x, memory, target, "cross_attention", batch);
      x = feed_forward(x, target, batch);
    }
    x = normed(x, "final_norm");
  }
  const Dim width{"d_model", config_.d_model}, vocab{"vocab", config_.vocab};
  const Tensor w = config_.tied ? table(graph, batch.dtype)
                                : nn::weight(graph, "output", {width, vocab}, batch.dtype,
                                             nn::fan_in_normal({width}));
  std::vector<Dim> dims = x.shape().without("d_model").dims();
  dims.push_back(vocab);
  return ops::einsum({x, ops::cast(w, batch.dtype)}, Shape(dims));
}

Tensor Seq2Seq::loss(Graph& graph, const replicate::Batch& batch) {
  const Tensor entropy = ops::softmax_cross_entropy(
      decoder(graph, {encoder(graph, batch), {}}, batch), batch["targets"],
      // Validation measures the plain cross-entropy.
      {.smoothing = batch.mode == replicate::Mode::train ? config_.label_smoothing : 0});
  return nn::weighted_sum(entropy, batch["weights"]);
}

Tensor Seq2Seq::logits(Graph& graph, const replicate::Batch& batch) {
  Read memory;
  if (batch.caching.is_step())
    memory.visible = nn::kept(graph, kVisible);
  else if (batch.inputs.contains("source"))
    memory.whole = encoder(graph, batch);
  else
    return {};
  return ops::cast(decoder(graph, memory, batch), nn::weight_dtype(batch.dtype));
}

std::vector<replicate::InputSpec> Seq2Seq::source_inputs(std::int64_t rows,
                                                         std::int64_t length) const {
  return inputs_of(Side::source(), rows, length);
}

void Seq2Seq::encode(Graph& graph, const replicate::Batch& batch) {
  const Tensor memory = encoder(graph, batch);
  const Tensor segments = batch[Side::source().segments];
  nn::keep(kVisible, ops::cast(ops::minimum(segments, ops::fill(graph, 1, segments.spec())),
                               nn::weight_dtype(batch.dtype)));
  const Graph::Scope scope(graph, "decoder");
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const Graph::Scope block(graph, "layer_" + std::to_string(layer));
    const Graph::Scope part(graph, "cross_attention");
    nn::keep_memory(
        memory, "d_model",
        {.heads = config_.key_heads(), .d_kv = config_.head_size(), .bias = config_.bias});
  }
}

}  // namespace tessera::models
