// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// How ids and text relate. Three kinds: bytes (id = byte), pieces (each id prints as a piece of
/// text), and bare numbers (nothing is known about the ids, they print as "17 4 99").
class Vocabulary {
 public:
  static Vocabulary bytes();
  static Vocabulary numbers(std::int64_t size);
  /// pieces[id] is what id prints; an empty piece (a control id) prints nothing. With
  /// `leading_blank` text was given a blank in front before it was cut into pieces (SentencePiece's
  /// dummy prefix). `scores`, one for each piece or none: log probabilities of a unigram model.
  static Vocabulary pieces(std::vector<std::string> pieces, bool leading_blank,
                           const std::vector<double>& scores = {});

  std::int64_t size() const { return size_; }
  /// Text of ids. Ids outside the vocabulary print as "<17>".
  std::string decode(std::span<const std::int32_t> ids) const;
  /// Ids of a text. Pieces with scores: the likeliest way to cut it, as SentencePiece's unigram
  /// models do (Kudo, "Subword Regularization", 2018); without: the longest piece that fits, from
  /// the left. Numbers: ids separated by blanks. UserError naming what cannot be encoded.
  std::vector<std::int32_t> encode(std::string_view text) const;

  bool operator==(const Vocabulary& other) const;

 private:
  enum class Kind : std::uint8_t { bytes, numbers, pieces };
  Kind kind_ = Kind::bytes;
  std::int64_t size_ = 256;
  bool leading_blank_ = false;
  std::size_t longest_ = 0;
  std::vector<std::string> pieces_;
  struct Piece {
    std::int32_t id;
    double score;
  };
  const Piece* find(std::string_view text) const;
  std::vector<std::int32_t> likeliest(std::string_view text) const;
  std::vector<std::int32_t> longest(std::string_view text) const;

  std::map<std::string, Piece, std::less<>> ids_;
  bool has_scores_ = false;
};

}  // namespace tessera::data
