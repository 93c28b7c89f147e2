// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace tessera::io {

/// metrics.jsonl: one JSON object a line, each with a key "step". One process writes it.
class MetricsFile {
 public:
  /// Opens for appending, creating the file if need be. UserError with the path and the reason.
  explicit MetricsFile(const std::string& file);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Writes one object as a line and hands it to the system at once, so that it survives the
  /// process. Error if that fails (disk full).
  void append(const std::string& json_object);

  /// Removes all lines of later steps than `step` and whatever is not a whole line, for a resumed
  /// run; the file is replaced in one go. Returns the number of lines removed. A missing file is
  /// fine. Call before the file is opened for appending.
  static std::int64_t cut_after(const std::string& file, std::int64_t step);

 private:
  std::string file_;
  int descriptor_ = -1;
};

}  // namespace tessera::io
