// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Whether a name is one of those.
bool lists(const std::vector<std::string>& names, std::string_view name);

std::string trim(std::string_view text);
/// Pieces between separators, trimmed; an empty text gives no pieces.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& pieces, std::string_view separator);

/// The candidate with the smallest edit distance to `word`, or "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// " (did you mean 'x'?)" with the nearest candidate, or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// Parses a whole number; the entire text must be used. Returns false otherwise.
bool parse_integer(std::string_view text, std::int64_t& value);

/// "1.50 GiB", "312 B".
std::string format_bytes(double bytes);
/// "4.90 B", "132 k": counts with the suffixes k, M, B, T.
std::string format_count(double count);
/// "1,234,567".
std::string with_commas(std::int64_t value);
/// Text of a double that reads back to the same value, as short as can be.
std::string format_double(double value);

/// Shell-like pattern with * and ?.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace tessera
