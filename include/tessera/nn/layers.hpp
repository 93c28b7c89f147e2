// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/nn/cache.hpp"
#include "tessera/nn/spectral_norm.hpp"
#include "tessera/ops/pointwise.hpp"

namespace tessera::nn {

enum class Activation { none, relu, gelu, gelu_tanh, silu };

/// The activation of a value under construction.
ops::Value activate(ops::Value x, Activation activation);

struct DenseOptions {
  /// Variables: `name` [summed dims…, new dims…] and `name`_bias [new dims…].
  std::string name = "dense";
  bool bias = false;
  Activation activation = Activation::none;
  double gain = 1;  ///< see fan_in_normal
  /// Dims of x that weight and bias have first and the result keeps: one projection for each.
  std::vector<std::string> experts = {};
  Spectral spectral = Spectral::none;  ///< of W, with all new dims as its result
};

/// activation(x W + b): sums over the dims `summed` of x (which W has, too) and gives `fresh` new
/// ones. Result: x's other dims, then the new ones. Bias and activation are one operation.
Tensor dense(Tensor x, const std::vector<std::string>& summed, const std::vector<Dim>& fresh,
             const DenseOptions& options);

enum class Norm { layer, rms };

/// Norm over one dim with a scale, and a bias if wanted (layer norm only): variables
/// `name`/scale, `name`/bias.
Tensor norm(Tensor x, const std::string& axis, Norm kind, bool bias, double epsilon,
            const std::string& name);

struct FeedForwardOptions {
  Activation activation = Activation::gelu;
  /// activation(x W_gate) x (x W_up): Shazeer, "GLU Variants Improve Transformer".
  bool gated = false;
  bool bias = false;
  double output_gain = 1;
  std::vector<std::string> experts = {};  ///< see DenseOptions
};

/// x W_up through the activation, then W_down: variables up, (gate,) down under the open scopes.
/// The result lacks the last bias, which is returned apart (empty without biases) so that the
/// caller adds it together with the residual.
struct Branch {
  Tensor value;
  Tensor bias;
};
Branch feed_forward(Tensor x, const std::string& axis, const Dim& hidden,
                    const FeedForwardOptions& options);

struct SelfAttentionOptions {
  std::int64_t heads = 1;  ///< key and value heads
  std::int64_t group = 1;  ///< query heads for each of them
  std::int64_t d_kv = 64;
  bool bias = false;
  bool rotary = false;
  double dropout = 0;
  std::uint64_t seed = 0;
  std::int64_t total_rows = 0;  ///< batch rows of the step
  double output_gain = 1;
  bool causal = true;
  // See ops::AttentionOptions.
  std::int64_t window = 0;
  Tensor query_segments{};
  Tensor key_segments{};
  Tensor relative_bias{};
  std::int64_t max_distance = 128;
  std::string keys = "auto";
  Caching caching{};
};

/// A weight [heads, (group,) buckets] for AttentionOptions::relative_bias, zero at first; heads and
/// group as in the options of the attention that uses it.
Tensor relative_bias(Graph& graph, const SelfAttentionOptions& options, std::int64_t buckets,
                     DType dtype);

/// Self-attention of x [batch, length, axis]: variables query, key, value, output (and
/// biases) under the open scopes. Dims heads, group (if > 1) and d_kv. When decoding, x is
/// [batch, (beam,) axis], and keys and values are kept as key_cache and value_cache along "memory".
Branch self_attention(Tensor x, const std::string& axis, const SelfAttentionOptions& options);
/// The same with keys and values of `memory` [batch, its length, axis], a dim with another name.
Branch cross_attention(Tensor x, Tensor memory, const std::string& axis,
                       const SelfAttentionOptions& options);
/// For decoding: keeps the keys and values of `memory` as key_cache and value_cache, ...
void keep_memory(Tensor memory, const std::string& axis, const SelfAttentionOptions& options);
/// ... and the attention of x [batch, (beam,) axis] to what was kept along the dim `along`, where
/// `visible` [batch, along] is not 0.
Branch attention_to_kept(Tensor x, const std::string& along, Tensor visible,
                         const std::string& axis, const SelfAttentionOptions& options);

/// x + dropout(branch.value + branch.bias).
struct ResidualOptions {
  double dropout = 0;
  std::uint64_t seed = 0;
  std::string name = "residual_dropout";
  std::int64_t total_rows = 0;
};
Tensor residual(Tensor x, const Branch& branch, const ResidualOptions& options);

/// Sum over all rows of weights x loss, a scalar in f32 (f64 for f64): the caller divides once by
/// the step's sum of weights.
Tensor weighted_sum(Tensor loss, Tensor weights);

}  // namespace tessera::nn
