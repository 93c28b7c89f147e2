// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/machine.hpp"

#include "tessera/base/error.hpp"
#include "tessera/config/deck.hpp"

namespace tessera::train {

Machine Machine::read(const std::string& file) {
  Machine machine;
  config::Schema schema;
  schema.add("machine.flops", machine.flops, "Operations of a rank per second.").range(0, 1e30);
  schema.add("machine.bandwidth", machine.bandwidth, "Bytes that a rank sends per second.")
      .range(0, 1e30);
  schema.add("machine.latency", machine.latency, "Seconds of one small collective.").range(0, 1e6);
  config::Deck::parse(config::read_deck_file(file), file).apply(schema);
  check_user(machine.flops > 0, file, ": machine.flops must be given, and more than 0");
  check_user(machine.bandwidth > 0, file, ": machine.bandwidth must be given, and more than 0");
  return machine;
}

double Machine::step_seconds(const plan::Report& report) const {
  double seconds = report.flops_per_step / flops;
  for (const auto& row : report.collectives)
    seconds +=
        static_cast<double>(row.bytes) / bandwidth + static_cast<double>(row.count) * latency;
  return seconds;
}

}  // namespace tessera::train
