// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/corpus.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/paths.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
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
void cut(const Stream& whole, double fraction, Corpus& corpus) {
  const std::int64_t size = whole.tokens->size();
  if (fraction == 0) {
    corpus.train.push_back(whole);
    return;
  }
  check_user(size >= 4, "data.path: '", whole.tokens->name(), "' holds ", size,
             " tokens, too few to cut a validation part off; set data.validation_fraction = 0");
  const auto wanted = static_cast<std::int64_t>(std::llround(static_cast<double>(size) * fraction));
  const std::int64_t border = size - std::clamp<std::int64_t>(wanted, 2, size - 2);
  corpus.train.push_back({slice(whole.tokens, {0, border}), whole.weight});
  corpus.validation.push_back({slice(whole.tokens, {border, size}), 1});
}

Corpus open_text(const DataConfig& config, std::int64_t model_vocab) {
  const std::int64_t vocab = model_vocab > 0 ? std::min<std::int64_t>(256, model_vocab) : 256;
  Corpus corpus;
  const bool own_validation = !config.validation.empty();
  const double fraction = own_validation ? 0 : config.validation_fraction;
  if (config.path.empty()) cut({own_text(vocab), 1}, fraction, corpus);
  for (const std::string& entry : config.path) {
    const WeightedPath weighted = parse_weighted(entry);
    cut({text_files(weighted.path, vocab), weighted.weight}, fraction, corpus);
  }
  for (const std::string& entry : config.validation)
    corpus.validation.push_back({text_files(entry, vocab), 1});
  return corpus;
}

std::vector<std::string> token_paths(const std::string& entry) {
  std::vector<std::string> files;
  for (const std::string& path : expand_paths(entry)) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& file : fs::directory_iterator(path))
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
  TokenFiles(std::int64_t model_vocab, Corpus& corpus)
      : model_vocab_(model_vocab), corpus_(corpus) {}

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
      corpus_.vocabulary = std::move(found);
      return;
    }
    check_user(corpus_.vocabulary == found, "data.path: ", first_, " (vocabulary of ",
               corpus_.vocabulary.size(), ") and ", path, " (", found.size(),
               ") were prepared with different vocabularies; prepare both with one model");
  }

  std::int64_t model_vocab_;
  Corpus& corpus_;
  std::string first_;
};

Corpus open_tokens(const DataConfig& config, std::int64_t model_vocab) {
  check_user(!config.path.empty(),
             "data.path is empty; data.source = tokens needs files written by "
             "tools/prepare_text.py (or set data.source = text)");
  Corpus corpus;
  TokenFiles files(model_vocab, corpus);
  const bool own_validation = !config.validation.empty();
  for (const std::string& entry : config.path) {
    const WeightedPath weighted = parse_weighted(entry);
    TokenFile opened = files.open(weighted.path);
    if (opened.validation && !own_validation) {
      corpus.train.push_back({opened.train, weighted.weight});
      if (config.validation_fraction > 0) corpus.validation.push_back({opened.validation, 1});
    } else {
      cut({opened.train, weighted.weight}, own_validation ? 0 : config.validation_fraction, corpus);
    }
  }
  for (const std::string& entry : config.validation) {
    TokenFile opened = files.open(entry);
    corpus.validation.push_back({opened.validation ? opened.validation : opened.train, 1});
  }
  return corpus;
}

Corpus open_random(const DataConfig& config, std::int64_t model_vocab) {
  const std::int64_t vocab = config.vocab > 0 ? config.vocab : model_vocab;
  check_user(vocab > 0, "data.vocab is 0 and the model names no vocabulary; set data.vocab");
  check_user(model_vocab == 0 || vocab <= model_vocab, "data.vocab is ", vocab,
             ", more than the model's vocabulary of ", model_vocab,
             "; set data.vocab = ", model_vocab, " or less");
  Corpus corpus;
  corpus.vocabulary = Vocabulary::numbers(vocab);
  const auto seed = static_cast<std::uint64_t>(std::max<std::int64_t>(config.seed, 0));
  cut({random_tokens(config.random_tokens, vocab, seed), 1}, config.validation_fraction, corpus);
  return corpus;
}

}  // namespace

std::string Corpus::to_string(const DataConfig& config) const {
  return concat(config.source, ", ", train.size(), train.size() == 1 ? " stream, " : " streams, ",
                with_commas(total_tokens(train)), " training and ",
                with_commas(total_tokens(validation)), " validation tokens, vocabulary of ",
                with_commas(vocabulary.size()));
}

Corpus open_corpus(const DataConfig& config, std::int64_t model_vocab) {
  Corpus corpus = config.source == "text"     ? open_text(config, model_vocab)
                  : config.source == "tokens" ? open_tokens(config, model_vocab)
                                              : open_random(config, model_vocab);
  check_long_enough(corpus.train, config.length, "data.path");
  return corpus;
}

std::shared_ptr<const Samples> train_samples(const Corpus& corpus, const DataConfig& config,
                                             std::uint64_t run_seed) {
  const std::uint64_t seed = config.seed < 0 ? run_seed : static_cast<std::uint64_t>(config.seed);
  return std::make_shared<Samples>(corpus.train, config.length, seed, Samples::Order::shuffled);
}

std::shared_ptr<const Samples> validation_samples(const Corpus& corpus, const DataConfig& config) {
  if (corpus.validation.empty()) return nullptr;
  return std::make_shared<Samples>(corpus.validation, config.length, 0, Samples::Order::sequential);
}

DataIdentity identity_of(const Samples& samples) {
  return {samples.tokens(), samples.digest().to_string()};
}

void check_same_data(const DataIdentity& saved, const DataIdentity& now) {
  check_user(saved == now, "the data is not what the checkpoint was trained on: it was ",
             with_commas(saved.tokens), " tokens with digest ", saved.digest, ", data.path gives ",
             with_commas(now.tokens), " tokens with digest ", now.digest,
             "; restore the data, or start a new run from the weights (train.init_from)");
}

}  // namespace tessera::data
