// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/app.hpp"

int main(int argc, char** argv) {
  return tessera::App().main(argc, argv);
}
