// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/run_log.hpp"

#include <unistd.h>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"

namespace tessera::train {

RunLog::RunLog(const Session& session, io::RunFolder* folder, std::int64_t first_step,
               double flops_per_step)
    : folder_(folder),
      progress_(session.out, ::isatty(STDOUT_FILENO) == 1, first_step, session.settings.train.steps,
                session.settings.run.log_seconds, flops_per_step) {
  comm::agree_on(session.backend.world(), [&] {
    if (folder_) metrics_.emplace(folder_->metrics());
  });
}

void RunLog::record(const StepRecord& record) {
  append(record.to_json());
  if (folder_) progress_.show(record);
}

void RunLog::record(const ValidationRecord& record, std::int64_t step, double seconds) {
  append(record.to_json(step, seconds));
  say(concat("step ", step, "  ", record.to_string(), ", ", format_time(seconds)));
}

void RunLog::append(const std::string& json) {
  if (metrics_) metrics_->append(json);
}

void RunLog::say(const std::string& line) {
  if (folder_) progress_.say(line);
}

void RunLog::check_lock(double now) {
  constexpr double kInterval = 20;  // seconds
  if (!folder_ || now - last_look_ < kInterval) return;
  folder_->check_lock();
  last_look_ = now;
}

void RunLog::finish() {
  if (folder_) progress_.finish();
}

}  // namespace tessera::train
