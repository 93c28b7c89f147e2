// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/conv_host.hpp"
#include "kernels/isa/depthwise.hpp"

namespace tessera::kernels {
namespace {

/// The filter's gradient as a product: a row for each tap and input channel, a column for each
/// output channel, summed over outputs. Images are turned so that outputs lie side by side.
template <class T>
class FilterGradient {
 public:
  FilterGradient(const ConvPlan& plan, void* memory) : plan_(plan), size_(conv_size(plan)) {
    const std::int64_t planes = program::conv_planes(size_);
    const std::int64_t panels = program::conv_pixels(size_) * program::panel_columns(plan.out);
    const std::int64_t bytes = (planes + panels) * static_cast<std::int64_t>(sizeof(T));
    images_ = program::conv_image_count(plan.batch, bytes);
    for (int d = 0; d < kSpace; ++d) reach_[d] = program::conv_reach(size_, d);
    columns_ = (reach_[2] + plan.stride[2] - 1) / plan.stride[2];
    Workspace workspace(memory);
    planes_ = workspace.take<T>(images_ * planes);
    panels_ = workspace.take<T>(images_ * panels);
    result_ = plan.result_element == kElementOf<T> ? static_cast<T*>(plan.result)
                                                   : workspace.take<T>(result_size());
  }

  void run() {
    for (std::int64_t image = 0; image < plan_.batch; image += images_) {
      const std::int64_t count = std::min(images_, plan_.batch - image);
      channel_stride_ = count * reach_[0] * reach_[1] * plan_.stride[2] * columns_;
      std::fill(planes_, planes_ + channel_stride_ * plan_.groups * plan_.in, T(0));
      for (std::int64_t i = 0; i < count; ++i) turn(image + i, i);
      const ConvRuns runs = runs_of(count);
      for (std::int64_t g = 0; g < plan_.groups; ++g) multiply(image, count, g, runs);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (plan_.result_element == kElementBf16) {
        TESSERA_ISA_CALL(f32_to_bf16)
        (static_cast<std::uint16_t*>(plan_.result), result_, result_size());
      }
    }
  }

 private:
  std::int64_t result_size() const {
    return volume(plan_.taps) * plan_.groups * plan_.in * plan_.out;
  }
  /// Where row (i, j) of an image begins in a channel's plane; columns of remainder r from r *
  /// columns_ on.
  std::int64_t line(std::int64_t image, std::int64_t i, std::int64_t j) const {
    return ((image * reach_[0] + i) * reach_[1] + j) * plan_.stride[2] * columns_;
  }

  void turn(std::int64_t image, std::int64_t to_image) {
    const std::int64_t channels = plan_.groups * plan_.in, step = plan_.stride[2];
    isa::ConvTurn turn{};
    turn.element = plan_.element;
    turn.to_stride = channel_stride_, turn.from_stride = step * channels;
    turn.columns = channels;
    for (std::int64_t i = 0; i < reach_[0]; ++i) {
      const std::int64_t x0 = i + plan_.base[0];
      if (x0 < 0 || x0 >= plan_.x[0]) continue;
      for (std::int64_t j = 0; j < reach_[1]; ++j) {
        const std::int64_t x1 = j + plan_.base[1];
        if (x1 < 0 || x1 >= plan_.x[1]) continue;
        for (std::int64_t r = 0; r < std::min(step, reach_[2]); ++r) {
          // Columns t with 0 <= r + t * step + base < x, those that are read.
          const std::int64_t first = r + plan_.base[2];
          const std::int64_t begin = first < 0 ? (-first + step - 1) / step : 0;
          const std::int64_t inside =
              first < plan_.x[2] ? (plan_.x[2] - first + step - 1) / step : 0;
          turn.rows = std::min(inside, (reach_[2] - r + step - 1) / step) - begin;
          if (turn.rows < 1) continue;
          const std::int64_t place =
              ((image * plan_.x[0] + x0) * plan_.x[1] + x1) * plan_.x[2] + first + begin * step;
          turn.from = static_cast<const char*>(plan_.a) +
                      place * channels * bytes_of_element(plan_.element);
          turn.to = planes_ + line(to_image, i, j) + r * columns_ + begin;
          TESSERA_ISA_CALL(conv_turn)(turn);
        }
      }
    }
  }

  ConvRuns runs_of(std::int64_t count) const {
    ConvRuns runs;
    for (std::int64_t image = 0; image < count; ++image) {
      for (std::int64_t i = 0; i < plan_.y[0]; ++i) {
        for (std::int64_t j = 0; j < plan_.y[1]; ++j) {
          runs.add(line(image, i * plan_.stride[0], j * plan_.stride[1]), plan_.y[2], true);
        }
      }
    }
    return runs;
  }

  void multiply(std::int64_t image, std::int64_t count, std::int64_t g, const ConvRuns& runs) {
    isa::ConvPack pack{};
    pack.panels = panels_;
    pack.depth = runs.depth();
    pack.element = plan_.element;
    pack.row = plan_.groups * plan_.out, pack.column = 1;
    pack.rows = count * volume(plan_.y), pack.columns = plan_.out;
    pack.b = static_cast<const char*>(plan_.b) + (image * volume(plan_.y) * plan_.groups + g) *
                                                     plan_.out * bytes_of_element(plan_.element);
    TESSERA_ISA_CALL(conv_pack)(pack);

    isa::ScatteredProduct<T> product{};
    product.columns = plan_.out;
    product.a = planes_ + g * plan_.in * channel_stride_;
    product.panels = panels_;
    product.c = result_;
    product.accumulate = image > 0;
    runs.set(product);
    const std::int64_t rows = volume(plan_.taps) * plan_.in;
    const std::int64_t block = program::conv_block_rows(rows);
    for (std::int64_t row = 0; row < rows; row += block) {
      product.rows = std::min(block, rows - row);
      set_rows(row, product.rows, g);
      product.a_row = a_row_.data(), product.c_row = c_row_.data();
      scattered_product(product);
    }
  }

  void set_rows(std::int64_t first, std::int64_t count, std::int64_t g) {
    a_row_.resize(static_cast<std::size_t>(count));
    c_row_.resize(static_cast<std::size_t>(count));
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t tap = (first + r) / plan_.in, channel = (first + r) % plan_.in;
      const std::int64_t j0 = tap / plan_.taps[2] / plan_.taps[1] * plan_.dilation[0];
      const std::int64_t j1 = tap / plan_.taps[2] % plan_.taps[1] * plan_.dilation[1];
      const std::int64_t j2 = tap % plan_.taps[2] * plan_.dilation[2];
      a_row_[static_cast<std::size_t>(r)] = channel * channel_stride_ + line(0, j0, j1) +
                                            j2 % plan_.stride[2] * columns_ + j2 / plan_.stride[2];
      c_row_[static_cast<std::size_t>(r)] =
          ((tap * plan_.groups + g) * plan_.in + channel) * plan_.out;
    }
  }

  const ConvPlan& plan_;
  const program::ConvSize size_;
  std::int64_t reach_[kSpace];
  std::int64_t columns_ = 0;
  std::int64_t images_ = 1;
  std::int64_t channel_stride_ = 0;
  T* planes_ = nullptr;
  T* panels_ = nullptr;
  T* result_ = nullptr;
  std::vector<std::int64_t> a_row_, c_row_;
};

}  // namespace

void conv_filter_grad_host(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  if (plan.batch == 0 || volume(plan.y) == 0) {
    std::memset(plan.result, 0,
                static_cast<std::size_t>(volume(plan.taps) * plan.groups * plan.in * plan.out *
                                         bytes_of_element(plan.result_element)));
    return;
  }
  if (plan.in == 1 && plan.out == 1 && plan.groups > 1)
    return TESSERA_ISA_CALL(depthwise_filter_grad)(plan);
  if (has_one_tap(plan)) return one_tap_filter_grad(exec, plan, workspace);
  if (plan.element == kElementF64) return FilterGradient<double>(plan, workspace).run();
  FilterGradient<float>(plan, workspace).run();
}

}  // namespace tessera::kernels
