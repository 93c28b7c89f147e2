// SPDX-License-Identifier: BSD-3-Clause
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"

using namespace tessera;

namespace {
void do_nothing(const device::Exec&, const kernels::Call&) {}
void do_less(const device::Exec&, const kernels::Call&) {}
}  // namespace

TEST_CASE("a kernel is found under the id that it was registered with") {
  kernels::register_kernel("test_nothing", do_nothing);
  CHECK(kernels::find_kernel("test_nothing") == do_nothing);
}

TEST_CASE("an id is taken once") {
  kernels::register_kernel("test_twice", do_nothing);
  const auto text =
      test::message_of<Error>([] { kernels::register_kernel("test_twice", do_less); });
  CHECK(test::contains(text, "'test_twice'"));
  CHECK(kernels::find_kernel("test_twice") == do_nothing);
}

TEST_CASE("a missing kernel is named") {
  const auto text = test::message_of<Error>([] { kernels::find_kernel("no_such"); });
  CHECK(test::contains(text, "'no_such'"));
}
