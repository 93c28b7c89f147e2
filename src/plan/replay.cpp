// SPDX-License-Identifier: BSD-3-Clause
#include "replay.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::BufferId;
using program::Section;
using Kind = StageAction::Kind;

class Player {
 public:
  Player(const Section& section, const std::vector<StageList>& lists)
      : section_(section), lists_(lists), at_(lists.size()) {
    std::vector<bool> given(section.buffers.size());
    for (const auto& input : section.inputs) given[root_of(input.buffer)] = true;
    for (const auto& feed : section.feeds) given[root_of(feed.buffer)] = true;
    for (std::size_t b = 0; b < given.size(); ++b)
      if (section.buffers[root_of(static_cast<BufferId>(b))].variable >= 0)
        given[root_of(static_cast<BufferId>(b))] = true;
    has_.assign(lists.size(), given);
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t s = 0; s < lists_.size(); ++s)
        while (advance(s)) moved = true;
    }
    std::string waiting;
    for (std::size_t s = 0; s < lists_.size(); ++s)
      if (!is_done(s)) waiting += concat("\n  stage ", s, " at ", text(s, now(s)));
    TESSERA_CHECK(waiting.empty(), "section '", section_.name,
                  "': stages wait for each other:", waiting);
  }

 private:
  std::size_t root_of(BufferId id) const {
    while (section_.buffers[static_cast<std::size_t>(id)].alias_of >= 0)
      id = section_.buffers[static_cast<std::size_t>(id)].alias_of;
    return static_cast<std::size_t>(id);
  }
  bool is_done(std::size_t s) const { return at_[s] == lists_[s].size(); }
  const StageAction& now(std::size_t s) const { return lists_[s][at_[s]]; }

  std::string text(std::size_t stage, const StageAction& action) const {
    const auto& label = program::label_of(section_.steps[static_cast<std::size_t>(action.step)]);
    switch (action.kind) {
      case Kind::send:
        return concat("step ", action.step, ", sending '", label, "' from ", stage, " to ",
                      action.peer);
      case Kind::receive:
        return concat("step ", action.step, ", receiving '", label, "' from ", action.peer, " at ",
                      stage);
      case Kind::collective:
        return concat("step ", action.step, ", '", label, "' with all stages");
      default:
        return concat("step ", action.step, ", '", label, "'");
    }
  }

  /// Takes the next action of a stage, with those that it meets; false if it must wait.
  bool advance(std::size_t s) {
    if (is_done(s)) return false;
    const StageAction& action = now(s);
    if (action.kind == Kind::step) {
      take(s);
      return true;
    }
    if (action.kind == Kind::collective) {
      for (std::size_t other = 0; other < lists_.size(); ++other)
        if (is_done(other) || now(other).kind != Kind::collective || now(other).step != action.step)
          return false;
      for (std::size_t other = 0; other < lists_.size(); ++other) take(other);
      return true;
    }
    const auto peer = static_cast<std::size_t>(action.peer);
    TESSERA_CHECK(peer < lists_.size() && peer != s, "section '", section_.name,
                  "': ", text(s, action), " has no such other side");
    if (is_done(peer)) return false;
    const StageAction& answer = now(peer);
    const Kind wanted = action.kind == Kind::send ? Kind::receive : Kind::send;
    // Messages of a pair arrive in the order in which they are sent: the next one must be this one.
    if (answer.kind != wanted || answer.peer != static_cast<int>(s)) return false;
    TESSERA_CHECK(answer.step == action.step && answer.bytes == action.bytes, "section '",
                  section_.name, "': ", text(s, action), " (", action.bytes, " bytes) meets ",
                  text(peer, answer), " (", answer.bytes, " bytes)");
    take(s);
    take(peer);
    return true;
  }

  void take(std::size_t s) {
    const StageAction& action = now(s);
    for (BufferId id : action.reads)
      TESSERA_CHECK(has_[s][root_of(id)], "section '", section_.name, "': stage ", s, " reads '",
                    section_.buffers[static_cast<std::size_t>(id)].name, "' in ", text(s, action),
                    ", but has neither computed nor received it");
    for (BufferId id : action.writes) has_[s][root_of(id)] = true;
    ++at_[s];
  }

  const Section& section_;
  const std::vector<StageList>& lists_;
  std::vector<std::size_t> at_;
  std::vector<std::vector<bool>> has_;  // by stage and buffer
};

}  // namespace

std::vector<StageList> stage_lists(const Section& section, const MeshShape& mesh) {
  const auto stage_dim = mesh.find(kStageDim);
  const auto stages = static_cast<int>(stage_dim ? mesh[*stage_dim].size : 1);
  std::vector<StageList> lists(static_cast<std::size_t>(stages));
  for (int i = 0; i < static_cast<int>(section.steps.size()); ++i) {
    const auto& step = section.steps[static_cast<std::size_t>(i)];
    const auto reads = program::reads_of(step), writes = program::writes_of(step);
    if (const auto* transfer = std::get_if<program::TransferStep>(&step)) {
      const auto bytes = section.buffers[static_cast<std::size_t>(transfer->input)].bytes;
      lists[static_cast<std::size_t>(transfer->from)].push_back(
          {Kind::send, i, transfer->to, bytes, reads, {}});
      lists[static_cast<std::size_t>(transfer->to)].push_back(
          {Kind::receive, i, transfer->from, bytes, {}, writes});
      continue;
    }
    const auto who = program::stages_of(section, step);
    const auto dims = program::mesh_dims_of(step);
    const bool together =
        stage_dim && std::find(dims.begin(), dims.end(), *stage_dim) != dims.end();
    const auto* local = std::get_if<program::LocalStep>(&step);
    for (int s = 0; s < stages; ++s) {
      if (!who.contain(s)) continue;
      auto& list = lists[static_cast<std::size_t>(s)];
      list.push_back({together ? Kind::collective : Kind::step, i, -1, 0, reads, writes});
      // Zero where the tensor is not.
      if (local && local->kind == program::LocalStep::Kind::keep_at_origin && who.is_all() &&
          s != local->origin)
        list.back().reads.clear();
    }
  }
  return lists;
}

void replay(const Section& section, const std::vector<StageList>& lists) {
  Player(section, lists).run();
}

}  // namespace tessera::plan
