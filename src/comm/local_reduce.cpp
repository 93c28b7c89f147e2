// SPDX-License-Identifier: BSD-3-Clause
#include "local_reduce.hpp"

#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::comm {
namespace {

using program::ReduceOp;

template <class T, class F>
void apply(void* into, const void* from, std::int64_t count, const F& f) {
  auto* __restrict a = static_cast<T*>(into);
  const auto* __restrict b = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) a[i] = f(a[i], b[i]);
}

template <class T>
void combine_as(ReduceOp op, void* into, const void* from, std::int64_t count) {
  // A NaN differs from itself; written so that the loops vectorise.
  if (op == ReduceOp::sum)
    apply<T>(into, from, count, [](T a, T b) { return a + b; });
  else if (op == ReduceOp::max)
    apply<T>(into, from, count, [](T a, T b) { return (a > b) | (a != a) ? a : b; });
  else
    apply<T>(into, from, count, [](T a, T b) { return (a < b) | (a != a) ? a : b; });
}

}  // namespace

void check_reducible(DType dtype) {
  TESSERA_CHECK(dtype != DType::bf16, "bf16 can't be reduced; reduce in f32 and cast");
}

void combine(ReduceOp op, DType dtype, void* into, const void* from, std::int64_t count) {
  check_reducible(dtype);
  if (dtype == DType::f32)
    combine_as<float>(op, into, from, count);
  else if (dtype == DType::f64)
    combine_as<double>(op, into, from, count);
  else
    combine_as<std::int32_t>(op, into, from, count);
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace tessera::comm
