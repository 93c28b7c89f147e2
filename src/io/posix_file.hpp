// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::io {

/// A file descriptor; failures are Errors with the path and the system's reason.
class PosixFile {
 public:
  /// `flags` as for open(2); new files get mode 0666 less the umask.
  PosixFile(const std::string& path, int flags);
  ~PosixFile();
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::int64_t size() const;
  /// All bytes or an Error; the system is asked for at most 1 GiB at a time.
  void read(void* to, std::size_t bytes, std::int64_t offset) const;
  void write(const void* from, std::size_t bytes, std::int64_t offset) const;
  /// Reserves space, where the file system can, so that a full disk is seen now.
  void reserve(std::int64_t bytes) const;
  void resize(std::int64_t bytes) const;
  void sync() const;
  /// Closes now, so that a failure is seen.
  void close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// A scratch file in memory (on a tmpfs), gone with the object. It may have holes.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  /// Creates or replaces a durable file with the same content; holes become reserved space.
  void copy_to(const std::string& file) const;

 private:
  std::string path_;
};

/// Makes a folder's entries (a rename) durable.
void sync_folder(const std::string& folder);
/// Writes a whole small file so that at every moment the old or the new one is there.
void replace_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);
/// Bytes that an ordinary user may still write on the file system of `folder`.
std::int64_t free_bytes(const std::string& folder);
/// The largest file that this process may write (ulimit -f).
std::int64_t largest_file();
/// "path: what: reason of errno".
[[noreturn]] void fail_with_errno(const std::string& path, const char* what);

}  // namespace tessera::io
