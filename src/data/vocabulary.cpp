// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/vocabulary.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::data {
namespace {

std::vector<std::int32_t> parse_numbers(std::string_view text, std::int64_t size) {
  std::vector<std::int32_t> ids;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    std::int64_t id = 0;
    check_user(parse_integer(word, id) && id >= 0 && id < size, "'", word,
               "' is no token id below ", size,
               "; this data stores no pieces of text, so a prompt is a list of ids: 17 4 99");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

}  // namespace

Vocabulary Vocabulary::bytes() {
  return {};
}

Vocabulary Vocabulary::numbers(std::int64_t size) {
  Vocabulary vocabulary;
  vocabulary.kind_ = Kind::numbers;
  vocabulary.size_ = size;
  return vocabulary;
}

Vocabulary Vocabulary::pieces(std::vector<std::string> pieces, bool leading_blank) {
  Vocabulary vocabulary;
  vocabulary.kind_ = Kind::pieces;
  vocabulary.size_ = static_cast<std::int64_t>(pieces.size());
  vocabulary.leading_blank_ = leading_blank;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty()) continue;
    // Of equal pieces the first counts (a byte and a character piece may print the same).
    vocabulary.ids_.emplace(pieces[id], static_cast<std::int32_t>(id));
    vocabulary.longest_ = std::max(vocabulary.longest_, pieces[id].size());
  }
  vocabulary.pieces_ = std::move(pieces);
  return vocabulary;
}

std::string Vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (kind_ == Kind::numbers && !text.empty()) text += ' ';
    if (id < 0 || id >= size_)
      text += concat("<", id, ">");
    else if (kind_ == Kind::bytes)
      text += static_cast<char>(static_cast<unsigned char>(id));
    else if (kind_ == Kind::numbers)
      text += std::to_string(id);
    else
      text += pieces_[static_cast<std::size_t>(id)];
  }
  if (leading_blank_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  if (kind_ == Kind::numbers) return parse_numbers(text, size_);
  std::vector<std::int32_t> ids;
  if (kind_ == Kind::bytes) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  const std::string whole =
      leading_blank_ && !text.empty() ? " " + std::string(text) : std::string(text);
  for (std::size_t at = 0; at < whole.size();) {
    auto found = ids_.end();
    for (std::size_t count = std::min(longest_, whole.size() - at); count > 0; --count) {
      found = ids_.find(std::string_view(whole).substr(at, count));
      if (found != ids_.end()) break;
    }
    check_user(found != ids_.end(), "no piece of the vocabulary begins '", whole.substr(at, 12),
               "'; use characters that the vocabulary was trained on, or prepare the data with "
               "byte fallback");
    ids.push_back(found->second);
    at += found->first.size();
  }
  return ids;
}

bool Vocabulary::operator==(const Vocabulary& other) const {
  return kind_ == other.kind_ && size_ == other.size_ && leading_blank_ == other.leading_blank_ &&
         pieces_ == other.pieces_;
}

}  // namespace tessera::data
