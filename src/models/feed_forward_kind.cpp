// SPDX-License-Identifier: BSD-3-Clause
#include "models/feed_forward_kind.hpp"

#include "tessera/base/error.hpp"

namespace tessera::models {
namespace {

struct Entry {
  const char* name;
  FeedForwardKind kind;
};

constexpr Entry kKinds[] = {
    {"relu", {nn::Activation::relu, false}},           {"gelu", {nn::Activation::gelu, false}},
    {"gelu_tanh", {nn::Activation::gelu_tanh, false}}, {"silu", {nn::Activation::silu, false}},
    {"reglu", {nn::Activation::relu, true}},           {"geglu", {nn::Activation::gelu, true}},
    {"swiglu", {nn::Activation::silu, true}},
};

}  // namespace

FeedForwardKind feed_forward_kind(const std::string& name) {
  for (const Entry& entry : kKinds)
    if (name == entry.name) return entry.kind;
  throw Error(concat("activation ", name));
}

std::vector<std::string> feed_forward_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kKinds) names.emplace_back(entry.name);
  return names;
}

}  // namespace tessera::models
