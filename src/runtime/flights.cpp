// SPDX-License-Identifier: BSD-3-Clause
#include "flights.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::runtime {

void Flights::begin_section(const std::string& section, Recorder* recorder) {
  section_ = section;
  recorder_ = recorder;
  in_air_.clear();
}

void Flights::add(const program::Step& start, const PreparedStep& prepared,
                  std::unique_ptr<comm::Flight> call) {
  in_air_.push_back({&start, &prepared, std::move(call)});
}

void Flights::note(InAir& flight) {
  if (flight.landed) return;
  flight.landed = true;
  if (recorder_) recorder_->landed(section_, *flight.start);
}

void Flights::test() {
  for (auto& flight : in_air_)
    if (!flight.landed && flight.call->test()) note(flight);
}

const PreparedStep& Flights::finish(const program::FinishStep& step) {
  const auto found = std::find_if(in_air_.begin(), in_air_.end(), [&](const InAir& flight) {
    return program::started_by(*flight.start) == step.flight;
  });
  TESSERA_CHECK(found != in_air_.end(), step.label, ": flight ", step.flight, " is not under way");
  found->call->finish();
  note(*found);
  const PreparedStep& prepared = *found->prepared;
  in_air_.erase(found);
  return prepared;
}

void Flights::end_section() const {
  TESSERA_CHECK(in_air_.empty(), "section '", section_, "' ends with ", in_air_.size(),
                " collectives under way");
}

}  // namespace tessera::runtime
