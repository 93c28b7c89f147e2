// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/observers.hpp"

#include <future>

#include "support/catch.hpp"
#include "tessera/comm/simulated_collectives.hpp"

using namespace tessera;

TEST_CASE("The watchdog names the last section when its own name is long gone") {
  comm::SimulatedCollectives collectives(MeshShape::parse("batch:1", 0), nullptr);
  std::promise<std::string> said;
  train::Observers observers(0.05, "", collectives,
                             [&](const std::string& message) { said.set_value(message); });
  program::KernelStep kernel;
  kernel.label = "a step of that section";
  const program::Step step = kernel;
  const std::string name = "a section whose name is too long for the string itself";
  {
    const std::string passing = name;
    observers.begin(passing, step);
    observers.end(passing, step);
  }
  const std::string other(name.size(), 'x');  // most likely where the passing one was
  const std::string message = said.get_future().get();
  INFO(other);
  CHECK(message.find("in section '" + name + "', step 'a step of that section'") !=
        std::string::npos);
}
