// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/resnet.hpp"

#include <cmath>
#include <map>

#include "models/labelled_images.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/text.hpp"
#include "tessera/nn/conv.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/metrics.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pool.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"
#include "tessera/replicate/replica_context.hpp"

namespace tessera::models {
namespace {

constexpr std::int64_t kTop = 5;       // the better known metric of ImageNet
constexpr std::int64_t kWidening = 4;  // filters of a bottleneck's result for each of its 3x3's

/// Blocks of the stages of the depths that have a name.
const std::map<std::int64_t, std::vector<std::int64_t>>& known_depths() {
  static const std::map<std::int64_t, std::vector<std::int64_t>> depths = {
      {18, {2, 2, 2, 2}},   {34, {3, 4, 6, 3}},   {50, {3, 4, 6, 3}},
      {101, {3, 4, 23, 3}}, {152, {3, 8, 36, 3}},
  };
  return depths;
}

}  // namespace

/// What a section's layers have in common.
struct ResNet::Building {
  bool training = false;
  std::vector<std::string> kept;  // dims whose norm statistics stay apart
  Tensor row_weights;             // of a batch that may be filled up
};

void ResNet::describe(config::Schema& schema) {
  const double most = 1e9;
  schema
      .add("model.depth", config_.depth,
           "18, 34 (blocks of two 3x3 convolutions), 50, 101 or 152 (bottlenecks)")
      .range(1, 1000);
  schema.add("model.blocks", config_.blocks,
             "blocks of each stage, separated by commas; empty: as the depth says");
  schema.add("model.height", config_.height, "rows of a picture").range(1, most);
  schema.add("model.width", config_.width, "columns of a picture").range(1, most);
  schema.add("model.channels", config_.channels, "numbers for each pixel").range(1, most);
  schema
      .add("model.filters", config_.filters,
           "filters of the stem and of the first stage's 3x3; each stage doubles them")
      .range(1, most);
  schema
      .add(
          "model.stem", config_.stem,
          "imagenet: 7x7 with stride 2, then pooling with stride 2; small: 3x3, for small pictures")
      .choices({"imagenet", "small"});
  schema.add("model.classes", config_.classes, "classes to tell apart").range(1, most);
  schema
      .add("model.norm_groups", config_.norm_groups,
           "batch norm has statistics of each of so many equal parts of the (micro-)batch: 1: of "
           "all of it; as many as data-parallel ranks: per replica; between: groups of replicas. "
           "Then x has a dim replica that a layout may cut")
      .range(1, most);
  schema
      .add("model.norm_momentum", config_.norm_momentum,
           "share of the running statistics that a step keeps")
      .range(0, 1);
  schema.add("model.epsilon", config_.epsilon, "added to the variance in norms").range(0, 1);
  schema.add("model.zero_init", config_.zero_init,
             "each block's last norm begins with scale 0, so that blocks begin as the identity");
  schema
      .add("model.label_smoothing", config_.label_smoothing,
           "share of the target spread over the classes, in training")
      .range(0, 0.999);
}

std::vector<std::int64_t> ResNet::stages() const {
  if (config_.blocks.empty()) {
    const auto found = known_depths().find(config_.depth);
    check_user(found != known_depths().end(), "model.depth = ", config_.depth,
               " is none of 18, 34, 50, 101, 152; choose one, or give model.blocks");
    return found->second;
  }
  std::vector<std::int64_t> stages;
  for (const auto& text : config_.blocks) {
    double blocks = 0;
    check_user(parse_number(text, blocks) && blocks >= 1 && blocks == std::floor(blocks),
               "model.blocks: '", text, "' is not a number of blocks; give e.g. 3, 4, 6, 3");
    stages.push_back(static_cast<std::int64_t>(blocks));
  }
  return stages;
}

void ResNet::validate() const {
  stages();
}

std::vector<replicate::InputSpec> ResNet::inputs(std::int64_t rows, std::int64_t) const {
  return labelled_images(rows, {.height = config_.height,
                                .width = config_.width,
                                .channels = config_.channels,
                                .classes = config_.classes});
}

Tensor ResNet::norm(Tensor x, const std::string& channels, const std::string& name,
                    const Building& building, double scale) const {
  return nn::batch_norm(x, channels,
                        {.name = name,
                         .epsilon = config_.epsilon,
                         .momentum = config_.norm_momentum,
                         .scale = scale,
                         .training = building.training,
                         .row_weights = building.row_weights},
                        building.kept);
}

namespace {

/// He et al., "Delving Deep into Rectifiers": ReLU halves the second moment.
nn::ConvOptions conv_options(const std::string& name, std::int64_t kernel, std::int64_t stride) {
  return {.name = name, .kernel = kernel, .stride = stride, .gain = std::sqrt(2.0)};
}

std::string of_stage(const char* dim, std::int64_t stage) {
  return dim + std::to_string(stage);
}

}  // namespace

Tensor ResNet::stem(Tensor x, const Building& building) const {
  const Graph::Scope scope(x.graph(), "stem");
  const bool is_large = config_.stem == "imagenet";
  x = nn::conv(x, kPictureSpace, "channels", {"stem", config_.filters},
               conv_options("conv", is_large ? 7 : 3, is_large ? 2 : 1));
  x = ops::relu(norm(x, "stem", "norm", building));
  if (!is_large) return x;
  return ops::max_pool(x, {{"height", 3, 2}, {"width", 3, 2}}, ops::Padding::same);
}

Tensor ResNet::block(Tensor x, std::int64_t stage, std::int64_t index,
                     const Building& building) const {
  const std::string name = concat("stage_", stage, "/block_", index);
  const Graph::Scope scope(x.graph(), name);
  const Graph::Region region(x.graph(), "block");
  const std::int64_t filters = config_.filters << stage;
  const std::int64_t stride = stage > 0 && index == 0 ? 2 : 1;
  const bool narrows = config_.has_bottlenecks();
  const Dim narrow{of_stage("narrow_", stage), filters},
      middle{of_stage("middle_", stage), filters},
      wide{of_stage("filters_", stage), narrows ? kWidening * filters : filters};
  const std::string before = index > 0   ? wide.name
                             : stage > 0 ? of_stage("filters_", stage - 1)
                                         : "stem";

  Tensor shortcut = x;
  if (index == 0) {
    // In the first stage of a net without bottlenecks the sizes are the same already.
    const bool is_same = stage == 0 && wide.size == config_.filters;
    shortcut =
        is_same
            ? ops::rename(x, before, wide.name)
            : norm(nn::conv(x, kPictureSpace, before, wide, conv_options("shortcut", 1, stride)),
                   wide.name, "shortcut_norm", building);
  }
  Tensor y = x;
  std::string from = before;
  if (narrows) {
    y = nn::conv(y, kPictureSpace, from, narrow, conv_options("narrow", 1, 1));
    y = ops::relu(norm(y, narrow.name, "narrow_norm", building));
    from = narrow.name;
  }
  y = nn::conv(y, kPictureSpace, from, middle, conv_options("middle", 3, stride));
  y = ops::relu(norm(y, middle.name, "middle_norm", building));
  y = nn::conv(y, kPictureSpace, middle.name, wide, conv_options("wide", narrows ? 1 : 3, 1));
  y = norm(y, wide.name, "wide_norm", building, config_.zero_init ? 0 : 1);
  return ops::relu(ops::add(y, shortcut));
}

Tensor ResNet::logits_of(const replicate::Batch& batch) const {
  Building building;
  building.training = batch.mode == replicate::Mode::train;
  building.row_weights = batch.row_weights();
  const Tensor image = batch["image"];
  Tensor x = ops::cast(image, batch.dtype);
  const bool is_parted = building.training && config_.norm_groups > 1;
  if (is_parted) {
    check_user(batch.rows % config_.norm_groups == 0, "model.norm_groups = ", config_.norm_groups,
               " does not divide the ", batch.rows,
               " pictures of a micro-batch (data.batch / train.micro_batches); make it a divisor");
    std::vector<Dim> dims{{replicate::ReplicaContext::kReplica, config_.norm_groups},
                          {"replica_batch", batch.rows / config_.norm_groups}};
    dims.insert(dims.end(), image.shape().begin() + 1, image.shape().end());
    if (building.row_weights)
      building.row_weights = ops::reshape(building.row_weights, Shape{dims[0], dims[1]});
    x = ops::reshape(x, Shape(std::move(dims)));
    building.kept = {replicate::ReplicaContext::kReplica};
  }
  x = stem(x, building);
  const auto blocks = stages();
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    for (std::int64_t index = 0; index < blocks[stage]; ++index)
      x = block(x, static_cast<std::int64_t>(stage), index, building);
  x = ops::reduce_mean(x, x.shape().without("height").without("width"));
  const std::string last = of_stage("filters_", static_cast<std::int64_t>(blocks.size()) - 1);
  if (is_parted) x = ops::reshape(x, Shape{{"batch", batch.rows}, {last, x.shape().size_of(last)}});
  return nn::dense(x, {last}, {{"classes", config_.classes}}, {.name = "classes", .bias = true});
}

Tensor ResNet::loss(Graph& graph, const replicate::Batch& batch) {
  const Tensor logits = logits_of(batch);
  const Tensor label = batch["label"], weights = batch["weights"];
  const bool training = batch.mode == replicate::Mode::train;
  replicate::add_metric(graph, "top1", nn::weighted_sum(nn::correct(logits, label), weights));
  if (!training && config_.classes > kTop)
    replicate::add_metric(graph, "top5",
                          nn::weighted_sum(nn::among_likeliest(logits, label, kTop), weights));
  return nn::weighted_sum(ops::softmax_cross_entropy(
                              logits, label, {.smoothing = training ? config_.label_smoothing : 0}),
                          weights);
}

}  // namespace tessera::models
