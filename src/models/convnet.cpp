// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/convnet.hpp"

#include <cmath>

#include "models/labelled_images.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/conv.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/metrics.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/pool.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"

namespace tessera::models {

void ConvNet::describe(config::Schema& schema) {
  const double most = 1e9;
  schema.add("model.height", config_.height, "rows of a picture").range(1, most);
  schema.add("model.width", config_.width, "columns of a picture").range(1, most);
  schema.add("model.channels", config_.channels, "numbers for each pixel").range(1, most);
  schema.add("model.stages", config_.stages, "convolutions, each with a pooling").range(1, 32);
  schema.add("model.filters", config_.filters, "channels after the first; each stage doubles them")
      .range(1, most);
  schema.add("model.kernel", config_.kernel, "rows and columns of a filter").range(1, most);
  schema.add("model.pool", config_.pool, "rows and columns of a pooling").range(1, most);
  schema.add("model.hidden", config_.hidden, "size of the hidden layer").range(1, most);
  schema.add("model.classes", config_.classes, "classes to tell apart").range(1, most);
  schema.add("model.batch_norm", config_.batch_norm, "normalise over the whole batch");
}

void ConvNet::validate() const {
  std::int64_t side = std::min(config_.height, config_.width);
  for (std::int64_t stage = 0; stage < config_.stages; ++stage) {
    check_user(side >= config_.pool, "model.stages = ", config_.stages, ": after ", stage,
               " poolings a picture of ", config_.height, " x ", config_.width, " has a side of ",
               side, ", fewer than model.pool = ", config_.pool, "; ", stage,
               " stages are possible");
    side /= config_.pool;
  }
}

std::vector<replicate::InputSpec> ConvNet::inputs(std::int64_t rows, std::int64_t) const {
  return labelled_images(rows, {.height = config_.height,
                                .width = config_.width,
                                .channels = config_.channels,
                                .classes = config_.classes});
}

Tensor ConvNet::logits_of(Tensor image, const replicate::Batch& batch) const {
  // ReLU halves the second moment: He et al., "Delving Deep into Rectifiers".
  const double gain = std::sqrt(2.0);
  Tensor x = ops::cast(image, batch.dtype);
  std::string channels = "channels";
  std::int64_t filters = config_.filters;
  for (std::int64_t stage = 0; stage < config_.stages; ++stage, filters *= 2) {
    const Graph::Scope scope(x.graph(), "stage_" + std::to_string(stage));
    const Dim fresh{"filters_" + std::to_string(stage), filters};
    nn::ConvOptions conv{.kernel = config_.kernel, .gain = gain};
    if (config_.batch_norm) {
      x = nn::conv(x, kPictureSpace, channels, fresh, conv);
      x = ops::relu(nn::batch_norm(
          x, fresh.name,
          {.training = batch.mode == replicate::Mode::train, .row_weights = batch.row_weights()}));
    } else {
      conv.bias = true, conv.activation = nn::Activation::relu;
      x = nn::conv(x, kPictureSpace, channels, fresh, conv);
    }
    x = ops::max_pool(
        x, {{"height", config_.pool, config_.pool}, {"width", config_.pool, config_.pool}});
    channels = fresh.name;
  }
  const Tensor hidden =
      nn::dense(x, {"height", "width", channels}, {{"hidden", config_.hidden}},
                {.name = "hidden", .bias = true, .activation = nn::Activation::relu, .gain = gain});
  return nn::dense(hidden, {"hidden"}, {{"classes", config_.classes}},
                   {.name = "classes", .bias = true});
}

Tensor ConvNet::loss(Graph& graph, const replicate::Batch& batch) {
  const Tensor logits = logits_of(batch["image"], batch);
  replicate::add_metric(graph, "accuracy",
                        nn::weighted_sum(nn::correct(logits, batch["label"]), batch["weights"]));
  return nn::weighted_sum(ops::softmax_cross_entropy(logits, batch["label"], {}), batch["weights"]);
}

}  // namespace tessera::models
