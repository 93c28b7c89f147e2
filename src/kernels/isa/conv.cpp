// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa/conv.hpp"

#include <string.h>

#include "kernels/isa/element.hpp"
#include "kernels/pointwise_plan.hpp"

namespace tessera::kernels::isa::TESSERA_ISA {
namespace {

// kRows x two vectors of sums, two vectors of B and one element of A fill the registers.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kRows = 12;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kRows = 6;
#else
constexpr int kVectorBytes = 16, kRows = 6;
#endif

template <class T>
struct Lanes;
template <>
struct Lanes<float> {
  typedef float Vector __attribute__((vector_size(kVectorBytes)));
};
template <>
struct Lanes<double> {
  typedef double Vector __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename Lanes<T>::Vector;
template <class T>
constexpr int kLanesOf = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
constexpr int kWidth = 2 * kLanesOf<T>;
static_assert(kConvPanelWidth % kWidth<float> == 0);

template <class T>
TESSERA_LANE Vector<T> load_vector(const T* from) {
  Vector<T> x;
  memcpy(&x, from, sizeof x);
  return x;
}
template <class T>
TESSERA_LANE void store_vector(T* to, Vector<T> x) {
  memcpy(to, &x, sizeof x);
}

/// Runs [first, last) of a product and where their part of a panel begins.
struct Depth {
  int64_t first;
  int64_t last;
  bool accumulate;
};

/// A tile of C [Rows, kWidth]; `whole` if all columns are there, else the first `columns` of them.
template <class T, int Rows>
void tile(const ScatteredProduct<T>& product, const Depth& depth, int64_t row, const T* panel,
          int64_t column, int64_t columns) {
  Vector<T> sum[Rows][2];
  const T* a[Rows];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    sum[r][0] = sum[r][1] = Vector<T>{};
    a[r] = product.a + product.a_row[row + r];
    // Of a result larger than L2 the tile is far away, and is wanted when the sums are there.
    __builtin_prefetch(product.c + product.c_row[row + r] + column, 1);
  }
  for (int64_t s = depth.first; s < depth.last; ++s) {
    const int64_t begin = product.at[s], end = begin + product.length[s];
    for (int64_t q = begin; q < end; ++q) {
      const Vector<T> b0 = load_vector(panel), b1 = load_vector(panel + kLanesOf<T>);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Vector<T> x = a[r][q] - Vector<T>{};
        sum[r][0] += x * b0;
        sum[r][1] += x * b1;
      }
      panel += kWidth<T>;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    T* c = product.c + product.c_row[row + r] + column;
    if (columns == kWidth<T>) {
      for (int v = 0; v < 2; ++v) {
        const Vector<T> old = depth.accumulate ? load_vector(c + v * kLanesOf<T>) : Vector<T>{};
        store_vector(c + v * kLanesOf<T>, old + sum[r][v]);
      }
    } else {
      T one[kWidth<T>];
      memcpy(one, sum[r], sizeof one);
      for (int64_t j = 0; j < columns; ++j) c[j] = (depth.accumulate ? c[j] : T(0)) + one[j];
    }
  }
}

/// A tile of fewer rows: 1 .. Rows of them.
template <class T, int Rows>
void tile_of(const ScatteredProduct<T>& product, const Depth& depth, int64_t row, int64_t rows,
             const T* panel, int64_t column, int64_t columns) {
  if (rows == Rows) {
    tile<T, Rows>(product, depth, row, panel, column, columns);
  } else if constexpr (Rows > 1) {
    tile_of<T, Rows - 1>(product, depth, row, rows, panel, column, columns);
  }
}

template <class T>
void scattered_product(const ScatteredProduct<T>& product) {
  int64_t done = 0;  // rows of the panels
  Depth depth{0, 0, product.accumulate};
  do {
    int64_t deep = 0;
    while (depth.last < product.runs && deep + product.length[depth.last] <= kRunLimit) {
      deep += product.length[depth.last++];
    }
    for (int64_t j = 0; j < product.columns; j += kWidth<T>) {
      const T* panel = product.panels + j * product.depth + done * kWidth<T>;
      const int64_t columns = product.columns - j < kWidth<T> ? product.columns - j : kWidth<T>;
      for (int64_t i = 0; i < product.rows; i += kRows) {
        const int64_t rows = product.rows - i < kRows ? product.rows - i : kRows;
        tile_of<T, kRows>(product, depth, i, rows, panel, j, columns);
      }
    }
    done += deep;
    depth.first = depth.last;
    depth.accumulate = true;
  } while (depth.last < product.runs);
}

template <class E>
void pack(const ConvPack& p) {
  using T = Compute<E>;
  const E* b = static_cast<const E*>(p.b);
  for (int64_t j = 0; j < p.columns; j += kWidth<T>) {
    T* to = static_cast<T*>(p.panels) + j * p.depth + p.first * kWidth<T>;
    const int64_t columns = p.columns - j < kWidth<T> ? p.columns - j : kWidth<T>;
    for (int64_t row = 0; row < p.rows; ++row, to += kWidth<T>) {
      const E* from = b + row * p.row + j * p.column;
      if (columns == kWidth<T> && p.column == 1) {
#pragma GCC ivdep
        for (int64_t k = 0; k < kWidth<T>; ++k) to[k] = load(from[k]);
      } else {
        for (int64_t k = 0; k < columns; ++k) to[k] = load(from[k * p.column]);
        for (int64_t k = columns; k < kWidth<T>; ++k) to[k] = 0;
      }
    }
  }
}

/// Blocks of 16 x 16, so that both sides pass through whole cache lines.
template <class E>
void turn(const ConvTurn& t) {
  using T = Compute<E>;
  constexpr int64_t kBlock = 16;
  const E* from = static_cast<const E*>(t.from);
  T* to = static_cast<T*>(t.to);
  for (int64_t p = 0; p < t.rows; p += kBlock) {
    const int64_t rows = t.rows - p < kBlock ? t.rows - p : kBlock;
    for (int64_t j = 0; j < t.columns; j += kBlock) {
      const int64_t columns = t.columns - j < kBlock ? t.columns - j : kBlock;
      for (int64_t c = 0; c < columns; ++c) {
        T* line = to + (j + c) * t.to_stride + p;
        const E* column = from + p * t.from_stride + j + c;
        for (int64_t r = 0; r < rows; ++r) line[r] = load(column[r * t.from_stride]);
      }
    }
  }
}

}  // namespace

void scattered_product_f32(const ScatteredProduct<float>& product) {
  scattered_product(product);
}
void scattered_product_f64(const ScatteredProduct<double>& product) {
  scattered_product(product);
}

void conv_pack(const ConvPack& p) {
  if (p.element == kElementF64) return pack<double>(p);
  if (p.element == kElementBf16) return pack<Bf16>(p);
  pack<float>(p);
}

void conv_turn(const ConvTurn& t) {
  if (t.element == kElementF64) return turn<double>(t);
  if (t.element == kElementBf16) return turn<Bf16>(t);
  turn<float>(t);
}

}  // namespace tessera::kernels::isa::TESSERA_ISA
