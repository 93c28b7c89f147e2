// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/text.hpp"

namespace tessera::optim {
namespace {

const std::vector<std::string>& factor_names() {
  static const std::vector<std::string> names = {"constant",     "warmup", "rsqrt",
                                                 "linear_decay", "cosine", "step"};
  return names;
}

/// True if the whole text is a number >= 0.
bool parse_share(const std::string& text, double& value) {
  return parse_number(text, value) && value >= 0;
}

double cosine(const OptimConfig& config, double step) {
  const double warmup = static_cast<double>(config.warmup);
  const double rest = std::max(1.0, static_cast<double>(config.schedule_steps) - warmup);
  const double done = std::clamp((step - warmup) / rest, 0.0, 1.0);
  return config.final_share +
         (1 - config.final_share) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

double piecewise(const OptimConfig& config, double step) {
  double rate = 1;
  for (const auto& text : config.step_at) {
    double at = 0;
    check_user(parse_share(text, at), "optim.step_at: '", text,
               "' is not a step; give e.g. 30000, 60000, 80000");
    if (step > at) rate *= config.step_factor;
  }
  return rate;
}

double factor(const OptimConfig& config, const std::string& name, double step) {
  const double warmup = static_cast<double>(config.warmup);
  const double total = static_cast<double>(config.schedule_steps);
  double number = 0;
  if (name == "constant") return 1;
  if (name == "warmup") return warmup > 0 ? std::min(1.0, step / warmup) : 1.0;
  if (name == "rsqrt") return 1 / std::sqrt(std::max({step, warmup, 1.0}));
  if (name == "linear_decay") {
    const double length = config.decay_steps > 0 ? static_cast<double>(config.decay_steps) : total;
    return std::clamp((total - step + 1) / std::max(1.0, length), 0.0, 1.0);
  }
  if (name == "cosine") return cosine(config, step);
  if (name == "step") return piecewise(config, step);
  if (parse_share(name, number)) return number;
  throw UserError(concat("optim.schedule: '", name, "' is not a factor",
                         did_you_mean(name, factor_names()), "; legal are ",
                         join(factor_names(), ", "), " and numbers, joined by *"));
}

}  // namespace

double learning_rate(const OptimConfig& config, std::int64_t step) {
  double rate = config.lr;
  for (const auto& name : split(config.schedule, '*'))
    rate *= factor(config, name, static_cast<double>(step));
  return rate;
}

void check_schedule(const OptimConfig& config) {
  check_user(!split(config.schedule, '*').empty(),
             "optim.schedule is empty; give a product of factors, e.g. constant or warmup*cosine");
  for (const auto& name : split(config.schedule, '*')) {
    factor(config, name, 1);
    check_user(name != "step" || !config.step_at.empty(),
               "optim.schedule has the factor step, but optim.step_at is empty; give the steps "
               "after which the rate falls or drop the factor");
    check_user(name != "warmup" || config.warmup > 0,
               "optim.schedule has the factor warmup, but optim.warmup is 0; set optim.warmup to "
               "the steps of the warm-up or drop the factor");
  }
}

}  // namespace tessera::optim
