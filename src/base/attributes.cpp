// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/attributes.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"

namespace tessera {
namespace {

template <class T>
const T& get(const Attribute* attribute, std::string_view name) {
  TESSERA_CHECK(attribute != nullptr, "no attribute '", name, "'");
  const T* value = std::get_if<T>(attribute);
  TESSERA_CHECK(value != nullptr, "attribute '", name, "' has another type");
  return *value;
}

std::string text_of(const Attribute& attribute) {
  struct Visitor {
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return format_double(value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<std::int64_t>& values) const {
      std::vector<std::string> pieces;
      for (auto value : values) pieces.push_back(std::to_string(value));
      return "[" + join(pieces, ",") + "]";
    }
  };
  return std::visit(Visitor{}, attribute);
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

Attributes& Attributes::set(std::string name, Attribute value) {
  for (auto& entry : entries_)
    if (entry.first == name) {
      entry.second = std::move(value);
      return *this;
    }
  entries_.emplace_back(std::move(name), std::move(value));
  return *this;
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

bool Attributes::contains(std::string_view name) const {
  return find(name) != nullptr;
}
std::int64_t Attributes::integer(std::string_view name) const {
  return get<std::int64_t>(find(name), name);
}
double Attributes::real(std::string_view name) const {
  const Attribute* attribute = find(name);
  const auto* whole = attribute ? std::get_if<std::int64_t>(attribute) : nullptr;
  return whole ? static_cast<double>(*whole) : get<double>(attribute, name);
}
const std::string& Attributes::text(std::string_view name) const {
  return get<std::string>(find(name), name);
}
const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const {
  return get<std::vector<std::int64_t>>(find(name), name);
}
std::int64_t Attributes::integer_or(std::string_view name, std::int64_t fallback) const {
  return contains(name) ? integer(name) : fallback;
}
double Attributes::real_or(std::string_view name, double fallback) const {
  return contains(name) ? real(name) : fallback;
}

std::uint64_t Attributes::hash() const {
  std::uint64_t hash = 0;
  for (const auto& [name, value] : entries_)
    hash = hash_combine(hash_combine(hash, hash_text(name)), hash_text(text_of(value)));
  return hash;
}

std::string Attributes::to_string() const {
  std::vector<std::string> pieces;
  for (const auto& [name, value] : entries_) pieces.push_back(name + "=" + text_of(value));
  return join(pieces, " ");
}

}  // namespace tessera
