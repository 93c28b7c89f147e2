// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/metrics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "io/posix_file.hpp"
#include "tessera/base/error.hpp"

namespace tessera::io {
namespace {

/// Value of the key "step" of a line, or -1 if the line is not a whole object with one.
std::int64_t step_of_line(std::string_view line) {
  constexpr std::string_view kKey = "\"step\":";
  const auto at = line.find(kKey);
  if (line.empty() || line.front() != '{' || line.back() != '}' || at == line.npos) return -1;
  const std::string number(line.substr(at + kKey.size()));
  char* end = nullptr;
  const std::int64_t step = std::strtoll(number.c_str(), &end, 10);
  return end == number.c_str() ? -1 : step;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& file)
    : file_(file),
      descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  check_user(descriptor_ >= 0, file_, ": can't write metrics there: ", std::strerror(errno));
}

MetricsFile::~MetricsFile() {
  ::close(descriptor_);
}

void MetricsFile::append(const std::string& json_object) {
  const std::string line = json_object + '\n';
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(descriptor_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(file_, "can't append");
    done += static_cast<std::size_t>(n);
  }
}

std::int64_t MetricsFile::cut_after(const std::string& file, std::int64_t step) {
  if (!std::filesystem::exists(file)) return 0;
  const std::string text = read_file(file);
  std::string kept;
  std::int64_t removed = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const bool ended = newline != std::string::npos;  // else the process died in the middle of it
    const std::size_t end = ended ? newline : text.size();
    const std::string_view line(text.data() + begin, end - begin);
    const std::int64_t at = step_of_line(line);
    if (ended && at >= 0 && at <= step) {
      kept.append(line).push_back('\n');
    } else {
      ++removed;
    }
    begin = end + 1;
  }
  if (removed > 0) replace_file(file, kept);
  return removed;
}

}  // namespace tessera::io
