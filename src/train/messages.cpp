// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/messages.hpp"

namespace tessera::train {
namespace {

template <class Value>
using Named = std::vector<std::pair<std::string, Value>>;

template <class Value>
void put_named(Writer& writer, const Named<Value>& values) {
  writer.put(static_cast<std::int64_t>(values.size()));
  for (const auto& [name, value] : values) writer.put_text(name).put(value);
}

template <class Value>
Named<Value> get_named(Reader& reader) {
  Named<Value> values;
  const auto count = reader.get<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    std::string name = reader.get_text();
    values.emplace_back(std::move(name), reader.get<Value>());
  }
  return values;
}

}  // namespace

std::vector<std::byte> Push::bytes() const {
  Writer writer;
  writer.put(sequence).put(epoch).put(targets).put_all(numbers);
  writer.put(static_cast<std::int64_t>(results.size()));
  for (const auto& result : results)
    writer.put_text(result.name).put(result.is_per_replica).put_all(result.values);
  put_named(writer, metrics);
  put_named(writer, counts);
  return writer.take();
}

Push Push::from(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Push push;
  push.sequence = reader.get<std::int64_t>();
  push.epoch = reader.get<std::int64_t>();
  push.targets = reader.get<std::int64_t>();
  push.numbers = reader.get_all<double>();
  push.results.resize(static_cast<std::size_t>(reader.get<std::int64_t>()));
  for (auto& result : push.results) {
    result.name = reader.get_text();
    result.is_per_replica = reader.get<bool>();
    result.values = reader.get_all<double>();
  }
  push.metrics = get_named<double>(reader);
  push.counts = get_named<std::int64_t>(reader);
  return push;
}

std::vector<std::byte> Evaluated::bytes() const {
  Writer writer;
  writer.put(version).put(seconds).put_text(record.measure).put(record.value);
  writer.put(record.is_better_if_larger).put(record.targets).put_text(record.unit);
  put_named(writer, record.metrics);
  return writer.take();
}

Evaluated Evaluated::from(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Evaluated result;
  result.version = reader.get<std::int64_t>();
  result.seconds = reader.get<double>();
  result.record.measure = reader.get_text();
  result.record.value = reader.get<double>();
  result.record.is_better_if_larger = reader.get<bool>();
  result.record.targets = reader.get<std::int64_t>();
  result.record.unit = reader.get_text();
  result.record.metrics = get_named<double>(reader);
  return result;
}

}  // namespace tessera::train
