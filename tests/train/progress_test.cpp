// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/progress.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "support/catch.hpp"
#include "tessera/base/text.hpp"

using namespace tessera::train;

namespace {

StepRecord record_of(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 2.5;
  record.grad_norm = 0.25;
  record.lr = 0.001;
  record.targets = 64 * step;
  record.step_seconds = 2;
  record.targets_per_second = 32;
  return record;
}

}  // namespace

TEST_CASE("counts and rates are told with the digits that matter") {
  CHECK(tessera::format_count(2.178) == "2.18");
  CHECK(tessera::format_count(9) == "9");
  CHECK(tessera::format_count(32.4) == "32");
  CHECK(tessera::format_count(132000) == "132.00 k");
}

TEST_CASE("A step's metrics end with what depends on time") {
  CHECK(
      record_of(3).to_json() ==
      R"({"step": 3, "epoch": 0, "loss": 2.5, "grad_norm": 0.25, "lr": 0.001, "tokens": 192, "step_s": 2, "tokens_per_s": 32})");
  StepRecord bad = record_of(3);
  bad.loss = std::numeric_limits<double>::quiet_NaN();
  bad.skipped = true;
  CHECK(bad.to_json().find(R"("loss": null,)") != std::string::npos);
  CHECK(bad.to_json().find(R"("skipped": true, "step_s")") != std::string::npos);
}

TEST_CASE("A model's own numbers and unit appear in every line") {
  StepRecord record = record_of(3);
  record.metrics = {{"accuracy", 0.5}};
  record.unit = "samples";
  CHECK(
      record.to_json() ==
      R"({"step": 3, "epoch": 0, "loss": 2.5, "grad_norm": 0.25, "lr": 0.001, "accuracy": 0.5, "samples": 192, "step_s": 2, "samples_per_s": 32})");
  std::ostringstream out;
  Progress progress(out, false, 3, 3, 0, 8e9);
  progress.show(record);
  CHECK(out.str() ==
        "step 3/3  loss 2.5000  |g| 0.25  lr 0.001  accuracy 0.5000  32 samples/s  4.00 GFLOP/s\n");
  ValidationRecord validation;
  validation.value = 1.5;
  validation.metrics = {{"accuracy", 0.25}};
  validation.unit = "samples";
  validation.targets = 2000;
  CHECK(
      validation.to_json(3, 2) ==
      R"({"step": 3, "validation_loss": 1.5, "validation_accuracy": 0.25, "validation_samples": 2000, "eval_s": 2})");
  CHECK(validation.to_string() == "validation loss 1.5  accuracy 0.25 over 2,000 samples");
}

TEST_CASE("A log gets plain lines: the first step, the last, and one per interval") {
  std::ostringstream out;
  Progress progress(out, false, 1, 100, 1000, 8e9);
  for (std::int64_t step = 1; step <= 100; ++step) progress.show(record_of(step));
  progress.finish();
  CHECK(out.str() ==
        "step 1/100  loss 2.5000  |g| 0.25  lr 0.001  32 tokens/s  4.00 GFLOP/s  eta 3 min 18 s\n"
        "step 100/100  loss 2.5000  |g| 0.25  lr 0.001  32 tokens/s  4.00 GFLOP/s\n");
  Progress all(out, false, 1, 100, 0, 8e9);
  out.str("");
  for (std::int64_t step = 1; step <= 3; ++step) all.show(record_of(step));
  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
}

TEST_CASE("A terminal's line is written over and ended before other lines") {
  std::ostringstream out;
  Progress progress(out, true, 1, 100, 0, 8e9);
  progress.show(record_of(1));
  progress.show(record_of(2));
  progress.show(record_of(3));
  progress.say("saved");
  const std::string text = out.str();
  CHECK(text.find("\rstep 2/100") != std::string::npos);
  CHECK(text.find("\rstep 3/100") != std::string::npos);
  CHECK(text.substr(text.size() - 7) == "\nsaved\n");
}

TEST_CASE("Times read well") {
  CHECK(format_time(0.4) == "0 s");
  CHECK(format_time(75) == "1 min 15 s");
  CHECK(format_time(7260) == "2 h 1 min");
}
