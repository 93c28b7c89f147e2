// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/nn/moe.hpp"
#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// The deck's [model] section of a Transformer.
struct TransformerConfig {
  std::int64_t layers = 2;
  std::int64_t stages = 1;  ///< logical devices, over which the layers are put in blocks
  std::int64_t d_model = 128;
  std::int64_t d_ff = 512;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t d_kv = 0;      ///< 0: d_model / heads
  std::int64_t vocab = 256;
  std::int64_t max_length = 256;
  std::string norm = "layer";         ///< layer, rms
  std::string activation = "gelu";    ///< relu, gelu, gelu_tanh, silu, reglu, geglu, swiglu
  std::string positions = "learned";  ///< learned, sinusoid, rotary, relative, none
  std::int64_t relative_buckets = 32;
  std::int64_t relative_distance = 128;
  std::string attention = "auto";  ///< auto, gather, ring: where length is cut
  std::int64_t window = 0;         ///< 0: attention to all
  bool tied = false;               ///< the output projection is the embedding table
  bool bias = true;
  double dropout = 0;
  double label_smoothing = 0;
  double z_loss = 0;
  double epsilon = 1e-5;
  nn::MoeConfig moe;

  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  std::int64_t head_size() const { return d_kv > 0 ? d_kv : d_model / heads; }
};

/// Decoder-only Transformer language model with norms before each part (Vaswani et al., "Attention
/// Is All You Need"; Radford et al., "Language Models are Unsupervised Multitask Learners").
///
/// Dims: batch, length, d_model, heads, group (queries of one key head, if kv_heads < heads), d_kv,
/// d_ff, vocab, max_length (of the table of positions), buckets (of relative positions); with
/// experts those of nn::moe. With stages the embedding is on the first logical device, the head on
/// the last; a tied table lives on the first, and the last reads it there.
class Transformer : public replicate::Model {
 public:
  Transformer() = default;
  explicit Transformer(const TransformerConfig& config) : config_(config) {}

  void describe(config::Schema& schema) override;
  void validate() const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;
  Tensor logits(Graph& graph, const replicate::Batch& batch) override;
  bool can_cache() const override { return true; }
  std::int64_t vocab() const override { return config_.vocab; }
  std::int64_t max_length() const override { return config_.max_length; }
  std::int64_t logical_devices() const override { return config_.stages; }
  const TransformerConfig& config() const { return config_; }

 private:
  Tensor embed(Graph& graph, const replicate::Batch& batch) const;
  /// What is added to embeddings: [length, d_model], or [d_model] in a decoding step; may be empty.
  Tensor positions(Graph& graph, const replicate::Batch& batch) const;
  /// Losses of experts' gates, to be added to the mean loss, go to `losses`.
  Tensor block(Tensor x, int layer, const replicate::Batch& batch,
               std::vector<Tensor>& losses) const;
  /// Whether a layer's feed-forward part has experts.
  bool has_experts(std::int64_t layer) const {
    return config_.moe.experts > 0 && (layer + 1) % config_.moe.every == 0;
  }
  /// Next-token logits in the activations' dtype.
  Tensor project(Graph& graph, const replicate::Batch& batch, std::vector<Tensor>& losses) const;
  Tensor table(Graph& graph, DType dtype) const;
  Tensor head(Graph& graph, Tensor x, const replicate::Batch& batch) const;

  TransformerConfig config_;
};

}  // namespace tessera::models
