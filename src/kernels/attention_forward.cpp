// SPDX-License-Identifier: BSD-3-Clause
#include <limits>
#include <type_traits>

#include "kernels/attention_host.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels {
namespace {

using program::kQueryBlock;

void softmax(const isa::ScoreBlock<float>& block, const isa::ScoreMask& mask, float* maximum,
             float* sum, float* rescale) {
  TESSERA_ISA_CALL(attention_softmax_f32)(block, mask, maximum, sum, rescale);
}
void softmax(const isa::ScoreBlock<double>& block, const isa::ScoreMask& mask, double* maximum,
             double* sum, double* rescale) {
  TESSERA_ISA_CALL(attention_softmax_f64)(block, mask, maximum, sum, rescale);
}
void scale_rows(Rows<float> x, std::int64_t rows, std::int64_t n, const float* by) {
  TESSERA_ISA_CALL(attention_scale_rows_f32)(x.data, x.ld, rows, n, by);
}
void scale_rows(Rows<double> x, std::int64_t rows, std::int64_t n, const double* by) {
  TESSERA_ISA_CALL(attention_scale_rows_f64)(x.data, x.ld, rows, n, by);
}
void finish(const float* maximum, float* sum, float* lse, std::int64_t rows) {
  TESSERA_ISA_CALL(attention_finish_f32)(maximum, sum, lse, rows);
}
void finish(const double* maximum, double* sum, double* lse, std::int64_t rows) {
  TESSERA_ISA_CALL(attention_finish_f64)(maximum, sum, lse, rows);
}

/// Exact softmax in one pass over the keys with running maximum and sum (Milakov & Gimelshein,
/// "Online normalizer calculation for softmax", 2018; blocked as in Dao et al., "FlashAttention",
/// 2022).
template <class T>
class Forward {
 public:
  /// `narrow`: operands are copied to f32, block by block.
  Forward(const device::Exec& exec, const Attention& at, const Call& call, bool narrow)
      : exec_(exec), at_(at), call_(call), narrow_(narrow), workspace_(call.workspace) {
    const auto& s = at.size;
    const std::int64_t rows = std::min(s.queries, kQueryBlock);
    scores_ = {workspace_.take<T>(rows * score_columns(at)), score_columns(at)};
    maximum_ = workspace_.take<T>(kQueryBlock);
    sum_ = workspace_.take<T>(kQueryBlock);
    rescale_ = workspace_.take<T>(kQueryBlock);
    if (s.buckets > 0) diagonals_ = workspace_.take<T>(s.queries + s.keys);
    keys_ = RightFactor<T>(workspace_, s.depth, s.keys);
    values_ = RightFactor<T>(workspace_, s.keys, s.depth);
    if (!narrow) return;
    k_ = {workspace_.take<T>(s.keys * s.depth), s.depth};
    v_ = {workspace_.take<T>(s.keys * s.depth), s.depth};
    q_ = {workspace_.take<T>(rows * s.depth), s.depth};
    out_ = {workspace_.take<T>(rows * s.depth), s.depth};
  }

  void run() {
    const auto& s = at_.size;
    for (std::int64_t batch = 0; batch < s.batch; ++batch) {
      for (std::int64_t head = 0; head < s.heads; ++head) {
        take_keys(batch, head);
        for (std::int64_t group = 0; group < s.group; ++group) {
          if (diagonals_ != nullptr) spread_bias(at_, head, group, diagonals_);
          for (std::int64_t i = 0; i < s.queries; i += kQueryBlock) {
            run_block(batch, head, group, i, std::min(kQueryBlock, s.queries - i));
          }
        }
      }
    }
  }

 private:
  void take_keys(std::int64_t batch, std::int64_t head) {
    const std::int64_t place = key_place(at_, batch, head), ld = at_.key_row();
    if (narrow_) {
      if constexpr (std::is_same_v<T, float>) {
        load_rows(call_.inputs[1], place, ld, at_.size.keys, at_.size.depth, k_.data);
        load_rows(call_.inputs[2], place, ld, at_.size.keys, at_.size.depth, v_.data);
      }
    } else {
      k_ = {call_.inputs[1].as<T>() + place, ld};
      v_ = {call_.inputs[2].as<T>() + place, ld};
    }
    keys_.set(k_, true, at_.size.depth, at_.size.keys);
    values_.set(v_, false, at_.size.keys, at_.size.depth);
  }

  void run_block(std::int64_t batch, std::int64_t head, std::int64_t group, std::int64_t i,
                 std::int64_t rows) {
    const std::int64_t ld = at_.query_row(), depth = at_.size.depth;
    const std::int64_t place = query_place(at_, batch, head, group) + i * ld;
    if (narrow_) {
      if constexpr (std::is_same_v<T, float>) {
        load_rows(call_.inputs[0], place, ld, rows, depth, q_.data);
        if (at_.accumulates) load_rows(call_.outputs[0], place, ld, rows, depth, out_.data);
      }
    } else {
      q_ = {call_.inputs[0].as<T>() + place, ld};
      out_ = {call_.outputs[0].as<T>() + place, ld};
    }
    T* lse = call_.outputs[1].as<T>() + row_place(at_, batch, head, group) + i;
    start(rows, lse);
    attend(batch, head, group, i, rows);
    finish(maximum_, sum_, lse, rows);
    scale_rows(out_, rows, depth, sum_);
    if constexpr (std::is_same_v<T, float>) {
      if (narrow_) store_rows(call_.outputs[0], place, ld, rows, depth, out_.data);
    }
  }

  /// What the rows have seen so far: nothing; or, going on, values whose weights sum up to 1 at
  /// scores shifted by lse.
  void start(std::int64_t rows, const T* lse) {
    constexpr T kLowest = std::numeric_limits<T>::lowest();
    for (std::int64_t r = 0; r < rows; ++r) {
      maximum_[r] = at_.accumulates ? lse[r] : kLowest;
      sum_[r] = maximum_[r] == kLowest ? T(0) : T(1);
    }
  }

  /// Brings `out_` to the sums of exp(score - maximum) v.
  void attend(std::int64_t batch, std::int64_t head, std::int64_t group, std::int64_t i,
              std::int64_t rows) {
    const std::int64_t depth = at_.size.depth;
    bool first = !at_.accumulates;
    for_each_key_block(at_, batch, i, rows, {0, at_.size.keys}, [&](const AttentionBlock& block) {
      keys_.multiply(exec_, rows, block.columns, depth, at_.scale, q_, false, 0, block.j, false,
                     scores_);
      softmax(score_block<T>(at_, batch, block, scores_, diagonals_, nullptr),
              score_mask(at_, batch, head, group, block), maximum_, sum_, rescale_);
      if (!first) scale_rows(out_, rows, depth, rescale_);
      values_.multiply(exec_, rows, depth, block.columns, 1, scores_, false, block.j, 0, !first,
                       out_);
      first = false;
    });
  }

  const device::Exec& exec_;
  const Attention& at_;
  const Call& call_;
  bool narrow_;
  Workspace workspace_;
  Rows<T> scores_, k_, v_, q_, out_;
  RightFactor<T> keys_;    ///< k transposed [depth, keys]
  RightFactor<T> values_;  ///< v [keys, depth]
  T* maximum_;
  T* sum_;
  T* rescale_;
  T* diagonals_ = nullptr;  ///< a head's bias by distance
};

}  // namespace

void attention_forward_host(const device::Exec& exec, const Attention& at, const Call& call) {
  const Tile *in = call.inputs, *out = call.outputs;
  if (in[0].dtype == DType::f64) {
    Forward<double>(exec, at, call, false).run();
    return;
  }
  const bool narrow = in[0].dtype == DType::bf16 || in[1].dtype == DType::bf16 ||
                      in[2].dtype == DType::bf16 || out[0].dtype == DType::bf16;
  Forward<float>(exec, at, call, narrow).run();
}

}  // namespace tessera::kernels
