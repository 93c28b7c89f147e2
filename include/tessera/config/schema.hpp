// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::config {

/// Whether a key may change when a run is resumed.
enum class Role {
  identity,  ///< part of what is trained (model, data, seed, optimizer): must stay
  free       ///< how it is run (mesh, layout, folders, checkpoints): may change
};

/// One deck key: its name, the field that receives its value and what is legal.
struct Key {
  using Field =
      std::variant<std::string*, std::int64_t*, int*, double*, bool*, std::vector<std::string>*>;
  std::string name;  ///< "section.key"
  std::string help;
  Field field;
  std::string default_text;  ///< the field's value when it was added
  bool has_range = false;
  double minimum = 0;
  double maximum = 0;
  std::vector<std::string> choices;  ///< legal words, none: any
  Role role = Role::identity;
  bool is_path = false;  ///< relative to the deck's folder, or to the caller's on the command line

  /// The field's value as it is written in a deck.
  std::string text() const;
  /// "integer", "number", "true|false", "text", "list" …
  std::string type_name() const;
};

/// The deck keys of a program, each bound to a field of an ordinary struct. Modules describe their
/// own keys beside their own structs; the fields must outlive the schema.
class Schema {
 public:
  /// Refines the key that `add` has just made.
  class Binding {
   public:
    Binding(Schema& schema, std::size_t index) : schema_(schema), index_(index) {}
    /// Numbers: legal values, both ends included.
    Binding& range(double minimum, double maximum);
    /// Texts and the elements of lists: the legal words.
    Binding& choices(std::vector<std::string> words);
    Binding& identity();
    Binding& free_key();
    Binding& path();

   private:
    Key& key();
    Schema& schema_;
    std::size_t index_;
  };

  /// Adds a key; the field's present value is its default. Error if the name is taken.
  Binding add(const std::string& name, std::string& field, const std::string& help);
  Binding add(const std::string& name, std::int64_t& field, const std::string& help);
  Binding add(const std::string& name, int& field, const std::string& help);
  Binding add(const std::string& name, double& field, const std::string& help);
  Binding add(const std::string& name, bool& field, const std::string& help);
  Binding add(const std::string& name, std::vector<std::string>& field, const std::string& help);

  const std::vector<Key>& keys() const { return keys_; }
  std::vector<std::string> names() const;
  const Key* find(std::string_view name) const;

  /// Gives a key the value that `text` stands for. `origin` begins messages ("lm.ini:12"), `folder`
  /// is what relative paths start from. UserError: unknown key (with the nearest), text of another
  /// type, value out of range, unknown word.
  void assign(const std::string& name, const std::string& text, const std::string& origin,
              const std::string& folder);

  /// All keys with their present values as the text of a deck; it parses back to the same values.
  std::string resolved() const;
  /// What one key means, its type, default and legal values; UserError with the nearest key.
  std::string help(const std::string& name) const;
  /// The help of all keys, section by section.
  std::string reference() const;

 private:
  Binding append(const std::string& name, Key::Field field, const std::string& help);
  std::vector<Key> keys_;
};

}  // namespace tessera::config
