// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/config/schema.hpp"

/// Text of a deck <-> value of a field.
namespace tessera::config {

/// Gives the field of `key` the value that `text` stands for; `folder` as in Schema::assign.
/// UserError without origin: the caller puts it in front.
void assign_value(const Key& key, const std::string& text, const std::string& folder);

/// A value as it must be written in a deck: quoted if blanks, a comment or line ends would be lost.
std::string quoted_if_needed(const std::string& value);
/// The inverse: takes the quotes and escapes away, if there are any.
std::string unquoted(const std::string& value);

}  // namespace tessera::config
