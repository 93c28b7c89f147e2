// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/device/blas.hpp"

#include <sstream>

#include "tessera/base/error.hpp"

// Declared here because the cblas.h that is found first may be another library's.
extern "C" {
void openblas_set_num_threads(int threads);
int openblas_get_num_threads(void);
char* openblas_get_config(void);
char* openblas_get_corename(void);
}

namespace tessera::device {

void set_blas_threads(int threads) {
  TESSERA_CHECK(threads > 0, "BLAS needs at least one thread, not ", threads);
  openblas_set_num_threads(threads);
}

int blas_threads() {
  return openblas_get_num_threads();
}

std::string describe_blas() {
  std::istringstream config(openblas_get_config());
  std::string name, version;
  config >> name >> version;
  return name + " " + version + " " + openblas_get_corename();
}

}  // namespace tessera::device
