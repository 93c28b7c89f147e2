// SPDX-License-Identifier: BSD-3-Clause
#include "plan/memory.hpp"

#include <random>

#include "support/catch.hpp"

using namespace tessera;
using program::BufferId;

namespace {

BufferId add_buffer(program::Section& section, std::int64_t bytes) {
  program::Buffer buffer;
  buffer.name = "b" + std::to_string(section.buffers.size());
  buffer.spec = {Shape{{"n", bytes / 4}}, DType::f32};
  buffer.bytes = bytes;
  section.buffers.push_back(buffer);
  return static_cast<BufferId>(section.buffers.size()) - 1;
}

program::Section random_section(std::mt19937& random) {
  program::Section section;
  section.inputs.push_back({"in", add_buffer(section, 400)});
  std::vector<BufferId> known{0};
  for (int i = 0; i < 60; ++i) {
    program::KernelStep step;
    step.kernel = "any";
    for (int k = 0; k < 2; ++k) step.inputs.push_back(known[random() % known.size()]);
    step.outputs.push_back(add_buffer(section, 4 * static_cast<std::int64_t>(random() % 300)));
    step.workspace_bytes = random() % 4 == 0 ? 512 : 0;
    if (random() % 2) step.in_place = {{0, 0}};
    known.push_back(step.outputs[0]);
    section.steps.emplace_back(step);
  }
  section.fetches.push_back({"out", known.back()});
  return section;
}

/// Runs the plan in pretence: every buffer must still hold what was last written to it when it is
/// read.
void check_contents(const program::Section& section) {
  std::vector<int> owner(static_cast<std::size_t>(section.arena_bytes), -1);
  const auto write = [&](std::int64_t offset, std::int64_t bytes, int tag) {
    REQUIRE(offset + bytes <= section.arena_bytes);
    for (std::int64_t i = offset; i < offset + bytes; ++i) owner[static_cast<std::size_t>(i)] = tag;
  };
  const auto holds = [&](BufferId id) {
    const auto& buffer = section.buffers[static_cast<std::size_t>(id)];
    for (std::int64_t i = buffer.offset; i < buffer.offset + buffer.bytes; ++i)
      if (owner[static_cast<std::size_t>(i)] != id) return false;
    return true;
  };
  write(section.buffers[0].offset, section.buffers[0].bytes, 0);
  for (std::size_t s = 0; s < section.steps.size(); ++s) {
    const auto& step = std::get<program::KernelStep>(section.steps[s]);
    if (step.workspace_bytes) write(step.workspace_offset, step.workspace_bytes, -2);
    for (BufferId id : step.inputs) REQUIRE(holds(id));
    for (BufferId id : step.outputs)
      write(section.buffers[static_cast<std::size_t>(id)].offset,
            section.buffers[static_cast<std::size_t>(id)].bytes, id);
  }
  for (const auto& fetch : section.fetches) REQUIRE(holds(fetch.buffer));
}

}  // namespace

TEST_CASE("no live tensor is overwritten, in place only where a kernel allows it") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    program::Section section = random_section(random);
    plan::plan_memory(section);
    std::int64_t all = 0;
    for (const auto& buffer : section.buffers) all += plan::align(buffer.bytes);
    CHECK(section.arena_bytes < all);
    check_contents(section);
  }
}
