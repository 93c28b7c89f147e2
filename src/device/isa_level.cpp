// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::device {
namespace {

int detect_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
                  __builtin_cpu_supports("popcnt");
  const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  TESSERA_CHECK(v2, "this CPU lacks SSE4.2 (x86-64-v2), which every kernel needs");
  return v4 ? 4 : v3 ? 3 : 2;
#else
  return 0;
#endif
}

int& current_level() {
  static int level = supported_isa_level();
  return level;
}

}  // namespace

int supported_isa_level() {
  static const int level = detect_level();
  return level;
}

void set_isa_level(int level) {
  const int supported = supported_isa_level();
  const int lowest = supported == 0 ? 0 : 2;
  TESSERA_CHECK(level >= lowest && level <= supported, "kernels for x86-64-v", level,
                " cannot run here; this CPU has levels ", lowest, " to ", supported);
  current_level() = level;
}

int isa_level() {
  return current_level();
}

}  // namespace tessera::device
