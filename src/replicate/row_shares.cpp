// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/row_shares.hpp"

#include "tessera/base/error.hpp"

namespace tessera::replicate {
namespace {

std::int64_t divided_up(std::int64_t n, std::int64_t parts) {
  return (n + parts - 1) / parts;
}

}  // namespace

std::int64_t RowShares::rows() const {
  return divided_up(divided_up(batch, replicas), micro_batches);
}

RowShares::Place RowShares::place_of(std::int64_t row) const {
  const std::int64_t replica = replica_of(row), own = row - of_replica(replica).begin;
  return {own / rows(), replica, own % rows()};
}

void RowShares::check(bool uneven) const {
  check_user(batch >= 1, "data.batch is ", batch, "; it must be at least 1");
  check_user(micro_batches >= 1, "train.micro_batches is ", micro_batches,
             "; it must be at least 1");
  check_user(replicas >= 1, "replicate.replicas is ", replicas, "; it must be at least 1");
  if (uneven) return;
  const std::int64_t whole = batch / replicas * replicas;
  check_user(batch % replicas == 0, "data.batch = ", batch, " rows do not divide among ", replicas,
             " replicas; take ", whole > 0 ? concat(whole, " or ") : "", whole + replicas,
             ", another replicate.replicas, or let replicate.uneven = true pad with weight 0");
  const std::int64_t own = batch / replicas;
  check_user(own % micro_batches == 0, "train.micro_batches = ", micro_batches, " does not divide ",
             replicas == 1 ? concat("data.batch = ", batch)
                           : concat("the ", own, " rows of a replica (data.batch = ", batch,
                                    " over ", replicas, " replicas)"),
             "; choose a divisor, or a batch that is a multiple");
}

}  // namespace tessera::replicate
