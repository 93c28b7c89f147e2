// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/dropout.hpp"

#include "kernels/isa/element.hpp"
#include "kernels/isa/random.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

constexpr int64_t kBlock = 512;

template <class E>
void drop(const DropoutRun& run) {
  using C = Compute<E>;
  const E* x = static_cast<const E*>(run.x);
  E* y = static_cast<E*>(run.y);
  const C scale = static_cast<C>(run.scale);
  uint32_t word[kBlock];
  for (int64_t i = 0; i < run.length; i += kBlock) {
    const int64_t n = run.length - i < kBlock ? run.length - i : kBlock;
    random_words(run.key, run.step, run.first + static_cast<uint64_t>(i), n, word);
    const E* from = x + i;
    E* to = y + i;
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      const C kept = load(from[j]) * scale;
      store(to[j], word[j] >= run.threshold ? kept : C(0));
    }
  }
}

}  // namespace

void dropout_f32(const DropoutRun& run) {
  drop<float>(run);
}
void dropout_f64(const DropoutRun& run) {
  drop<double>(run);
}
void dropout_bf16(const DropoutRun& run) {
  drop<Bf16>(run);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
