// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/token_source.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/paths.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/entropy.hpp"
#include "tessera/data/text_files.hpp"
#include "tessera/data/token_file.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

std::int64_t total_tokens(const std::vector<Stream>& streams) {
  std::int64_t total = 0;
  for (const Stream& stream : streams) total += stream.tokens->size();
  return total;
}

/// Cuts the last part off a stream, for validation.
void cut(const Stream& whole, double fraction, TokenStreams& streams) {
  const std::int64_t size = whole.tokens->size();
  if (fraction == 0) {
    streams.train.push_back(whole);
    return;
  }
  check_user(size >= 4, "data.path: '", whole.tokens->name(), "' holds ", size,
             " tokens, too few to cut a validation part off; set data.validation_fraction = 0");
  const auto wanted = static_cast<std::int64_t>(std::llround(static_cast<double>(size) * fraction));
  const std::int64_t border = size - std::clamp<std::int64_t>(wanted, 2, size - 2);
  streams.train.push_back({slice(whole.tokens, {0, border}), whole.weight});
  streams.validation.push_back({slice(whole.tokens, {border, size}), 1});
}

TokenStreams open_text(const DataConfig& config, std::int64_t model_vocab) {
  const std::int64_t vocab = model_vocab > 0 ? std::min<std::int64_t>(256, model_vocab) : 256;
  TokenStreams streams;
  const bool own_validation = !config.validation.empty();
  const double fraction = own_validation ? 0 : config.validation_fraction;
  if (config.path.empty()) cut({own_text(vocab), 1}, fraction, streams);
  for (const std::string& entry : config.path) {
    const WeightedPath weighted = parse_weighted(entry);
    cut({text_files(weighted.path, vocab), weighted.weight}, fraction, streams);
  }
  open_validation(config.validation, [&](const std::string& entry) {
    streams.validation.push_back({text_files(entry, vocab), 1});
  });
  return streams;
}

std::vector<std::string> token_paths(const std::string& entry) {
  std::vector<std::string> files;
  for (const std::string& path : expand_paths(entry)) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    const fs::directory_iterator folder(path, failed);
    check_user(!failed, "data.path: cannot list ", path, ": ", failed.message());
    for (const auto& file : folder)
      if (file.path().extension() == ".h5" || file.path().extension() == ".hdf5")
        files.push_back(file.path().string());
  }
  check_user(!files.empty(), "data.path: the folder '", entry,
             "' holds no token file (*.h5, *.hdf5); tools/prepare_text.py writes them");
  std::sort(files.begin(), files.end());
  return files;
}

/// Opens token files one after the other; all must have one vocabulary.
class TokenFiles {
 public:
  TokenFiles(std::int64_t model_vocab, TokenStreams& streams)
      : model_vocab_(model_vocab), streams_(streams) {}

  /// The files of one entry: their training tokens, and their validation tokens if all have some.
  TokenFile open(const std::string& entry) {
    std::vector<DatasetPtr> train, validation;
    const std::vector<std::string> paths = token_paths(entry);
    for (const std::string& path : paths) {
      TokenFile file = open_token_file(path, model_vocab_);
      check_vocabulary(path, file.vocabulary);
      train.push_back(std::move(file.train));
      if (file.validation) validation.push_back(std::move(file.validation));
    }
    check_user(validation.empty() || validation.size() == paths.size(), "data.path: of the files ",
               "of '", entry, "' some hold /tokens/validation and some do not; prepare them alike");
    TokenFile all;
    all.train = concatenate(std::move(train), entry);
    if (!validation.empty()) all.validation = concatenate(std::move(validation), entry);
    return all;
  }

 private:
  void check_vocabulary(const std::string& path, Vocabulary& found) {
    if (first_.empty()) {
      first_ = path;
      streams_.vocabulary = std::move(found);
      return;
    }
    check_user(streams_.vocabulary == found, "data.path: ", first_, " (vocabulary of ",
               streams_.vocabulary.size(), ") and ", path, " (", found.size(),
               ") were prepared with different vocabularies; prepare both with one model");
  }

  std::int64_t model_vocab_;
  TokenStreams& streams_;
  std::string first_;
};

TokenStreams open_tokens(const DataConfig& config, std::int64_t model_vocab) {
  check_user(!config.path.empty(),
             "data.path is empty; data.source = tokens needs files written by "
             "tools/prepare_text.py (or set data.source = text)");
  TokenStreams streams;
  TokenFiles files(model_vocab, streams);
  const bool own_validation = !config.validation.empty();
  for (const std::string& entry : config.path) {
    const WeightedPath weighted = parse_weighted(entry);
    TokenFile opened = files.open(weighted.path);
    if (opened.validation && !own_validation) {
      streams.train.push_back({opened.train, weighted.weight});
      if (config.validation_fraction > 0) streams.validation.push_back({opened.validation, 1});
    } else {
      cut({opened.train, weighted.weight}, own_validation ? 0 : config.validation_fraction,
          streams);
    }
  }
  open_validation(config.validation, [&](const std::string& entry) {
    TokenFile opened = files.open(entry);
    streams.validation.push_back({opened.validation ? opened.validation : opened.train, 1});
  });
  return streams;
}

TokenStreams open_random(const DataConfig& config, std::int64_t model_vocab, std::uint64_t seed) {
  const std::int64_t vocab = random_vocab(config, model_vocab);
  TokenStreams streams;
  streams.vocabulary = Vocabulary::numbers(vocab);
  cut({random_tokens(config.random_tokens, vocab, seed), 1}, config.validation_fraction, streams);
  return streams;
}

std::string text_of(const TokenStreams& streams) {
  const std::size_t count = streams.train.size();
  return concat(count, count == 1 ? " stream, " : " streams, ",
                with_commas(total_tokens(streams.train)), " training and ",
                with_commas(total_tokens(streams.validation)), " validation tokens, vocabulary of ",
                with_commas(streams.vocabulary.size()));
}

}  // namespace

std::int64_t random_vocab(const DataConfig& config, std::int64_t model_vocab) {
  const std::int64_t vocab = config.vocab > 0 ? config.vocab : model_vocab;
  check_user(vocab > 0, "data.vocab is 0 and the model names no vocabulary; set data.vocab");
  check_user(model_vocab == 0 || vocab <= model_vocab, "data.vocab is ", vocab,
             ", more than the model's vocabulary of ", model_vocab,
             "; set data.vocab = ", model_vocab, " or less");
  return vocab;
}

TokenStreams open_token_streams(const DataConfig& config, std::int64_t model_vocab,
                                std::uint64_t seed) {
  if (config.source == "text") return open_text(config, model_vocab);
  if (config.source == "tokens") return open_tokens(config, model_vocab);
  return open_random(config, model_vocab, seed);
}

Corpus open_token_source(const DataConfig& config, const Wanted& wanted) {
  const std::uint64_t seed = order_seed(config, wanted);
  const TokenStreams streams = open_token_streams(config, wanted.vocab, seed);
  check_long_enough(streams.train, config.length, "data.path");
  Corpus corpus;
  corpus.train =
      std::make_shared<TokenSamples>(streams.train, config.length, seed, Order::Kind::shuffled);
  if (!streams.validation.empty())
    corpus.validation = std::make_shared<TokenSamples>(streams.validation, config.length, 0,
                                                       Order::Kind::sequential);
  corpus.vocabulary = streams.vocabulary;
  corpus.text = text_of(streams);
  if (config.source != "random" && corpus.validation)
    corpus.baseline = [streams] {
      return unigram_nats(streams.train, streams.validation, streams.vocabulary.size());
    };
  return corpus;
}

}  // namespace tessera::data
