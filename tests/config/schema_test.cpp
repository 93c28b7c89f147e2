// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/schema.hpp"

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/deck.hpp"

using namespace tessera;
using namespace tessera::config;

namespace {

struct Fields {
  std::string name = "adam";
  std::int64_t steps = 100;
  int layers = 2;
  double rate = 0.001;
  bool tied = false;
  std::vector<std::string> files{"a", "b"};
  std::string dir = "runs";
  Schema schema;

  Fields() {
    schema.add("optim.name", name, "which optimizer").choices({"adam", "sgd"});
    schema.add("train.steps", steps, "steps in all").range(0, 1e12).free_key();
    schema.add("model.layers", layers, "blocks").range(1, 1000);
    schema.add("optim.lr", rate, "learning rate").range(0, 10);
    schema.add("model.tied", tied, "one table for both ends");
    schema.add("data.files", files, "what to read").path();
    schema.add("run.dir", dir, "where to write").path().free_key();
  }
  void assign(const std::string& key, const std::string& text) {
    schema.assign(key, text, "x.ini:7", "/decks");
  }
  std::string message(const std::string& key, const std::string& text) {
    try {
      assign(key, text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
};

}  // namespace

TEST_CASE("Values of every type reach their fields") {
  Fields f;
  f.assign("optim.name", "sgd");
  f.assign("train.steps", "9000000000");
  f.assign("model.layers", "12");
  f.assign("optim.lr", "3e-4");
  f.assign("model.tied", "on");
  f.assign("data.files", "c, /d/e, ../f");
  CHECK(f.name == "sgd");
  CHECK(f.steps == 9000000000LL);
  CHECK(f.layers == 12);
  CHECK(f.rate == 3e-4);
  CHECK(f.tied);
  CHECK(f.files == std::vector<std::string>{"/decks/c", "/d/e", "/f"});
}

TEST_CASE("An empty value is a value") {
  Fields f;
  f.assign("data.files", "");
  f.assign("run.dir", "");
  CHECK(f.files.empty());
  CHECK(f.dir.empty());
}

TEST_CASE("Illegal values name place, key, text and what is legal") {
  Fields f;
  CHECK(f.message("train.steps", "3.5") == "x.ini:7: train.steps: '3.5' is not a whole number");
  CHECK(f.message("train.steps", "3x") == "x.ini:7: train.steps: '3x' is not a whole number");
  CHECK(f.message("train.steps", "") == "x.ini:7: train.steps: '' is not a whole number");
  CHECK(f.message("model.layers", "0") == "x.ini:7: model.layers: 0 is out of range: 1 to 1000");
  CHECK(f.message("optim.lr", "nan") == "x.ini:7: optim.lr: 'nan' is not a finite number");
  CHECK(f.message("optim.lr", "1e-3f") == "x.ini:7: optim.lr: '1e-3f' is not a finite number");
  CHECK(f.message("model.tied", "maybe") ==
        "x.ini:7: model.tied: 'maybe' is not a truth value: write true or false");
  CHECK(f.message("optim.name", "adan") ==
        "x.ini:7: optim.name: 'adan' is none of adam, sgd (did you mean 'adam'?)");
  CHECK(f.message("optim.learning", "1").find("unknown key 'optim.learning'") != std::string::npos);
  CHECK(f.message("train.step", "1") ==
        "x.ini:7: unknown key 'train.step' (did you mean 'train.steps'?)");
  CHECK(f.message("lr", "1") == "x.ini:7: unknown key 'lr' (did you mean 'optim.lr'?)");
  CHECK(f.steps == 100);
}

TEST_CASE("The resolved deck parses back to the same values") {
  Fields f;
  f.assign("optim.lr", "0.1");
  f.name = "  two words # no comment\n\"quoted\\\" ";
  f.files = {};
  Fields h;
  Schema any;  // without choices, so that the odd text is legal
  std::string name;
  any.add("optim.name", name, "");
  const std::string text = f.schema.resolved();
  Deck deck = Deck::parse(text, "resolved.ini");
  CHECK(deck.find("optim.name") == f.name);
  CHECK(deck.find("optim.lr") == "0.1");
  CHECK(deck.find("data.files") == "");
  f.name = "sgd";
  Deck::parse(f.schema.resolved(), "/x/resolved.ini").apply(h.schema);
  h.dir = f.dir;  // relative paths have become absolute
  CHECK(h.schema.resolved() == f.schema.resolved());
}

TEST_CASE("Identity keys that differ are named with both values") {
  Fields f;
  const std::string old = f.schema.resolved();
  CHECK(identity_differences(f.schema, old).empty());
  f.steps = 7;  // free
  f.layers = 3;
  f.rate = 0.5;
  const auto differences = identity_differences(f.schema, old);
  REQUIRE(differences.size() == 2);
  CHECK(differences[0].key == "model.layers");
  CHECK(differences[0].deck_value == "2");
  CHECK(differences[0].value == "3");
  CHECK(differences[1].key == "optim.lr");
  // A key that the old deck lacks had its default.
  CHECK(identity_differences(f.schema, "[optim]\nlr = 0.5\n[model]\nlayers = 3\n").empty());
}

TEST_CASE("Help describes a key, a section, and everything") {
  Fields f;
  CHECK(f.schema.help("optim.lr") ==
        "optim.lr  (number, default: 0.001, 0 to 10)\n    learning rate\n");
  CHECK(f.schema.help("optim").find("optim.name  (text, default: adam, one of adam|sgd)") !=
        std::string::npos);
  for (const auto& name : f.schema.names())
    CHECK(f.schema.reference().find(name) != std::string::npos);
  CHECK_THROWS_AS(f.schema.help("optim.lrr"), UserError);
}

TEST_CASE("A key is described once and belongs to a section") {
  Fields f;
  CHECK_THROWS_AS(f.schema.add("optim.lr", f.rate, ""), Error);
  CHECK_THROWS_AS(f.schema.add("lr", f.rate, ""), Error);
}
