// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/observers.hpp"

#include <utility>

namespace tessera::train {
Observers::Observers(double hang_timeout, const std::string& trace_file,
                     comm::Collectives& collectives, comm::Watchdog::OnHang on_hang)
    : watchdog_(hang_timeout, collectives.local_ranks().front(), std::move(on_hang)) {
  if (!trace_file.empty()) trace_ = std::make_unique<io::TraceRecorder>(trace_file, collectives);
}

void Observers::begin(const std::string& section, const program::Step& step) {
  if (section_ == nullptr || *section_ != section) section_ = &*sections_.insert(section).first;
  watchdog_.at(section_->c_str(), program::label_of(step).c_str());
  if (trace_) trace_->begin(section, step);
}

void Observers::end(const std::string& section, const program::Step& step) {
  if (program::started_by(step) >= 0)
    watchdog_.took_off(program::started_by(step), program::label_of(step).c_str());
  if (trace_) trace_->end(section, step);
}

void Observers::landed(const std::string& section, const program::Step& start) {
  watchdog_.landed(program::started_by(start));
  if (trace_) trace_->landed(section, start);
}

void Observers::step_done() {
  watchdog_.step_done();
}

void Observers::finish() {
  if (trace_) trace_->finish();
  trace_.reset();
}

Observers::Phase::Phase(Observers& observers, std::string name)
    : observers_(observers), name_(std::move(name)), pause_(observers.watchdog_) {
  if (observers_.trace_) observers_.trace_->begin_phase();
}

Observers::Phase::~Phase() {
  if (observers_.trace_) observers_.trace_->end_phase(name_);
}

}  // namespace tessera::train
