// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/progress.hpp"

#include <cmath>
#include <cstdio>
#include <ostream>

#include "tessera/base/error.hpp"
#include "tessera/base/json.hpp"
#include "tessera/base/text.hpp"
#include "tessera/train/wall_clock.hpp"

namespace tessera::train {
namespace {

void write(JsonWriter& json, const StepResult& result) {
  json.key(result.name);
  if (!result.is_per_replica) {
    json.value(result.values.at(0));
    return;
  }
  json.begin_array();
  for (const double value : result.values) json.value(value);
  json.end_array();
}

}  // namespace

std::string StepRecord::to_json() const {
  JsonWriter json;
  json.begin_object();
  json.key("step").value(step);
  json.key("epoch").value(epoch);
  json.key("loss").value(loss);
  json.key("grad_norm").value(grad_norm);
  json.key("lr").value(lr);
  for (const auto& [name, value] : metrics) json.key(name).value(value);
  for (const auto& result : results) write(json, result);
  json.key(unit).value(targets);
  for (const auto& [name, count] : counts) json.key(name).value(count);
  if (group >= 0) json.key("group").value(group).key("staleness").value(staleness);
  if (skipped) json.key("skipped").value(true);
  json.key("step_s").value(step_seconds);
  json.key(unit + "_per_s").value(targets_per_second);
  for (const auto& [name, value] : rates) json.key(name).value(value);
  json.end_object();
  return json.text();
}

std::string ValidationRecord::to_json(std::int64_t step, double seconds) const {
  JsonWriter json;
  json.begin_object();
  json.key("step").value(step);
  json.key("validation_" + measure).value(value);
  for (const auto& [name, number] : metrics) json.key("validation_" + name).value(number);
  json.key("validation_" + unit).value(targets);
  json.key("eval_s").value(seconds);
  json.end_object();
  return json.text();
}

std::string ValidationRecord::to_string() const {
  std::string text = concat("validation ", measure, " ", value);
  for (const auto& [name, number] : metrics) text += concat("  ", name, " ", number);
  return text + concat(" over ", with_commas(targets), " ", unit);
}

std::string format_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  char text[64];
  if (hours > 0)
    std::snprintf(text, sizeof text, "%lld h %lld min", static_cast<long long>(hours),
                  static_cast<long long>(minutes));
  else if (minutes > 0)
    std::snprintf(text, sizeof text, "%lld min %lld s", static_cast<long long>(minutes),
                  static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(whole));
  return text;
}

std::string format_operations(double count) {
  std::string text = format_count(count);
  // 10^9 has the letter B where things are counted, and G in units.
  if (!text.empty() && text.back() == 'B') text.back() = 'G';
  return text;
}

Progress::Progress(std::ostream& out, bool is_terminal, std::int64_t first_step, std::int64_t steps,
                   double interval, double flops_per_step)
    : out_(out),
      is_terminal_(is_terminal),
      first_step_(first_step),
      steps_(steps),
      interval_(interval),
      flops_per_step_(flops_per_step) {}

std::string Progress::line_of(const StepRecord& record) {
  char text[256];
  std::snprintf(text, sizeof text, "step %lld/%lld  loss %.4f  |g| %.3g  lr %.3g",
                static_cast<long long>(record.step), static_cast<long long>(steps_), record.loss,
                record.grad_norm, record.lr);
  std::string line = text;
  for (const auto& [name, value] : record.metrics) {
    std::snprintf(text, sizeof text, "  %s %.4f", name.c_str(), value);
    line += text;
  }
  if (record.staleness >= 0) line += concat("  staleness ", record.staleness);
  line += "  " + format_count(record.targets_per_second) + " " + record.unit + "/s  " +
          format_operations(flops_per_step_ / std::max(1e-9, record.step_seconds)) + "FLOP/s";
  if (record.skipped) line += "  skipped";
  if (record.step < steps_)
    line += "  eta " + format_time(mean_seconds_ * static_cast<double>(steps_ - record.step));
  return line;
}

void Progress::show(const StepRecord& record) {
  const double weight = mean_seconds_ == 0 ? 1 : 0.1;
  mean_seconds_ += weight * (record.step_seconds - mean_seconds_);
  const double now = seconds_since_start();
  const double interval = is_terminal_ ? std::min(interval_, 0.2) : interval_;
  const bool is_end = record.step == first_step_ || record.step == steps_;
  if (!is_end && !record.skipped && now - last_shown_ < interval) return;
  last_shown_ = now;
  const std::string line = line_of(record);
  if (is_terminal_) {
    out_ << '\r' << line;
    for (std::size_t i = line.size(); i < width_; ++i) out_ << ' ';
    width_ = line.size();
    if (record.step == first_step_) finish();
  } else {
    out_ << line << '\n';
  }
  out_.flush();
}

void Progress::say(const std::string& line) {
  finish();
  out_ << line << std::endl;
}

void Progress::finish() {
  if (width_ > 0) out_ << '\n';
  width_ = 0;
  out_.flush();
}

}  // namespace tessera::train
