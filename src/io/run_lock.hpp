// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::io {

/// Who holds a run folder: one "key value" line each in the lock file.
struct LockOwner {
  std::string host;
  long pid = 0;
  std::string started;  ///< of the process, as the kernel counts: pids are used again
  std::string job;      ///< batch job, or ""

  static LockOwner here();
  static LockOwner parse(const std::string& text);
  std::string to_text() const;
  /// "host node1, process 4711, job 99".
  std::string describe() const;
};

/// Whether a lock that `owner` last touched `age_seconds` ago may be taken over by `us`: its
/// process is dead (seen from its host), it is of our own batch job (requeued), or it is 10 minutes
/// old. A process that we see alive on this host keeps its lock until it is that old.
bool may_take_over(const LockOwner& owner, const LockOwner& us, double age_seconds);

/// Takes the lock file, or UserError that names its owner and how to go on. Returns what was
/// written into it.
std::string take_lock(const std::string& file);
/// Makes the lock file young again if it still holds `owner`. Error if it can't be read or touched.
void touch_lock(const std::string& file, const std::string& owner);
/// Removes the lock file if it still holds `owner`.
void release_lock(const std::string& file, const std::string& owner);

}  // namespace tessera::io
