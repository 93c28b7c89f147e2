// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/nn/moe.hpp"

namespace tessera::nn {

void describe(config::Schema& schema, MoeConfig& config) {
  constexpr double kHuge = 1e15;
  schema
      .add("model.moe.experts", config.experts,
           "experts of the feed-forward layers; 0: a single one, no gate")
      .range(0, kHuge);
  schema
      .add("model.moe.outer", config.outer,
           "rows of a grid of experts, whose dims experts_outer and experts a layout can cut over "
           "two mesh dims")
      .range(1, kHuge);
  schema
      .add("model.moe.every", config.every,
           "1: all layers have experts, 2: every second one, and so on")
      .range(1, kHuge);
  schema.add("model.moe.d_ff", config.d_ff, "hidden width of an expert; 0: model.d_ff")
      .range(0, kHuge);
  schema.add("model.moe.choices", config.choices, "experts of a token: 1 (switch) or 2")
      .range(1, 2);
  schema
      .add("model.moe.group", config.group,
           "tokens of a row that compete for experts' places; 0: the whole row")
      .range(0, kHuge);
  schema
      .add("model.moe.capacity", config.capacity,
           "places of an expert in a group, as a multiple of its even share")
      .range(0, 1e6);
  schema.add("model.moe.eval_capacity", config.eval_capacity, "the same outside training")
      .range(0, 1e6);
  schema
      .add("model.moe.balance", config.balance,
           "factor of the loss that evens out experts. With micro-batches that loss is of each "
           "micro-batch's tokens.")
      .range(0, 1e6);
  schema
      .add("model.moe.z_loss", config.z_loss,
           "factor of the mean squared log-sum-exp of the gates' logits")
      .range(0, 1e6);
  schema
      .add("model.moe.jitter", config.jitter,
           "the gates' inputs are multiplied by draws from 1 - jitter to 1 + jitter in training")
      .range(0, 1);
  schema
      .add("model.moe.second_threshold", config.second_threshold,
           "in training the second expert takes a token with probability share / this; 0: always")
      .range(0, 1);
}

void validate(const MoeConfig& config) {
  if (config.experts == 0) return;
  check_user(config.choices <= config.experts, "model.moe.choices = ", config.choices,
             " is more than model.moe.experts = ", config.experts);
  check_user(config.experts % config.outer == 0, "model.moe.experts = ", config.experts,
             " is not a multiple of model.moe.outer = ", config.outer);
}

}  // namespace tessera::nn
