// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::data {
namespace {

constexpr const char* kNoPiece = "no piece of the vocabulary begins '";
constexpr const char* kNoPieceCure =
    "'; use characters that the vocabulary was trained on, or prepare the data with byte fallback";

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

Vocabulary Vocabulary::pieces(std::vector<std::string> pieces, bool leading_blank,
                              const std::vector<double>& scores) {
  TESSERA_CHECK(scores.empty() || scores.size() == pieces.size(), scores.size(), " scores of ",
                pieces.size(), " pieces");
  Vocabulary vocabulary;
  vocabulary.has_scores_ = !scores.empty();
  vocabulary.kind_ = Kind::pieces;
  vocabulary.size_ = static_cast<std::int64_t>(pieces.size());
  vocabulary.leading_blank_ = leading_blank;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty()) continue;
    // Of equal pieces (a byte and a character piece may print the same) the likelier one counts,
    // or the first.
    const Piece piece{static_cast<std::int32_t>(id), scores.empty() ? 0 : scores[id]};
    const auto [known, is_new] = vocabulary.ids_.emplace(pieces[id], piece);
    if (!is_new && piece.score > known->second.score) known->second = piece;
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
  if (kind_ == Kind::bytes) {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  const std::string whole =
      leading_blank_ && !text.empty() ? " " + std::string(text) : std::string(text);
  return has_scores_ ? likeliest(whole) : longest(whole);
}

const Vocabulary::Piece* Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? nullptr : &found->second;
}

std::vector<std::int32_t> Vocabulary::longest(std::string_view text) const {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t count = std::min(longest_, text.size() - at);
    const Piece* piece = nullptr;
    for (; count > 0 && !piece; --count) piece = find(text.substr(at, count));
    check_user(piece != nullptr, kNoPiece, text.substr(at, 12), kNoPieceCure);
    ids.push_back(piece->id);
    at += count + 1;
  }
  return ids;
}

/// The path of the largest sum of scores through all pieces that the text holds (Viterbi).
std::vector<std::int32_t> Vocabulary::likeliest(std::string_view text) const {
  struct Step {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t from = 0;
    std::int32_t id = -1;
  };
  std::vector<Step> best(text.size() + 1);
  best[0].score = 0;
  std::size_t reached = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (std::isinf(best[at].score)) continue;
    for (std::size_t count = 1; count <= std::min(longest_, text.size() - at); ++count) {
      const Piece* piece = find(text.substr(at, count));
      if (!piece) continue;
      reached = std::max(reached, at + count);
      const double score = best[at].score + piece->score;
      if (score > best[at + count].score) best[at + count] = {score, at, piece->id};
    }
  }
  check_user(!std::isinf(best.back().score), kNoPiece, text.substr(reached, 12), kNoPieceCure);
  std::vector<std::int32_t> ids;
  for (std::size_t at = text.size(); at > 0; at = best[at].from) ids.push_back(best[at].id);
  std::reverse(ids.begin(), ids.end());
  return ids;
}

bool Vocabulary::operator==(const Vocabulary& other) const {
  return kind_ == other.kind_ && size_ == other.size_ && leading_blank_ == other.leading_blank_ &&
         pieces_ == other.pieces_;
}

}  // namespace tessera::data
