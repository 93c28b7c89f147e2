// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/token_file.hpp"

#include <algorithm>

#include "data/token_parts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::data {
namespace {

constexpr std::int64_t kMaxVocab = std::int64_t{1} << 31;  // ids are i32

using Kind = io::ElementType::Kind;

/// The bytes of a 1-D dataset of integers, as a part of its file.
FileSet elements_of(const std::string& path, const io::DatasetInfo& dataset) {
  const std::string what = concat("data.path: ", path, ", dataset ", dataset.path);
  check_user(dataset.shape.size() == 1 && (dataset.type.kind == Kind::signed_integer ||
                                           dataset.type.kind == Kind::unsigned_integer),
             what, " is not a list of little-endian integers; write ids as 1-D u8, u16 or u32");
  const std::int64_t bytes = dataset.size() * dataset.type.bytes;
  check_user(bytes == 0 || dataset.offset >= 0, what, " cannot be read in place (",
             dataset.obstacle,
             "); store it contiguous and uncompressed: h5repack -l CONTI -f NONE");
  return FileSet({{path, dataset.offset, bytes}});
}

std::vector<std::string> read_pieces(const std::string& path, const io::FileIndex& index) {
  const io::DatasetInfo* text = index.find("/pieces/bytes");
  const io::DatasetInfo* ends = index.find("/pieces/ends");
  if (text == nullptr || ends == nullptr) return {};
  const FileSet bytes = elements_of(path, *text);
  std::string all(static_cast<std::size_t>(bytes.bytes()), '\0');
  bytes.read(0, bytes.bytes(), all.data());
  std::vector<std::string> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t border : read_integers(path, *ends)) {
    check_user(border >= begin && border <= bytes.bytes(), "data.path: ", path,
               ", dataset /pieces/ends: ", border, " behind ", begin, " of ", all.size(), " bytes");
    pieces.push_back(
        all.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(border - begin)));
    begin = border;
  }
  return pieces;
}

/// Log probabilities of the pieces; none where they have none.
std::vector<double> read_scores(const std::string& path, const io::FileIndex& index,
                                std::size_t pieces) {
  constexpr double kUnit = 1e-9;
  const io::DatasetInfo* dataset = index.find("/pieces/scores");
  if (dataset == nullptr) return {};
  std::vector<double> scores;
  for (const std::int64_t score : read_integers(path, *dataset))
    scores.push_back(kUnit * static_cast<double>(score));
  check_user(scores.size() == pieces, "data.path: ", path,
             ", dataset /pieces/scores: ", scores.size(), " scores of ", pieces, " pieces");
  return scores;
}

std::string listing(const io::FileIndex& index) {
  std::string names;
  for (const auto& dataset : index.datasets) names += (names.empty() ? "" : ", ") + dataset.path;
  return names.empty() ? "no dataset" : names;
}

}  // namespace

Vocabulary read_vocabulary(const std::string& path, const io::FileIndex& index,
                           std::int64_t model_vocab) {
  const Attributes& root = index.group("/");
  const std::int64_t vocab = root.integer_or("vocab", model_vocab);
  check_user(vocab > 0 && vocab <= kMaxVocab, "data.path: ", path,
             vocab > 0 ? concat(" states a vocabulary of ", vocab, ", more than ", kMaxVocab)
                       : std::string(" has no attribute `vocab`, and the model names none either; "
                                     "set model.vocab"));
  std::vector<std::string> pieces = read_pieces(path, index);
  if (pieces.empty()) return Vocabulary::numbers(vocab);
  check_user(static_cast<std::int64_t>(pieces.size()) == vocab, "data.path: ", path, " holds ",
             pieces.size(), " pieces for a vocabulary of ", vocab);
  const auto scores = read_scores(path, index, pieces.size());
  return Vocabulary::pieces(std::move(pieces), root.integer_or("leading_blank", 0) != 0, scores);
}

DatasetPtr open_ids(const std::string& path, const io::DatasetInfo& dataset, std::int64_t vocab) {
  const std::int64_t largest = dataset.attributes.integer_or("max_id", 0);
  check_user(largest < vocab, "data.path: ", path, ", dataset ", dataset.path, " holds id ",
             largest, ", outside the vocabulary of ", vocab, "; set model.vocab to ", largest + 1,
             " or more, or prepare the data with the vocabulary of the model");
  const std::string digest =
      dataset.attributes.contains("digest") ? dataset.attributes.text("digest") : std::string();
  return file_tokens(elements_of(path, dataset), dataset.type.bytes, vocab, path, digest);
}

std::vector<std::int64_t> read_integers(const std::string& path, const io::DatasetInfo& dataset) {
  const FileSet elements = elements_of(path, dataset);
  check_user(dataset.type.bytes == 8, "data.path: ", path, ", dataset ", dataset.path,
             " is not 64 bits wide");
  std::vector<std::int64_t> integers(static_cast<std::size_t>(dataset.size()));
  elements.read(0, elements.bytes(), integers.data());
  return integers;
}

namespace {

io::FileIndex index_of(const std::string& path) {
  try {
    return io::read_index(path);
  } catch (const UserError& error) {
    throw UserError(concat("data.path: ", error.what(),
                           "; data.source = tokens reads HDF5 files that tools/prepare_text.py has "
                           "written, data.source = text reads text"));
  }
}

}  // namespace

TokenFile open_token_file(const std::string& path, std::int64_t vocab) {
  const io::FileIndex index = index_of(path);
  TokenFile file;
  file.vocabulary = read_vocabulary(path, index, vocab);
  std::int64_t limit = file.vocabulary.size();
  if (vocab > 0) limit = std::min(limit, vocab);
  const io::DatasetInfo* train = index.find("/tokens/train");
  if (train == nullptr) train = index.find("/tokens");
  check_user(train != nullptr, "data.path: ", path,
             " has neither a dataset /tokens/train nor /tokens, but ", listing(index));
  file.train = open_ids(path, *train, limit);
  if (const io::DatasetInfo* validation = index.find("/tokens/validation"))
    if (validation->size() > 0) file.validation = open_ids(path, *validation, limit);
  return file;
}

}  // namespace tessera::data
