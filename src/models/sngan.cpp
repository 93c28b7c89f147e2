// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/sngan.hpp"

#include "models/labelled_images.hpp"
#include "models/sngan_nets.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/discriminator.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::models {
namespace {

constexpr const char* kDiscriminator = "discriminator";
constexpr const char* kGenerator = "generator";

void describe_optim(config::Schema& schema, const std::string& net, SnganOptimConfig& config) {
  const std::string prefix = "model." + net + "_";
  schema.add(prefix + "lr", config.lr, "learning rate of the " + net + ", in place of optim.lr")
      .range(0, 1e18);
  schema.add(prefix + "beta1", config.beta1, "optim.beta1 of the " + net).range(0, 0.9999999);
  schema.add(prefix + "beta2", config.beta2, "optim.beta2 of the " + net).range(0, 0.9999999);
}

replicate::Phase phase_of(const std::string& net, const SnganOptimConfig& config) {
  replicate::Phase phase;
  phase.name = net;
  phase.weights = {net + "/*"};
  phase.adjust = [config](optim::OptimConfig& optim) {
    optim.lr = config.lr;
    optim.beta1 = config.beta1;
    optim.beta2 = config.beta2;
  };
  return phase;
}

/// What generated pictures are made of. Streams of random numbers have the name of the section's
/// phase, so that the nets' updates of one number do not draw alike.
struct Origin {
  Tensor latent;  ///< [batch, latent]
  Tensor labels;  ///< i32 [batch]
};

Tensor draw_latent(Graph& graph, const SnganConfig& config, const replicate::Batch& batch) {
  const TensorSpec spec{{{"batch", batch.rows}, {"latent", config.latent}}, DType::f32};
  return ops::cast(
      ops::random_normal(
          graph, spec, 0, 1,
          {.seed = batch.seed, .name = batch.phase + "_latent", .batch_total = batch.total_rows}),
      batch.dtype);
}

Origin draw_origin(Graph& graph, const SnganConfig& config, const replicate::Batch& batch) {
  const auto classes = static_cast<double>(config.classes);
  const Tensor uniform = ops::random_uniform(
      graph, {{{"batch", batch.rows}}, DType::f32}, 0, classes,
      {.seed = batch.seed, .name = batch.phase + "_label", .batch_total = batch.total_rows});
  const Tensor labels =
      ops::pointwise1({uniform},
                      [&](std::span<const ops::Value> in) {
                        // Rounding may reach the end of the range.
                        return in[0]
                            .apply(ops::PointOp::floor)
                            .apply(ops::PointOp::minimum, in[0].constant(classes - 1));
                      },
                      {.shape = uniform.shape(), .dtypes = {DType::i32}, .name = "label"});
  return {draw_latent(graph, config, batch), labels};
}

Tensor part_of(Tensor stacked, std::int64_t index) {
  return ops::reduce_sum(ops::slice(stacked, "origin", index, 1),
                         stacked.shape().without("origin"));
}

}  // namespace

std::int64_t SnganConfig::side() const {
  return base << generator.size();
}

void Sngan::describe(config::Schema& schema) {
  const double most = 1e9;
  schema
      .add("model.base", config_.base,
           "rows and columns that generated pictures begin with; each of the generator's blocks "
           "doubles them")
      .range(1, most);
  schema.add("model.channels", config_.channels, "numbers for each pixel, 0 to 1").range(1, most);
  schema.add("model.classes", config_.classes, "classes of pictures").range(1, 1 << 24);
  schema.add("model.latent", config_.latent, "random numbers that a picture is made of")
      .range(1, most);
  schema.add("model.generator", config_.generator,
             "channels behind each block of the generator, e.g. 256,256,256 for 32 x 32");
  schema.add("model.discriminator", config_.discriminator,
             "channels behind each block of the discriminator that halves the picture");
  schema
      .add("model.flat_blocks", config_.flat_blocks,
           "blocks of the discriminator behind these that keep size and channels")
      .range(0, 64);
  schema
      .add("model.discriminator_steps", config_.discriminator_steps,
           "updates of the discriminator in each step, before the generator's")
      .range(1, 1000);
  schema
      .add("model.gradient_penalty", config_.gradient_penalty,
           "factor of (|slope of the score| - 1)^2 at random points between real and generated "
           "pictures in the discriminator's loss (WGAN-GP has 10); 0: none")
      .range(0, 1e6);
  schema
      .add("model.norm_groups", config_.norm_groups,
           "the generator's batch norm has statistics of each of so many equal parts of the "
           "(micro-)batch: 1: of all of it; as many as data-parallel ranks: per replica; between: "
           "groups of replicas. Then generated pictures have a dim replica that a layout may cut")
      .range(1, most);
  describe_optim(schema, kDiscriminator, config_.discriminator_optim);
  describe_optim(schema, kGenerator, config_.generator_optim);
}

void Sngan::validate() const {
  parse_sizes("model.generator", config_.generator);
  const auto blocks = parse_sizes("model.discriminator", config_.discriminator).size();
  check_user(config_.generator.size() < 20, "model.generator lists ", config_.generator.size(),
             " blocks; the pictures would be too large");
  const std::int64_t side = config_.side();
  check_user(blocks < 32 && side >> blocks >= 1, "model.discriminator lists ", blocks,
             " blocks that halve pictures of ", side, " x ", side,
             "; there must be something left: list fewer, and set model.flat_blocks");
}

std::vector<replicate::InputSpec> Sngan::inputs(std::int64_t rows, std::int64_t) const {
  return labelled_images(rows, {.height = config_.side(),
                                .width = config_.side(),
                                .channels = config_.channels,
                                .classes = config_.classes});
}

std::vector<replicate::Phase> Sngan::phases() const {
  auto discriminator = phase_of(kDiscriminator, config_.discriminator_optim);
  discriminator.runs = config_.discriminator_steps;
  auto generator = phase_of(kGenerator, config_.generator_optim);
  generator.fresh_batch = false;  // it takes nothing of the batch but the rows' weights
  return {discriminator, generator};
}

Tensor Sngan::loss(Graph& graph, const replicate::Batch& batch) {
  return batch.phase == kGenerator ? generator_loss(graph, batch)
                                   : discriminator_loss(graph, batch);
}

Tensor Sngan::discriminator_loss(Graph& graph, const replicate::Batch& batch) const {
  const bool training = batch.mode == replicate::Mode::train;
  const Origin origin = draw_origin(graph, config_, batch);
  const Tensor generated =
      generate(config_, origin.latent, origin.labels,
               training ? Statistics::batch : Statistics::running, batch.row_weights());
  const Tensor real = ops::pointwise1(
      {batch["image"]},
      [](std::span<const ops::Value> in) { return 2.0 * in[0] + in[0].constant(-1); },
      {.shape = batch["image"].shape(), .dtypes = {batch.dtype}, .name = "real"});
  // One pass for both kinds, so that the singular vectors take one step.
  const Tensor pictures = ops::stack({real, ops::stop_gradient(generated)}, "origin");
  const Tensor labels = ops::stack({batch["label"], origin.labels}, "origin");
  const Tensor scores =
      discriminate(config_, pictures, labels, training ? nn::Spectral::moving : nn::Spectral::kept);
  const Tensor high = part_of(scores, 0), low = part_of(scores, 1);
  replicate::add_metric(graph, "real_score", nn::weighted_sum(high, batch["weights"]));
  replicate::add_metric(graph, "generated_score", nn::weighted_sum(low, batch["weights"]));
  Tensor loss = ops::add(nn::hinge(high, true), nn::hinge(low, false));
  if (config_.gradient_penalty > 0)
    loss = ops::add(loss, ops::multiply(penalty(real, ops::stop_gradient(generated), batch),
                                        config_.gradient_penalty));
  return nn::weighted_sum(loss, batch["weights"]);
}

Tensor Sngan::penalty(Tensor real, Tensor generated, const replicate::Batch& batch) const {
  const Tensor share = ops::cast(
      ops::random_uniform(real.graph(), {{{"batch", batch.rows}}, DType::f32}, 0, 1,
                          {.seed = batch.seed, .name = "between", .batch_total = batch.total_rows}),
      real.dtype());
  const Tensor between = ops::pointwise1(
      {real, generated, share},
      [](std::span<const ops::Value> in) { return in[1] + in[2] * (in[0] - in[1]); },
      {.shape = real.shape(), .dtypes = {real.dtype()}, .name = "between"});
  const Tensor scores = discriminate(config_, between, batch["label"], nn::Spectral::kept);
  return nn::gradient_penalty(scores, between);
}

Tensor Sngan::generator_loss(Graph& graph, const replicate::Batch& batch) const {
  const Origin origin = draw_origin(graph, config_, batch);
  const Tensor generated =
      generate(config_, origin.latent, origin.labels, Statistics::moving, batch.row_weights());
  const Tensor scores = discriminate(config_, generated, origin.labels, nn::Spectral::kept);
  return nn::weighted_sum(ops::negate(scores), batch["weights"]);
}

std::vector<replicate::DrawnField> Sngan::draw(Graph& graph, const replicate::Batch& batch) {
  const Dim rows{"batch", batch.rows};
  const auto classes = static_cast<double>(config_.classes);
  const Tensor number =
      ops::add(ops::range(graph, rows, DType::f32), graph.feed("first", DType::f32));
  const Tensor labels =
      ops::cast(ops::modulo(number, ops::fill(graph, classes, {Shape{}, DType::f32})), DType::i32);
  const Tensor pictures =
      generate(config_, draw_latent(graph, config_, batch), labels, Statistics::running);
  const Tensor image = ops::pointwise1(
      {pictures}, [](std::span<const ops::Value> in) { return 0.5 * in[0] + in[0].constant(0.5); },
      {.shape = pictures.shape(), .dtypes = {DType::f32}, .name = "image"});
  return {{"image", image}, {"label", labels}};
}

}  // namespace tessera::models
