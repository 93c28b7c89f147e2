// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/corpus.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::data {
namespace {

std::string text_of(const Field& field) {
  return concat("'", field.name, "' ", field.spec.shape.to_string(), " ",
                name_of(field.spec.dtype));
}

std::string text_of(const std::vector<Field>& fields) {
  std::vector<std::string> texts;
  for (const Field& field : fields) texts.push_back(text_of(field));
  return join(texts, ", ");
}

}  // namespace

void check_inputs(const std::string& giver, const Wanted& wanted, const Samples& samples) {
  for (const Field& input : wanted.inputs) {
    bool is_given = false;
    for (const Field& field : samples.fields())
      is_given = is_given || (field.name == input.name && field.spec == input.spec);
    check_user(is_given, "model '", wanted.model, "' needs the input ", text_of(input),
               " for each sample, but ", giver, " gives ", text_of(samples.fields()),
               "; take another data.source or model.name");
  }
}

Corpus open_corpus(const DataConfig& config, const Wanted& wanted) {
  for (const Source& source : sources()) {
    if (source.name != config.source) continue;
    Corpus corpus = source.open(config, wanted);
    check_inputs("data.source = " + config.source, wanted, *corpus.train);
    return corpus;
  }
  throw Error(concat("data.source ", config.source));
}

std::uint64_t order_seed(const DataConfig& config, const Wanted& wanted) {
  return config.seed < 0 ? wanted.seed : static_cast<std::uint64_t>(config.seed);
}

DataIdentity identity_of(const Samples& samples) {
  return {samples.size(), samples.digest().to_string()};
}

void check_same_data(const DataIdentity& saved, const DataIdentity& now, const std::string& unit) {
  check_user(saved == now, "the data is not what the checkpoint was trained on: it was ",
             with_commas(saved.size), " ", unit, " with digest ", saved.digest,
             ", data.path gives ", with_commas(now.size), " ", unit, " with digest ", now.digest,
             "; restore the data, or start a new run from the weights (train.init_from)");
}

}  // namespace tessera::data
