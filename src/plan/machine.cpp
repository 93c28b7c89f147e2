// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/machine.hpp"

#include <algorithm>
#include <charconv>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/config/deck.hpp"

namespace tessera::plan {
namespace {

constexpr double kHuge = 1e30;

void describe(Machine& m, config::Schema& schema) {
  schema.add("machine.name", m.name, "What the plan calls it.");
  schema.add("machine.cores", m.cores, "Cores or GPUs of a node.").range(0, kHuge);
  schema.add("machine.ranks_per_node", m.ranks_per_node, "Ranks of a node.").range(0, kHuge);
  schema.add("machine.flops", m.flops, "f32 operations of a rank per second.").range(1, kHuge);
  schema.add("machine.flops_bf16", m.flops_bf16, "The same in bf16.").range(0, kHuge);
  schema.add("machine.flops_f64", m.flops_f64, "The same in f64.").range(0, kHuge);
  schema.add("machine.memory_bandwidth", m.memory_bandwidth, "Bytes per second and rank.")
      .range(1, kHuge);
  schema.add("machine.call_seconds", m.call_seconds, "Of a kernel's launch.").range(0, kHuge);
  schema.add("machine.step_seconds", m.step_seconds, "Host's work in a step.").range(0, kHuge);
  schema.add("machine.latency", m.latency, "Of a message in a node.").range(0, kHuge);
  schema.add("machine.bandwidth", m.bandwidth, "Bytes per second in a node.").range(1, kHuge);
  schema.add("machine.network_latency", m.network_latency, "Of a message between nodes.")
      .range(0, kHuge);
  schema.add("machine.network_bandwidth", m.network_bandwidth, "Bytes per second of a node.")
      .range(1, kHuge);
  schema.add("machine.measured_ranks", m.measured_ranks, "Ranks that were measured together.")
      .range(1, kHuge);
}

/// The part of a key behind "prefix.", or "".
std::string behind(const std::string& key, const std::string& prefix) {
  return key.rfind(prefix + ".", 0) == 0 ? key.substr(prefix.size() + 1) : "";
}

std::vector<double> numbers(const config::Assignment& entry, std::size_t most) {
  std::vector<double> values;
  for (const auto& piece : split(entry.value, ',')) {
    double value = 0;
    const char* end = piece.data() + piece.size();
    const auto result = std::from_chars(piece.data(), end, value);
    check_user(result.ec == std::errc() && result.ptr == end && value >= 0 && value < kHuge,
               entry.origin, ": ", entry.key, ": '", piece, "' is no number of seconds");
    values.push_back(value);
  }
  check_user(!values.empty() && values.size() <= most, entry.origin, ": ", entry.key, " has ",
             values.size(), " numbers, and must have 1 to ", most);
  return values;
}

/// True if the entry is one of the measured tables, which it then fills.
bool read_measured(Machine& machine, const config::Assignment& entry) {
  for (auto [prefix, rates] :
       {std::pair{"alone", &machine.alone}, std::pair{"together", &machine.together}}) {
    const std::string kind = behind(entry.key, prefix);
    if (kind.empty()) continue;
    const auto values = numbers(entry, kUnits);
    std::copy(values.begin(), values.end(), (*rates)[kind].begin());
    return true;
  }
  const std::string name = behind(entry.key, "links");
  if (name.empty()) return false;
  using Kind = program::CollectiveKind;
  std::vector<std::string> known;
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather,
                          Kind::all_to_all, Kind::neighbour_exchange})
    known.emplace_back(program::name_of(kind));
  check_user(std::find(known.begin(), known.end(), name) != known.end(), entry.origin, ": ",
             entry.key, " is no collective", did_you_mean(name, known), "; there are ",
             join(known, ", "));
  const auto values = numbers(entry, 2);
  machine.links[name] = {values[0], values.size() > 1 ? values[1] : 0};
  return true;
}

std::string table(const std::string& title, const std::map<std::string, Units>& rates) {
  std::string text = "\n[" + title + "]\n";
  for (const auto& [kind, units] : rates) {
    const auto names = unit_names(kind);
    std::vector<std::string> values, labels;
    for (std::size_t u = 0; u < names.size(); ++u)
      if (!names[u].empty()) {
        values.push_back(format_double(units[u]));
        labels.push_back(names[u]);
      }
    text += kind + " = " + join(values, ", ") + "  # " + join(labels, ", ") + "\n";
  }
  return text;
}

/// What the specification says where nothing was measured.
Units specified(const Machine& m, const std::string& kind) {
  const double byte = 1 / m.memory_bandwidth;
  const bool half = kind.size() > 5 && kind.substr(kind.size() - 5) == ".bf16";
  const bool wide = kind.size() > 4 && kind.substr(kind.size() - 4) == ".f64";
  const double flops = half && m.flops_bf16 > 0 ? m.flops_bf16
                       : wide                   ? (m.flops_f64 > 0 ? m.flops_f64 : m.flops / 2)
                                                : m.flops;
  const auto names = unit_names(kind);
  const bool bound_by_memory =
      kind.rfind("norm", 0) == 0 || kind.rfind("softmax", 0) == 0 || kind.rfind("reduce", 0) == 0;
  const double element = byte * (half ? 2 : wide ? 8 : 4);
  Units units{};
  for (std::size_t u = 0; u < names.size(); ++u) {
    if (names[u] == "call" || names[u] == "product") units[u] = m.call_seconds;
    if (names[u] == "byte") units[u] = byte;
    if (names[u] == "flop") units[u] = bound_by_memory ? 0 : 1 / flops;
    if (names[u] == "a" || names[u] == "b" || names[u] == "c") units[u] = element;
    // Functions of a register take as long as that many multiplications and additions.
    if (names[u] == "exp") units[u] = 12 / m.flops;
    if (names[u] == "gelu") units[u] = 20 / m.flops;
  }
  return units;
}

}  // namespace

Machine Machine::read(const std::string& file) {
  Machine machine;
  config::Schema schema;
  describe(machine, schema);
  const config::Deck deck = config::Deck::parse(config::read_deck_file(file), file);
  for (const auto& entry : deck.file_entries())
    if (!read_measured(machine, entry)) schema.assign(entry.key, entry.value, entry.origin, "");
  return machine;
}

std::string Machine::to_ini(const std::string& comment) const {
  std::string text;
  for (const auto& line : split(comment, '\n')) text += "# " + line + "\n";
  config::Schema schema;
  Machine copy = *this;
  describe(copy, schema);
  text += schema.resolved();
  text += table("alone", alone) + table("together", together) + "\n[links]\n";
  for (const auto& [name, link] : links)
    text += name + " = " + format_double(link.alpha) + ", " + format_double(link.beta) +
            "  # message, byte\n";
  return text;
}

Units Machine::rates(const std::string& kind, std::int64_t ranks) const {
  const auto single = alone.find(kind), crowd = together.find(kind);
  const double cores_here = cores > 0 ? static_cast<double>(cores) : 1e9;
  const double r = static_cast<double>(std::max<std::int64_t>(ranks, 1));
  const double crowding = std::max(1.0, r / cores_here);
  Units units;
  if (single == alone.end() && crowd == together.end()) {
    units = specified(*this, kind);
  } else {
    // Ranks slow each other down by what they share, in proportion to how many they are; those
    // beyond the cores take turns.
    const auto measured = static_cast<double>(measured_ranks);
    const double full = std::min(measured, cores_here);
    const double share = full > 1 ? std::min(1.0, (std::min(r, cores_here) - 1) / (full - 1)) : 0;
    const Units& low = single == alone.end() ? crowd->second : single->second;
    const Units& high = crowd == together.end() ? low : crowd->second;
    const double turns = crowd == together.end() ? 1 : std::max(1.0, measured / cores_here);
    for (std::size_t u = 0; u < units.size(); ++u)
      units[u] = low[u] + (high[u] / turns - low[u]) * share;
  }
  for (auto& unit : units) unit *= crowding;
  return units;
}

Link Machine::link(program::CollectiveKind kind) const {
  const auto found = links.find(name_of(kind));
  return found == links.end() ? Link{latency, 1 / bandwidth} : found->second;
}

}  // namespace tessera::plan
