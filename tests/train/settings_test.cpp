// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/settings.hpp"

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/models/registry.hpp"
#include "tessera/shape/mesh_shape.hpp"

using namespace tessera;

namespace {

train::Models all_models() {
  train::Models models;
  for (const auto& model : models::builtin_models()) models.add(model.name, model.make);
  return models;
}

/// What reading and planning the mesh says to one setting; "" if it is legal.
std::string verdict(const train::Models& models, const std::string& key, const std::string& text) {
  config::Deck deck = config::Deck::parse("", "deck.ini");
  try {
    deck.set(key, text);
    const auto settings = train::read_settings(deck, models);
    if (!settings->mesh.shape.empty()) MeshShape::parse(settings->mesh.shape, 0);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("Whatever text a key is given, it is taken or refused by a message that names the key") {
  const train::Models models = all_models();
  const std::string whole_range = "9223372036854775807";
  for (const std::string& text :
       {std::string(), std::string("abc"), std::string("nan"), std::string("-inf"),
        std::string("-1"), std::string("1e30"), std::string("0x10"), std::string("1 "),
        std::string("*"), std::string("a:b"), std::string("a,,b"), whole_range, whole_range + "0",
        "batch:" + whole_range + ",model:3", std::string(5000, 'x'), std::string("\xff\x01\n")}) {
    for (const std::string& key : train::describe_settings(models, {})->schema.names()) {
      INFO(key << " = " << text.substr(0, 60));
      const std::string message = verdict(models, key, text);
      const std::string section = key.substr(0, key.find('.'));
      CHECK((message.empty() || message.find(section + ".") != std::string::npos));
    }
  }
}

TEST_CASE("What reads like a number and is none does not count as one") {
  const train::Models models = all_models();
  for (const char* text : {"nan", "inf", "1x", "0x10"}) {
    INFO(text);
    for (const char* key : {"optim.lr", "optim.schedule", "run.walltime", "plan.memory_limit",
                            "train.steps", "data.seed"})
      CHECK(verdict(models, key, text) != "");
  }
}

TEST_CASE("Names of weights in another checkpoint need that checkpoint") {
  const train::Models models = all_models();
  const std::string message = verdict(models, "train.init_map", "block=layer_0");
  for (const char* part : {"train.init_map = block=layer_0", "train.init_from is empty"})
    CHECK(message.find(part) != std::string::npos);
  // A run that goes on from a file takes its names from there.
  for (const char* other : {"init_from", "resume"}) {
    const std::string text = concat("[train]\n", other, " = a.h5\ninit_map = block=layer_0\n");
    CHECK_NOTHROW(train::read_settings(config::Deck::parse(text, "deck.ini"), models));
  }
}

TEST_CASE("A mesh has as many ranks as MPI can count") {
  CHECK(MeshShape::parse("batch:2147483647", 0).size() == 2147483647);
  for (const char* shape :
       {"batch:2147483648", "a:65536,b:32768", "a:3037000500,b:3037000500", "a:*,b:4294967296"})
    CHECK_THROWS_AS(MeshShape::parse(shape, 4), UserError);
}
