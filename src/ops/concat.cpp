// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>

#include "move.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::ops {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The inputs put at given places of a longer dim.
class Concat : public Move {
 public:
  Concat(std::string dim, Sizes begins, std::int64_t total)
      : Move(std::move(dim)), begins_(std::move(begins)), total_(total) {}
  std::string type() const override { return "concat"; }
  Attributes attributes() const override {
    return {{"dim", dim()}, {"begins", begins_}, {"total", total_}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override;

 protected:
  Sizes sizes_after(std::span<const TensorSpec>) const override { return {total_}; }
  Runs runs(const Sizes& sizes) const override {
    Runs runs;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      runs.push_back({.input = static_cast<int>(i), .count = sizes[i], .to = begins_[i]});
    return runs;
  }

 private:
  Sizes begins_;
  std::int64_t total_;
};

/// Stretches of a dim, each an output.
class Split : public Move {
 public:
  Split(std::string dim, Sizes begins, Sizes sizes)
      : Move(std::move(dim)), begins_(std::move(begins)), sizes_(std::move(sizes)) {}
  std::string type() const override { return "split"; }
  Attributes attributes() const override {
    return {{"dim", dim()}, {"begins", begins_}, {"sizes", sizes_}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    // Outputs on which nothing depends leave zeros.
    Sizes begins;
    std::vector<Tensor> known;
    for (std::size_t j = 0; j < output_gradients.size(); ++j) {
      if (!output_gradients[j]) continue;
      begins.push_back(begins_[j]);
      known.push_back(output_gradients[j]);
    }
    return {inputs[0].graph().add1(
        std::make_shared<Concat>(dim(), begins, inputs[0].shape().size_of(dim())), known)};
  }

 protected:
  Sizes sizes_after(std::span<const TensorSpec> inputs) const override {
    const Shape& shape = inputs[0].shape;
    const std::int64_t total = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
    for (std::int64_t size : sizes_)
      check_user(size >= 0, "split of dim '", dim(), "' of ", shape.to_string(), ": size ", size,
                 " is below 0");
    check_user(total == shape.size_of(dim()), "split of dim '", dim(), "' of ", shape.to_string(),
               ": the sizes add up to ", total, ", not to ", shape.size_of(dim()));
    return sizes_;
  }
  Runs runs(const Sizes&) const override {
    Runs runs;
    for (std::size_t j = 0; j < sizes_.size(); ++j)
      runs.push_back({.output = static_cast<int>(j), .count = sizes_[j], .from = begins_[j]});
    return runs;
  }

 private:
  Sizes begins_;
  Sizes sizes_;
};

Sizes begins_of(const Sizes& sizes) {
  Sizes begins(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), std::int64_t{0});
  return begins;
}

std::vector<Tensor> Concat::gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                                     std::span<const Tensor> output_gradients) const {
  Sizes sizes;
  for (const Tensor& input : inputs) sizes.push_back(input.shape().size_of(dim()));
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == total_)
    return split(output_gradients[0], dim(), sizes);
  std::vector<Tensor> slopes;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    slopes.push_back(slice(output_gradients[0], dim(), begins_[i], sizes[i]));
  return slopes;
}

}  // namespace

Tensor concat(const std::vector<Tensor>& xs, const std::string& dim) {
  install();
  check_user(!xs.empty(), "concat along dim '", dim, "' of no tensor");
  Sizes sizes;
  for (const Tensor& x : xs) sizes.push_back(x.shape().size_of(dim));
  return xs[0].graph().add1(
      std::make_shared<Concat>(dim, begins_of(sizes),
                               std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})),
      xs);
}

std::vector<Tensor> split(Tensor x, const std::string& dim,
                          const std::vector<std::int64_t>& sizes) {
  install();
  return x.graph().add(std::make_shared<Split>(dim, begins_of(sizes), sizes), {x});
}

Tensor stack(const std::vector<Tensor>& xs, const std::string& dim, int place) {
  install();
  check_user(!xs.empty(), "stack along dim '", dim, "' of no tensor");
  std::vector<Tensor> rows;
  for (const Tensor& x : xs) {
    check_user(place >= 0 && place <= x.shape().rank(), "stack: place ", place, " in ",
               x.shape().to_string(), " is not in 0 ... ", x.shape().rank());
    std::vector<Dim> dims = x.shape().dims();
    dims.insert(dims.begin() + place, {dim, 1});
    rows.push_back(reshape(x, Shape(std::move(dims))));
  }
  return concat(rows, dim);
}

std::vector<Tensor> unstack(Tensor x, const std::string& dim) {
  const auto n = static_cast<std::size_t>(x.shape().size_of(dim));
  std::vector<Tensor> rows;
  for (const Tensor& row : split(x, dim, Sizes(n, 1)))
    rows.push_back(reshape(row, x.shape().without(dim)));
  return rows;
}

}  // namespace tessera::ops
