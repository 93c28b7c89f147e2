// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/pair_source.hpp"

#include <algorithm>
#include <cmath>

#include "data/paths.hpp"
#include "data/token_parts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/entropy.hpp"
#include "tessera/data/token_source.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::data {
namespace {

constexpr std::int64_t kGenerated = 2048;

/// All that data.path and data.validation give.
struct PairStreams {
  std::vector<PairStream> train, validation;
  Vocabulary vocabulary = Vocabulary::bytes();
};

PairStream whole(PairsPtr pairs, double weight, std::string name) {
  const std::int64_t size = pairs->size();
  return {std::move(pairs), {0, size}, weight, std::move(name)};
}

/// Cuts the last pairs off, for validation.
void cut(const PairStream& stream, double fraction, PairStreams& streams) {
  streams.train.push_back(stream);
  if (fraction == 0) return;
  const std::int64_t size = stream.range.size();
  check_user(size >= 2, "data.path: '", stream.name,
             "' holds one pair; set data.validation_fraction = 0");
  const auto held = static_cast<std::int64_t>(std::llround(static_cast<double>(size) * fraction));
  const std::int64_t border = size - std::clamp<std::int64_t>(held, 1, size - 1);
  streams.train.back().range.end = border;
  streams.validation.push_back({stream.pairs, {border, size}, 1, stream.name});
}

/// Pairs files opened one after the other; all must have one vocabulary.
class PairsOpener {
 public:
  PairsOpener(const DataConfig& config, std::int64_t model_vocab)
      : config_(config), model_vocab_(model_vocab) {}

  PairStreams open() {
    const double fraction = config_.validation.empty() ? config_.validation_fraction : 0;
    for (const std::string& entry : config_.path) {
      const WeightedPath weighted = parse_weighted(entry);
      for (const std::string& path : expand_paths(weighted.path)) {
        const io::FileIndex index = open_file(path);
        const PairStream train = whole(need(path, index, "train"), weighted.weight, path);
        const PairsPtr held = part(path, index, "validation");
        if (!held || fraction == 0) {
          cut(train, fraction, streams_);
        } else {
          streams_.train.push_back(train);
          streams_.validation.push_back(whole(held, 1, path));
        }
      }
    }
    open_validation(config_.validation, [&](const std::string& entry) {
      for (const std::string& path : expand_paths(entry)) {
        const io::FileIndex index = open_file(path);
        PairsPtr held = part(path, index, "validation");
        if (!held) held = need(path, index, "train");
        streams_.validation.push_back(whole(held, 1, path));
      }
    });
    return std::move(streams_);
  }

 private:
  io::FileIndex open_file(const std::string& path) {
    io::FileIndex index = io::read_index(path);
    Vocabulary found = read_vocabulary(path, index, model_vocab_);
    if (first_.empty()) {
      first_ = path;
      streams_.vocabulary = std::move(found);
    } else {
      check_user(streams_.vocabulary == found, "data.path: ", first_, " and ", path,
                 " were prepared with different vocabularies; prepare both with one model");
    }
    return index;
  }
  PairsPtr part(const std::string& path, const io::FileIndex& index,
                const std::string& name) const {
    const auto find = [&](const std::string& side) { return index.find("/" + name + "/" + side); };
    const auto *source = find("source"), *target = find("target");
    const auto *source_ends = find("source_ends"), *target_ends = find("target_ends");
    if (!source || !target || !source_ends || !target_ends) return nullptr;
    std::int64_t limit = streams_.vocabulary.size();
    if (model_vocab_ > 0) limit = std::min(limit, model_vocab_);
    return std::make_shared<Pairs>(
        open_ids(path, *source, limit), read_integers(path, *source_ends),
        open_ids(path, *target, limit), read_integers(path, *target_ends));
  }
  PairsPtr need(const std::string& path, const io::FileIndex& index,
                const std::string& name) const {
    PairsPtr pairs = part(path, index, name);
    check_user(pairs && pairs->size() > 0, "data.path: ", path, " holds no pairs: it needs /", name,
               "/source, /", name, "/source_ends, /", name, "/target and /", name,
               "/target_ends (tools/prepare_pairs.py writes them)");
    return pairs;
  }

  const DataConfig& config_;
  std::int64_t model_vocab_;
  std::string first_;
  PairStreams streams_;
};

PairStreams generate(const DataConfig& config, std::int64_t model_vocab) {
  PairStreams streams;
  streams.vocabulary = generated_vocabulary();
  check_user(model_vocab == 0 || model_vocab >= streams.vocabulary.size(), "model.vocab is ",
             model_vocab, ", but the generated pairs (data.path is empty) have ",
             streams.vocabulary.size(), " ids; set model.vocab to that or more");
  cut(whole(generated_pairs(kGenerated, 0), 1, "generated pairs"), config.validation_fraction,
      streams);
  return streams;
}

/// Pairs of random lengths and ids.
PairStreams draw(const DataConfig& config, const Wanted& wanted) {
  const std::int64_t vocab = random_vocab(config, wanted.vocab);
  const std::uint64_t seed = order_seed(config, wanted);
  const std::uint64_t key = stream_key(seed, hash_text("data.pairs.length"));
  const auto length = [&](std::int64_t pair, std::uint64_t side) {
    const std::uint64_t word = random_word(key, side, static_cast<std::uint64_t>(pair));
    return 1 + static_cast<std::int64_t>((word * static_cast<std::uint64_t>(config.length)) >> 32);
  };
  std::vector<std::int64_t> source{length(0, 0)}, target{length(0, 1)};
  while (target.back() < config.random_tokens) {
    const auto pair = static_cast<std::int64_t>(source.size());
    source.push_back(source.back() + length(pair, 0));
    target.push_back(target.back() + length(pair, 1));
  }
  const auto ids = [&](const std::vector<std::int64_t>& ends, std::uint64_t side) {
    return random_tokens(ends.back(), vocab, hash_combine(seed, side));
  };
  PairStreams streams;
  streams.vocabulary = Vocabulary::numbers(vocab);
  const DatasetPtr source_ids = ids(source, 0), target_ids = ids(target, 1);
  const auto pairs = std::make_shared<Pairs>(source_ids, source, target_ids, target);
  cut(whole(pairs, 1, "random pairs"), pairs->size() > 1 ? config.validation_fraction : 0, streams);
  return streams;
}

/// Target tokens of all pairs of some streams, for the frequencies of single tokens.
std::vector<Stream> targets_of(const std::vector<PairStream>& streams) {
  std::vector<Stream> targets;
  for (const PairStream& stream : streams) {
    const Interval tokens{stream.pairs->target(stream.range.begin).begin,
                          stream.pairs->target(stream.range.end - 1).end};
    targets.push_back({slice(stream.pairs->target_ptr(), tokens), 1});
  }
  return targets;
}

std::string text_of(const PairStreams& streams, const PairSamples& train,
                    const PairSamples* validation) {
  const auto pairs_in = [](const std::vector<PairStream>& list) {
    std::int64_t pairs = 0;
    for (const PairStream& stream : list) pairs += stream.range.size();
    return pairs;
  };
  const auto part = [&](const std::vector<PairStream>& list, const PairSamples& samples) {
    const std::int64_t left_out = samples.left_out();
    return concat(with_commas(pairs_in(list) - left_out), " pairs with ",
                  with_commas(samples.size()), " target tokens in ",
                  with_commas(samples.per_epoch()), " rows",
                  left_out > 0 ? concat(" (", with_commas(left_out), " too long, left out)") : "");
  };
  std::string text = concat("training ", part(streams.train, train));
  if (validation) text += concat("; validation ", part(streams.validation, *validation));
  return text + concat("; vocabulary of ", with_commas(streams.vocabulary.size()));
}

Corpus corpus_of(const PairStreams& streams, const DataConfig& config, const Wanted& wanted) {
  const auto train =
      std::make_shared<PairSamples>(streams.train, config.length, config.packing,
                                    order_seed(config, wanted), Order::Kind::shuffled);
  Corpus corpus;
  corpus.train = train;
  std::shared_ptr<PairSamples> validation;
  if (!streams.validation.empty()) {
    validation = std::make_shared<PairSamples>(streams.validation, config.length, config.packing, 0,
                                               Order::Kind::sequential);
    corpus.validation = validation;
    corpus.baseline = [streams] {
      return unigram_nats(targets_of(streams.train), targets_of(streams.validation),
                          streams.vocabulary.size());
    };
  }
  corpus.vocabulary = streams.vocabulary;
  corpus.text = text_of(streams, *train, validation.get());
  return corpus;
}

}  // namespace

Corpus open_pairs(const DataConfig& config, const Wanted& wanted) {
  if (config.path.empty()) return corpus_of(generate(config, wanted.vocab), config, wanted);
  return corpus_of(PairsOpener(config, wanted.vocab).open(), config, wanted);
}

Corpus open_random_pairs(const DataConfig& config, const Wanted& wanted) {
  Corpus corpus = corpus_of(draw(config, wanted), config, wanted);
  corpus.baseline = {};
  return corpus;
}

}  // namespace tessera::data
