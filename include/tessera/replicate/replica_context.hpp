// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::replicate {

/// How values of all replicas are combined into one.
enum class Combine : std::uint8_t { sum, mean, min, max };

/// What a step function sees of its replica (TF-Replicator's and the RFC "Replicator API"'s
/// ReplicaContext, tensorflow/community 20181016-replicator). The step function is called once for
/// all replicas: a value that differs between replicas has the dim `replica`, a mirrored value (the
/// same on all) lacks it, and the two meet by broadcast. So the primitives are ordinary operations:
/// they have gradients, and the layout's rule for `replica` decides where replicas live: their
/// number may differ from the number of ranks, and a replica may itself be split by other rules.
///
/// Every primitive takes mirrored values too and treats them as R equal ones: all_sum of a mirrored
/// x is R x, as it is where each replica calls it.
class ReplicaContext {
 public:
  /// Name of the dim that tells replicas apart.
  static constexpr const char* kReplica = "replica";

  /// UserError if there are no replicas.
  ReplicaContext(Graph& graph, std::int64_t num_replicas);

  Graph& graph() const { return *graph_; }
  std::int64_t num_replicas() const { return num_replicas_; }
  /// i32 [replica]: 0 … R - 1. A tensor, never a number: one program serves all replicas.
  Tensor replica_id() const;

  /// Puts what is added while the result lives on the k-th logical device of each replica
  /// (TF-Replicator's logical_device; Graph::Device has the rules):
  ///   { const auto device = context.logical_device(1);  h = nn::dense(h, …); }
  Graph::Device logical_device(std::int64_t k) const { return {*graph_, k}; }

  bool is_per_replica(Tensor x) const;
  /// x [dims] as [replica, dims], the same on each; x itself if it differs already.
  Tensor per_replica(Tensor x) const;

  /// x [replica, dims] combined over replicas: mirrored [dims].
  Tensor all_reduce(Tensor x, Combine how) const;
  Tensor all_sum(Tensor x) const { return all_reduce(x, Combine::sum); }
  Tensor all_mean(Tensor x) const { return all_reduce(x, Combine::mean); }
  /// x [replica, dims] of all replicas on each: mirrored [`into`: R, dims]. UserError if x has the
  /// dim `into` already.
  Tensor all_gather(Tensor x, const std::string& into = "gathered") const;
  /// The value of replica `source` on all: mirrored [dims]. UserError unless 0 <= source < R.
  Tensor broadcast(Tensor x, std::int64_t source) const;

  /// A function of stacked operands: one tensor for each operand, all with the dim `replica` that
  /// counts pieces; gives the results, stacked the same way.
  using Piecewise = std::function<std::vector<Tensor>(const std::vector<Tensor>& operands)>;
  /// Work on N pieces shared out over the replicas, its results on all of them (as inverses of many
  /// matrices are shared out in K-FAC): pieces[i] are the mirrored operands of piece i, equal in
  /// number and shapes; `function` is called once, on all pieces stacked. Returns [piece][result].
  /// N need not be R. UserError if pieces differ in signature or there are none.
  std::vector<std::vector<Tensor>> map_gather(const std::vector<std::vector<Tensor>>& pieces,
                                              const Piecewise& function) const;
  /// The same with the results of all pieces combined: one tensor for each result.
  std::vector<Tensor> map_reduce(const std::vector<std::vector<Tensor>>& pieces,
                                 const Piecewise& function, Combine how) const;

  /// Names a scalar result of the step, which the lines of training steps then show as it is: of
  /// each replica, x [replica], an array in the order of replicas; mirrored, x [], one number,
  /// checked to be the same on all ranks. With micro-batches the mean over them. UserError if x has
  /// other dims.
  void result(const std::string& name, Tensor x) const;
  /// The names under which a section fetches them: kResultPrefix + name.
  static constexpr const char* kResultPrefix = "result/";

 private:
  std::vector<Tensor> run_pieces(const std::vector<std::vector<Tensor>>& pieces,
                                 const Piecewise& function) const;

  Graph* graph_;
  std::int64_t num_replicas_;
};

}  // namespace tessera::replicate
