// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/config.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

/// Prompts with what was drawn after them.
struct Continuations {
  std::vector<std::string> texts;
  std::int64_t tokens = 0;  ///< drawn
  double tokens_per_second = 0;
};

/// UserError if the model cannot continue sample.prompt: better before a training than behind it.
void check_can_sample(const Session& session);

/// Continues each prompt by sample.length drawn tokens; sample.batch of them at a time. The same on
/// every mesh: tokens are drawn by the Program (nn::draw) with numbers that are a function of
/// sample.seed, the first prompt of those that run together, position and place. UserError if the
/// model cannot continue one of them. Collective.
Continuations sample(const Session& session, const std::vector<std::string>& prompts);

}  // namespace tessera::train
