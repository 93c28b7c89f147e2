// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/server_store.hpp"

#include "tessera/base/error.hpp"

namespace tessera::train {

ServerStore::ServerStore(Session& session, const Compiled& workers, const Groups& groups,
                         comm::Mailbox& mailbox, const RunState& state)
    : session_(session),
      groups_(groups),
      mailbox_(mailbox),
      stages_(*session.compiled.task),
      pulls_(session.compiled.program, workers.program),
      gradients_(workers.program, session.compiled.program),
      changes_(workers.program, session.compiled.program),
      runners_(make_runners(session, state)) {
  for (const auto& traffic : stages_.traffic) {
    pulls_.add(traffic.pulled);
    gradients_.add(traffic.gradients);
    changes_.add(traffic.states);
  }
}

std::int64_t ServerStore::in_servers(int local_rank) const {
  return session_.collectives->local_ranks()[static_cast<std::size_t>(local_rank)];
}

void ServerStore::keep(comm::Mailbox::Message message) {
  for (int r = 0; r < session_.executor->local_ranks(); ++r) {
    if (in_servers(r) != message.to) continue;
    const auto ticket = Reader(message.bytes).get<std::int64_t>();
    auto& pushed = pushed_[{r, message.from}];
    if (ticket >= pushed.ticket) pushed = {ticket, std::move(message.bytes)};
    return;
  }
}

void ServerStore::send_weights(std::int64_t worker, std::size_t traffic, std::int64_t ticket) {
  for (int r = 0; r < session_.executor->local_ranks(); ++r)
    for (std::int64_t q = 0; q < groups_.group; ++q) {
      const auto& parts = pulls_.parts(traffic, in_servers(r), q);
      if (parts.empty()) continue;
      Writer message;
      message.put(ticket);
      for (const auto& part : parts) pack(*session_.executor, r, part, message);
      mailbox_.send({static_cast<int>(in_servers(r)),
                     static_cast<int>(groups_.first_rank(worker) + q), kWeights, message.take()});
    }
}

/// Visits what each rank of a worker has to push to each server of this process, until `use` says
/// no: use(local rank, gradients, changes of states, what has come).
template <class Use>
bool ServerStore::for_each_push(std::int64_t worker, std::size_t phase, const Use& use) {
  for (int r = 0; r < session_.executor->local_ranks(); ++r)
    for (std::int64_t q = 0; q < groups_.group; ++q) {
      const auto& gradients = gradients_.parts(phase, q, in_servers(r));
      const auto& changes = changes_.parts(phase, q, in_servers(r));
      if (gradients.empty() && changes.empty()) continue;
      if (!use(r, gradients, changes, pushed_[{r, groups_.first_rank(worker) + q}])) return false;
    }
  return true;
}

bool ServerStore::has(std::int64_t worker, std::int64_t ticket, std::size_t phase) {
  return for_each_push(worker, phase, [&](int, const auto&, const auto&, const Pushed& pushed) {
    return pushed.ticket == ticket && !pushed.bytes.empty();
  });
}

void ServerStore::add(std::int64_t worker, const Update& update) {
  auto& executor = *session_.executor;
  const double share = 1.0 / static_cast<double>(update.workers.size());
  for_each_push(worker, update.phase,
                [&](int r, const auto& gradients, const auto& changes, Pushed& pushed) {
                  Reader reader(pushed.bytes);
                  reader.get<std::int64_t>();
                  for (const auto& part : gradients)
                    unpack(executor, r, part, reader, Arrival::add, update.scale);
                  for (const auto& part : changes)
                    unpack(executor, r, part, reader, Arrival::add, share);
                  pushed.bytes.clear();
                  return true;
                });
}

ServerStore::Result ServerStore::apply(const Update& update) {
  const auto& variables = session_.compiled.program.variables;
  for (const auto& name : stages_.traffic[update.phase].gradients)
    for (std::size_t v = 0; v < variables.size(); ++v)
      if (variables[v].variable.name == name) clear(*session_.executor, static_cast<int>(v));
  auto& runner = runners_[update.phase];
  runner.keep_states();
  for (std::int64_t worker : update.workers) add(worker, update);
  runner.begin_step(update.step);
  runner.update(update.run);
  return {runner.finite(), runner.grad_norm()};
}

void ServerStore::finish_step(std::int64_t step) {
  if (!session_.compiled.task->has_finish()) return;
  kernels::Feeds feeds;
  feeds.step = step;
  session_.executor->run("finish", feeds);
}

}  // namespace tessera::train
