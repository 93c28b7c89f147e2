// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/messages.hpp"

namespace tessera::train {

std::vector<std::byte> Push::bytes() const {
  return Writer().put(sequence).put(epoch).put(targets).put_all(numbers).take();
}

Push Push::from(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Push push;
  push.sequence = reader.get<std::int64_t>();
  push.epoch = reader.get<std::int64_t>();
  push.targets = reader.get<std::int64_t>();
  push.numbers = reader.get_all<double>();
  return push;
}

std::vector<std::byte> Evaluated::bytes() const {
  Writer writer;
  writer.put(version).put(seconds).put(record.value).put(record.targets).put_text(record.unit);
  writer.put(static_cast<std::int64_t>(record.metrics.size()));
  for (const auto& [name, value] : record.metrics) writer.put_text(name).put(value);
  return writer.take();
}

Evaluated Evaluated::from(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Evaluated result;
  result.version = reader.get<std::int64_t>();
  result.seconds = reader.get<double>();
  result.record.value = reader.get<double>();
  result.record.targets = reader.get<std::int64_t>();
  result.record.unit = reader.get_text();
  const auto metrics = reader.get<std::int64_t>();
  for (std::int64_t i = 0; i < metrics; ++i) {
    std::string name = reader.get_text();
    result.record.metrics.emplace_back(std::move(name), reader.get<double>());
  }
  return result;
}

}  // namespace tessera::train
