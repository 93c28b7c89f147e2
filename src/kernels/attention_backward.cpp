// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/attention_host.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels {
namespace {

using program::kKeyBlock;
using program::kQueryBlock;

void row_dots(Rows<float> x, Rows<float> y, std::int64_t rows, std::int64_t n, float* delta) {
  TESSERA_ISA_CALL(attention_row_dots_f32)(x.data, x.ld, y.data, y.ld, rows, n, delta);
}
void row_dots(Rows<double> x, Rows<double> y, std::int64_t rows, std::int64_t n, double* delta) {
  TESSERA_ISA_CALL(attention_row_dots_f64)(x.data, x.ld, y.data, y.ld, rows, n, delta);
}
void dscores(const isa::ScoreBlock<float>& block, const isa::ScoreMask& mask, float* dprobabilities,
             const float* lse, const float* delta) {
  TESSERA_ISA_CALL(attention_dscores_f32)(block, mask, dprobabilities, lse, delta);
}
void dscores(const isa::ScoreBlock<double>& block, const isa::ScoreMask& mask,
             double* dprobabilities, const double* lse, const double* delta) {
  TESSERA_ISA_CALL(attention_dscores_f64)(block, mask, dprobabilities, lse, delta);
}

enum Input { kDout, kQ, kK, kV, kOut, kLse };
enum Output { kDq, kDk, kDv, kDbias };

/// With P = exp(S - lse) recomputed, dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)),
/// dQ = dS K, dK = dS^T Q (Dao et al., "FlashAttention", 2022).
template <class T>
class Backward {
 public:
  /// `narrow`: operands are copied to f32, block by block.
  Backward(const device::Exec& exec, const Attention& at, const Call& call, bool narrow)
      : exec_(exec), at_(at), call_(call), narrow_(narrow), workspace_(call.workspace) {
    const auto& s = at.size;
    const std::int64_t rows = std::min(s.queries, kQueryBlock), columns = score_columns(at);
    scores_ = {workspace_.take<T>(rows * columns), columns};
    dscores_ = {workspace_.take<T>(rows * columns), columns};
    delta_ = workspace_.take<T>(s.queries);
    if (s.buckets > 0) {
      diagonals_ = workspace_.take<T>(s.queries + s.keys);
      ddiagonals_ = workspace_.take<T>(s.queries + s.keys);
    }
    for (RightFactor<T>* factor : {&keys_, &values_}) {
      *factor = RightFactor<T>(workspace_, s.depth, s.keys);
    }
    key_rows_ = RightFactor<T>(workspace_, s.keys, s.depth);
    for (RightFactor<T>* factor : {&query_rows_, &dout_rows_}) {
      *factor = RightFactor<T>(workspace_, s.queries, s.depth);
    }
    if (!narrow) return;
    for (Rows<T>* head : {&k_, &v_, &dk_, &dv_}) {
      *head = {workspace_.take<T>(s.keys * s.depth), s.depth};
    }
    for (Rows<T>* head : {&q_, &dout_, &dq_}) {
      *head = {workspace_.take<T>(s.queries * s.depth), s.depth};
    }
  }

  void run() {
    const auto& s = at_.size;
    if (s.buckets > 0 && !at_.accumulates) {
      std::fill_n(call_.outputs[kDbias].as<T>(), s.heads * s.group * s.buckets, T(0));
    }
    for (std::int64_t batch = 0; batch < s.batch; ++batch) {
      for (std::int64_t head = 0; head < s.heads; ++head) {
        take_keys(batch, head);
        for (std::int64_t group = 0; group < s.group; ++group) run_head(batch, head, group);
        give_keys(batch, head);
      }
    }
  }

 private:
  /// Keys on the outside: what a block of them needs stays in cache while all queries pass.
  void run_head(std::int64_t batch, std::int64_t head, std::int64_t group) {
    const auto& s = at_.size;
    if (diagonals_ != nullptr) {
      spread_bias(at_, head, group, diagonals_);
      std::fill_n(ddiagonals_, s.queries + s.keys, T(0));
    }
    take_queries(batch, head, group);
    for (std::int64_t j = 0; j < s.keys; j += kKeyBlock) {
      const KeyRange keys{j, std::min(s.keys, j + kKeyBlock)};
      for (std::int64_t i = 0; i < s.queries; i += kQueryBlock) {
        run_block(batch, head, group, i, std::min(kQueryBlock, s.queries - i), keys);
      }
    }
    give_queries(batch, head, group);
    if (diagonals_ != nullptr) {
      gather_bias(at_, head, group, ddiagonals_, call_.outputs[kDbias].as<T>());
    }
  }

  void take_keys(std::int64_t batch, std::int64_t head) {
    const std::int64_t place = key_place(at_, batch, head), ld = at_.key_row();
    const std::int64_t keys = at_.size.keys, depth = at_.size.depth;
    if (narrow_) {
      if constexpr (std::is_same_v<T, float>) {
        load_rows(call_.inputs[kK], place, ld, keys, depth, k_.data);
        load_rows(call_.inputs[kV], place, ld, keys, depth, v_.data);
        if (at_.accumulates) {
          load_rows(call_.outputs[kDk], place, ld, keys, depth, dk_.data);
          load_rows(call_.outputs[kDv], place, ld, keys, depth, dv_.data);
        }
      }
    } else {
      k_ = {call_.inputs[kK].as<T>() + place, ld};
      v_ = {call_.inputs[kV].as<T>() + place, ld};
      dk_ = {call_.outputs[kDk].as<T>() + place, ld};
      dv_ = {call_.outputs[kDv].as<T>() + place, ld};
    }
    keys_.set(k_, true, depth, keys);
    values_.set(v_, true, depth, keys);
    key_rows_.set(k_, false, keys, depth);
    for (std::int64_t j = 0; j < keys && !at_.accumulates; ++j) {
      std::fill_n(dk_.from(j).data, depth, T(0));
      std::fill_n(dv_.from(j).data, depth, T(0));
    }
  }

  void give_keys(std::int64_t batch, std::int64_t head) {
    if constexpr (std::is_same_v<T, float>) {
      if (!narrow_) return;
      const std::int64_t place = key_place(at_, batch, head), ld = at_.key_row();
      store_rows(call_.outputs[kDk], place, ld, at_.size.keys, at_.size.depth, dk_.data);
      store_rows(call_.outputs[kDv], place, ld, at_.size.keys, at_.size.depth, dv_.data);
    }
  }

  void take_queries(std::int64_t batch, std::int64_t head, std::int64_t group) {
    const std::int64_t ld = at_.query_row(), queries = at_.size.queries, depth = at_.size.depth;
    const std::int64_t place = query_place(at_, batch, head, group);
    Rows<T> out;
    if (narrow_) {
      if constexpr (std::is_same_v<T, float>) {
        load_rows(call_.inputs[kQ], place, ld, queries, depth, q_.data);
        load_rows(call_.inputs[kDout], place, ld, queries, depth, dout_.data);
        // dq is free until the first product.
        load_rows(call_.inputs[kOut], place, ld, queries, depth, dq_.data);
        out = dq_;
      }
    } else {
      q_ = {call_.inputs[kQ].as<T>() + place, ld};
      dout_ = {call_.inputs[kDout].as<T>() + place, ld};
      dq_ = {call_.outputs[kDq].as<T>() + place, ld};
      out = {call_.inputs[kOut].as<T>() + place, ld};
    }
    row_dots(dout_, out, queries, depth, delta_);
    query_rows_.set(q_, false, queries, depth);
    dout_rows_.set(dout_, false, queries, depth);
    for (std::int64_t i = 0; i < queries && !at_.accumulates; ++i) {
      std::fill_n(dq_.from(i).data, depth, T(0));
    }
    if constexpr (std::is_same_v<T, float>) {
      if (narrow_ && at_.accumulates) {
        load_rows(call_.outputs[kDq], place, ld, queries, depth, dq_.data);
      }
    }
  }

  void give_queries(std::int64_t batch, std::int64_t head, std::int64_t group) {
    if constexpr (std::is_same_v<T, float>) {
      if (!narrow_) return;
      store_rows(call_.outputs[kDq], query_place(at_, batch, head, group), at_.query_row(),
                 at_.size.queries, at_.size.depth, dq_.data);
    }
  }

  void run_block(std::int64_t batch, std::int64_t head, std::int64_t group, std::int64_t i,
                 std::int64_t rows, KeyRange keys) {
    const T* lse = call_.inputs[kLse].as<T>() + row_place(at_, batch, head, group) + i;
    for_each_key_block(at_, batch, i, rows, keys, [&](const AttentionBlock& block) {
      const auto scores = score_block<T>(at_, batch, block, scores_, diagonals_, ddiagonals_);
      differentiate(block, scores, score_mask(at_, batch, head, group, block), lse);
    });
  }

  void differentiate(const AttentionBlock& block, const isa::ScoreBlock<T>& scores,
                     const isa::ScoreMask& mask, const T* lse) {
    const std::int64_t rows = block.rows, columns = block.columns, depth = at_.size.depth;
    const std::int64_t i = block.i, j = block.j;
    keys_.multiply(exec_, rows, columns, depth, at_.scale, q_.from(i), false, 0, j, false, scores_);
    values_.multiply(exec_, rows, columns, depth, 1, dout_.from(i), false, 0, j, false, dscores_);
    dscores(scores, mask, dscores_.data, lse, delta_ + i);
    dout_rows_.multiply(exec_, columns, depth, rows, 1, scores_, true, i, 0, true, dv_.from(j));
    query_rows_.multiply(exec_, columns, depth, rows, at_.scale, dscores_, true, i, 0, true,
                         dk_.from(j));
    key_rows_.multiply(exec_, rows, depth, columns, at_.scale, dscores_, false, j, 0, true,
                       dq_.from(i));
  }

  const device::Exec& exec_;
  const Attention& at_;
  const Call& call_;
  bool narrow_;
  Workspace workspace_;
  Rows<T> scores_, dscores_, k_, v_, dk_, dv_, q_, dout_, dq_;
  RightFactor<T> keys_, values_;           ///< k and v transposed [depth, keys]
  RightFactor<T> key_rows_;                ///< k [keys, depth]
  RightFactor<T> query_rows_, dout_rows_;  ///< q and dout [queries, depth]
  T* delta_;                               ///< rowsum(dO O) [queries]
  T* diagonals_ = nullptr;                 ///< a head's bias by distance
  T* ddiagonals_ = nullptr;                ///< and its gradient
};

}  // namespace

void attention_backward_host(const device::Exec& exec, const Attention& at, const Call& call) {
  if (call.inputs[kQ].dtype == DType::f64) {
    Backward<double>(exec, at, call, false).run();
    return;
  }
  bool narrow = false;
  for (int i = 0; i < kLse; ++i) narrow = narrow || call.inputs[i].dtype == DType::bf16;
  for (int i = 0; i < 3; ++i) narrow = narrow || call.outputs[i].dtype == DType::bf16;
  Backward<float>(exec, at, call, narrow).run();
}

}  // namespace tessera::kernels
