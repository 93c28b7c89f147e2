// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/deck.hpp"

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::config;

namespace {

using test::message_of;

std::string parse_error(const std::string& text) {
  return message_of([&] { Deck::parse(text, "d.ini"); });
}

}  // namespace

TEST_CASE("Sections, blanks and comments") {
  const Deck deck = Deck::parse(
      "# head\n  # --a.b=\"c d\" in a comment\n[data]\npath=a#b # and a comment\n  length =  "
      "12\n\n[sample]\nprompt = \" # "
      "\\\"x\\n\" # c\n"
      "empty =\nrules = batch:batch, vocab:model\nonly = # nothing\nopen = \"half # c\n",
      "d.ini");
  CHECK(deck.find("data.path") == "a#b");
  CHECK(deck.find("data.length") == "12");
  CHECK(deck.find("sample.prompt") == " # \"x\n");
  CHECK(deck.find("sample.empty") == "");
  CHECK(deck.find("sample.rules") == "batch:batch, vocab:model");
  CHECK(deck.find("sample.only") == "");
  CHECK(deck.find("sample.open") == "\"half");
  CHECK_FALSE(deck.find("data.missing"));
}

TEST_CASE("Windows line ends, a byte order mark and a missing last line end are accepted") {
  const Deck deck = Deck::parse("\xEF\xBB\xBF[a]\r\nx = 1\r\ny = two words\r\nz = 3", "d.ini");
  CHECK(deck.find("a.x") == "1");
  CHECK(deck.find("a.y") == "two words");
  CHECK(deck.find("a.z") == "3");
}

TEST_CASE("What Boost would take silently is refused with its line") {
  CHECK(parse_error("[a]\nx = 1\nx = 1\n") ==
        "d.ini:3: 'a.x' is given a second time, first in line 2");
  CHECK(parse_error("[a]\nx = 1\n[b]\n\n[a]\ny = 1\n") ==
        "d.ini:5: section [a] is opened a second time, first in line 1");
  CHECK(parse_error("[a]\nnonsense\n") == "d.ini:2: 'nonsense' is not of the form key = value");
  CHECK(parse_error("[a\nx = 1\n") == "d.ini:1: '[a' is no section: write [name]");
  CHECK(parse_error("= 3\n") == "d.ini:1: no key in front of '='");
}

TEST_CASE("Files that are no text are refused, whatever their first line says") {
  using namespace std::string_literals;
  const std::string end = "; a deck is text in UTF-8 whose lines end with LF or CRLF";
  CHECK(parse_error("[a]\nx = 1\0\n"s) == "d.ini:2: holds byte 0" + end);
  CHECK(parse_error("\xff\xfe[\0a\0]\0\n\0"s) == "d.ini:1: holds byte 0" + end);
  CHECK(parse_error("[a]\rx = 1\r") == "d.ini:1: holds byte 13" + end);
  CHECK(parse_error("\x7f\x45LF\x02\x01") == "d.ini:1: holds byte 2" + end);
  CHECK(Deck::parse("[a]\nx = caf\xc3\xa9\ty\n", "d.ini").find("a.x") == "caf\xc3\xa9\ty");
}

TEST_CASE("The command line wins over the file") {
  Deck deck = Deck::parse("[a]\nx = 1\npath = here\n", "/decks/d.ini");
  deck.set({"--a.x=2", "--a.empty=", "--a.equals=b=c", "--a.comment=x # y", "--a.x=2"});
  std::string x, path, empty = "full", equals, comment;
  Schema schema;
  schema.add("a.x", x, "");
  schema.add("a.path", path, "").path();
  schema.add("a.empty", empty, "");
  schema.add("a.equals", equals, "");
  schema.add("a.comment", comment, "");
  deck.apply(schema);
  CHECK(x == "2");
  CHECK(path == "/decks/here");
  CHECK(empty.empty());
  CHECK(equals == "b=c");
  CHECK(comment == "x # y");
  deck.set({"--a.path=there"});
  deck.apply(schema);
  CHECK(path == (std::filesystem::current_path() / "there").string());
}

TEST_CASE("Settings must have a value, and one only") {
  Deck deck;
  CHECK(message_of([&] { deck.set({"--a.x"}); }) ==
        "'--a.x' has no value: write --a.x=value, or --a.x= for an empty one");
  CHECK(message_of([&] {
          deck.set({"--a.x=1", "--a.x=2"});
        }) == "command line: 'a.x' is given two values, '1' and '2'");
  // What the stored deck could not be read with; what it can is quoted there.
  CHECK(message_of([&] { deck.set({"--a.y=1\x02"}); }) ==
        "command line: the value of 'a.y' holds byte 2; values are text in UTF-8");
  deck.set({"--a.z=\tone\r\ntwo"});
  CHECK(deck.find("a.z") == "\tone\r\ntwo");
}

TEST_CASE("Keys are never guessed from their beginnings") {
  std::int64_t steps = 0;
  Schema schema;
  schema.add("train.steps", steps, "");
  Deck deck;
  deck.set({"--train.st=5"});
  CHECK(message_of([&] { deck.apply(schema); }) ==
        "command line: unknown key 'train.st' (did you mean 'train.steps'?)");
  CHECK(message_of([&] { Deck::parse("steps = 3\n", "d.ini").apply(schema); }) ==
        "d.ini:1: unknown key 'steps' (did you mean 'train.steps'?)");
}

TEST_CASE("A missing deck offers the names that are near") {
  const test::Scratch scratch;
  const auto& folder = scratch.folder();
  std::ofstream(folder / "quickstart.ini") << "[a]\n";
  const std::string message =
      message_of([&] { read_deck_file((folder / "quikstart.ini").string()); });
  CHECK(message.find("there is no such file (did you mean '" +
                     (folder / "quickstart.ini").string()) != std::string::npos);
  CHECK(message_of([&] { read_deck_file(folder.string()); }).find("is a folder, not a deck") !=
        std::string::npos);
  CHECK(read_deck_file((folder / "quickstart.ini").string()) == "[a]\n");
  const std::string long_text(10000, '#');
  std::ofstream(folder / "long.ini") << long_text;
  CHECK(read_deck_file((folder / "long.ini").string()) == long_text);
  // Opens, but its first byte, of an address that is not mapped, cannot be read.
  CHECK(message_of([&] { read_deck_file("/proc/self/mem"); }).find("cannot read deck") == 0);
}

TEST_CASE("A command line has a verb, files, flags and settings") {
  const auto line = parse_command_line(
      {"plan", "lm.ini", "--json", "--explain=logits", "--plan.ranks=8", "--mesh.shape="});
  CHECK(line.verb == "plan");
  CHECK(line.files == std::vector<std::string>{"lm.ini"});
  CHECK(line.has("json"));
  CHECK(line.has("explain"));
  CHECK_FALSE(line.has("search"));
  CHECK(line.text_of("explain") == "logits");
  CHECK(line.settings == std::vector<std::string>{"--plan.ranks=8", "--mesh.shape="});
  CHECK_THROWS_AS(parse_command_line({"plan", "-j"}), UserError);
}
