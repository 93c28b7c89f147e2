// SPDX-License-Identifier: BSD-3-Clause
#include "io/posix_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // Linux moves less than 2 GiB a call

}  // namespace

void fail_with_errno(const std::string& path, const char* what) {
  throw Error(concat(path, ": ", what, ": ", std::strerror(errno)));
}

PosixFile::PosixFile(const std::string& path, int flags)
    : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail_with_errno(path_, "can't open");
}

PosixFile::~PosixFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t PosixFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_with_errno(path_, "can't stat");
  return status.st_size;
}

void PosixFile::read(void* to, std::size_t bytes, std::int64_t offset) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(descriptor_, at, std::min(bytes, kMaxTransfer), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(path_, "can't read");
    if (n == 0) throw Error(concat(path_, ": ends at byte ", offset, ", ", bytes, " are missing"));
    at += n;
    offset += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void PosixFile::write(const void* from, std::size_t bytes, std::int64_t offset) const {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(descriptor_, at, std::min(bytes, kMaxTransfer), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(path_, "can't write");
    at += n;
    offset += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void PosixFile::reserve(std::int64_t bytes) const {
  if (bytes <= 0) return;
  // Not posix_fallocate: where the file system can't, it would write every block.
  while (::fallocate(descriptor_, 0, 0, bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
      fail_with_errno(path_, "can't reserve its space");
    }
    return;
  }
}

void PosixFile::resize(std::int64_t bytes) const {
  if (::ftruncate(descriptor_, bytes) != 0) fail_with_errno(path_, "can't resize");
}

void PosixFile::sync() const {
  if (::fsync(descriptor_) != 0) fail_with_errno(path_, "can't make durable");
}

void PosixFile::close() {
  if (descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0) {
    fail_with_errno(path_, "can't close");
  }
}

MemoryFile::MemoryFile() {
  const char* folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  path_ = concat(folder, "/tessera-XXXXXX");
  const int descriptor = ::mkstemp(path_.data());
  if (descriptor < 0) fail_with_errno(path_, "can't create");
  ::close(descriptor);
}

MemoryFile::~MemoryFile() {
  ::unlink(path_.c_str());
}

void MemoryFile::copy_to(const std::string& file) const {
  const PosixFile from(path_, O_RDONLY);
  PosixFile to(file, O_RDWR | O_CREAT | O_TRUNC);
  const std::int64_t size = from.size();
  to.reserve(size);
  to.resize(size);
  std::vector<char> bytes;
  for (off_t begin = 0; begin < size;) {
    begin = ::lseek(from.descriptor(), begin, SEEK_DATA);
    if (begin < 0) break;  // nothing but a hole is left
    const off_t end = ::lseek(from.descriptor(), begin, SEEK_HOLE);
    bytes.resize(static_cast<std::size_t>(end - begin));
    from.read(bytes.data(), bytes.size(), begin);
    to.write(bytes.data(), bytes.size(), begin);
    begin = end;
  }
  to.sync();
  to.close();
}

void sync_folder(const std::string& folder) {
  PosixFile(folder, O_RDONLY | O_DIRECTORY).sync();
}

void replace_file(const std::string& path, const std::string& text) {
  const std::string aside = path + ".part";
  PosixFile file(aside, O_WRONLY | O_CREAT | O_TRUNC);
  file.write(text.data(), text.size(), 0);
  file.sync();
  file.close();
  if (std::rename(aside.c_str(), path.c_str()) != 0) fail_with_errno(path, "can't replace");
}

std::string read_file(const std::string& path) {
  const PosixFile file(path, O_RDONLY);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), text.size(), 0);
  return text;
}

std::int64_t free_bytes(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail_with_errno(folder, "can't ask for free space");
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

std::int64_t largest_file() {
  rlimit limit{};
  const bool unlimited = ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY;
  return unlimited ? std::numeric_limits<std::int64_t>::max()
                   : static_cast<std::int64_t>(limit.rlim_cur);
}

}  // namespace tessera::io
