// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/vocabulary.hpp"

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;
using Ids = std::vector<std::int32_t>;

TEST_CASE("Bytes of any value come back as they went in") {
  const Vocabulary bytes = Vocabulary::bytes();
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
  const Ids ids = bytes.encode(text);
  CHECK(bytes.size() == 256);
  CHECK(ids.front() == 0);
  CHECK(ids.back() == 255);
  CHECK(bytes.decode(ids) == text);
  CHECK(bytes.decode(Ids{'a', 300, -1}) == "a<300><-1>");
}

TEST_CASE("Pieces: the longest that fits, a leading blank, bytes as a last resort") {
  const std::string snowman = "\xe2\x98\x83";
  const Vocabulary pieces = Vocabulary::pieces(
      {"", "a", "ab", "abc", " the", " t", "\xe2", "\x98", "\x83", "b", " ", "a"}, true);
  CHECK(pieces.size() == 12);
  CHECK(pieces.encode("the") == Ids{4});
  CHECK(pieces.encode("t") == Ids{5});
  CHECK(pieces.encode("abcabb") == Ids{10, 3, 2, 9});
  CHECK(pieces.encode(snowman) == Ids{10, 6, 7, 8});
  CHECK(pieces.encode("").empty());
  for (const std::string& text : {std::string("the the abcab"), "a" + snowman, std::string(" a")})
    CHECK(pieces.decode(pieces.encode(text)) == text);
  CHECK(pieces.decode(Ids{0, 4, 0, 2}) == "theab");  // a control id prints nothing
  CHECK(pieces.decode(Ids{1, 12}) == "a<12>");
  CHECK(contains(message_of<UserError>([&] { pieces.encode("abx"); }), "'x'"));
}

TEST_CASE("Numbers, where nothing is known about the ids") {
  const Vocabulary numbers = Vocabulary::numbers(100);
  CHECK(numbers.decode(Ids{17, 4, 99}) == "17 4 99");
  CHECK(numbers.encode(" 17  4 99") == Ids{17, 4, 99});
  CHECK(contains(message_of<UserError>([&] { numbers.encode("17 100"); }), "'100'"));
  CHECK(contains(message_of<UserError>([&] { numbers.encode("hello"); }), "'hello'"));
}

TEST_CASE("Vocabularies are equal if they print alike") {
  CHECK(Vocabulary::bytes() == Vocabulary::bytes());
  CHECK_FALSE(Vocabulary::bytes() == Vocabulary::numbers(256));
  CHECK(Vocabulary::pieces({"a", "b"}, false) == Vocabulary::pieces({"a", "b"}, false));
  CHECK_FALSE(Vocabulary::pieces({"a", "b"}, false) == Vocabulary::pieces({"a", "c"}, false));
  CHECK_FALSE(Vocabulary::pieces({"a", "b"}, false) == Vocabulary::pieces({"a", "b"}, true));
}

TEST_CASE("With scores the likeliest cut is taken, not the longest piece first") {
  const std::vector<std::string> pieces{"", "a", "b", "c", "ab", "bc", "a"};
  const std::vector<float> scores{0, -9, -4, -4, -5, -2, -3};
  const auto vocabulary = Vocabulary::pieces(pieces, false, scores);
  using Ids = std::vector<std::int32_t>;
  CHECK(vocabulary.encode("abc") == Ids{6, 5});  // -5, better than ab c with -9
  CHECK(vocabulary.encode("ab") == Ids{4});
  CHECK(vocabulary.encode("").empty());
  CHECK(Vocabulary::pieces(pieces, false).encode("abc") == Ids{4, 3});
  CHECK_THROWS_AS(vocabulary.encode("abd"), UserError);
}

}  // namespace
}  // namespace tessera::data
