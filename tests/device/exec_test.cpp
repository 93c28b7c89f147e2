// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/device/exec.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/device/blas.hpp"

using namespace tessera;

// One process starts Kokkos once, so the command line is tested in the case that starts it.
TEST_CASE("the runtime takes Kokkos' options from the command line and one thread for BLAS") {
  std::vector<std::string> words = {"test",
                                    "train",
                                    "--kokkos-threads=1",
                                    "deck.ini",
                                    "--kokkos-no-such-option=3",
                                    "--mesh.shape=a:1"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  device::Runtime runtime(argc, argv.data(), 0, 1);
  REQUIRE(argc == 4);
  CHECK(std::string(argv[1]) == "train");
  CHECK(std::string(argv[2]) == "deck.ini");
  CHECK(std::string(argv[3]) == "--mesh.shape=a:1");
  CHECK(argv[4] == nullptr);
  CHECK(device::blas_threads() == 1);

  const std::string text = device::describe();
  INFO(text);
  CHECK(text.find("Kokkos ") == 0);
  CHECK(text.find("OpenBLAS ") != std::string::npos);
  CHECK(text.find("1 thread,") != std::string::npos);

  const device::Exec exec;
  std::vector<int> out(100), back(100);
  for (int i = 0; i < 100; ++i) out[i] = 3 * i;
  const device::Memory memory(400);
  device::copy_from_host(exec, memory.data(), out.data(), 400);
  device::copy_to_host(exec, back.data(), memory.data(), 400);
  device::copy_to_host(exec, nullptr, nullptr, 0);
  CHECK(back == out);
}

TEST_CASE("memory is aligned, movable and may be empty") {
  device::Memory a(1), b(10 << 20), none(0);
  CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 64 == 0);
  CHECK(none.data() == nullptr);
  void* const data = b.data();
  std::memset(data, 1, b.bytes());
  device::Memory c(std::move(b));
  CHECK(c.data() == data);
  a = std::move(c);
  CHECK(a.data() == data);
  CHECK(a.bytes() == 10 << 20);
}

TEST_CASE("the level of kernels can be lowered, not raised beyond the CPU's") {
  const int supported = device::supported_isa_level();
  CHECK(device::isa_level() == supported);
  if (supported > 0) {
    device::set_isa_level(2);
    CHECK(device::isa_level() == 2);
    device::set_isa_level(supported);
  }
  CHECK_THROWS_AS(device::set_isa_level(supported + 1), Error);
  CHECK(device::isa_level() == supported);
}
