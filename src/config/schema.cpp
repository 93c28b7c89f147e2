// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/schema.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "value.hpp"

namespace tessera::config {
namespace {

std::string section_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}

/// Sections in the order in which the keys name them first.
std::vector<std::string> sections_of(const std::vector<Key>& keys) {
  std::vector<std::string> sections;
  for (const Key& key : keys) {
    const std::string section = section_of(key.name);
    if (std::find(sections.begin(), sections.end(), section) == sections.end())
      sections.push_back(section);
  }
  return sections;
}

std::string describe(const Key& key) {
  std::string out = key.name + "  (" + key.type_name();
  out += key.default_text.empty() ? ", default: empty" : ", default: " + key.default_text;
  if (key.has_range) {
    const bool open = key.maximum > 1e300;
    out += open ? ", at least " + format_double(key.minimum)
                : ", " + format_double(key.minimum) + " to " + format_double(key.maximum);
  }
  if (!key.choices.empty()) out += ", one of " + join(key.choices, "|");
  out += key.role == Role::free ? ", may change on resume)\n" : ")\n";
  return out + "    " + key.help + "\n";
}

}  // namespace

Key& Schema::Binding::key() {
  return schema_.keys_[index_];
}

Schema::Binding& Schema::Binding::range(double minimum, double maximum) {
  key().has_range = true;
  key().minimum = minimum;
  key().maximum = maximum;
  return *this;
}

Schema::Binding& Schema::Binding::choices(std::vector<std::string> words) {
  key().choices = std::move(words);
  return *this;
}

Schema::Binding& Schema::Binding::identity() {
  key().role = Role::identity;
  return *this;
}

Schema::Binding& Schema::Binding::free_key() {
  key().role = Role::free;
  return *this;
}

Schema::Binding& Schema::Binding::path() {
  key().is_path = true;
  return *this;
}

Schema::Binding Schema::append(const std::string& name, Key::Field field, const std::string& help) {
  TESSERA_CHECK(!find(name), "deck key '", name, "' is described twice");
  const auto dot = name.find('.');
  TESSERA_CHECK(dot != std::string::npos && dot > 0 && dot + 1 < name.size(), "deck key '", name,
                "' is not of the form section.key");
  Key key;
  key.name = name;
  key.help = help;
  key.field = field;
  key.default_text = key.text();
  keys_.push_back(std::move(key));
  return {*this, keys_.size() - 1};
}

Schema::Binding Schema::add(const std::string& name, std::string& field, const std::string& help) {
  return append(name, &field, help);
}
Schema::Binding Schema::add(const std::string& name, std::int64_t& field, const std::string& help) {
  return append(name, &field, help);
}
Schema::Binding Schema::add(const std::string& name, int& field, const std::string& help) {
  return append(name, &field, help);
}
Schema::Binding Schema::add(const std::string& name, double& field, const std::string& help) {
  return append(name, &field, help);
}
Schema::Binding Schema::add(const std::string& name, bool& field, const std::string& help) {
  return append(name, &field, help);
}
Schema::Binding Schema::add(const std::string& name, std::vector<std::string>& field,
                            const std::string& help) {
  return append(name, &field, help);
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> names;
  for (const Key& key : keys_) names.push_back(key.name);
  return names;
}

const Key* Schema::find(std::string_view name) const {
  for (const Key& key : keys_)
    if (key.name == name) return &key;
  return nullptr;
}

void Schema::assign(const std::string& name, const std::string& text, const std::string& origin,
                    const std::string& folder) {
  const Key* key = find(name);
  check_user(key, origin, ": unknown key '", name, "'", did_you_mean(name, names()));
  try {
    assign_value(*key, text, folder);
  } catch (const UserError& error) {
    throw UserError(concat(origin, ": ", name, ": ", error.what()));
  }
}

std::string Schema::resolved() const {
  std::string out;
  for (const auto& section : sections_of(keys_)) {
    out += "[" + section + "]\n";
    for (const Key& key : keys_)
      if (section_of(key.name) == section)
        out += key.name.substr(section.size() + 1) + " = " + quoted_if_needed(key.text()) + "\n";
    out += "\n";
  }
  return out;
}

std::string Schema::help(const std::string& name) const {
  if (const Key* key = find(name)) return describe(*key);
  std::string out;
  for (const Key& key : keys_)
    if (section_of(key.name) == name) out += describe(key);
  check_user(!out.empty(), "there is no deck key '", name, "'", did_you_mean(name, names()));
  return out;
}

std::string Schema::reference() const {
  std::string out;
  for (const auto& section : sections_of(keys_)) {
    out += "[" + section + "]\n";
    for (const Key& key : keys_)
      if (section_of(key.name) == section) out += describe(key);
    out += "\n";
  }
  return out;
}

}  // namespace tessera::config
