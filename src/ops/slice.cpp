// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>

#include "move.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::ops {
namespace {

/// slice, or its adjoint pad: every step-th element from `begin` on.
class Stretch : public Move {
 public:
  Stretch(bool pad, std::string dim, std::int64_t begin, std::int64_t size, std::int64_t step)
      : Move(std::move(dim)), pad_(pad), begin_(begin), size_(size), step_(step) {}
  std::string type() const override { return pad_ ? "pad" : "slice"; }
  Attributes attributes() const override {
    return {{"dim", dim()}, {"begin", begin_}, {"size", size_}, {"step", step_}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(
        std::make_shared<Stretch>(!pad_, dim(), begin_, inputs[0].shape().size_of(dim()), step_),
        {output_gradients[0]})};
  }

 protected:
  std::vector<std::int64_t> sizes_after(std::span<const TensorSpec> inputs) const override {
    const Shape& shape = inputs[0].shape;
    const std::int64_t old = shape.size_of(dim());
    const std::int64_t inner = pad_ ? old : size_, outer = pad_ ? size_ : old;
    check_user(step_ >= 1, type(), " of dim '", dim(), "': step ", step_, " is below 1");
    const std::int64_t end = inner > 0 ? begin_ + (inner - 1) * step_ + 1 : begin_;
    check_user(begin_ >= 0 && inner >= 0 && end <= outer, type(), " of dim '", dim(), "' of ",
               shape.to_string(), ": [", begin_, ", ", end, ") does not lie within [0, ", outer,
               ")");
    return {size_};
  }
  Runs runs(const std::vector<std::int64_t>& sizes) const override {
    if (pad_) return {{.count = sizes[0], .to = begin_, .to_step = step_}};
    return {{.count = size_, .from = begin_, .from_step = step_}};
  }

 private:
  bool pad_;
  std::int64_t begin_;
  std::int64_t size_;
  std::int64_t step_;
};

class Shift : public Move {
 public:
  Shift(std::string dim, std::int64_t offset, bool wrap)
      : Move(std::move(dim)), offset_(offset), wrap_(wrap) {}
  std::string type() const override { return "shift"; }
  Attributes attributes() const override {
    return {{"dim", dim()}, {"offset", offset_}, {"wrap", std::int64_t{wrap_}}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor>, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {shift(output_gradients[0], dim(), -offset_, wrap_)};
  }

 protected:
  std::vector<std::int64_t> sizes_after(std::span<const TensorSpec> inputs) const override {
    return {inputs[0].shape.size_of(dim())};
  }
  Runs runs(const std::vector<std::int64_t>& sizes) const override {
    const std::int64_t n = sizes[0];
    if (n == 0) return {};
    if (!wrap_)
      return {{.count = std::max<std::int64_t>(0, n - std::abs(offset_)),
               .from = std::max<std::int64_t>(0, -offset_),
               .to = std::max<std::int64_t>(0, offset_)}};
    const std::int64_t to = (offset_ % n + n) % n;
    return {{.count = n - to, .to = to}, {.count = to, .from = n - to}};
  }

 private:
  std::int64_t offset_;
  bool wrap_;
};

}  // namespace

Tensor slice(Tensor x, const std::string& dim, std::int64_t begin, std::int64_t size,
             std::int64_t step) {
  install();
  return x.graph().add1(std::make_shared<Stretch>(false, dim, begin, size, step), {x});
}

Tensor pad(Tensor x, const std::string& dim, std::int64_t begin, std::int64_t size,
           std::int64_t step) {
  install();
  return x.graph().add1(std::make_shared<Stretch>(true, dim, begin, size, step), {x});
}

Tensor shift(Tensor x, const std::string& dim, std::int64_t offset, bool wrap) {
  install();
  return x.graph().add1(std::make_shared<Shift>(dim, offset, wrap), {x});
}

}  // namespace tessera::ops
