// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"

using namespace tessera;

namespace {
void do_nothing(const device::Exec&, const kernels::Call&) {}
void do_less(const device::Exec&, const kernels::Call&) {}

template <class Function>
std::string message_of(const Function& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a kernel is found under the id that it was registered with") {
  kernels::register_kernel("test_nothing", do_nothing);
  CHECK(kernels::find_kernel("test_nothing") == do_nothing);
}

TEST_CASE("an id is taken once") {
  kernels::register_kernel("test_twice", do_nothing);
  const auto text = message_of([] { kernels::register_kernel("test_twice", do_less); });
  CHECK(text.find("'test_twice'") != std::string::npos);
  CHECK(kernels::find_kernel("test_twice") == do_nothing);
}

TEST_CASE("a missing kernel is named") {
  const auto text = message_of([] { kernels::find_kernel("no_such"); });
  CHECK(text.find("'no_such'") != std::string::npos);
}
