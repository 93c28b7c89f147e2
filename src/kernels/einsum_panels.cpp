// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>

#include "kernels/einsum_host.hpp"
#include "kernels/isa/convert.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::kernels {
namespace {

/// Edge of a block of a product: three blocks of this size fit the panels that the plan counts.
constexpr std::int64_t kBlock = 1024;
static_assert(kBlock * kBlock <= program::kPanelElements);

/// A block of stored rows of a matrix.
struct Block {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t ld;
};

void widen(float* to, const std::uint16_t* from, const Block& block) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    TESSERA_ISA_CALL(bf16_to_f32)(to + i * block.columns, from + i * block.ld, block.columns);
  }
}

/// An input in f32: where it lies, or a block of it converted. The block converted last is kept.
class Panel {
 public:
  Panel(const void* data, DType dtype, float* room) : data_(data), dtype_(dtype), room_(room) {}

  /// The block of stored rows that starts at element `at`; its distance of rows goes to `ld`.
  const float* get(std::int64_t at, const Block& block, std::int64_t& ld) {
    if (dtype_ == DType::f32) {
      ld = block.ld;
      return static_cast<const float*>(data_) + at;
    }
    ld = block.columns;
    if (at != at_ || block.rows != rows_ || block.columns != columns_) {
      widen(room_, static_cast<const std::uint16_t*>(data_) + at, block);
      at_ = at, rows_ = block.rows, columns_ = block.columns;
    }
    return room_;
  }

 private:
  const void* data_;
  DType dtype_;
  float* room_;
  std::int64_t at_ = -1, rows_ = 0, columns_ = 0;
};

class PanelProduct {
 public:
  PanelProduct(const device::Exec& exec, const EinsumPlan& plan, const EinsumOperands& operands,
               void* workspace)
      : exec_(exec),
        plan_(plan),
        operands_(operands),
        a_(operands.a, operands.dtype_a, take(workspace, operands.dtype_a, plan.m, plan.k)),
        b_(operands.b, operands.dtype_b, take(workspace, operands.dtype_b, plan.k, plan.n)),
        c_room_(take(workspace, operands.dtype_c, plan.m, plan.n)) {}

  /// One block of C at element `at` of its first row, everything summed.
  void block(std::int64_t at_a, std::int64_t at_b, std::int64_t at_c, std::int64_t i,
             std::int64_t j) {
    const std::int64_t rows = std::min(kBlock, plan_.m.extent - i);
    const std::int64_t columns = std::min(kBlock, plan_.n.extent - j);
    const std::int64_t at = at_c + i * plan_.c.ld + j;
    const bool is_wide = operands_.dtype_c == DType::f32;
    product_.m = rows, product_.n = columns;
    product_.alpha = static_cast<float>(operands_.alpha);
    product_.c = is_wide ? static_cast<float*>(operands_.c) + at : c_room_;
    product_.ldc = is_wide ? plan_.c.ld : columns;
    product_.beta = is_wide && operands_.accumulate ? 1.0f : 0.0f;
    for_each_place(plan_.sums, [&](std::int64_t more_a, std::int64_t more_b, std::int64_t) {
      sum(at_a + more_a, at_b + more_b, i, j);
    });
    if (!is_wide) narrow(static_cast<std::uint16_t*>(operands_.c) + at, rows, columns);
  }

 private:
  /// The next part of the workspace: never more than the operand has elements.
  static float* take(void*& workspace, DType dtype, const EinsumLoop& rows,
                     const EinsumLoop& columns) {
    if (dtype != DType::bf16) return nullptr;
    auto* room = static_cast<float*>(workspace);
    const std::int64_t size = std::min(rows.extent, kBlock) * std::min(columns.extent, kBlock);
    workspace = static_cast<char*>(workspace) + program::round_up_workspace(4 * size);
    return room;
  }

  void sum(std::int64_t at_a, std::int64_t at_b, std::int64_t i, std::int64_t j) {
    product_.transpose_a = plan_.a.transpose, product_.transpose_b = plan_.b.transpose;
    for (std::int64_t l = 0; l < plan_.k.extent; l += kBlock) {
      const std::int64_t depth = std::min(kBlock, plan_.k.extent - l);
      product_.k = depth;
      const std::int64_t ld_a = plan_.a.ld, ld_b = plan_.b.ld;
      product_.a = plan_.a.transpose
                       ? a_.get(at_a + l * ld_a + i, {depth, product_.m, ld_a}, product_.lda)
                       : a_.get(at_a + i * ld_a + l, {product_.m, depth, ld_a}, product_.lda);
      product_.b = plan_.b.transpose
                       ? b_.get(at_b + j * ld_b + l, {product_.n, depth, ld_b}, product_.ldb)
                       : b_.get(at_b + l * ld_b + j, {depth, product_.n, ld_b}, product_.ldb);
      gemm(exec_, product_);
      product_.beta = 1;
    }
  }

  /// Rounds the finished block of C, once.
  void narrow(std::uint16_t* to, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) {
      float* row = c_room_ + i * columns;
      std::uint16_t* out = to + i * plan_.c.ld;
      if (operands_.accumulate) TESSERA_ISA_CALL(bf16_add)(row, out, columns);
      TESSERA_ISA_CALL(f32_to_bf16)(out, row, columns);
    }
  }

  const device::Exec& exec_;
  const EinsumPlan& plan_;
  const EinsumOperands& operands_;
  Panel a_, b_;
  float* c_room_;
  Gemm<float> product_;
};

}  // namespace

void einsum_panels(const device::Exec& exec, const EinsumPlan& plan, const EinsumOperands& operands,
                   void* workspace) {
  PanelProduct product(exec, plan, operands, workspace);
  for_each_place(plan.outer, [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    for (std::int64_t i = 0; i < plan.m.extent; i += kBlock) {
      for (std::int64_t j = 0; j < plan.n.extent; j += kBlock) product.block(a, b, c, i, j);
    }
  });
}

}  // namespace tessera::kernels
