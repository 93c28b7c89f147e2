// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/nn/layers.hpp"
#include "tessera/replicate/model.hpp"

namespace tessera::models {

/// The deck's [model] section of an encoder-decoder Transformer.
struct Seq2SeqConfig {
  std::int64_t layers = 2;          ///< of the decoder
  std::int64_t encoder_layers = 0;  ///< 0: layers
  std::int64_t d_model = 128;
  std::int64_t d_ff = 512;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t d_kv = 0;      ///< 0: d_model / heads
  std::int64_t vocab = 256;
  std::int64_t max_length = 256;
  std::string norm = "rms";           ///< layer, rms
  std::string activation = "relu";    ///< as the Transformer's
  std::string positions = "learned";  ///< learned, sinusoid, relative, none
  std::int64_t relative_buckets = 32;
  std::int64_t relative_distance = 128;
  std::string attention = "auto";  ///< auto, gather, ring: where lengths are cut
  std::int64_t window = 0;         ///< of self-attention; 0: attention to all
  bool tied = false;               ///< the output projection is the embedding table
  bool bias = false;
  double dropout = 0;
  double label_smoothing = 0;
  double epsilon = 1e-6;

  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  std::int64_t head_size() const { return d_kv > 0 ? d_kv : d_model / heads; }
  std::int64_t depth_of_encoder() const { return encoder_layers > 0 ? encoder_layers : layers; }
};

/// Encoder-decoder Transformer with norms before each part (Vaswani et al., "Attention Is All You
/// Need"; Shazeer et al., "Mesh-TensorFlow"): source and target share one embedding table. Rows may
/// hold several pairs (data.source = pairs): no part of one sees another.
///
/// Inputs: those of data::PairSamples. Dims: batch, source_length, length, d_model, heads, d_kv,
/// d_ff, vocab, max_length (of the table of positions), group (queries of one key head, if kv_heads
/// < heads), buckets (of relative positions); cached keys run along "memory".
class Seq2Seq : public replicate::Model {
 public:
  Seq2Seq() = default;
  explicit Seq2Seq(const Seq2SeqConfig& config) : config_(config) {}

  void describe(config::Schema& schema) override;
  void validate() const override;
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override;
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;
  /// Logits of the target tokens, given source and the tokens before; empty without a source.
  Tensor logits(Graph& graph, const replicate::Batch& batch) override;
  bool can_cache() const override { return true; }
  std::vector<replicate::InputSpec> source_inputs(std::int64_t rows,
                                                  std::int64_t length) const override;
  void encode(Graph& graph, const replicate::Batch& batch) override;
  std::int64_t vocab() const override { return config_.vocab; }
  std::int64_t max_length() const override { return config_.max_length; }
  const Seq2SeqConfig& config() const { return config_; }

 private:
  struct Side;
  /// What the decoder knows of the source: all of it, [batch, source_length, d_model], or, while
  /// text is decoded, keys and values that `encode` kept, and which of them are tokens.
  struct Read {
    Tensor whole;
    Tensor visible;
  };

  std::vector<replicate::InputSpec> inputs_of(const Side& side, std::int64_t rows,
                                              std::int64_t length) const;
  /// Whether positions are added to embeddings.
  bool has_table() const {
    return config_.positions == "learned" || config_.positions == "sinusoid";
  }
  double gain_of(const Side& side) const;
  Tensor table(Graph& graph, DType dtype) const;
  Tensor normed(Tensor x, const std::string& name) const;
  Tensor positions(Graph& graph, const Side& side, const replicate::Batch& batch) const;
  Tensor embed(Graph& graph, const Side& side, const replicate::Batch& batch) const;
  nn::SelfAttentionOptions self_attention(Graph& graph, const Side& side,
                                          const replicate::Batch& batch) const;
  nn::SelfAttentionOptions attention(const Side& queries, const Side& keys,
                                     const replicate::Batch& batch) const;
  /// x + attention to the source or, if none is given, to x itself.
  Tensor attend(Tensor x, const Read& memory, const Side& queries, const std::string& name,
                const replicate::Batch& batch) const;
  Tensor feed_forward(Tensor x, const Side& side, const replicate::Batch& batch) const;
  /// [batch, source_length, d_model] of inputs source, source_segments and source_positions.
  Tensor encoder(Graph& graph, const replicate::Batch& batch) const;
  /// Logits [batch, length, vocab] of inputs tokens, segments and positions.
  Tensor decoder(Graph& graph, const Read& memory, const replicate::Batch& batch) const;

  Seq2SeqConfig config_;
};

}  // namespace tessera::models
