// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace tessera {

/// Parses a finite decimal number; the entire text must be used. Otherwise returns false and leaves
/// `value`.
bool parse_number(std::string_view text, double& value);

}  // namespace tessera
