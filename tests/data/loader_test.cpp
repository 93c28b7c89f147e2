// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/data/token_samples.hpp"
#include "tessera/shape/layout.hpp"

namespace tessera::data {
namespace {

using test::contains;
using test::message_of;

/// Ids 100, 101, … so that an id tells its place; notes what is read and fails at will.
class Watched final : public Dataset {
 public:
  explicit Watched(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    const std::lock_guard lock(mutex_);
    if (begin <= fails_at && fails_at < begin + count) throw UserError("id out of bounds");
    std::iota(out, out + count, static_cast<std::int32_t>(100 + begin));
    reads_.push_back({begin, begin + count});
  }
  Digest digest() const override { return {}; }
  std::string name() const override { return "watched"; }
  std::size_t read_count() const {
    const std::lock_guard lock(mutex_);
    return reads_.size();
  }
  Interval read_of(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return reads_.at(index);
  }

  std::int64_t fails_at = -1;

 private:
  std::int64_t size_;
  mutable std::mutex mutex_;
  mutable std::vector<Interval> reads_;
};

using SamplesPtr = std::shared_ptr<const TokenSamples>;

SamplesPtr make_samples(std::int64_t tokens, std::int64_t length,
                        Order::Kind order = Order::Kind::shuffled) {
  return std::make_shared<TokenSamples>(std::vector<Stream>{{std::make_shared<Watched>(tokens)}},
                                        length, 11, order);
}

/// The three inputs of a language model, cut alike.
std::vector<LoadedInput> inputs_of(const std::vector<Box>& boxes) {
  return {{"tokens", boxes}, {"targets", boxes}, {"weights", boxes}};
}

/// A tile's inputs under their names.
struct Rows {
  Rows() = default;
  explicit Rows(const TileData& tile) {
    const auto copy = [](auto& to, const auto& from) { to.assign(from.begin(), from.end()); };
    copy(tokens, tile.as<std::int32_t>(0));
    copy(targets, tile.as<std::int32_t>(1));
    copy(weights, tile.as<float>(2));
  }
  std::vector<std::int32_t> tokens, targets;
  std::vector<float> weights;
};

Rows first_tile(const Batch& batch) {
  return Rows(batch.tiles.at(0).at(0));
}

Loader whole_loader(const SamplesPtr& samples, const LoaderConfig& config) {
  const std::int64_t rows = config.batch / config.micro_batches;
  return Loader(samples, config, inputs_of({{{0, rows}, {0, samples->targets_per_sample()}}}));
}

std::vector<Box> boxes_of(const std::string& mesh_text, std::int64_t rows, std::int64_t length) {
  const MeshShape mesh = MeshShape::parse(mesh_text, 0);
  const Layout layout = Layout::parse("batch:batch, length:length");
  const Shape shape{{"batch", rows}, {"length", length}};
  const Placement placement = layout.placement("tokens", shape, mesh);
  std::vector<Box> boxes;
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank)
    boxes.push_back(tile_box(shape, placement, mesh, mesh.coordinates(rank)));
  return boxes;
}

/// A whole batch put together from tiles: row-major [batch, length]; fails on gaps and overlaps of
/// unlike content.
Rows assemble(const Batch& batch, const std::vector<Box>& boxes, std::int64_t rows,
              std::int64_t length) {
  const auto micros = static_cast<std::int64_t>(batch.tiles.size());
  const auto size = static_cast<std::size_t>(micros * rows * length);
  Rows whole;
  whole.tokens.assign(size, -1);
  whole.targets.assign(size, -1);
  whole.weights.assign(size, -1);
  for (std::int64_t micro = 0; micro < micros; ++micro)
    for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
      const Box& box = boxes[rank];
      const Rows tile(batch.tiles[static_cast<std::size_t>(micro)][rank]);
      REQUIRE(tile.tokens.size() == static_cast<std::size_t>(volume(box)));
      std::size_t from = 0;
      for (std::int64_t row = box[0].begin; row < box[0].end; ++row)
        for (std::int64_t column = box[1].begin; column < box[1].end; ++column, ++from) {
          const auto to = static_cast<std::size_t>((micro * rows + row) * length + column);
          REQUIRE((whole.tokens[to] == -1 || whole.tokens[to] == tile.tokens[from]));
          whole.tokens[to] = tile.tokens[from];
          whole.targets[to] = tile.targets[from];
          whole.weights[to] = tile.weights[from];
        }
    }
  for (const float weight : whole.weights) REQUIRE(weight >= 0);
  return whole;
}

TEST_CASE("Rows hold the order's samples, targets are the tokens one place on") {
  const SamplesPtr samples = make_samples(10 * 7 + 4, 7);
  REQUIRE(samples->per_epoch() == 11);
  Loader loader = whole_loader(samples, {4});
  for (const std::int64_t epoch : {0, 1}) {
    for (std::int64_t index = 0; index < 11; index += 4) {
      CHECK(loader.position() == Position{epoch, index, epoch * 3 + index / 4});
      const Batch batch = *loader.next();
      const Rows tile = first_tile(batch);
      CHECK(batch.rows == std::min<std::int64_t>(4, 11 - index));
      CHECK(batch.ends_epoch == (index == 8));
      std::int64_t weights = 0;
      for (std::int64_t row = 0; row < 4; ++row) {
        const bool real = row < batch.rows;
        const TokenSamples::Sample sample = samples->at(epoch, real ? index + row : 0);
        for (std::int64_t column = 0; column < 7; ++column) {
          const auto at = static_cast<std::size_t>(row * 7 + column);
          const bool counts = real && column < sample.targets;
          weights += counts;
          CHECK(tile.weights[at] == (counts ? 1.0F : 0.0F));
          CHECK(tile.tokens[at] == (counts ? 100 + sample.begin + column : 0));
          CHECK(tile.targets[at] == (counts ? 101 + sample.begin + column : 0));
        }
      }
      CHECK(batch.targets == weights);
      CHECK(batch.weight == static_cast<double>(weights));
    }
  }
}

TEST_CASE("Tiles of every mesh and micro-batch count make up the same batches") {
  const std::int64_t batch_rows = 12, length = 10;
  const SamplesPtr samples = make_samples(20 * length + 5, length);
  Loader reference = whole_loader(samples, {batch_rows});
  std::vector<Batch> wanted;
  for (int i = 0; i < 4; ++i) wanted.push_back(*reference.next());  // two epochs, two partial ones
  CHECK(wanted[1].rows == 9);
  const std::vector<Box> whole = {{{0, batch_rows}, {0, length}}};

  for (const char* mesh : {"batch:1", "batch:2", "batch:3", "batch:5", "batch:16", "length:3",
                           "batch:2,length:2", "batch:4,model:2", "batch:2,model:2,length:2"})
    for (const std::int64_t micros : {1, 2, 3, 12}) {
      CAPTURE(mesh, micros);
      std::string text = mesh;
      // The layout names both mesh dims; one of size 1 cuts nothing.
      if (!contains(text, "batch")) text += ",batch:1";
      if (!contains(text, "length")) text += ",length:1";
      const auto boxes = boxes_of(text, batch_rows / micros, length);
      Loader loader(samples, {batch_rows, micros}, inputs_of(boxes));
      for (const Batch& want : wanted) {
        const Batch batch = *loader.next();
        const Rows got = assemble(batch, boxes, batch_rows / micros, length);
        const Rows expected = assemble(want, whole, batch_rows, length);
        CHECK(got.tokens == expected.tokens);
        CHECK(got.targets == expected.targets);
        CHECK(got.weights == expected.weights);
        CHECK(batch.targets == want.targets);
        CHECK(std::accumulate(got.weights.begin(), got.weights.end(), 0.0) == batch.weight);
      }
    }
}

TEST_CASE("Only the columns and rows of the own tile are read") {
  const auto watched = std::make_shared<Watched>(1000 * 50 + 1);
  const auto samples = std::make_shared<TokenSamples>(std::vector<Stream>{{watched}}, 50, 1,
                                                      Order::Kind::sequential);
  Loader loader(samples, {8}, inputs_of({{{2, 4}, {30, 40}}, {{7, 7}, {0, 50}}}));
  for (int i = 0; i < 2; ++i) loader.next();
  CHECK(watched->read_of(0) == Interval{2 * 50 + 30, 2 * 50 + 41});
  CHECK(watched->read_of(1) == Interval{3 * 50 + 30, 3 * 50 + 41});
  CHECK(watched->read_of(2) == Interval{10 * 50 + 30, 10 * 50 + 41});
}

TEST_CASE("A run goes on where it stood, on another mesh too") {
  const SamplesPtr samples = make_samples(333, 8);
  Loader straight = whole_loader(samples, {4});
  const std::int64_t steps = 3 * straight.batches_per_epoch() + 1;
  std::vector<std::vector<std::int32_t>> tokens;
  for (std::int64_t i = 0; i < steps; ++i) tokens.push_back(first_tile(*straight.next()).tokens);

  for (const std::int64_t stop : {0, 1, 5, 10, 11, 12, 25}) {
    Loader before = whole_loader(samples, {4});
    for (std::int64_t i = 0; i < stop; ++i) before.next();
    const Position position = before.position();
    CHECK(position.step == stop);
    const auto boxes = boxes_of("batch:2,length:3", 2, 8);
    Loader after(samples, {4, 2}, inputs_of(boxes));
    after.next();  // a loader that has begun to read ahead can be moved as well
    after.seek(position);
    CHECK(after.position() == position);
    for (std::int64_t i = stop; i < steps; ++i)
      CHECK(assemble(*after.next(), boxes, 2, 8).tokens == tokens[static_cast<std::size_t>(i)]);
  }
  Loader loader = whole_loader(samples, {4});
  CHECK(contains(message_of<UserError>([&] { loader.seek({0, 42, 0}); }), "42 samples"));
  CHECK_THROWS_AS(loader.seek({-1, 0, 0}), UserError);
}

TEST_CASE("Evaluation takes all samples once, in order, and ends") {
  const SamplesPtr samples = make_samples(5 * 6 + 3, 6, Order::Kind::sequential);
  Loader loader = whole_loader(samples, {4, 1, 1});
  for (int round = 0; round < 2; ++round) {
    std::int64_t targets = 0;
    std::int32_t next = 101;
    while (const auto batch = loader.next()) {
      targets += batch->targets;
      const Rows tile = first_tile(*batch);
      for (std::size_t i = 0; i < tile.targets.size(); ++i)
        if (tile.weights[i] > 0) CHECK(tile.targets[i] == next++);
    }
    CHECK(targets == 5 * 6 + 2);
    CHECK_FALSE(loader.next().has_value());
    CHECK(loader.status().ok());
    loader.seek({});
  }
}

TEST_CASE("What reading throws reaches the consumer, at the batch where it happened") {
  const auto watched = std::make_shared<Watched>(101);
  watched->fails_at = 57;
  const auto samples = std::make_shared<TokenSamples>(std::vector<Stream>{{watched}}, 10, 1,
                                                      Order::Kind::sequential);
  Loader loader(samples, {2}, inputs_of({{{0, 2}, {0, 10}}}));
  for (int i = 0; i < 2; ++i) {
    CHECK(loader.status().ok());
    CHECK(first_tile(*loader.next()).tokens[0] == 100 + i * 20);
  }
  for (int again = 0; again < 2; ++again) {
    CHECK(loader.status().kind == Status::Kind::user_error);
    CHECK(loader.status().message == "id out of bounds");
    CHECK_THROWS_AS(loader.next(), UserError);
    CHECK(loader.position().step == 2);
  }
  loader.seek({0, 6, 3});
  CHECK(first_tile(*loader.next()).tokens[0] == 160);

  Loader elsewhere(samples, {2},
                   inputs_of({{{0, 1}, {0, 10}}}));  // this rank never meets the bad id
  for (int i = 0; i < 5; ++i) CHECK(elsewhere.next().has_value());
}

TEST_CASE("Several threads read the same batches, and the first failure is what is told") {
  const SamplesPtr samples = make_samples(2000, 7);
  LoaderConfig one{32, 2}, many{32, 2};
  many.threads = 5;
  Loader alone = whole_loader(samples, one), together = whole_loader(samples, many);
  for (int i = 0; i < 12; ++i) {
    const Batch a = *alone.next(), b = *together.next();
    CHECK(a.rows == b.rows);
    for (std::size_t micro = 0; micro < 2; ++micro)
      CHECK(a.tiles[micro][0].inputs == b.tiles[micro][0].inputs);
  }
  const auto watched = std::make_shared<Watched>(641);
  watched->fails_at = 57;
  const auto failing = std::make_shared<TokenSamples>(std::vector<Stream>{{watched}}, 10, 1,
                                                      Order::Kind::sequential);
  Loader loader = whole_loader(failing, many);
  CHECK(loader.status().message == "id out of bounds");
}

TEST_CASE("Reading ahead is bounded, happens before it is asked for, and stops at once") {
  const auto watched = std::make_shared<Watched>(100001);
  const auto samples =
      std::make_shared<TokenSamples>(std::vector<Stream>{{watched}}, 10, 1, Order::Kind::shuffled);
  LoaderConfig config;
  config.batch = 1;
  config.ahead = 3;
  Loader loader(samples, config, inputs_of({{{0, 1}, {0, 10}}}));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(watched->read_count() == 0);  // nothing is read before seek() has had its chance
  for (std::size_t taken = 1; taken < 20; ++taken) {
    loader.next();
    // `ahead` batches wait in the queue and one more in the reader's hand.
    for (int i = 0; i < 5000 && watched->read_count() < taken + 4; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(watched->read_count() == taken + 4);
  }
  for (int i = 0; i < 50; ++i) {
    Loader idle(samples, config, inputs_of({{{0, 1}, {0, 10}}}));
    Loader left(samples, config, inputs_of({{{0, 1}, {0, 10}}}));
    if (i % 2 == 0) left.status();
    left.next();
  }
}

TEST_CASE("Sizes that do not fit are refused by name") {
  const SamplesPtr samples = make_samples(100, 8);
  const std::string message = message_of<UserError>([&] { whole_loader(samples, {8, 3}); });
  CHECK(contains(message, "train.micro_batches = 3"));
  CHECK(contains(message, "data.batch = 8"));
  CHECK_THROWS_AS(whole_loader(samples, {0}), UserError);
  CHECK_THROWS_AS(Loader(samples, {8, 2}, inputs_of({{{0, 5}, {0, 8}}})), Error);
  CHECK_THROWS_AS(Loader(samples, {8, 2}, inputs_of({{{0, 4}, {0, 9}}})), Error);
}

}  // namespace
TEST_CASE("Loaders with a stride share batches, loaders with a share the micro-batches") {
  const SamplesPtr samples = make_samples(11 * 6 + 1, 6, Order::Kind::shuffled);
  Loader whole = whole_loader(samples, {4, 2});
  std::vector<Batch> batches;
  for (int i = 0; i < 12; ++i) batches.push_back(*whole.next());
  const auto tokens = [](const Batch& batch, std::size_t micro) {
    const auto values = batch.tiles[micro][0].as<std::int32_t>(0);
    return std::vector<std::int32_t>(values.begin(), values.end());
  };
  LoaderConfig config{4, 2};
  config.stride = 3;
  Loader third = whole_loader(samples, config);
  third.seek(advance({}, 2, 4, samples->per_epoch()));
  for (std::size_t i = 2; i < 12; i += 3) {
    const Position at = third.position();
    const Batch batch = *third.next();
    CHECK(at == batches[i].at);
    CHECK(batch.at == batches[i].at);
    for (std::size_t micro : {0, 1}) CHECK(tokens(batch, micro) == tokens(batches[i], micro));
  }
  config = {4, 2};
  config.share = 1;
  config.shares = 2;
  Loader second = whole_loader(samples, config);
  for (const Batch& batch : batches) {
    const Batch half = *second.next();
    CHECK(half.at == batch.at);
    CHECK(half.weight == batch.weight);
    REQUIRE(half.tiles.size() == 1);
    CHECK(tokens(half, 0) == tokens(batch, 1));
  }
}

}  // namespace tessera::data
