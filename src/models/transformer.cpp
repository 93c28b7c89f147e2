// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "models/block_keys.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/positions.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"

namespace tessera::models {
namespace {

/// Standard deviation of embeddings and of the output projection (GPT-2's).
constexpr double kEmbeddingDeviation = 0.02;

}  // namespace

void Transformer::describe(config::Schema& schema) {
  TransformerConfig& c = config_;
  describe_blocks(schema, c, {"learned", "sinusoid", "rotary", "relative", "none"});
  schema.add("model.layers", c.layers, "number of blocks").range(0, 100000);
  schema
      .add("model.stages", c.stages,
           "Logical devices on which the layers lie in blocks, for a pipeline over the mesh dim "
           "stage, which has at most as many ranks")
      .range(1, 100000);
  schema.add("model.vocab", c.vocab, "size of the vocabulary").range(1, 2147483647.0);
  schema.add("model.z_loss", c.z_loss, "factor of the squared log-sum-exp in the loss")
      .range(0, 1000);
  nn::describe(schema, c.moe);
}

void Transformer::validate() const {
  const TransformerConfig& c = config_;
  validate_blocks(c);
  check_user(c.positions != "rotary" || c.head_size() % 2 == 0,
             "model.positions = rotary turns pairs, but the heads have the odd size ",
             c.head_size(), "; set model.d_kv to an even number");
  check_user(c.stages <= std::max<std::int64_t>(c.layers, 1), "model.stages = ", c.stages,
             " is more than model.layers = ", c.layers,
             ": each stage needs a layer at least; lower the one or raise the other");
  nn::validate(c.moe);
}

Tensor Transformer::table(Graph& graph, DType dtype) const {
  return nn::weight(graph, "embedding", {{"vocab", config_.vocab}, {"d_model", config_.d_model}},
                    dtype, Initializer::normal(kEmbeddingDeviation));
}

Tensor Transformer::positions(Graph& graph, const replicate::Batch& batch) const {
  const Dim width{"d_model", config_.d_model};
  const bool is_step = batch.caching.is_step();
  if (config_.positions == "learned") {
    const Tensor table = nn::weight(graph, "positions", {{"max_length", config_.max_length}, width},
                                    batch.dtype, Initializer::normal(kEmbeddingDeviation));
    if (is_step) return ops::select(table, "max_length", nn::kPositionFeed);
    const std::int64_t length = batch["tokens"].shape().size_of("length");
    return ops::rename(
        length < config_.max_length ? ops::slice(table, "max_length", 0, length) : table,
        "max_length", "length");
  }
  if (config_.positions == "sinusoid") {
    const DType dtype = nn::weight_dtype(batch.dtype);
    if (is_step) return ops::sinusoid_at(graph, {Shape{width}, dtype}, nn::kPositionFeed);
    const Dim length{"length", batch["tokens"].shape().size_of("length")};
    return ops::sinusoid(graph, {Shape{length, width}, dtype});
  }
  return {};
}

Tensor Transformer::embed(Graph& graph, const replicate::Batch& batch) const {
  Tensor x = ops::embedding(table(graph, batch.dtype), batch["tokens"]);
  if (const Tensor added = positions(graph, batch))
    x = ops::pointwise1({x, added}, [](std::span<const ops::Value> in) { return in[0] + in[1]; },
                        {.shape = x.shape(), .dtypes = {batch.dtype}, .name = "embedded"});
  const double rate = batch.mode == replicate::Mode::train ? config_.dropout : 0;
  return ops::dropout(ops::cast(x, batch.dtype), {.rate = rate,
                                                  .seed = batch.seed,
                                                  .name = "embedding_dropout",
                                                  .batch_total = batch.total_rows});
}

Tensor Transformer::block(Tensor x, int layer, const replicate::Batch& batch,
                          std::vector<Tensor>& losses) const {
  const TransformerConfig& c = config_;
  Graph& graph = x.graph();
  const Graph::Region region(graph, "layer_" + std::to_string(layer));
  const Graph::Scope scope(graph, "layer_" + std::to_string(layer));
  const double rate = batch.mode == replicate::Mode::train ? c.dropout : 0;
  const nn::Norm kind = c.norm == "rms" ? nn::Norm::rms : nn::Norm::layer;
  // Each block adds two parts to the stream: together they shall not outgrow it.
  const double gain = 1 / std::sqrt(2.0 * static_cast<double>(c.layers));
  nn::ResidualOptions residual{.dropout = rate,
                               .seed = batch.seed,
                               .name = "attention_output_dropout",
                               .total_rows = batch.total_rows};
  const Tensor before = nn::norm(x, "d_model", kind, c.bias, c.epsilon, "attention_norm");
  nn::Branch branch;
  {
    const Graph::Scope part(graph, "attention");
    nn::SelfAttentionOptions options{.heads = c.key_heads(),
                                     .group = c.heads / c.key_heads(),
                                     .d_kv = c.head_size(),
                                     .bias = c.bias,
                                     .rotary = c.positions == "rotary",
                                     .dropout = rate,
                                     .seed = batch.seed,
                                     .total_rows = batch.total_rows,
                                     .output_gain = gain,
                                     .window = c.window,
                                     .max_distance = c.relative_distance,
                                     .keys = c.attention,
                                     .caching = batch.caching};
    if (c.positions == "relative")
      options.relative_bias = nn::relative_bias(graph, options, c.relative_buckets, batch.dtype);
    branch = nn::self_attention(before, "d_model", options);
  }
  x = nn::residual(x, branch, residual);
  const Tensor middle = nn::norm(x, "d_model", kind, c.bias, c.epsilon, "ffn_norm");
  const auto form = feed_forward_kind(c.activation);
  {
    const Graph::Scope part(graph, "ffn");
    const nn::FeedForwardOptions feed_forward{
        .activation = form.activation, .gated = form.gated, .bias = c.bias, .output_gain = gain};
    if (has_experts(layer)) {
      const Dim hidden{"d_ff", c.moe.d_ff > 0 ? c.moe.d_ff : c.d_ff};
      Tensor known;  // what stands behind a prompt while it is read
      if (batch.caching.phase == nn::Caching::Phase::fill)
        known = nn::visible_so_far(graph, middle.shape()[middle.shape().index_of("length")],
                                   nn::weight_dtype(batch.dtype), nn::kLastFeed);
      const auto experts = nn::moe(middle, "d_model", hidden, c.moe,
                                   {.feed_forward = feed_forward,
                                    .train = batch.mode == replicate::Mode::train,
                                    .is_step = batch.caching.is_step(),
                                    .known = known,
                                    .seed = batch.seed,
                                    .total_rows = batch.total_rows});
      branch = {experts.value, {}};
      if (experts.loss) losses.push_back(experts.loss);
    } else {
      branch = nn::feed_forward(middle, "d_model", {"d_ff", c.d_ff}, feed_forward);
    }
  }
  residual.name = "ffn_output_dropout";
  return nn::residual(x, branch, residual);
}

Tensor Transformer::project(Graph& graph, const replicate::Batch& batch,
                            std::vector<Tensor>& losses) const {
  const TransformerConfig& c = config_;
  Tensor x;
  {
    const Graph::Device first(graph, 0);
    x = embed(graph, batch);
  }
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    // Blocks of layers as tiles are blocks of indices.
    const Graph::Device device(graph, ((layer + 1) * c.stages - 1) / c.layers);
    x = block(x, static_cast<int>(layer), batch, losses);
  }
  const Graph::Device last(graph, c.stages - 1);
  return head(graph, x, batch);
}

Tensor Transformer::head(Graph& graph, Tensor x, const replicate::Batch& batch) const {
  const TransformerConfig& c = config_;
  x = nn::norm(x, "d_model", c.norm == "rms" ? nn::Norm::rms : nn::Norm::layer, c.bias, c.epsilon,
               "final_norm");
  const Dim width{"d_model", c.d_model}, vocab{"vocab", c.vocab};
  Tensor w;
  if (c.tied) {
    const Graph::Device first(graph, 0);
    w = table(graph, batch.dtype);
  } else {
    w = nn::weight(graph, "output", {width, vocab}, batch.dtype,
                   Initializer::normal(kEmbeddingDeviation));
  }
  std::vector<Dim> dims = x.shape().without("d_model").dims();
  dims.push_back(vocab);
  return ops::einsum({x, ops::cast(w, batch.dtype)}, Shape(dims));
}

Tensor Transformer::loss(Graph& graph, const replicate::Batch& batch) {
  std::vector<Tensor> losses;
  const Tensor entropy = ops::softmax_cross_entropy(
      project(graph, batch, losses), batch["targets"],
      // Validation measures the plain cross-entropy.
      batch.mode == replicate::Mode::train
          ? ops::CrossEntropyOptions{.smoothing = config_.label_smoothing, .z_loss = config_.z_loss}
          : ops::CrossEntropyOptions{});
  const Tensor sum = nn::weighted_sum(entropy, batch["weights"]);
  if (losses.empty()) return sum;
  // Layers of several devices give losses: each adds its part of a sum that nobody waits for.
  const Graph::Device everywhere(graph, kEverywhere);
  // Times the weights' sum, by which the caller divides.
  const Tensor gates = ops::multiply(
      ops::add_n(losses), ops::cast(ops::reduce_sum(batch["weights"], Shape{}), sum.dtype()));
  return ops::add(sum, ops::cast(gates, sum.dtype()));
}

Tensor Transformer::logits(Graph& graph, const replicate::Batch& batch) {
  std::vector<Tensor> losses;
  return ops::cast(project(graph, batch, losses), nn::weight_dtype(batch.dtype));
}

}  // namespace tessera::models
