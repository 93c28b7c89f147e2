// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/pair_samples.hpp"

#include <algorithm>
#include <bit>
#include <deque>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/data/permutation.hpp"

namespace tessera::data {
namespace {

/// Rows that are open while pairs are packed: more fill rows better and take longer.
constexpr std::size_t kOpenRows = 64;

enum PairField : std::size_t {
  kSource,
  kSourceSegments,
  kSourcePositions,
  kTokens,
  kTargets,
  kSegments,
  kPositions,
  kWeights
};

bool is_of_target(std::size_t field) {
  return field >= kTokens;
}

void check_ends(const std::vector<std::int64_t>& ends, const Dataset& tokens) {
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    check_user(end > begin && end <= tokens.size(), "data.path: ", tokens.name(),
               ": a sequence ends at ", end, " behind ", begin, " of ", tokens.size(), " tokens");
    begin = end;
  }
}

Digest digest_of(const std::vector<std::int64_t>& ends) {
  Digest digest;
  digest.add_bytes(0, reinterpret_cast<const unsigned char*>(ends.data()),
                   ends.size() * sizeof(std::int64_t));
  return digest;
}

/// A row to which pairs may still be added.
struct OpenRow {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::vector<std::int32_t> pairs;
};

void close(const OpenRow& row, Packing& packing) {
  packing.pairs.insert(packing.pairs.end(), row.pairs.begin(), row.pairs.end());
  packing.row_ends.push_back(static_cast<std::int64_t>(packing.pairs.size()));
}

}  // namespace

Pairs::Pairs(DatasetPtr source, std::vector<std::int64_t> source_ends, DatasetPtr target,
             std::vector<std::int64_t> target_ends)
    : source_(std::move(source)),
      target_(std::move(target)),
      source_ends_(std::move(source_ends)),
      target_ends_(std::move(target_ends)) {
  check_user(source_ends_.size() == target_ends_.size(), "data.path: ", source_->name(), " has ",
             source_ends_.size(), " source sequences and ", target_ends_.size(),
             " target sequences");
  check_ends(source_ends_, *source_);
  check_ends(target_ends_, *target_);
}

Interval Pairs::span(const std::vector<std::int64_t>& ends, std::int64_t pair) {
  const auto at = static_cast<std::size_t>(pair);
  return {at == 0 ? 0 : ends[at - 1], ends[at]};
}

Digest Pairs::digest() const {
  return source_->digest()
      .add(target_->digest())
      .add(digest_of(source_ends_))
      .add(digest_of(target_ends_));
}

Packing pack(const PairStream& stream, std::int64_t length, std::uint64_t seed, Order::Kind kind,
             bool together) {
  const std::uint64_t key = stream_key(seed, hash_text("data.pack"));
  const std::int64_t count = stream.range.size();
  Packing packing;
  std::deque<OpenRow> open;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = kind == Order::Kind::shuffled ? permute(i, count, key) : i;
    const std::int64_t pair = stream.range.begin + number;
    const std::int64_t source = stream.pairs->source(pair).size();
    const std::int64_t target = stream.pairs->target(pair).size();
    if (source > length || target > length) {
      ++packing.left_out;
      continue;
    }
    auto row = std::find_if(open.begin(), open.end(), [&](const OpenRow& candidate) {
      return together && candidate.source + source <= length && candidate.target + target <= length;
    });
    if (row == open.end()) {
      if (open.size() == (together ? kOpenRows : 1)) {
        close(open.front(), packing);
        open.pop_front();
      }
      row = open.insert(open.end(), OpenRow{});
    }
    row->source += source;
    row->target += target;
    row->pairs.push_back(static_cast<std::int32_t>(number));
  }
  for (const OpenRow& row : open) close(row, packing);
  return packing;
}

PairSamples::PairSamples(std::vector<PairStream> streams, std::int64_t length, bool together,
                         std::uint64_t seed, Order::Kind kind)
    : streams_(std::move(streams)), length_(length) {
  std::vector<Order::Stream> counted;
  for (const PairStream& stream : streams_) {
    packings_.push_back(pack(stream, length, seed, kind, together));
    const Packing& packing = packings_.back();
    check_user(!packing.row_ends.empty(), "data.path: no pair of '", stream.name,
               "' fits into data.length = ", length, " tokens on both sides; make it longer");
    counted.push_back(
        {static_cast<std::int64_t>(packing.row_ends.size()), stream.weight, stream.name});
    for (const std::int32_t number : packing.pairs)
      targets_ += stream.pairs->target(stream.range.begin + number).size();
  }
  order_ = std::make_unique<Order>(std::move(counted), seed, kind);
  const Shape source{{"source_length", length}}, target{{"length", length}};
  const auto field = [](const char* name, const Shape& shape, DType dtype = DType::i32) {
    return Field{name, {shape, dtype}, 0};
  };
  fields_ = {field("source", source),           field("source_segments", source),
             field("source_positions", source), field("tokens", target),
             field("targets", target),          field("segments", target),
             field("positions", target),        field("weights", target, DType::f32)};
}

PairSamples::Row PairSamples::at(std::int64_t epoch, std::int64_t index) const {
  const Order::Place place = order_->at(epoch, index);
  const auto stream = static_cast<std::size_t>(place.stream);
  const Packing& packing = packings_[stream];
  const auto item = static_cast<std::size_t>(place.item);
  Row row{place.stream, {}};
  for (std::int64_t i = item == 0 ? 0 : packing.row_ends[item - 1]; i < packing.row_ends[item]; ++i)
    row.pairs.push_back(streams_[stream].range.begin + packing.pairs[static_cast<std::size_t>(i)]);
  return row;
}

std::int64_t PairSamples::left_out() const {
  std::int64_t total = 0;
  for (const Packing& packing : packings_) total += packing.left_out;
  return total;
}

Samples::Count PairSamples::count(std::int64_t epoch, std::int64_t index) const {
  const Row row = at(epoch, index);
  const Pairs& pairs = *streams_[static_cast<std::size_t>(row.stream)].pairs;
  std::int64_t targets = 0;
  for (const std::int64_t pair : row.pairs) targets += pairs.target(pair).size();
  return {targets, static_cast<double>(targets)};
}

void PairSamples::read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const {
  const Row row = at(epoch, index);
  read_side(row, false, parts);
  read_side(row, true, parts);
}

void PairSamples::read_side(const Row& row, bool is_target, std::span<const Part> parts) const {
  const Pairs& pairs = *streams_[static_cast<std::size_t>(row.stream)].pairs;
  std::int64_t begin = 0;
  std::int32_t segment = 0;
  for (const std::int64_t pair : row.pairs) {
    const Interval span = is_target ? pairs.target(pair) : pairs.source(pair);
    const Interval columns{begin, begin + span.size()};
    begin = columns.end;
    ++segment;
    std::vector<std::int32_t> ids;  // of the whole sequence, read when first asked for
    for (const Part& part : parts) {
      const Interval own = intersect(*part.box, columns);
      if (is_of_target(part.field) != is_target || own.size() == 0) continue;
      const std::int64_t first = own.begin - columns.begin;
      const std::int64_t at = own.begin - part.box->begin;
      if (part.field == kWeights) {
        std::fill_n(static_cast<float*>(part.out) + at, own.size(), 1.0F);
        continue;
      }
      auto* out = static_cast<std::int32_t*>(part.out) + at;
      if (part.field == kSegments || part.field == kSourceSegments) {
        std::fill_n(out, own.size(), segment);
        continue;
      }
      if (part.field == kPositions || part.field == kSourcePositions) {
        for (std::int64_t i = 0; i < own.size(); ++i) out[i] = static_cast<std::int32_t>(first + i);
        continue;
      }
      if (ids.empty()) {
        ids.resize(static_cast<std::size_t>(span.size()) + 1);  // id 0 begins what is read
        const Dataset& tokens = is_target ? pairs.target_tokens() : pairs.source_tokens();
        tokens.read(span.begin, span.size(), ids.data() + 1);
      }
      std::copy_n(ids.begin() + first + (part.field == kTokens ? 0 : 1), own.size(), out);
    }
  }
}

Digest PairSamples::digest() const {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(length_));
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const PairStream& stream = streams_[i];
    digest.add(stream.pairs->digest())
        .add(static_cast<std::uint64_t>(stream.range.begin))
        .add(static_cast<std::uint64_t>(stream.range.end))
        .add(static_cast<std::uint64_t>(packings_[i].row_ends.size()))
        .add(std::bit_cast<std::uint64_t>(stream.weight));
  }
  return digest;
}

}  // namespace tessera::data
