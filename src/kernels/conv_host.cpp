// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/conv_host.hpp"

#include "kernels/isa/depthwise.hpp"

namespace tessera::kernels {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/// One dim of space: output q reads place q * step + offset[t] of the source for each of its taps
/// and goes to place first + q * result_step.
struct Axis {
  std::int64_t outputs = 0;
  std::int64_t step = 1;
  std::int64_t first = 0;
  std::int64_t result_step = 1;
  std::vector<std::int64_t> taps;
  std::vector<std::int64_t> offset;
};

/// Sums over taps and channels of images times the filter's weights.
template <class T>
class Correlation {
 public:
  /// The filter's [in, out] of each tap is read as [channels, columns], transposed for gradients.
  Correlation(const ConvPlan& plan, bool transposed, const Axis (&axes)[kSpace],
              const std::int64_t (&extent)[kSpace], const ConvSource<T>& source, T* panels,
              T* rows_buffer)
      : plan_(plan),
        transposed_(transposed),
        axes_(axes),
        extent_(extent),
        source_(source),
        panels_(panels),
        buffer_(rows_buffer),
        channels_(transposed ? plan.out : plan.in),
        columns_(transposed ? plan.in : plan.out) {
    for_each_tap(
        [&](std::int64_t, std::int64_t at) { runs_.add(at, channels_, plan_.groups == 1); });
    panels_stride_ = runs_.depth() * program::panel_columns(columns_);
    for (std::int64_t g = 0; g < plan_.groups; ++g) pack(g);
  }

  std::int64_t panel_elements() const { return panels_stride_ * plan_.groups; }

  void run(const T* images, std::int64_t first, std::int64_t count) {
    const std::int64_t outputs = axes_[0].outputs * axes_[1].outputs * axes_[2].outputs;
    const std::int64_t block = program::conv_block_rows(count * outputs);
    for (std::int64_t row = 0; row < count * outputs; row += block) {
      set_rows(first, row, std::min(block, count * outputs - row), outputs);
      for (std::int64_t g = 0; g < plan_.groups; ++g) multiply(images, g);
    }
  }

 private:
  template <class Function>
  void for_each_tap(const Function& f) const {
    for (std::size_t i = 0; i < axes_[0].taps.size(); ++i) {
      for (std::size_t j = 0; j < axes_[1].taps.size(); ++j) {
        for (std::size_t k = 0; k < axes_[2].taps.size(); ++k) {
          const std::int64_t tap =
              (axes_[0].taps[i] * plan_.taps[1] + axes_[1].taps[j]) * plan_.taps[2] +
              axes_[2].taps[k];
          f(tap, axes_[0].offset[i] * source_.stride(0) + axes_[1].offset[j] * source_.stride(1) +
                     axes_[2].offset[k] * source_.stride(2));
        }
      }
    }
  }

  void pack(std::int64_t g) const {
    isa::ConvPack pack{};
    pack.panels = panels_ + g * panels_stride_;
    pack.depth = runs_.depth();
    pack.element = plan_.element;
    pack.row = transposed_ ? 1 : plan_.out;
    pack.column = transposed_ ? plan_.out : 1;
    pack.rows = channels_, pack.columns = columns_;
    for_each_tap([&](std::int64_t tap, std::int64_t) {
      const std::int64_t at = (tap * plan_.groups + g) * plan_.in * plan_.out;
      pack.b = static_cast<const char*>(plan_.b) + at * bytes_of_element(plan_.element);
      TESSERA_ISA_CALL(conv_pack)(pack);
      pack.first += channels_;
    });
  }

  /// Where `count` outputs from number `row` of the images on read and write.
  void set_rows(std::int64_t first, std::int64_t row, std::int64_t count, std::int64_t outputs) {
    a_row_.resize(static_cast<std::size_t>(count));
    c_row_.resize(static_cast<std::size_t>(count));
    std::int64_t image = row / outputs, q[kSpace];
    q[0] = row % outputs / (axes_[1].outputs * axes_[2].outputs);
    q[1] = row / axes_[2].outputs % axes_[1].outputs;
    q[2] = row % axes_[2].outputs;
    for (std::size_t r = 0; r < a_row_.size(); ++r) {
      std::int64_t from = image * source_.image_stride(), to = first + image;
      for (int d = 0; d < kSpace; ++d) {
        from += q[d] * axes_[d].step * source_.stride(d);
        to = to * extent_[d] + axes_[d].first + q[d] * axes_[d].result_step;
      }
      a_row_[r] = from;
      c_row_[r] = to * plan_.groups * columns_;
      for (int d = kSpace - 1; d >= 0; --d) {
        if (++q[d] < axes_[d].outputs) break;
        q[d] = 0;
        if (d == 0) ++image;
      }
    }
  }

  void multiply(const T* images, std::int64_t g) {
    isa::ScatteredProduct<T> product{};
    product.rows = static_cast<std::int64_t>(a_row_.size());
    product.columns = columns_;
    product.a_row = a_row_.data();
    product.a = images + g * channels_;
    product.panels = panels_ + g * panels_stride_;
    runs_.set(product);
    if (plan_.result_element == kElementOf<T>) {
      product.c = static_cast<T*>(plan_.result) + g * columns_;
      product.c_row = c_row_.data();
      scattered_product(product);
      return;
    }
    dense_row_.resize(a_row_.size());
    for (std::size_t r = 0; r < dense_row_.size(); ++r) {
      dense_row_[r] = static_cast<std::int64_t>(r) * columns_;
    }
    product.c = buffer_;
    product.c_row = dense_row_.data();
    scattered_product(product);
    if constexpr (std::is_same_v<T, float>) {
      for (std::size_t r = 0; r < dense_row_.size(); ++r) {
        TESSERA_ISA_CALL(f32_to_bf16)
        (static_cast<std::uint16_t*>(plan_.result) + c_row_[r] + g * columns_,
         buffer_ + dense_row_[r], columns_);
      }
    }
  }

  const ConvPlan& plan_;
  bool transposed_;
  const Axis (&axes_)[kSpace];
  const std::int64_t (&extent_)[kSpace];  ///< of the result
  const ConvSource<T>& source_;
  T* panels_;
  T* buffer_;
  std::int64_t channels_;
  std::int64_t columns_;
  std::int64_t panels_stride_ = 0;
  ConvRuns runs_;
  std::vector<std::int64_t> a_row_, c_row_, dense_row_;
};

template <class T>
void forward(const ConvPlan& plan, void* memory) {
  Workspace workspace(memory);
  Axis axes[kSpace];
  std::int64_t low[kSpace], high[kSpace], extent[kSpace];
  for (int d = 0; d < kSpace; ++d) {
    low[d] = plan.base[d];
    high[d] = low[d] + program::conv_reach(conv_size(plan), d);
    extent[d] = plan.y[d];
    axes[d].outputs = plan.y[d], axes[d].step = plan.stride[d];
    for (std::int64_t j = 0; j < plan.taps[d]; ++j) {
      axes[d].taps.push_back(j);
      axes[d].offset.push_back(j * plan.dilation[d]);
    }
  }
  ConvSource<T> source(plan.a, plan.element, plan.batch, plan.x, low, high, plan.groups * plan.in,
                       workspace);
  T* buffer = workspace.take<T>(program::kConvRows * plan.out);
  Correlation<T> correlation(plan, false, axes, extent, source, workspace.take<T>(0), buffer);
  for (std::int64_t image = 0; image < plan.batch; image += source.images()) {
    const std::int64_t count = std::min(source.images(), plan.batch - image);
    correlation.run(source.read(image, count), image, count);
  }
}

/// Elements of x with equal remainders by the strides meet the same taps: each such phase is a
/// correlation of stride 1.
template <class T>
void input_grad(const ConvPlan& plan, void* memory) {
  Workspace workspace(memory);
  std::int64_t low[kSpace], high[kSpace], extent[kSpace];
  for (int d = 0; d < kSpace; ++d) {
    const std::int64_t last = (plan.taps[d] - 1) * plan.dilation[d];
    low[d] = -floor_div(plan.base[d] + last, plan.stride[d]);
    high[d] = floor_div(plan.x[d] - 1 - plan.base[d], plan.stride[d]) + 1;
    extent[d] = plan.x[d];
  }
  ConvSource<T> source(plan.a, plan.element, plan.batch, plan.y, low, high, plan.groups * plan.out,
                       workspace);
  T* buffer = workspace.take<T>(program::kConvRows * plan.in);
  T* panels = workspace.take<T>(0);

  struct Phase {
    Axis axes[kSpace];
  };
  std::vector<Phase> phases;
  for (std::int64_t n = 0; n < volume(plan.stride); ++n) {
    const std::int64_t remainder[kSpace] = {n / plan.stride[2] / plan.stride[1],
                                            n / plan.stride[2] % plan.stride[1],
                                            n % plan.stride[2]};
    Phase& phase = phases.emplace_back();
    for (int d = 0; d < kSpace; ++d) {
      Axis& axis = phase.axes[d];
      axis.first = remainder[d], axis.result_step = plan.stride[d];
      axis.outputs = plan.x[d] > remainder[d]
                         ? (plan.x[d] - remainder[d] + plan.stride[d] - 1) / plan.stride[d]
                         : 0;
      for (std::int64_t j = plan.taps[d] - 1; j >= 0; --j) {
        const std::int64_t apart = remainder[d] - plan.base[d] - j * plan.dilation[d];
        if (floor_div(apart, plan.stride[d]) * plan.stride[d] != apart) continue;
        axis.taps.push_back(j);
        axis.offset.push_back(apart / plan.stride[d] - low[d]);
      }
    }
  }
  std::vector<Correlation<T>> correlations;
  for (const Phase& phase : phases) {
    correlations.emplace_back(plan, true, phase.axes, extent, source, panels, buffer);
    panels += correlations.back().panel_elements();
  }
  for (std::int64_t image = 0; image < plan.batch; image += source.images()) {
    const std::int64_t count = std::min(source.images(), plan.batch - image);
    const T* images = source.read(image, count);
    for (Correlation<T>& correlation : correlations) correlation.run(images, image, count);
  }
}

bool is_depthwise(const ConvPlan& plan) {
  return plan.in == 1 && plan.out == 1 && plan.groups > 1;
}

}  // namespace

void conv_host(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  if (is_depthwise(plan)) return TESSERA_ISA_CALL(depthwise_forward)(plan);
  if (has_one_tap(plan)) return one_tap_forward(exec, plan, workspace);
  if (plan.element == kElementF64) return forward<double>(plan, workspace);
  forward<float>(plan, workspace);
}

void conv_input_grad_host(const device::Exec& exec, const ConvPlan& plan, void* workspace) {
  if (is_depthwise(plan)) return TESSERA_ISA_CALL(depthwise_input_grad)(plan);
  if (has_one_tap(plan)) return one_tap_input_grad(exec, plan, workspace);
  if (plan.element == kElementF64) return input_grad<double>(plan, workspace);
  input_grad<float>(plan, workspace);
}

}  // namespace tessera::kernels
