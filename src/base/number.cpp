// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/number.hpp"

#include <charconv>
#include <cmath>

namespace tessera {

bool parse_number(std::string_view text, double& value) {
  double parsed = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, parsed);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return false;
  if (!std::isfinite(parsed)) return false;
  value = parsed;
  return true;
}

}  // namespace tessera
