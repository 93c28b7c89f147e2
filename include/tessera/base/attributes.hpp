// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

/// One parameter of an operation or kernel.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// Named parameters of an operation or kernel: plain data that can be printed and hashed, in the
/// order in which they were set. The same on all ranks.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries);

  /// Adds or replaces.
  Attributes& set(std::string name, Attribute value);
  bool contains(std::string_view name) const;

  /// The value under `name`; Error if it is missing or of another type. An integer is a real, too:
  /// in files of others' making whole numbers are often stored as such.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  /// The value, or `fallback` if there is none.
  std::int64_t integer_or(std::string_view name, std::int64_t fallback) const;
  double real_or(std::string_view name, double fallback) const;

  const std::vector<std::pair<std::string, Attribute>>& entries() const { return entries_; }
  std::uint64_t hash() const;
  /// "causal=1 scale=0.125".
  std::string to_string() const;
  bool operator==(const Attributes&) const = default;

 private:
  const Attribute* find(std::string_view name) const;
  std::vector<std::pair<std::string, Attribute>> entries_;
};

}  // namespace tessera
