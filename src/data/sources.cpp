// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/arrays.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/images.hpp"
#include "tessera/data/pair_source.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera::data {
namespace {

bool wants(const Wanted& wanted, const std::string& name) {
  for (const Field& input : wanted.inputs)
    if (input.name == name) return true;
  return false;
}

Corpus open_random(const DataConfig& config, const Wanted& wanted) {
  if (wants(wanted, "source")) return open_random_pairs(config, wanted);
  return wants(wanted, "tokens") ? open_token_source(config, wanted)
                                 : open_random_arrays(config, wanted);
}

}  // namespace

const std::vector<Source>& sources() {
  static const std::vector<Source> all = {
      {"text", "text files, a byte a token", open_token_source},
      {"tokens", "token files of tools/prepare_text.py", open_token_source},
      {"pairs",
       "pairs files of tools/prepare_pairs.py, for translation; without a path generated pairs",
       open_pairs},
      {"images", "files of JPEGs with labels of tools/prepare_images.py", open_images},
      {"arrays", "named arrays of HDF5 files: images with labels, …", open_arrays},
      {"random", "random values for any model", open_random},
  };
  return all;
}

}  // namespace tessera::data
