// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/env/environment.hpp"

#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/base/text.hpp"
#include "tessera/env/cart_pole.hpp"
#include "tessera/env/pendulum.hpp"

namespace tessera::env {
namespace {

template <class E>
std::unique_ptr<Environment> make() {
  return std::make_unique<E>();
}

std::map<std::string, MakeEnvironment>& registry() {
  static std::map<std::string, MakeEnvironment> makers{{"pendulum", make<Pendulum>},
                                                       {"cart_pole", make<CartPole>}};
  return makers;
}

}  // namespace

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : registry()) names.push_back(name);
  return names;
}

std::unique_ptr<Environment> make_environment(const std::string& name) {
  const auto found = registry().find(name);
  const auto names = environment_names();
  check_user(found != registry().end(), "there is no environment '", name, "'",
             did_you_mean(name, names), "; there are ", join(names, ", "));
  return found->second();
}

void add_environment(const std::string& name, MakeEnvironment make) {
  TESSERA_CHECK(registry().emplace(name, std::move(make)).second, "an environment '", name,
                "' exists");
}

double start_draw(const EpisodeKey& key, std::int64_t index) {
  const auto stream = stream_key(stream_key(key.seed, hash_text("environment")),
                                 static_cast<std::uint64_t>(key.environment));
  return uniform_of(random_word(stream, static_cast<std::uint64_t>(key.episode),
                                static_cast<std::uint64_t>(index)));
}

}  // namespace tessera::env
