// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

/// Operands of the softmax cross-entropy kernels: plain data for the host levels and the portable
/// variant alike. Statistics and losses are float, for double logits double.
namespace tessera::kernels {

struct SoftmaxPlan {
  int element;  ///< of the logits: see pointwise_plan.hpp
  int64_t rows;
  int64_t local;          ///< columns here: part of the vocabulary
  int64_t first;          ///< global index of the first column
  const void* logits;     ///< [rows, local]
  void* dlogits;          ///< [rows, local]
  const int32_t* labels;  ///< [rows], global indices
  void* max;              ///< [rows]
  void* sums;             ///< [sum_count, rows]: of exp(logit - max), label's logit, of logits
  int sum_count;          ///< 3, or 2: without the sum of logits, which only smoothing needs
  void* loss;             ///< [rows]
  void* lse;              ///< [rows]
  const void* dloss;      ///< [rows]
  double smoothing;
  double z_loss;
  double vocab;
};

}  // namespace tessera::kernels
