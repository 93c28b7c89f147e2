// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/pair_source.hpp"

namespace tessera::data {
namespace {

constexpr int kLetters = 12;
constexpr std::int32_t kEnd = 1, kBlank = 2;

/// One to three words of two to five letters.
std::string sentence(std::uint64_t key, std::int64_t number) {
  std::uint64_t drawn = 0;
  const auto draw = [&](std::uint64_t below) {
    const std::uint64_t word = random_word(key, static_cast<std::uint64_t>(number), drawn++);
    return (word * below) >> 32;
  };
  std::string text;
  for (std::uint64_t words = 1 + draw(3); words > 0; --words) {
    if (!text.empty()) text += ' ';
    for (std::uint64_t letters = 2 + draw(4); letters > 0; --letters)
      text += static_cast<char>('a' + draw(kLetters));
  }
  return text;
}

void append(const std::string& text, std::vector<std::int32_t>& ids,
            std::vector<std::int64_t>& ends) {
  for (const char c : text) ids.push_back(c == ' ' ? kBlank : kBlank + 1 + (c - 'a'));
  ids.push_back(kEnd);
  ends.push_back(static_cast<std::int64_t>(ids.size()));
}

}  // namespace

std::string generated_translation(const std::string& source) {
  std::vector<std::string> words = split(source, ' ');
  for (std::string& word : words) std::reverse(word.begin(), word.end());
  return join(words, " ");
}

PairsPtr generated_pairs(std::int64_t count, std::uint64_t seed) {
  const std::uint64_t key = stream_key(seed, hash_text("data.pairs"));
  std::vector<std::int32_t> source, target;
  std::vector<std::int64_t> source_ends, target_ends;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string text = sentence(key, i);
    append(text, source, source_ends);
    append(generated_translation(text), target, target_ends);
  }
  return std::make_shared<Pairs>(
      from_ids(std::move(source), "generated pairs"), std::move(source_ends),
      from_ids(std::move(target), "generated pairs"), std::move(target_ends));
}

Vocabulary generated_vocabulary() {
  std::vector<std::string> pieces{"", "", " "};
  for (int letter = 0; letter < kLetters; ++letter)
    pieces.emplace_back(1, static_cast<char>('a' + letter));
  return Vocabulary::pieces(std::move(pieces), false);
}

}  // namespace tessera::data
