// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/file_set.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

constexpr std::size_t kOpenFiles = 64;                   // far below any ulimit -n
constexpr std::int64_t kSmall = std::int64_t{64} << 20;  // bytes that may be read entirely
constexpr std::int64_t kEnds = std::int64_t{1} << 20;
constexpr std::int64_t kWindow = std::int64_t{1} << 16;
constexpr std::int64_t kWindows = 64;

/// An open file; closed when the last reader lets go of it.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw Error(concat("cannot open ", path, ": ", std::strerror(errno)));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void read_fully(const Descriptor& file, const std::string& path, std::int64_t offset,
                std::int64_t count, unsigned char* out) {
  while (count > 0) {
    const ssize_t got = ::pread(file.get(), out, static_cast<std::size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(concat("cannot read ", path, " at byte ", offset, ": ", std::strerror(errno)));
    if (got == 0)
      throw Error(concat(path, " ends at byte ", offset, ", ", count,
                         " bytes before it did when the run began"));
    out += got;
    offset += got;
    count -= got;
  }
}

}  // namespace

struct FileSet::Impl {
  std::vector<Part> parts;
  std::vector<std::int64_t> first;  // of each part, and the end of the last
  std::mutex mutex;
  std::list<std::pair<std::size_t, std::shared_ptr<Descriptor>>> open;  // used last in front
  std::once_flag loaded;
  std::vector<unsigned char> content;  // of many small files

  std::size_t part_of(std::int64_t byte) const {
    const auto after = std::upper_bound(first.begin(), first.end(), byte);
    return static_cast<std::size_t>(after - first.begin()) - 1;
  }

  /// A source tree: opening a file for each sample would cost more than training on it.
  bool many_and_small() const { return parts.size() > kOpenFiles && first.back() <= kSmall; }

  void read_files(std::int64_t begin, std::int64_t count, unsigned char* to) {
    while (count > 0) {
      const std::size_t part = part_of(begin);
      const std::int64_t within = begin - first[part];
      const std::int64_t piece = std::min(count, parts[part].bytes - within);
      const auto file = descriptor(part);
      read_fully(*file, parts[part].path, parts[part].offset + within, piece, to);
      to += piece;
      begin += piece;
      count -= piece;
    }
  }

  void load() {
    std::vector<unsigned char> all(static_cast<std::size_t>(first.back()));
    read_files(0, first.back(), all.data());
    content = std::move(all);
  }

  std::shared_ptr<Descriptor> descriptor(std::size_t part) {
    const std::lock_guard lock(mutex);
    const auto known = std::find_if(open.begin(), open.end(),
                                    [part](const auto& entry) { return entry.first == part; });
    if (known != open.end()) {
      open.splice(open.begin(), open, known);
    } else {
      open.emplace_front(part, std::make_shared<Descriptor>(parts[part].path));
      if (open.size() > kOpenFiles) open.pop_back();
    }
    return open.front().second;
  }
};

FileSet::FileSet(std::vector<Part> parts) : impl_(std::make_unique<Impl>()) {
  impl_->first.push_back(0);
  for (Part& part : parts) {
    if (part.bytes == 0) continue;
    impl_->first.push_back(impl_->first.back() + part.bytes);
    impl_->parts.push_back(std::move(part));
  }
}
FileSet::FileSet(FileSet&&) noexcept = default;
FileSet& FileSet::operator=(FileSet&&) noexcept = default;
FileSet::~FileSet() = default;

std::int64_t FileSet::bytes() const {
  return impl_->first.back();
}
const std::vector<FileSet::Part>& FileSet::parts() const {
  return impl_->parts;
}

void FileSet::read(std::int64_t begin, std::int64_t count, void* out) const {
  TESSERA_CHECK(begin >= 0 && count >= 0 && begin + count <= bytes(), "read of [", begin, ", ",
                begin + count, ") in ", bytes(), " bytes");
  auto* to = static_cast<unsigned char*>(out);
  if (!impl_->many_and_small()) return impl_->read_files(begin, count, to);
  std::call_once(impl_->loaded, [this] { impl_->load(); });
  std::copy_n(impl_->content.begin() + begin, count, to);
}

FileSet::Place FileSet::place_of(std::int64_t begin) const {
  TESSERA_CHECK(begin >= 0 && begin < bytes(), "place of byte ", begin, " of ", bytes());
  const std::size_t part = impl_->part_of(begin);
  return {impl_->parts[part].path, impl_->parts[part].offset + begin - impl_->first[part]};
}

Digest FileSet::digest() const {
  Digest sizes;
  sizes.add(static_cast<std::uint64_t>(impl_->parts.size()));
  for (const Part& part : impl_->parts) sizes.add(static_cast<std::uint64_t>(part.bytes));

  Digest content;
  std::vector<unsigned char> buffer(static_cast<std::size_t>(kEnds));
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += kEnds) {
      const std::int64_t count = std::min(kEnds, end - at);
      read(at, count, buffer.data());
      content.add_bytes(at, buffer.data(), static_cast<std::size_t>(count));
    }
  };
  if (bytes() <= kSmall) {
    add(0, bytes());
  } else {
    add(0, kEnds);
    const std::int64_t tail = (bytes() - kEnds) / 8 * 8;
    for (std::int64_t i = 0; i < kWindows; ++i) {
      const std::int64_t at = kEnds + (tail - kEnds - kWindow) / 8 * i / kWindows * 8;
      add(at, at + kWindow);
    }
    add(tail, bytes());
  }
  return sizes.add(content);
}

}  // namespace tessera::data
