// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera::test {

/// Runs the program's tests as its arguments say; the number of those that failed.
int run_catch(int argc, char** argv);

}  // namespace tessera::test
