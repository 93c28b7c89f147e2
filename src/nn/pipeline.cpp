// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/pipeline.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::nn {
namespace {

/// [stage]: 1 at one stage, else 0.
Tensor only_at(Graph& graph, const Dim& stage, std::int64_t at) {
  const Tensor id = ops::range(graph, stage, DType::f32);
  return ops::equal(id, ops::fill(graph, static_cast<double>(at), id.spec()));
}

}  // namespace

Tensor pipeline(Tensor x, const PipelineOptions& options,
                const std::function<Tensor(Tensor)>& stage) {
  Graph& graph = x.graph();
  const Dim stages{options.stage_dim, options.stages};
  check_user(options.stages >= 1, "a pipeline of ", options.stages, " stages");
  check_user(x.shape().contains(options.micro_dim) && !x.shape().contains(stages.name),
             "pipeline: x is ", x.shape().to_string(), "; it needs the dim ", options.micro_dim,
             " and must not have the dim ", stages.name);
  const Shape one = x.shape().without(options.micro_dim);
  std::vector<Dim> dims{stages};
  for (const auto& dim : one) dims.push_back(dim);
  const TensorSpec all{Shape(dims), x.dtype()};
  const auto entering = ops::unstack(x, options.micro_dim);
  const Tensor first = only_at(graph, stages, 0), last = only_at(graph, stages, stages.size - 1);
  const auto micros = static_cast<std::int64_t>(entering.size());
  const auto enter = [&](std::int64_t beat) {
    return ops::broadcast(entering[static_cast<std::size_t>(std::min(beat, micros - 1))],
                          all.shape);
  };
  // Idle stages get micro-batches that nobody waits for, rather than zeros: what a stage makes of
  // zeros may be infinite, and its gradients then be no numbers.
  Tensor at_work;  // what the stages gave in the beat before
  std::vector<Tensor> leaving;
  for (std::int64_t beat = 0; beat < micros + stages.size - 1; ++beat) {
    const Tensor held = beat == 0 ? enter(0)
                                  : ops::where(ops::broadcast(first, all.shape), enter(beat),
                                               ops::shift(at_work, stages.name, 1, /*wrap=*/false));
    {
      const Graph::Region region(graph, "beat_" + std::to_string(beat));
      at_work = stage(held);
    }
    check_user(at_work.spec() == all, "pipeline: a stage makes ", at_work.shape().to_string(),
               " of ", all.shape.to_string(), "; it must keep dims and dtype");
    if (beat < stages.size - 1) continue;
    const Tensor out =
        ops::where(ops::broadcast(last, all.shape), at_work, ops::fill(graph, 0, all));
    leaving.push_back(ops::reduce_sum(out, one, 1, x.dtype()));
  }
  return ops::stack(leaving, options.micro_dim, x.shape().index_of(options.micro_dim));
}

}  // namespace tessera::nn
