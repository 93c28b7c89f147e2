// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/async.hpp"

#include <algorithm>
#include <ostream>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/abort.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/signals.hpp"
#include "tessera/train/experience.hpp"
#include "tessera/train/header.hpp"
#include "tessera/train/server.hpp"
#include "tessera/train/wall_clock.hpp"
#include "tessera/train/worker.hpp"

namespace tessera::train {
namespace {

/// One group of this process's ranks: the servers, or workers.
struct Member {
  std::int64_t worker = -1;  // -1: the servers
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Session> session;
};

/// All that this process takes part in.
struct Parts {
  Groups groups;
  Compiled servers;  // their Programs, known to all
  Compiled workers;
  std::unique_ptr<comm::Mailbox> own_mailbox;
  comm::Mailbox* mailbox = nullptr;
  std::ostream nobody{nullptr};
  std::vector<Member> members;  // the servers first
};

bool holds_any(const Backend& backend, std::int64_t first, std::int64_t count) {
  for (std::int64_t rank = first; rank < first + count; ++rank)
    if (backend.has_rank(rank)) return true;
  return false;
}

/// Cuts the ranks. The last collective over all of them is that of `restore_experience`.
void cut(Backend& backend, const Settings& settings, const AsyncHooks& hooks, Parts& parts) {
  comm::agree_on(backend.world(), [&] {
    parts.groups = cut_into_groups(settings, backend.ranks());
    parts.servers = compile_servers(settings, parts.groups);
    parts.workers = compile_workers(settings, parts.groups);
    check_node_memory(backend, [&](std::int64_t rank) -> const Compiled& {
      return parts.groups.worker_of(rank) < 0 ? parts.servers : parts.workers;
    });
  });
  comm::check_same(backend.world(), hash_text(settings.schema.resolved()), "the deck",
                   "give all ranks the same command line, and environment");
  if (!hooks.mailbox) parts.own_mailbox = backend.make_mailbox();
  parts.mailbox = hooks.mailbox ? hooks.mailbox.get() : parts.own_mailbox.get();
  for (std::int64_t w = -1; w < parts.groups.workers; ++w) {
    const std::int64_t first = w < 0 ? 0 : parts.groups.first_rank(w);
    const std::int64_t count = w < 0 ? parts.groups.servers : parts.groups.group;
    if (holds_any(backend, first, count))
      parts.members.push_back({w, backend.part(first, count), nullptr});
  }
}

std::string group_note(const Settings& settings, const Parts& parts) {
  const auto& groups = parts.groups;
  const auto report = parts.workers.report();
  const std::string mesh = parts.workers.mesh.to_string();
  std::string text =
      concat("async: ", groups.servers, groups.servers == 1 ? " server, " : " servers, ",
             groups.workers, groups.workers == 1 ? " group" : " groups");
  if (groups.group > 1) text += concat(" of ", groups.group, " ranks (", mesh, ")");
  text += settings.async.staleness < 0 ? ", no bound of staleness"
          : groups.share               ? ", one update of all groups' shares"
                         : concat(", at most ", settings.async.staleness, " pushes ahead");
  return text + concat("; a group's rank needs ",
                       format_bytes(static_cast<double>(report.bytes_per_rank.total)));
}

void open_members(Backend& backend, Settings& settings, StopWatch& watch, std::ostream& out,
                  Parts& parts, Start& start) {
  comm::agree_on(backend.world(), [&] {
    for (auto& member : parts.members) {
      const bool serves = member.worker < 0;
      member.session = open_session(
          *member.backend, settings, serves ? out : parts.nobody,
          [&] {
            return serves ? compile_servers(settings, parts.groups)
                          : compile_workers(settings, parts.groups);
          },
          static_cast<std::uint64_t>(std::max<std::int64_t>(0, member.worker)));
      if (!serves) continue;
      start = start_run(*member.session, watch);
      start.restored.notes.insert(start.restored.notes.begin(), group_note(settings, parts));
      if (settings.sample.length > 0 || settings.sample.count > 0)
        start.restored.notes.push_back("samples: draw them by tessera sample when this is done");
      const std::string header = header_text(*member.session, start.restored.notes);
      if (start.folder) out << header << std::flush;
    }
  });
}

/// Groups go on with the experience that was kept with the checkpoint.
void restore_experience(Backend& backend, const Settings& settings, std::ostream& out, Parts& parts,
                        const Start& start) {
  const std::string file = backend.world().broadcast_text(start.restored.file);
  if (file.empty() || !settings.model->acts()) return;
  std::vector<double> restored{0};
  comm::agree_on(backend.world(), [&] {
    for (auto& member : parts.members)
      if (member.worker >= 0 && load_experience(*member.session, file, member.worker) &&
          member.backend->is_root())
        restored[0] += 1;
  });
  const double count = backend.world().sum(restored)[0];
  if (start.folder)
    out << "experience of " << count << " of " << parts.groups.workers
        << " groups goes on, others' begins anew" << std::endl;
}

/// Gives servers and workers their turns until all are done.
ExitCode run(Parts& parts, Start& start, StopWatch& watch, const AsyncHooks& hooks,
             bool& lost_workers) {
  std::unique_ptr<Server> server;
  std::vector<std::unique_ptr<Worker>> workers;
  for (auto& member : parts.members)
    if (member.worker < 0)
      server =
          std::make_unique<Server>(*member.session, parts.workers, parts.groups, *parts.mailbox,
                                   start, watch, hooks.now ? hooks.now : seconds_since_start);
    else
      workers.push_back(std::make_unique<Worker>(*member.session, parts.servers, parts.groups,
                                                 member.worker, *parts.mailbox));
  for (;;) {
    bool over = true, moved = false;
    if (server)
      while (!server->is_over() && server->advance()) moved = true;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (workers[i]->is_over()) continue;
      over = false;
      const std::int64_t group = parts.members[i + (server ? 1 : 0)].worker;
      if (!hooks.is_stalled || !hooks.is_stalled(group)) moved = workers[i]->advance() || moved;
    }
    // Workers that are lost do not keep the servers.
    if (server ? server->is_over() : over) break;
    if (!moved) parts.mailbox->pause();
  }
  lost_workers = server ? server->lost_workers() : workers.front()->lost_workers();
  return static_cast<ExitCode>(server ? server->exit_code() : workers.front()->exit_code());
}

}  // namespace

ExitCode train_async(Backend& backend, Settings& settings, StopWatch& watch, std::ostream& out,
                     const AsyncHooks& hooks) {
  const bool is_alone = backend.world().size() == 1;
  // Of a lost rank MPICH's launcher tells the others by this signal, which would end them.
  std::optional<comm::IgnoredSignal> ignored;
  if (!is_alone) ignored.emplace("USR1");
  bool lost_workers = false;
  ExitCode code = kDone;
  {
    Parts parts;
    Start start;
    cut(backend, settings, hooks, parts);
    open_members(backend, settings, watch, out, parts, start);
    restore_experience(backend, settings, out, parts, start);
    try {
      code = run(parts, start, watch, hooks, lost_workers);
    } catch (...) {
      // The other groups know nothing of it and would wait.
      if (is_alone) throw;
      comm::abort_job(comm::describe_current_exception(), kFailure);
    }
    if (lost_workers && !is_alone) {
      start.folder.reset();
      out << std::flush;
      comm::leave_job(code);
    }
  }
  return code;
}

}  // namespace tessera::train
