// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/replica_context.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::replicate {
namespace {

Tensor combine(Tensor x, const Shape& to, Combine how) {
  switch (how) {
    case Combine::sum:
      return ops::reduce_sum(x, to);
    case Combine::mean:
      return ops::reduce_mean(x, to);
    case Combine::min:
      return ops::reduce_min(x, to);
    case Combine::max:
      return ops::reduce_max(x, to);
  }
  TESSERA_CHECK(false, "unknown way to combine");
}

/// UserError unless all pieces have the operands of the first, in number, shapes and dtypes.
void check_pieces(const std::vector<std::vector<Tensor>>& pieces) {
  check_user(!pieces.empty(), "map over replicas: there are no pieces");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    check_user(pieces[i].size() == pieces[0].size(), "map over replicas: piece ", i, " has ",
               pieces[i].size(), " operands, piece 0 has ", pieces[0].size());
    for (std::size_t k = 0; k < pieces[i].size(); ++k) {
      const TensorSpec &spec = pieces[i][k].spec(), &first = pieces[0][k].spec();
      check_user(spec == first, "map over replicas: operand ", k, " of piece ", i, " is ",
                 spec.shape.to_string(), " of ", name_of(spec.dtype), ", that of piece 0 is ",
                 first.shape.to_string(), " of ", name_of(first.dtype));
      check_user(!spec.shape.contains(ReplicaContext::kReplica), "map over replicas: operand ", k,
                 " of piece ", i, " differs between replicas; all_gather or all_reduce it first");
    }
  }
}

}  // namespace

ReplicaContext::ReplicaContext(Graph& graph, std::int64_t num_replicas)
    : graph_(&graph), num_replicas_(num_replicas) {
  check_user(num_replicas >= 1, "there are ", num_replicas, " replicas; there must be at least 1");
}

Tensor ReplicaContext::replica_id() const {
  return ops::range(*graph_, {kReplica, num_replicas_}, DType::i32);
}

bool ReplicaContext::is_per_replica(Tensor x) const {
  return x.shape().contains(kReplica);
}

Tensor ReplicaContext::per_replica(Tensor x) const {
  if (is_per_replica(x)) return x;
  std::vector<Dim> dims{{kReplica, num_replicas_}};
  for (const auto& dim : x.shape()) dims.push_back(dim);
  return ops::broadcast(x, Shape(std::move(dims)));
}

Tensor ReplicaContext::all_reduce(Tensor x, Combine how) const {
  if (is_per_replica(x)) return combine(x, x.shape().without(kReplica), how);
  return how == Combine::sum ? ops::multiply(x, static_cast<double>(num_replicas_)) : x;
}

Tensor ReplicaContext::all_gather(Tensor x, const std::string& into) const {
  check_user(!x.shape().contains(into), "all_gather of ", x.shape().to_string(), ": it has a dim '",
             into, "' already; name another one");
  return ops::rename(per_replica(x), kReplica, into);
}

Tensor ReplicaContext::broadcast(Tensor x, std::int64_t source) const {
  check_user(source >= 0 && source < num_replicas_, "broadcast from replica ", source, " of ",
             num_replicas_);
  if (!is_per_replica(x)) return x;
  // A sum over the one element that is left: a rename would need the dim to stay.
  return ops::reduce_sum(ops::slice(x, kReplica, source, 1), x.shape().without(kReplica));
}

void ReplicaContext::result(const std::string& name, Tensor x) const {
  const Shape each{{kReplica, num_replicas_}};
  check_user(x.shape() == each || x.shape().rank() == 0, "result '", name, "' is ",
             x.shape().to_string(), "; legal are ", each.to_string(), " and a scalar");
  // A scalar would be fetched as a partial sum; with a dim it is whole on every rank.
  if (x.shape().rank() == 0) x = ops::broadcast(x, Shape{{"value", 1}});
  graph_->fetch(kResultPrefix + name, x);
}

std::vector<Tensor> ReplicaContext::run_pieces(const std::vector<std::vector<Tensor>>& pieces,
                                               const Piecewise& function) const {
  check_pieces(pieces);
  std::vector<Tensor> operands;
  for (std::size_t k = 0; k < pieces[0].size(); ++k) {
    std::vector<Tensor> parts;
    for (const auto& piece : pieces) parts.push_back(piece[k]);
    operands.push_back(ops::stack(parts, kReplica));
  }
  auto results = function(operands);
  const auto count = static_cast<std::int64_t>(pieces.size());
  for (const auto& result : results)
    check_user(result.shape().contains(kReplica) && result.shape().size_of(kReplica) == count,
               "map over replicas: a result has dims ", result.shape().to_string(),
               "; it must have ", kReplica, ":", count, ", one of each piece");
  return results;
}

std::vector<std::vector<Tensor>> ReplicaContext::map_gather(
    const std::vector<std::vector<Tensor>>& pieces, const Piecewise& function) const {
  std::vector<std::vector<Tensor>> gathered(pieces.size());
  for (const auto& result : run_pieces(pieces, function)) {
    const auto parts = ops::unstack(ops::rename(result, kReplica, "piece"), "piece");
    for (std::size_t i = 0; i < parts.size(); ++i) gathered[i].push_back(parts[i]);
  }
  return gathered;
}

std::vector<Tensor> ReplicaContext::map_reduce(const std::vector<std::vector<Tensor>>& pieces,
                                               const Piecewise& function, Combine how) const {
  std::vector<Tensor> results;
  for (const auto& result : run_pieces(pieces, function))
    results.push_back(combine(result, result.shape().without(kReplica), how));
  return results;
}

}  // namespace tessera::replicate
