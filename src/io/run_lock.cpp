// SPDX-License-Identifier: BSD-3-Clause
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>

#include "io/posix_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/version.hpp"

namespace tessera::io {
namespace {

constexpr double kStaleSeconds = 600;

/// Field 22 of /proc/<pid>/stat: when the process began, in ticks since the boot; "" if it is gone.
std::string start_of(long pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto name_end = text.rfind(')');  // the name may hold spaces
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

bool lives_here(const LockOwner& owner) {
  if (::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH) return false;
  const std::string started = start_of(owner.pid);
  return started.empty() || owner.started.empty() || started == owner.started;
}

/// The batch job's id in whatever system runs it.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"}) {
    if (const char* id = std::getenv(name)) return id;
  }
  return "";
}

/// The lock file, held by flock(2) while it is looked at and rewritten. Where the file system has
/// no flock, two jobs that start within the same instant may both win; check_lock() tells one of
/// them.
class LockFile {
 public:
  explicit LockFile(const std::string& path) : path_(path) {
    for (;;) {
      file_.emplace(path, O_RDWR | O_CREAT);
      while (::flock(file_->descriptor(), LOCK_EX) != 0 && errno == EINTR) {
      }
      struct stat opened {};
      struct stat named {};
      ::fstat(file_->descriptor(), &opened);
      // A lock that was released meanwhile is no longer the file of this name.
      if (::stat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino) return;
    }
  }
  std::string text() const {
    std::string text(static_cast<std::size_t>(file_->size()), '\0');
    file_->read(text.data(), text.size(), 0);
    return text;
  }
  double age_seconds() const {
    struct stat status {};
    ::fstat(file_->descriptor(), &status);
    return std::difftime(std::time(nullptr), status.st_mtime);
  }
  void write(const std::string& text) const {
    if (::ftruncate(file_->descriptor(), 0) != 0) fail_with_errno(path_, "can't write the lock");
    file_->write(text.data(), text.size(), 0);
    file_->sync();
  }
  void remove() const { ::unlink(path_.c_str()); }

 private:
  std::string path_;
  std::optional<PosixFile> file_;
};

}  // namespace

LockOwner LockOwner::here() {
  LockOwner owner;
  owner.host = base::host_name();
  owner.pid = static_cast<long>(::getpid());
  owner.started = start_of(owner.pid);
  owner.job = job_id();
  return owner;
}

LockOwner LockOwner::parse(const std::string& text) {
  LockOwner owner;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const auto space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string key = line.substr(0, space);
    const std::string value = line.substr(space + 1);
    if (key == "host") owner.host = value;
    if (key == "pid") owner.pid = std::atol(value.c_str());
    if (key == "started") owner.started = value;
    if (key == "job") owner.job = value;
  }
  return owner;
}

std::string LockOwner::to_text() const {
  return concat("host ", host, "\npid ", pid, "\nstarted ", started, "\njob ", job, '\n');
}

std::string LockOwner::describe() const {
  return concat("host ", host, ", process ", pid, job.empty() ? "" : ", job ", job);
}

bool may_take_over(const LockOwner& owner, const LockOwner& us, double age_seconds) {
  if (owner.host.empty()) return true;  // its writer died before it wrote
  if (age_seconds > kStaleSeconds) return true;
  if (owner.host == us.host) return !lives_here(owner);
  return !us.job.empty() && owner.job == us.job;
}

std::string take_lock(const std::string& file) {
  const LockFile lock(file);
  const LockOwner us = LockOwner::here();
  const LockOwner owner = LockOwner::parse(lock.text());
  const double age = lock.age_seconds();
  check_user(may_take_over(owner, us, age), file, ": another job writes in this folder (",
             owner.describe(), ", alive ", static_cast<long>(age),
             " s ago): wait for it or choose another run.dir; if it is dead, remove the file");
  lock.write(us.to_text());
  return us.to_text();
}

void touch_lock(const std::string& file, const std::string& owner) {
  if (read_file(file) != owner) return;
  if (::utimensat(AT_FDCWD, file.c_str(), nullptr, 0) != 0) fail_with_errno(file, "can't touch");
}

void release_lock(const std::string& file, const std::string& owner) {
  if (::access(file.c_str(), F_OK) != 0) return;
  const LockFile lock(file);
  if (lock.text() == owner || lock.text().empty()) lock.remove();
}

}  // namespace tessera::io
