// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "tessera/train/server.hpp"

namespace tessera::train {

/// What all servers do next.
struct Server::Command {
  enum class Kind : int { none, send, apply, save, end };
  Kind kind = Kind::none;
  std::int64_t ticket = 0;   // send
  std::int64_t traffic = 0;  // send: index in Stages::traffic
  ServerStore::Update update;
  std::vector<std::int64_t> workers = {};  // send: whom to; apply: whose
  std::vector<std::int64_t> tickets = {};  // apply: of the orders that they answer
  std::int64_t ends_step = 0;              // apply: number of the step that it ends, or 0
  RunState state = {};                     // save
  std::int64_t code = 0;
  bool lost_workers = false;

  std::vector<std::byte> bytes() const {
    Writer to;
    to.put(kind).put(ticket).put(traffic).put(update.phase).put(update.step).put(update.run);
    to.put(update.scale).put_all(workers).put_all(tickets).put(ends_step);
    to.put(code).put(lost_workers);
    to.put(state.step).put(state.targets).put(state.position).put(state.best_validation);
    to.put(state.evaluation_due).put(state.first_batch).put(state.first_step);
    return to.put_all(state.applied).take();
  }
  static Command from(std::span<const std::byte> bytes) {
    Reader in(bytes);
    Command it;
    const auto get = [&](auto& value) { value = in.get<std::decay_t<decltype(value)>>(); };
    get(it.kind), get(it.ticket), get(it.traffic), get(it.update.phase), get(it.update.step);
    get(it.update.run), get(it.update.scale);
    it.workers = in.get_all<std::int64_t>();
    it.tickets = in.get_all<std::int64_t>();
    get(it.ends_step), get(it.code), get(it.lost_workers);
    get(it.state.step), get(it.state.targets), get(it.state.position);
    get(it.state.best_validation), get(it.state.evaluation_due), get(it.state.first_batch);
    get(it.state.first_step);
    it.state.applied = in.get_all<std::int64_t>();
    return it;
  }
};

}  // namespace tessera::train
