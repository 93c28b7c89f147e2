// SPDX-License-Identifier: BSD-3-Clause
// The rows of the operation tests as benchmarks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::test {
namespace {

std::vector<OpInput> enlarged(std::vector<OpInput> inputs, std::int64_t factor) {
  for (auto& input : inputs) {
    std::vector<Dim> dims = input.shape.dims();
    for (auto& dim : dims) dim.size *= factor;
    input.shape = Shape(std::move(dims));
  }
  return inputs;
}

std::int64_t elements_of(const std::vector<OpInput>& inputs) {
  std::int64_t elements = 0;
  for (const auto& input : inputs) elements += input.shape.size();
  return elements;
}

/// Adds the row's operation over its inputs.
Tensor build_row(const OpCase& op, const std::vector<OpInput>& inputs, DType dtype, Graph& graph,
                 std::vector<Tensor>& floating) {
  std::vector<Tensor> tensors;
  for (const auto& input : inputs) {
    const bool ids = input.fill == OpInput::Fill::ids;
    tensors.push_back(graph.input(input.name, {input.shape, ids ? DType::i32 : dtype}));
    if (!ids) floating.push_back(tensors.back());
  }
  return op.build(graph, tensors);
}

/// The row's inputs with all extents multiplied by the largest factor that keeps them and the
/// result below `limit` elements. UserError if the row fixes sizes itself.
std::vector<OpInput> enlarged_to(const OpCase& op, std::int64_t limit, DType dtype) {
  const auto elements = [&](std::int64_t factor) {
    VariableSet variables;
    Graph graph("op", variables);
    std::vector<Tensor> floating;
    const auto inputs = enlarged(op.inputs, factor);
    return elements_of(inputs) + build_row(op, inputs, dtype, graph, floating).shape().size();
  };
  std::int64_t factor = 1;
  while (factor < limit && elements(2 * factor) <= limit) factor *= 2;
  return enlarged(op.inputs, factor);
}

/// One row at one size: forward, and backward if there is one.
class Timed {
 public:
  Timed(const OpCase& op, const std::vector<OpInput>& inputs, DType dtype) : feeds_(op.feeds) {
    std::vector<Tensor> floating;
    const Tensor y = build_row(op, inputs, dtype, graph_, floating);
    graph_.fetch("y", y);
    if (op.differentiable) {
      const auto slopes = gradients(ops::reduce_sum(ops::multiply(y, 0.5), Shape{}), floating);
      for (std::size_t i = 0; i < slopes.size(); ++i)
        graph_.fetch("d_" + std::to_string(i), slopes[i]);
    }
    program_ = plan::compile(variables_, {&graph_}, {});
    collectives_ = std::make_unique<comm::SimulatedCollectives>(program_.mesh, &shared_exec());
    executor_ = std::make_unique<runtime::Executor>(program_, *collectives_, shared_exec());
    for (const auto& input : inputs)
      values_[input.name] = {std::vector<double>(static_cast<std::size_t>(input.shape.size()),
                                                 input.fill == OpInput::Fill::ids ? 0 : 0.75)};
  }

  /// Seconds of the fastest of several runs that take at least `window` together.
  double seconds(std::chrono::milliseconds window) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    double best = 1e9;
    for (int runs = 0; runs < 3 || Clock::now() - start < window; ++runs) {
      give_inputs();
      const auto before = Clock::now();
      executor_->run("op", feeds_);
      shared_exec().fence();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
    }
    return best;
  }

 private:
  void give_inputs() {
    const auto& section = program_.section("op");
    for (const auto& input : section.inputs) {
      const auto& spec = section.buffers[static_cast<std::size_t>(input.buffer)].spec;
      const auto box = executor_->input_box("op", input.name, 0);
      executor_->set_input("op", input.name, 0, cut_tile(values_.at(input.name), spec, box).data());
    }
  }

  kernels::Feeds feeds_;
  VariableSet variables_;
  Graph graph_{"op", variables_};
  program::Program program_;
  std::unique_ptr<comm::SimulatedCollectives> collectives_;
  std::unique_ptr<runtime::Executor> executor_;
  Values values_;
};

bool time_row(const OpCase& op, std::int64_t limit, DType dtype) {
  try {
    ops::install();
    const auto inputs = limit > 0 ? enlarged_to(op, limit, dtype) : op.inputs;
    Timed timed(op, inputs, dtype);
    const std::int64_t elements = std::max<std::int64_t>(1, elements_of(inputs));
    // A look whether it runs at all takes no longer than it must.
    const std::chrono::milliseconds window(limit == 1 ? 0 : 200);
    const double seconds = timed.seconds(window);
    std::printf("%-44s %s %10lld elements %10.1f us %8.3f ns/element\n", op.name.c_str(),
                std::string(name_of(dtype)).c_str(), static_cast<long long>(elements),
                1e6 * seconds, 1e9 * seconds / static_cast<double>(elements));
    std::fflush(stdout);
    return true;
  } catch (const UserError&) {
    return false;  // sizes or types that the row fixes itself
  }
}

}  // namespace

std::int64_t bench_elements() {
  const char* text = std::getenv("TESSERA_BENCH_OPS");
  return text == nullptr ? 0 : std::max<std::int64_t>(1, std::atoll(text));
}

bool bench_op(const OpCase& op, std::int64_t elements) {
  return time_row(op, elements, DType::f32) || time_row(op, elements, DType::f64) ||
         time_row(op, 0, DType::f64);
}

}  // namespace tessera::test
