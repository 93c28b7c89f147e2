// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/token_samples.hpp"

#include <map>
#include <set>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;

DatasetPtr tokens(std::int64_t size, const std::string& name = "ids") {
  return from_ids(std::vector<std::int32_t>(static_cast<std::size_t>(size)), name);
}

using Key = std::pair<int, std::int64_t>;
std::map<Key, int> counts_of(const TokenSamples& samples, std::int64_t first_epoch,
                             std::int64_t epochs) {
  std::map<Key, int> counts;
  for (std::int64_t epoch = first_epoch; epoch < first_epoch + epochs; ++epoch)
    for (std::int64_t i = 0; i < samples.per_epoch(); ++i) {
      const TokenSamples::Sample sample = samples.at(epoch, i);
      ++counts[{sample.stream, sample.number}];
    }
  return counts;
}

TEST_CASE("Each token but the first is a target exactly once in an epoch") {
  for (const std::int64_t length : {1, 3, 8})
    for (std::int64_t size = 2; size < 40; ++size)
      for (const auto order : {Order::Kind::shuffled, Order::Kind::sequential}) {
        const TokenSamples samples({{tokens(size)}}, length, 1, order);
        std::vector<int> targets(static_cast<std::size_t>(size));
        for (std::int64_t i = 0; i < samples.per_epoch(); ++i) {
          const TokenSamples::Sample sample = samples.at(3, i);
          REQUIRE(sample.targets >= 1);
          REQUIRE(sample.targets <= length);
          for (std::int64_t t = 0; t < sample.targets; ++t)
            ++targets[static_cast<std::size_t>(sample.begin + t + 1)];
        }
        REQUIRE(targets[0] == 0);
        targets[0] = 1;
        REQUIRE(targets == std::vector<int>(static_cast<std::size_t>(size), 1));
      }
}

TEST_CASE("Sequential order is the order of the text; shuffled orders differ by epoch and seed") {
  const std::vector<Stream> streams = {{tokens(41)}, {tokens(21)}};
  const TokenSamples sequential(streams, 10, 1, Order::Kind::sequential);
  REQUIRE(sequential.per_epoch() == 6);
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(sequential.at(5, i).stream == (i < 4 ? 0 : 1));
    CHECK(sequential.at(5, i).begin == (i < 4 ? i : i - 4) * 10);
  }
  const auto order = [](std::uint64_t seed, std::int64_t epoch) {
    const TokenSamples samples({{tokens(1001)}}, 10, seed, Order::Kind::shuffled);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < samples.per_epoch(); ++i)
      numbers.push_back(samples.at(epoch, i).number);
    return numbers;
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(2, 0));
}

TEST_CASE("Weights count passes through a stream, spread evenly over epochs") {
  const std::vector<Stream> streams = {
      {tokens(101), 1}, {tokens(51), 3}, {tokens(201), 0.5}, {tokens(71), 1.3}};
  const TokenSamples samples(streams, 10, 7, Order::Kind::shuffled);
  CHECK(samples.per_epoch() == 10 + 15 + 10 + 9);

  for (const std::int64_t epoch : {0, 1, 4}) {
    const auto counts = counts_of(samples, epoch, 1);
    int of_half = 0;
    for (const auto& [key, count] : counts) {
      if (key.first == 0) CHECK(count == 1);
      if (key.first == 1) CHECK(count == 3);
      if (key.first == 2) {
        CHECK(count == 1);
        ++of_half;
      }
      if (key.first == 3) CHECK((count == 1 || count == 2));
    }
    CHECK(of_half == 10);
  }
  // Two halves make a whole: no sample of the third stream is left out or taken twice.
  const auto two = counts_of(samples, 0, 2);
  for (std::int64_t number = 0; number < 20; ++number) CHECK(two.at({2, number}) == 1);
  // 7 samples, 9 an epoch: after 7 epochs each has come 9 times.
  const auto seven = counts_of(samples, 0, 7);
  for (std::int64_t number = 0; number < 7; ++number) CHECK(seven.at({3, number}) == 9);
}

TEST_CASE("Streams are mixed, not taken one after the other") {
  const TokenSamples samples({{tokens(1001)}, {tokens(1001)}}, 10, 7, Order::Kind::shuffled);
  int first_half = 0;
  for (std::int64_t i = 0; i < 100; ++i) first_half += samples.at(0, i).stream == 0;
  CHECK(first_half > 30);
  CHECK(first_half < 70);
}

TEST_CASE("The digest names streams, weights and length") {
  const auto digest = [](std::vector<Stream> streams, std::int64_t length) {
    return TokenSamples(std::move(streams), length, 1, Order::Kind::shuffled).digest();
  };
  const Digest plain = digest({{tokens(50)}, {tokens(60)}}, 8);
  CHECK(plain == digest({{tokens(50, "another name")}, {tokens(60)}}, 8));
  CHECK(plain != digest({{tokens(60)}, {tokens(50)}}, 8));
  CHECK(plain != digest({{tokens(50), 2}, {tokens(60)}}, 8));
  CHECK(plain != digest({{tokens(50)}, {tokens(60)}}, 9));
  CHECK(plain != digest({{tokens(50)}, {tokens(61)}}, 8));
}

TEST_CASE("What cannot be cut into samples is refused by name") {
  const auto make = [](std::vector<Stream> streams, std::int64_t length) {
    return message_of<UserError>(
        [&] { TokenSamples(std::move(streams), length, 1, Order::Kind::shuffled); });
  };
  CHECK(contains(make({}, 4), "data.path"));
  CHECK(contains(make({{tokens(1, "tiny.txt")}}, 4), "'tiny.txt' holds 1 tokens"));
  CHECK(contains(make({{tokens(9, "a.txt"), 0}}, 4), "weight of 'a.txt' is 0"));
  CHECK(contains(make({{tokens(9)}}, 0), "data.length is 0"));
  CHECK(make({{tokens(2)}}, 4).empty());

  const std::vector<Stream> streams = {{tokens(65, "long.txt")}, {tokens(64, "short.txt")}};
  const std::string message =
      message_of<UserError>([&] { check_long_enough(streams, 64, "data.path"); });
  CHECK(contains(message, "'short.txt' holds 64 tokens"));
  CHECK(contains(message, "set data.length to 63 or less"));
  check_long_enough(streams, 63, "data.path");
}

}  // namespace
}  // namespace tessera::data
