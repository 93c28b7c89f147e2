// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/decoding.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

class WriteAt : public Operation {
 public:
  WriteAt(std::string dim, std::string feed) : dim_(std::move(dim)), feed_(std::move(feed)) {}
  std::string type() const override { return "write_at"; }
  Attributes attributes() const override { return {{"dim", dim_}, {"feed", feed_}}; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    const Shape kept = inputs[0].shape.without(dim_);
    check_user(inputs[0].shape.contains(dim_) && inputs[1].shape == kept &&
                   inputs[0].dtype == inputs[1].dtype,
               "write_at along '", dim_, "' of ", inputs[0].shape.to_string(), " ",
               name_of(inputs[0].dtype), ": the slice must be ", kept.to_string(), ", found ",
               inputs[1].shape.to_string(), " ", name_of(inputs[1].dtype));
    return {inputs[0]};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return passing_cuts(context, [](const std::string&) { return true; });
  }
  void lower(program::Emitter& emitter) const override {
    const int dim = emitter.buffer(emitter.input(0)).spec.shape.index_of(dim_);
    program::Emitter::KernelOptions options;
    options.in_place = {{0, 0}};
    emitter.kernel("write_at", {{"dim", std::int64_t{dim}}, {"feed", feed_}},
                   {emitter.input(0), emitter.input(1)}, {emitter.output(0)}, options);
  }

 private:
  std::string dim_;
  std::string feed_;
};

}  // namespace

Tensor write_at(Tensor whole, Tensor slice, const std::string& dim, const std::string& feed) {
  install();
  return whole.graph().add1(std::make_shared<WriteAt>(dim, feed), {whole, slice});
}

}  // namespace tessera::ops
