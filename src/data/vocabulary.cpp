// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/vocabulary.hpp"

#include <algorithm>
#include <limits>

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

[[noreturn]] void cannot_encode(const std::string& text, std::size_t at) {
  throw UserError(concat("no piece of the vocabulary begins '", text.substr(at, 12),
                         "'; use characters that the vocabulary was trained on, or prepare the "
                         "data with byte fallback"));
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

Vocabulary Vocabulary::pieces(std::vector<std::string> pieces, bool leading_blank,
                              std::vector<float> scores) {
  TESSERA_CHECK(scores.empty() || scores.size() == pieces.size(), scores.size(), " scores of ",
                pieces.size(), " pieces");
  Vocabulary vocabulary;
  vocabulary.kind_ = Kind::pieces;
  vocabulary.size_ = static_cast<std::int64_t>(pieces.size());
  vocabulary.leading_blank_ = leading_blank;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty()) continue;
    // Of equal pieces the likeliest counts, or the first: a byte and a character may print the
    // same.
    const auto [entry, is_new] = vocabulary.ids_.emplace(pieces[id], static_cast<std::int32_t>(id));
    if (!is_new && !scores.empty() && scores[id] > scores[static_cast<std::size_t>(entry->second)])
      entry->second = static_cast<std::int32_t>(id);
    vocabulary.longest_ = std::max(vocabulary.longest_, pieces[id].size());
  }
  vocabulary.pieces_ = std::move(pieces);
  vocabulary.scores_ = std::move(scores);
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
      leading_blank_ && !text.empty() ? std::string(" ").append(text) : std::string(text);
  return scores_.empty() ? longest_first(whole) : likeliest(whole);
}

std::vector<std::int32_t> Vocabulary::longest_first(const std::string& text) const {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    auto found = ids_.end();
    for (std::size_t count = std::min(longest_, text.size() - at); count > 0; --count) {
      found = ids_.find(std::string_view(text).substr(at, count));
      if (found != ids_.end()) break;
    }
    if (found == ids_.end()) cannot_encode(text, at);
    ids.push_back(found->second);
    at += found->first.size();
  }
  return ids;
}

std::vector<std::int32_t> Vocabulary::likeliest(const std::string& text) const {
  // The best way to each place, by its last piece.
  struct Way {
    double score = -std::numeric_limits<double>::infinity();
    std::int32_t id = -1;
  };
  std::vector<Way> ways(text.size() + 1);
  ways[0].score = 0;
  std::size_t reached = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (ways[at].score == -std::numeric_limits<double>::infinity()) continue;
    for (std::size_t count = 1; count <= std::min(longest_, text.size() - at); ++count) {
      const auto found = ids_.find(std::string_view(text).substr(at, count));
      if (found == ids_.end()) continue;
      const double score =
          ways[at].score + static_cast<double>(scores_[static_cast<std::size_t>(found->second)]);
      reached = std::max(reached, at + count);
      if (score > ways[at + count].score) ways[at + count] = {score, found->second};
    }
  }
  if (ways.back().id < 0 && !text.empty()) cannot_encode(text, std::min(reached, text.size() - 1));
  std::vector<std::int32_t> ids;
  for (std::size_t at = text.size(); at > 0;) {
    ids.push_back(ways[at].id);
    at -= pieces_[static_cast<std::size_t>(ways[at].id)].size();
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

bool Vocabulary::operator==(const Vocabulary& other) const {
  return kind_ == other.kind_ && size_ == other.size_ && leading_blank_ == other.leading_blank_ &&
         pieces_ == other.pieces_ && scores_ == other.scores_;
}

}  // namespace tessera::data
