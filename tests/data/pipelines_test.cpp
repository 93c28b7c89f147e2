// SPDX-License-Identifier: BSD-3-Clause
// Pipelines joined: each batch has every pipeline's rows at their place, each sample once an epoch.
#include "tessera/data/pipelines.hpp"

#include <map>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/data/generated_samples.hpp"
#include "tessera/data/loader.hpp"

namespace tessera::data {
namespace {

/// `count` samples 100 pipeline + index.
SamplesPtr counting(std::int64_t pipeline, std::int64_t count) {
  Generator generator;
  generator.fields = {{"x", {Shape{{"n", 2}}, DType::f32}}};
  generator.per_epoch = count;
  generator.make = [=](std::int64_t, std::int64_t index, WholeSample& sample) {
    sample.f32("x")[0] = -1;
    sample.f32("x")[1] = static_cast<float>(100 * pipeline + index);
  };
  return generated_samples(std::move(generator));
}

}  // namespace

TEST_CASE("Replicas of any shares get their own pipeline's samples, each once an epoch") {
  for (const std::int64_t replicas : {1, 2, 3, 5})
    for (const std::int64_t pipelines : {std::int64_t{1}, replicas})
      for (const std::int64_t micro_batches : {1, 2}) {
        const replicate::RowShares shares{7, micro_batches, replicas};
        std::vector<SamplesPtr> each;
        std::int64_t total = 0;
        for (std::int64_t p = 0; p < pipelines; ++p) {
          each.push_back(counting(p, 9 + 4 * p));
          total += 9 + 4 * p;
        }
        const SamplesPtr joined = join_pipelines(std::move(each), shares);
        CHECK(joined->size() == total);
        LoaderConfig config;
        config.batch = 7;
        config.micro_batches = micro_batches;
        config.replicas = replicas;
        config.epochs = 1;
        // The second element alone, of all rows.
        const Box box{{0, replicas}, {0, shares.rows()}, {1, 2}};
        const Box weights(box.begin(), box.begin() + 2);
        Loader loader(joined, config, {{"x", {box}}, {"weights", {weights}}});
        std::map<float, int> seen;
        double weight = 0;
        while (const auto batch = loader.next()) {
          weight += batch->weight;
          for (const auto& tiles : batch->tiles) {
            const auto x = tiles[0].as<float>(0), w = tiles[0].as<float>(1);
            for (std::size_t i = 0; i < x.size(); ++i) {
              if (w[i] == 0) continue;
              ++seen[x[i]];
              const auto replica = static_cast<std::int64_t>(i) / shares.rows();
              if (pipelines > 1) CHECK(static_cast<std::int64_t>(x[i]) / 100 == replica);
            }
          }
        }
        CHECK(weight == static_cast<double>(total));
        CHECK(static_cast<std::int64_t>(seen.size()) == total);
        for (const auto& [value, times] : seen) CHECK(times == 1);
      }
}

TEST_CASE("Pipelines that differ are refused, and so is one without samples") {
  const auto other = [] {
    Generator generator;
    generator.fields = {{"y", {Shape{}, DType::f32}}};
    generator.per_epoch = 3;
    generator.make = [](std::int64_t, std::int64_t, WholeSample&) {};
    return generated_samples(std::move(generator));
  };
  CHECK(test::contains(test::message_of<UserError>([&] {
                         join_pipelines({counting(0, 3), other()}, {4, 1, 2});
                       }),
                       "input pipeline 1"));
  CHECK_THROWS_AS(counting(0, 0), UserError);
  // Shards that say that they are parts of one thing are one thing.
  const auto one = join_pipelines({counting(0, 5), counting(0, 5)}, {4, 1, 2});
  CHECK(one->digest() == counting(0, 5)->digest());
  CHECK_FALSE(join_pipelines({counting(0, 5), counting(1, 5)}, {4, 1, 2})->digest() ==
              one->digest());
}

}  // namespace tessera::data
