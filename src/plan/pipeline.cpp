// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "tessera/base/error.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::BufferId;
using program::Section;
using program::Stages;
using program::Step;

/// Steps that stay together: one, or those of a Repeat.
struct Unit {
  std::vector<Step> steps;
  std::int64_t times = 1;
  int micro = 0;
  bool backward = false;
  Stages stages;
  double seconds = 0;      ///< roughly
  std::vector<int> after;  ///< units that must come before
};

/// Roughly what a step takes: only how long passes are in proportion matters, so that a message is
/// put where both of its stages are likely to be free.
double rough_seconds(const Section& section, const Step& step) {
  constexpr double kCall = 1e-6, kFlops = 2e10, kBytes = 5e9;
  double bytes = 0;
  for (const auto& ids : {program::reads_of(step), program::writes_of(step)})
    for (BufferId id : ids)
      bytes += static_cast<double>(section.buffers[static_cast<std::size_t>(id)].bytes);
  const auto* kernel = std::get_if<program::KernelStep>(&step);
  return kCall + (kernel ? kernel->flops / kFlops : 0) + bytes / kBytes;
}

/// The same step on other buffers.
class Renamer {
 public:
  explicit Renamer(const std::vector<BufferId>& ids) : ids_(ids) {}

  void operator()(program::KernelStep& step) const { all(step.inputs, step.outputs); }
  void operator()(program::AllReduceStep& step) const {
    all(step.buffers);
    one(step.staging);
  }
  void operator()(program::RelayoutStep& step) const { packed(step); }
  void operator()(program::LocalStep& step) const {
    one(step.input);
    one(step.output);
  }
  void operator()(program::ExchangeStep& step) const { packed(step); }
  void operator()(program::RingStep& step) const { packed(step); }
  void operator()(program::FinishStep& step) const { all(step.reads, step.writes); }
  void operator()(program::TransferStep& step) const {
    one(step.input);
    one(step.output);
  }

 private:
  void one(BufferId& id) const {
    if (id >= 0) id = ids_[static_cast<std::size_t>(id)];
  }
  template <class... Lists>
  void all(Lists&... lists) const {
    const auto each = [this](std::vector<BufferId>& list) {
      for (BufferId& id : list) one(id);
    };
    (each(lists), ...);
  }
  template <class PackedStep>
  void packed(PackedStep& step) const {
    all(step.inputs, step.outputs);
    one(step.send);
    one(step.receive);
  }

  const std::vector<BufferId>& ids_;
};

/// Copies of the two sections, one micro-batch after the other, as units that know what they need.
class Copies {
 public:
  Copies(const Section& first, const Section& next, int count) {
    joined_.name = first.name;
    joined_.micro_batches = count;
    note_written(first);
    note_written(next);
    for (int micro = 0; micro < count; ++micro) add(micro == 0 ? first : next, micro);
    find_needs();
  }

  Section& section() { return joined_; }
  std::vector<Unit>& units() { return units_; }

 private:
  void note_written(const Section& section) {
    for (const Step& step : section.steps)
      for (BufferId id : program::writes_of(step)) {
        while (section.buffers[static_cast<std::size_t>(id)].alias_of >= 0)
          id = section.buffers[static_cast<std::size_t>(id)].alias_of;
        const int variable = section.buffers[static_cast<std::size_t>(id)].variable;
        if (variable >= 0) written_[variable] = true;
      }
  }

  void add(const Section& from, int micro) {
    std::vector<BufferId> ids;
    const auto base = static_cast<BufferId>(joined_.buffers.size());
    for (const Buffer& buffer : from.buffers) {
      ids.push_back(base + static_cast<BufferId>(ids.size()));
      joined_.buffers.push_back(buffer);
      if (buffer.alias_of >= 0) joined_.buffers.back().alias_of += base;
    }
    for (const auto& feed : from.feeds) {
      const BufferId own = ids[static_cast<std::size_t>(feed.buffer)];
      const auto spec_of = [&](BufferId id) {
        return joined_.buffers[static_cast<std::size_t>(id)].spec;
      };
      const auto known =
          std::find_if(joined_.feeds.begin(), joined_.feeds.end(), [&](const auto& other) {
            return other.name == feed.name && spec_of(other.buffer) == spec_of(own);
          });
      if (known == joined_.feeds.end())
        joined_.feeds.push_back({feed.name, own});
      else  // one value for all micro-batches
        joined_.buffers[static_cast<std::size_t>(own)].alias_of = known->buffer;
    }
    add_units(from, ids, micro);
    for (const auto& input : from.inputs)
      joined_.inputs.push_back({input.name, ids[static_cast<std::size_t>(input.buffer)], micro});
    for (const auto& fetch : from.fetches)
      joined_.fetches.push_back({fetch.name, ids[static_cast<std::size_t>(fetch.buffer)], micro});
  }

  void add_units(const Section& from, std::vector<BufferId>& ids, int micro) {
    for (int i = 0; i < static_cast<int>(from.steps.size());) {
      const program::Repeat* repeat = from.repeat_of(i);
      const int end = repeat ? repeat->end : i + 1;
      Unit unit;
      unit.micro = micro;
      unit.backward = i >= from.backward_begin;
      unit.times = repeat ? repeat->count : 1;
      for (; i < end; ++i) {
        const Step& step = from.steps[static_cast<std::size_t>(i)];
        if (is_sent_before(from, step, ids)) continue;
        unit.seconds += rough_seconds(from, step) * static_cast<double>(unit.times);
        unit.steps.push_back(step);
        std::visit(Renamer(ids), unit.steps.back());
        if (auto* kernel = std::get_if<program::KernelStep>(&unit.steps.back()))
          kernel->micro = micro;
      }
      if (unit.steps.empty()) continue;
      unit.stages = program::stages_of(joined_, unit.steps.front());
      for (const Step& step : unit.steps) {
        const Stages stages = program::stages_of(joined_, step);
        TESSERA_CHECK(stages.at == unit.stages.at && stages.to == unit.stages.to,
                      program::label_of(step), ": a repeat on several stages");
      }
      units_.push_back(std::move(unit));
    }
  }

  /// A variable that another stage reads (a tied table) goes there once, not with each micro-batch.
  bool is_sent_before(const Section& from, const Step& step, std::vector<BufferId>& ids) {
    const auto* transfer = std::get_if<program::TransferStep>(&step);
    if (!transfer) return false;
    const int variable = from.buffers[static_cast<std::size_t>(transfer->input)].variable;
    if (variable < 0 || written_[variable]) return false;
    BufferId& own = ids[static_cast<std::size_t>(transfer->output)];
    const auto [known, is_new] = sent_.emplace(std::pair(variable, transfer->to), own);
    if (is_new) return false;
    joined_.buffers[static_cast<std::size_t>(own)].alias_of = known->second;
    return true;
  }

  /// A variable, or the buffer whose memory another one is.
  std::int64_t memory_of(BufferId id) const {
    while (joined_.buffers[static_cast<std::size_t>(id)].alias_of >= 0)
      id = joined_.buffers[static_cast<std::size_t>(id)].alias_of;
    const int variable = joined_.buffers[static_cast<std::size_t>(id)].variable;
    return variable >= 0 ? -1 - variable : id;
  }

  void find_needs() {
    std::map<std::int64_t, int> writer;
    std::map<std::int64_t, std::vector<int>> readers;  // since it was written
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      auto& after = units_[static_cast<std::size_t>(u)].after;
      for (const Step& step : units_[static_cast<std::size_t>(u)].steps) {
        for (BufferId id : program::reads_of(step)) {
          const auto memory = memory_of(id);
          if (writer.contains(memory)) after.push_back(writer[memory]);
          readers[memory].push_back(u);
        }
        for (BufferId id : program::writes_of(step)) {
          const auto memory = memory_of(id);
          if (writer.contains(memory)) after.push_back(writer[memory]);
          for (int reader : readers[memory]) after.push_back(reader);
          readers[memory].clear();
          writer[memory] = u;
        }
      }
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      std::erase(after, u);
      move_forward(units_[static_cast<std::size_t>(u)]);
    }
  }

  /// A new value of a variable that the forward pass gives (running statistics) and that is only
  /// copied at the section's end belongs to the forward pass: the next one reads it.
  void move_forward(Unit& unit) const {
    if (!unit.backward || unit.steps.size() != 1) return;
    const auto writes = program::writes_of(unit.steps.front());
    const bool stores =
        std::all_of(writes.begin(), writes.end(), [&](BufferId id) { return memory_of(id) < 0; });
    const bool waits = std::any_of(unit.after.begin(), unit.after.end(), [&](int before) {
      const Unit& other = units_[static_cast<std::size_t>(before)];
      return other.micro == unit.micro && other.backward;
    });
    if (stores && !waits) unit.backward = false;
  }

  Section joined_;
  std::vector<Unit> units_;
  std::map<int, bool> written_;                   // variables
  std::map<std::pair<int, int>, BufferId> sent_;  // by variable and stage
};

/// Puts units in one order out of what each stage wants to do next. A stage goes through its list;
/// a message comes when its receiver needs it, a step of all stages when somebody needs it.
class Scheduler {
 public:
  Scheduler(const std::vector<Unit>& units, int count, int stages)
      : units_(units),
        lists_(static_cast<std::size_t>(stages)),
        at_(lists_.size()),
        clock_(lists_.size()),
        placed_(units.size()),
        done_(units.size()),
        checked_(units.size()) {
    for (int stage = 0; stage < stages; ++stage) fill(stage, count, stages);
  }

  /// Empty if the stages would wait for each other.
  std::optional<std::vector<int>> run() {
    while (true) {
      int best = -1;
      double start = 0;
      bool left = false;
      for (std::size_t s = 0; s < lists_.size(); ++s) {
        if (at_[s] == lists_[s].size()) continue;
        left = true;
        const int next = lists_[s][at_[s]];
        if (!is_ready(next)) continue;
        const double from = earliest(next, s);
        // A sender that is free for its message is not kept from it by what else it could do.
        if (best >= 0 && (from > start || (from == start && unit(next).stages.to < 0))) continue;
        best = static_cast<int>(s);
        start = from;
      }
      if (!left) break;
      if (best < 0) return std::nullopt;
      place(static_cast<std::size_t>(best), start);
    }
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (!placed_[u]) place_floating(static_cast<int>(u));
    return std::move(order_);
  }

 private:
  const Unit& unit(int u) const { return units_[static_cast<std::size_t>(u)]; }
  bool is_placed(int u) const { return placed_[static_cast<std::size_t>(u)]; }

  /// 1F1B: as many forward passes as there are stages behind, then one backward and one forward in
  /// turn.
  void fill(int stage, int count, int stages) {
    std::map<std::pair<int, bool>, std::vector<int>> passes;
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      const Stages& where = unit(u).stages;
      const int own = where.to >= 0 ? where.to : where.at;
      if (own == stage) passes[{unit(u).micro, unit(u).backward}].push_back(u);
    }
    const auto take = [&](int micro, bool backward) {
      auto& list = lists_[static_cast<std::size_t>(stage)];
      const auto& pass = passes[{micro, backward}];
      list.insert(list.end(), pass.begin(), pass.end());
    };
    const int ahead = std::min(stages - 1 - stage, count);
    for (int micro = 0; micro < ahead; ++micro) take(micro, false);
    for (int micro = 0; micro < count; ++micro) {
      if (ahead + micro < count) take(ahead + micro, false);
      take(micro, true);
    }
  }

  /// True if all that the unit needs is there, or is a step of all stages that can be put before
  /// it.
  bool is_ready(int u) {
    ++question_;
    return has_needs(u);
  }
  bool has_needs(int u) {
    return std::all_of(unit(u).after.begin(), unit(u).after.end(), [&](int before) {
      if (is_placed(before)) return true;
      if (!unit(before).stages.is_all()) return false;
      auto& known = checked_[static_cast<std::size_t>(before)];
      if (known.question != question_) known = {question_, has_needs(before)};
      return known.is_ready;
    });
  }
  double earliest(int u, std::size_t stage) const {
    double start = clock_[stage];
    if (unit(u).stages.to >= 0)
      start = std::max(start, clock_[static_cast<std::size_t>(unit(u).stages.at)]);
    for (int before : unit(u).after)
      start = std::max(start, done_[static_cast<std::size_t>(before)]);
    return start;
  }
  void place(std::size_t stage, double start) {
    const int u = lists_[stage][at_[stage]++];
    for (int before : unit(u).after)
      if (!is_placed(before)) place_floating(before);
    put(u, start + unit(u).seconds);
    clock_[stage] = start + unit(u).seconds;
    if (unit(u).stages.to >= 0)
      clock_[static_cast<std::size_t>(unit(u).stages.at)] = start + unit(u).seconds;
  }
  /// A step of all stages, after what it needs.
  void place_floating(int u) {
    double start = 0;
    for (int before : unit(u).after) {
      if (!is_placed(before)) place_floating(before);
      start = std::max(start, done_[static_cast<std::size_t>(before)]);
    }
    put(u, start);
  }
  void put(int u, double done) {
    placed_[static_cast<std::size_t>(u)] = true;
    done_[static_cast<std::size_t>(u)] = done;
    order_.push_back(u);
  }

  /// Answer for a step of all stages, good for one question.
  struct Checked {
    std::int64_t question = 0;
    bool is_ready = false;
  };

  const std::vector<Unit>& units_;
  std::int64_t question_ = 0;
  std::vector<std::vector<int>> lists_;  // by stage
  std::vector<std::size_t> at_;
  std::vector<double> clock_;
  std::vector<bool> placed_;
  std::vector<double> done_;
  std::vector<Checked> checked_;  // by unit
  std::vector<int> order_;
};

}  // namespace

Section join_micro_batches(const Section& first, const Section& next, int count, int stages) {
  Copies copies(first, next, count);
  auto& units = copies.units();
  std::vector<int> order;
  if (auto found = Scheduler(units, count, stages).run())
    order = std::move(*found);
  else
    for (std::size_t u = 0; u < units.size(); ++u) order.push_back(static_cast<int>(u));
  Section section = std::move(copies.section());
  for (int u : order) {
    auto& unit = units[static_cast<std::size_t>(u)];
    const auto begin = static_cast<int>(section.steps.size());
    for (auto& step : unit.steps) section.steps.push_back(std::move(step));
    if (unit.times > 1)
      section.repeats.push_back({begin, static_cast<int>(section.steps.size()), unit.times});
  }
  section.backward_begin = static_cast<int>(section.steps.size());
  return section;
}

}  // namespace tessera::plan
