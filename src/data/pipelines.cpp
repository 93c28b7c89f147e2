// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/pipelines.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

class Pipelines final : public Samples {
 public:
  Pipelines(std::vector<SamplesPtr> pipelines, const replicate::RowShares& shares)
      : pipelines_(std::move(pipelines)), shares_(shares) {
    const auto count = static_cast<std::int64_t>(pipelines_.size());
    std::int64_t batches = 0;
    for (std::int64_t p = 0; p < count; ++p) {
      const Interval replicas = block(shares_.replicas, count, p);
      rows_.push_back(
          {shares_.of_replica(replicas.begin).begin, shares_.of_replica(replicas.end - 1).end});
      const std::int64_t rows = rows_.back().size();
      if (rows > 0) batches = std::max(batches, (of(p).per_epoch() + rows - 1) / rows);
    }
    per_epoch_ = batches * shares_.batch;
  }

  const std::vector<Field>& fields() const override { return of(0).fields(); }
  std::int64_t per_epoch() const override { return per_epoch_; }
  Count count(std::int64_t epoch, std::int64_t index) const override {
    const Place place = find(index);
    return place.samples ? place.samples->count(epoch, place.index) : Count{};
  }
  void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const override {
    const Place place = find(index);
    if (place.samples) place.samples->read(epoch, place.index, parts);
  }

  /// Shards that give the digest of the whole are one thing with any number of replicas.
  Digest digest() const override {
    const Digest first = of(0).digest();
    Digest all = first;
    bool are_equal = true;
    for (std::size_t p = 1; p < pipelines_.size(); ++p) {
      const Digest digest = pipelines_[p]->digest();
      are_equal = are_equal && digest.to_string() == first.to_string();
      all.add(digest);
    }
    return are_equal ? first : all;
  }
  std::int64_t size() const override {
    std::int64_t size = 0;
    for (const auto& pipeline : pipelines_) size += pipeline->size();
    return size;
  }
  std::string unit() const override { return of(0).unit(); }
  std::int64_t targets_per_sample() const override { return of(0).targets_per_sample(); }

 private:
  /// A pipeline's sample; null: the pipeline's epoch is over.
  struct Place {
    const Samples* samples = nullptr;
    std::int64_t index = 0;
  };
  const Samples& of(std::int64_t pipeline) const {
    return *pipelines_[static_cast<std::size_t>(pipeline)];
  }
  Place find(std::int64_t index) const {
    const auto count = static_cast<std::int64_t>(pipelines_.size());
    const std::int64_t batch = index / shares_.batch, row = index % shares_.batch;
    const std::int64_t pipeline = ((shares_.replica_of(row) + 1) * count - 1) / shares_.replicas;
    const Interval& rows = rows_[static_cast<std::size_t>(pipeline)];
    const std::int64_t own = batch * rows.size() + row - rows.begin;
    if (own >= of(pipeline).per_epoch()) return {};
    return {&of(pipeline), own};
  }

  std::vector<SamplesPtr> pipelines_;
  replicate::RowShares shares_;
  std::vector<Interval> rows_;  // of a batch, by pipeline
  std::int64_t per_epoch_ = 0;
};

}  // namespace

SamplesPtr join_pipelines(std::vector<SamplesPtr> pipelines, const replicate::RowShares& shares) {
  TESSERA_CHECK(!pipelines.empty(), "no pipelines");
  const auto same = [](const Field& a, const Field& b) {
    return a.name == b.name && a.spec == b.spec && a.limit == b.limit;
  };
  const Samples& first = *pipelines[0];
  for (std::size_t p = 1; p < pipelines.size(); ++p) {
    const auto& fields = pipelines[p]->fields();
    check_user(std::equal(fields.begin(), fields.end(), first.fields().begin(),
                          first.fields().end(), same) &&
                   pipelines[p]->unit() == first.unit(),
               "input pipeline ", p, " gives other fields than pipeline 0; all must be alike");
  }
  if (pipelines.size() == 1) return std::move(pipelines[0]);
  return std::make_shared<Pipelines>(std::move(pipelines), shares);
}

}  // namespace tessera::data
