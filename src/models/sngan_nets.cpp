// SPDX-License-Identifier: BSD-3-Clause
#include "models/sngan_nets.hpp"

#include <cmath>

#include "models/labelled_images.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/text.hpp"
#include "tessera/nn/conv.hpp"
#include "tessera/nn/discriminator.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pool.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/replicate/replica_context.hpp"

namespace tessera::models {
namespace {

// A ReLU halves the second moment: He et al., "Delving Deep into Rectifiers".
const double kGain = std::sqrt(2.0);

Dim features(std::size_t index, std::int64_t size) {
  return {"features_" + std::to_string(index), size};
}

Tensor halve(Tensor x) {
  return ops::average_pool(x, {{"height", 2, 2}, {"width", 2, 2}});
}

/// Rows [batch, rest…] as those of each group whose statistics are its own.
Tensor in_groups(Tensor x, std::int64_t groups) {
  const std::int64_t rows = x.shape()[0].size;
  check_user(rows % groups == 0, "model.norm_groups = ", groups, " does not divide the ", rows,
             " pictures of a micro-batch (data.batch / train.micro_batches); make it a divisor");
  std::vector<Dim> dims{{replicate::ReplicaContext::kReplica, groups},
                        {"replica_batch", rows / groups}};
  dims.insert(dims.end(), x.shape().begin() + 1, x.shape().end());
  return ops::reshape(x, Shape(std::move(dims)));
}

/// A residual generator with what all its layers share.
class Generator {
 public:
  Generator(const SnganConfig& config, Tensor labels, Statistics statistics, Tensor row_weights)
      : config_(config), labels_(labels), statistics_(statistics), row_weights_(row_weights) {}

  Tensor operator()(Tensor latent) const {
    const Graph::Scope scope(latent.graph(), "generator");
    const auto sizes = parse_sizes("model.generator", config_.generator);
    const Dim height{"height", config_.base}, width{"width", config_.base};
    Tensor x = nn::dense(latent, {"latent"}, {height, width, features(0, sizes[0])},
                         {.name = "first", .bias = true});
    std::string channels = features(0, 0).name;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Dim fresh = features(i + 1, sizes[i]);
      x = block(x, "block_" + std::to_string(i), channels, fresh);
      channels = fresh.name;
    }
    x = ops::relu(norm(x, "last_norm", channels, false));
    x = conv(x, "last", channels, {"channels", config_.channels}, 3, 1);
    return ops::tanh(x);
  }

 private:
  Tensor block(Tensor x, const std::string& name, const std::string& channels,
               const Dim& fresh) const {
    const Graph::Region region(x.graph(), name);
    const Graph::Scope scope(x.graph(), name);
    const Dim hidden{"hidden", fresh.size};
    Tensor h = ops::relu(norm(x, "norm_0", channels, true));
    h = conv(nn::upsample(h, kPictureSpace), "conv_0", channels, hidden, 3, kGain);
    h = ops::relu(norm(h, "norm_1", hidden.name, true));
    h = conv(h, "conv_1", hidden.name, fresh, 3, kGain);
    // A convolution of single pixels and upsampling may change places: this is a quarter of it.
    return ops::add(h, nn::upsample(conv(x, "shortcut", channels, fresh, 1, 1), kPictureSpace));
  }

  Tensor norm(Tensor x, const std::string& name, const std::string& channels,
              bool conditional) const {
    nn::BatchNormOptions options{.name = name};
    options.training = statistics_ != Statistics::running;
    options.moving = statistics_ == Statistics::moving;
    options.row_weights = row_weights_;
    if (conditional) options.labels = labels_, options.classes = config_.classes;
    return nn::batch_norm(x, channels, options, {replicate::ReplicaContext::kReplica});
  }

  static Tensor conv(Tensor x, const std::string& name, const std::string& channels,
                     const Dim& fresh, std::int64_t kernel, double gain) {
    return nn::conv(x, kPictureSpace, channels, fresh,
                    {.name = name, .kernel = kernel, .bias = true, .gain = gain});
  }

  const SnganConfig& config_;
  Tensor labels_;
  Statistics statistics_;
  Tensor row_weights_;
};

/// One residual block of the discriminator. The first one begins with the picture itself, of which
/// no ReLU is taken.
Tensor discriminator_block(Tensor x, const std::string& name, const std::string& channels,
                           const Dim& fresh, bool first, bool down, nn::Spectral spectral) {
  const Graph::Region region(x.graph(), name);
  const Graph::Scope scope(x.graph(), name);
  const auto conv = [&](Tensor from, const char* of, const std::string& in, const Dim& to,
                        std::int64_t kernel, double gain) {
    return nn::conv(
        from, kPictureSpace, in, to,
        {.name = of, .kernel = kernel, .bias = true, .gain = gain, .spectral = spectral});
  };
  const Dim in = x.shape()[x.shape().index_of(channels)];
  const Dim hidden{"hidden", first ? fresh.size : in.size};
  Tensor h = conv(first ? x : ops::relu(x), "conv_0", channels, hidden, 3, kGain);
  h = conv(ops::relu(h), "conv_1", hidden.name, fresh, 3, kGain);
  // Means and a convolution of single pixels may change places.
  const Tensor shortcut = conv(down ? halve(x) : x, "shortcut", channels, fresh, 1, 1);
  return ops::add(down ? halve(h) : h, shortcut);
}

}  // namespace

std::vector<std::int64_t> parse_sizes(const std::string& key,
                                      const std::vector<std::string>& list) {
  std::vector<std::int64_t> sizes;
  for (const auto& text : list) {
    std::int64_t size = 0;
    check_user(parse_integer(text, size) && size >= 1, key, ": '", text,
               "' is no number of channels; list integers from 1, e.g. ", key, " = 64,128");
    sizes.push_back(size);
  }
  check_user(!sizes.empty(), key, " is empty; list the channels of one block at least");
  return sizes;
}

Tensor generate(const SnganConfig& config, Tensor latent, Tensor labels, Statistics statistics,
                Tensor row_weights) {
  if (config.norm_groups == 1 || statistics == Statistics::running)
    return Generator(config, labels, statistics, row_weights)(latent);
  const auto grouped = [&](Tensor x) { return x ? in_groups(x, config.norm_groups) : x; };
  const Tensor apart =
      Generator(config, grouped(labels), statistics, grouped(row_weights))(grouped(latent));
  std::vector<Dim> dims{latent.shape()[0]};
  dims.insert(dims.end(), apart.shape().begin() + 2, apart.shape().end());
  return ops::reshape(apart, Shape(std::move(dims)));
}

Tensor discriminate(const SnganConfig& config, Tensor pictures, Tensor labels,
                    nn::Spectral spectral) {
  const Graph::Scope scope(pictures.graph(), "discriminator");
  auto sizes = parse_sizes("model.discriminator", config.discriminator);
  const std::size_t down = sizes.size();
  sizes.resize(down + static_cast<std::size_t>(config.flat_blocks), sizes.back());
  Tensor x = pictures;
  std::string channels = "channels";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Dim fresh = features(i, sizes[i]);
    x = discriminator_block(x, "block_" + std::to_string(i), channels, fresh, i == 0, i < down,
                            spectral);
    channels = fresh.name;
  }
  const Tensor sums = ops::reduce_sum(ops::relu(x), x.shape().without("height").without("width"));
  return nn::projection_score(ops::cast(sums, pictures.dtype()), channels, labels, config.classes,
                              spectral);
}

}  // namespace tessera::models
