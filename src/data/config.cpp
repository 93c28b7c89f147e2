// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/config.hpp"

#include "tessera/data/corpus.hpp"

namespace tessera::data {

void DataConfig::describe(config::Schema& schema) {
  std::vector<std::string> names;
  std::string help = "What the data is.";
  for (const Source& kind : sources()) {
    help += (names.empty() ? " " : "; ") + kind.name + ": " + kind.help;
    names.push_back(kind.name);
  }
  schema.add("data.source", source, help).choices(names);
  schema
      .add("data.path", path,
           "Files, folders or patterns (*.txt), separated by commas; path:3 goes through a path "
           "three times an epoch. Empty with source = text: Tessera's own sources. Where data lies "
           "may change on resume, what it holds may not")
      .path()
      .free_key();
  schema
      .add("data.validation", validation,
           "Files, folders or patterns to validate on. Empty: the validation part of HDF5 files, "
           "or data.validation_fraction")
      .path()
      .free_key();
  schema
      .add("data.validation_fraction", validation_fraction,
           "Part of each path that is cut off its end for validation; 0: no validation")
      .range(0, 0.9);
  schema.add("data.batch", batch, "Samples of one step, over all ranks").range(1, 1 << 30);
  schema.add("data.length", length, "Tokens of one sample; models without tokens have none")
      .range(1, 1 << 30);
  schema.add(
      "data.packing", packing,
      "Pairs: put several into a row of data.length tokens on each side, where they do not see "
      "each other; false: each has a row of its own");
  schema.add("data.vocab", vocab, "Random ids stay below it; 0: the model's vocabulary")
      .range(0, 2147483648.0);
  schema
      .add("data.random_tokens", random_tokens,
           "Random ids, or samples of other models, of one epoch")
      .range(4, 1e15);
  schema.add("data.seed", seed, "Seed of the order of samples; -1: run.seed").range(-1, 9e15);
  picture.describe(schema);
  schema
      .add("data.threads", threads,
           "Threads of each rank that read (and decode) samples, besides the one that computes")
      .range(1, 1024)
      .free_key();
  schema.add("data.ahead", ahead, "Batches that are read before they are needed")
      .range(1, 1024)
      .free_key();
}

}  // namespace tessera::data
