// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/isa/conv.hpp"
#include "kernels/isa/convert.hpp"
#include "kernels/pointwise_plan.hpp"
#include "kernels/workspace.hpp"

/// Pieces that the host's convolutions share; T is the type in which they compute.
namespace tessera::kernels {

inline std::int64_t volume(const std::int64_t* extent) {
  return extent[0] * extent[1] * extent[2];
}

template <class T>
constexpr int kElementOf = std::is_same_v<T, double> ? kElementF64 : kElementF32;

inline std::int64_t bytes_of_element(int element) {
  return element == kElementF64 ? 8 : element == kElementF32 ? 4 : 2;
}

/// Images as a product reads them: where they lie, or, if something outside them is read or they
/// have 16 bits, copied with zeros around.
template <class T>
class ConvSource {
 public:
  /// Reads [low, high) of images of `extent`, `line` elements at each place.
  ConvSource(const void* data, int element, std::int64_t batch, const std::int64_t* extent,
             const std::int64_t* low, const std::int64_t* high, std::int64_t line,
             Workspace& workspace)
      : from_(static_cast<const char*>(data)),
        element_(element),
        line_(line),
        pitch_(program::conv_pitch(line)) {
    bool inside = element == kElementOf<T>;
    for (int d = 0; d < kSpace; ++d) {
      extent_[d] = extent[d], low_[d] = low[d];
      reach_[d] = std::max<std::int64_t>(high[d] - low[d], 0);
      inside = inside && low[d] >= 0 && high[d] <= extent[d];
    }
    const std::int64_t bytes = volume(reach_) * pitch_ * static_cast<std::int64_t>(sizeof(T));
    copies_ = !inside;
    images_ = copies_ ? program::conv_image_count(batch, bytes) : std::max<std::int64_t>(batch, 1);
    buffer_ = workspace.take<T>(program::conv_images(batch, bytes) /
                                static_cast<std::int64_t>(sizeof(T)));
  }

  /// Images at a time.
  std::int64_t images() const { return images_; }
  /// Distance of neighbours along dim d, in elements.
  std::int64_t stride(int d) const {
    const std::int64_t* whole = copies_ ? reach_ : extent_;
    return (copies_ ? pitch_ : line_) * (d == 2 ? 1 : d == 1 ? whole[2] : whole[1] * whole[2]);
  }
  std::int64_t image_stride() const { return stride(0) * (copies_ ? reach_[0] : extent_[0]); }

  /// Place `low` of image `first`; `count` images follow.
  const T* read(std::int64_t first, std::int64_t count) {
    if (!copies_) {
      return reinterpret_cast<const T*>(from_) + first * image_stride() + low_[0] * stride(0) +
             low_[1] * stride(1) + low_[2] * stride(2);
    }
    T* to = buffer_;
    for (std::int64_t image = first; image < first + count; ++image) {
      for (std::int64_t i = 0; i < reach_[0]; ++i) {
        for (std::int64_t j = 0; j < reach_[1]; ++j, to += reach_[2] * pitch_) {
          copy_row(to, image, low_[0] + i, low_[1] + j);
        }
      }
    }
    return buffer_;
  }

 private:
  void copy_row(T* to, std::int64_t image, std::int64_t i, std::int64_t j) {
    const std::int64_t begin = std::clamp<std::int64_t>(-low_[2], 0, reach_[2]);
    const std::int64_t end = std::clamp<std::int64_t>(extent_[2] - low_[2], begin, reach_[2]);
    if (i < 0 || i >= extent_[0] || j < 0 || j >= extent_[1] || end == begin) {
      std::fill(to, to + reach_[2] * pitch_, T(0));
      return;
    }
    const std::int64_t place =
        ((image * extent_[0] + i) * extent_[1] + j) * extent_[2] + low_[2] + begin;
    const char* from = from_ + place * line_ * bytes_of_element(element_);
    std::fill(to, to + begin * pitch_, T(0));
    if (pitch_ == line_) {
      copy(to + begin * pitch_, from, (end - begin) * line_);
    } else {
      for (std::int64_t k = begin; k < end; ++k, from += line_ * bytes_of_element(element_))
        copy(to + k * pitch_, from, line_);
    }
    std::fill(to + end * pitch_, to + reach_[2] * pitch_, T(0));
  }
  void copy(T* to, const char* from, std::int64_t count) const {
    if (count == 0) return;  // of a tensor without elements, which lies nowhere
    if constexpr (std::is_same_v<T, float>) {
      if (element_ == kElementBf16) {
        TESSERA_ISA_CALL(bf16_to_f32)(to, reinterpret_cast<const std::uint16_t*>(from), count);
        return;
      }
    }
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }

  const char* from_;
  int element_;
  std::int64_t line_;
  std::int64_t pitch_;  ///< of copies
  std::int64_t extent_[kSpace], low_[kSpace], reach_[kSpace];
  bool copies_ = false;
  std::int64_t images_ = 1;
  T* buffer_ = nullptr;
};

/// Runs of a product's left factor, merged where one follows the other, cut where they are long.
class ConvRuns {
 public:
  void add(std::int64_t at, std::int64_t length, bool merge) {
    depth_ += length;
    if (merge && !at_.empty() && at_.back() + length_.back() == at) {
      const std::int64_t more = std::min(length, isa::kRunLimit - length_.back());
      length_.back() += more;
      at += more, length -= more;
    }
    for (; length > 0; at += isa::kRunLimit, length -= isa::kRunLimit) {
      at_.push_back(at);
      length_.push_back(std::min(length, isa::kRunLimit));
    }
  }
  std::int64_t depth() const { return depth_; }

  template <class T>
  void set(isa::ScatteredProduct<T>& product) const {
    product.runs = static_cast<std::int64_t>(at_.size());
    product.at = at_.data();
    product.length = length_.data();
    product.depth = depth_;
  }

 private:
  std::vector<std::int64_t> at_, length_;
  std::int64_t depth_ = 0;
};

inline void scattered_product(const isa::ScatteredProduct<float>& product) {
  TESSERA_ISA_CALL(scattered_product_f32)(product);
}
inline void scattered_product(const isa::ScatteredProduct<double>& product) {
  TESSERA_ISA_CALL(scattered_product_f64)(product);
}

/// A convolution of f32 or f64 with a single tap that always meets x; for those:
bool has_one_tap(const ConvPlan& plan);
void one_tap_forward(const device::Exec& exec, const ConvPlan& plan, void* workspace);
void one_tap_input_grad(const device::Exec& exec, const ConvPlan& plan, void* workspace);
void one_tap_filter_grad(const device::Exec& exec, const ConvPlan& plan, void* workspace);

}  // namespace tessera::kernels
