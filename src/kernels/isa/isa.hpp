// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Host kernels for several x86-64 levels. A file in this folder is compiled once for each level,
// with TESSERA_ISA = v2, v3 or v4 (generic on other CPUs), and defines its functions in
// tessera::kernels::isa::TESSERA_ISA. Such files hold loops over raw pointers and nothing that
// could be linked once for all levels: helpers are static, no STL, no Kokkos, no inline function of
// another header (the linker would keep one copy of it, perhaps the one for the highest level).
//
//   x.hpp     TESSERA_ISA_DECLARE(void, scale_f32, (float* x, std::int64_t n, float by))
//   x.cpp     namespace tessera::kernels::isa::TESSERA_ISA { void scale_f32(…) {…} }
//   caller    TESSERA_ISA_CALL(scale_f32)(x, n, 2.0f);
#if defined(__x86_64__)
#define TESSERA_ISA_DECLARE(result, name, parameters) \
  namespace tessera::kernels::isa {                   \
  namespace v2 {                                      \
  result name parameters;                             \
  }                                                   \
  namespace v3 {                                      \
  result name parameters;                             \
  }                                                   \
  namespace v4 {                                      \
  result name parameters;                             \
  }                                                   \
  }
#define TESSERA_ISA_CALL(name)                                      \
  ::tessera::kernels::isa::pick(&::tessera::kernels::isa::v2::name, \
                                &::tessera::kernels::isa::v3::name, \
                                &::tessera::kernels::isa::v4::name)
#else
#define TESSERA_ISA_DECLARE(result, name, parameters) \
  namespace tessera::kernels::isa::generic {          \
  result name parameters;                             \
  }
#define TESSERA_ISA_CALL(name) (&::tessera::kernels::isa::generic::name)
#endif

// Only callers use this; it is not compiled into the files for one level.
#ifndef TESSERA_ISA
#include "tessera/device/exec.hpp"

namespace tessera::kernels::isa {

/// The function for the level that runs now.
template <class Function>
Function* pick(Function* v2, Function* v3, Function* v4) {
  const int level = device::isa_level();
  return level >= 4 ? v4 : level == 3 ? v3 : v2;
}

}  // namespace tessera::kernels::isa
#endif
