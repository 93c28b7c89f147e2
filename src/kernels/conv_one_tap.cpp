// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/conv_host.hpp"
#include "tessera/kernels/gemm.hpp"

// Convolutions with a single tap: products of matrices. With strides, the pixels that are read are
// brought side by side first.
namespace tessera::kernels {
namespace {

/// The pixels of x that outputs meet.
template <class T>
class SampledPixels {
 public:
  SampledPixels(const ConvPlan& plan, void* memory)
      : plan_(plan), dense_(true), pixels_(volume(plan.y)), buffer_(Workspace(memory).take<T>(0)) {
    for (int d = 0; d < kSpace; ++d)
      dense_ = dense_ && plan.stride[d] == 1 && plan.x[d] == plan.y[d];
    const std::int64_t bytes = pixels_ * plan.in * static_cast<std::int64_t>(sizeof(T));
    images_ = dense_ ? std::max<std::int64_t>(plan.batch, 1)
                     : program::conv_image_count(plan.batch, bytes);
  }

  /// Images at a time.
  std::int64_t images() const { return images_; }
  std::int64_t pixels() const { return pixels_; }

  /// [count * pixels, in] of images from `first` on.
  const T* read(std::int64_t first, std::int64_t count) {
    const T* x = static_cast<const T*>(plan_.a);
    if (dense_) return x + first * pixels_ * plan_.in;
    T* to = buffer_;
    for_each_pixel(first, count, [&](std::int64_t at) {
      std::memcpy(to, x + at, static_cast<std::size_t>(plan_.in) * sizeof(T));
      to += plan_.in;
    });
    return buffer_;
  }
  /// Where [count * pixels, in] of x's gradient may be written; then write() them.
  T* target(std::int64_t first) {
    return dense_ ? static_cast<T*>(plan_.result) + first * pixels_ * plan_.in : buffer_;
  }
  void write(std::int64_t first, std::int64_t count) {
    if (dense_) return;
    T* x = static_cast<T*>(plan_.result);
    const std::int64_t image = volume(plan_.x) * plan_.in;
    std::fill(x + first * image, x + (first + count) * image, T(0));
    const T* from = buffer_;
    for_each_pixel(first, count, [&](std::int64_t at) {
      std::memcpy(x + at, from, static_cast<std::size_t>(plan_.in) * sizeof(T));
      from += plan_.in;
    });
  }

 private:
  template <class Function>
  void for_each_pixel(std::int64_t first, std::int64_t count, const Function& f) const {
    const auto at = [&](int d, std::int64_t i) { return i * plan_.stride[d] + plan_.base[d]; };
    for (std::int64_t image = first; image < first + count; ++image)
      for (std::int64_t i = 0; i < plan_.y[0]; ++i)
        for (std::int64_t j = 0; j < plan_.y[1]; ++j)
          for (std::int64_t k = 0; k < plan_.y[2]; ++k)
            f((((image * plan_.x[0] + at(0, i)) * plan_.x[1] + at(1, j)) * plan_.x[2] + at(2, k)) *
              plan_.in);
  }

  const ConvPlan& plan_;
  bool dense_;
  std::int64_t pixels_;
  std::int64_t images_ = 1;
  T* buffer_;
};

template <class T>
Gemm<T> matrix_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm<T> product;
  product.m = m, product.n = n, product.k = k;
  return product;
}

template <class T>
void forward(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  SampledPixels<T> x(plan, workspace);
  for (std::int64_t image = 0; image < plan.batch; image += x.images()) {
    const std::int64_t count = std::min(x.images(), plan.batch - image);
    auto product = matrix_product<T>(count * x.pixels(), plan.out, plan.in);
    product.a = x.read(image, count), product.lda = plan.in;
    product.b = static_cast<const T*>(plan.b), product.ldb = plan.out;
    product.c = static_cast<T*>(plan.result) + image * x.pixels() * plan.out;
    product.ldc = plan.out;
    gemm(exec, product);
  }
}

template <class T>
void input_grad(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  SampledPixels<T> x(plan, workspace);
  for (std::int64_t image = 0; image < plan.batch; image += x.images()) {
    const std::int64_t count = std::min(x.images(), plan.batch - image);
    auto product = matrix_product<T>(count * x.pixels(), plan.in, plan.out);
    product.transpose_b = true;
    product.a = static_cast<const T*>(plan.a) + image * x.pixels() * plan.out;
    product.lda = plan.out;
    product.b = static_cast<const T*>(plan.b), product.ldb = plan.out;
    product.c = x.target(image), product.ldc = plan.in;
    gemm(exec, product);
    x.write(image, count);
  }
}

template <class T>
void filter_grad(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  SampledPixels<T> x(plan, workspace);
  for (std::int64_t image = 0; image < plan.batch; image += x.images()) {
    const std::int64_t count = std::min(x.images(), plan.batch - image);
    auto product = matrix_product<T>(plan.in, plan.out, count * x.pixels());
    product.transpose_a = true;
    product.beta = image > 0 ? 1 : 0;
    product.a = x.read(image, count), product.lda = plan.in;
    product.b = static_cast<const T*>(plan.b) + image * x.pixels() * plan.out;
    product.ldb = plan.out;
    product.c = static_cast<T*>(plan.result), product.ldc = plan.out;
    gemm(exec, product);
  }
}

}  // namespace

bool has_one_tap(const ConvPlan& plan) {
  bool result =
      plan.groups == 1 && plan.element == plan.result_element && plan.element != kElementBf16;
  for (int d = 0; d < kSpace; ++d) {
    const std::int64_t last = (plan.y[d] - 1) * plan.stride[d] + plan.base[d];
    result = result && plan.taps[d] == 1 && plan.base[d] >= 0 && last < plan.x[d];
  }
  return result;
}

void one_tap_forward(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  if (plan.element == kElementF64) return forward<double>(exec, plan, workspace);
  forward<float>(exec, plan, workspace);
}
void one_tap_input_grad(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  if (plan.element == kElementF64) return input_grad<double>(exec, plan, workspace);
  input_grad<float>(exec, plan, workspace);
}
void one_tap_filter_grad(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  if (plan.element == kElementF64) return filter_grad<double>(exec, plan, workspace);
  filter_grad<float>(exec, plan, workspace);
}

}  // namespace tessera::kernels
