// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/dataset.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::data {
namespace {

void check_range(const Dataset& dataset, std::int64_t begin, std::int64_t count) {
  TESSERA_CHECK(begin >= 0 && count >= 0 && begin + count <= dataset.size(), "tokens [", begin,
                ", ", begin + count, ") of ", dataset.name(), ", which has ", dataset.size());
}

class IdsInMemory final : public Dataset {
 public:
  IdsInMemory(std::vector<std::int32_t> ids, std::string name)
      : ids_(std::move(ids)), name_(std::move(name)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(*this, begin, count);
    std::copy_n(ids_.begin() + begin, count, out);
  }
  Digest digest() const override {
    Digest content;
    content.add_bytes(0, reinterpret_cast<const unsigned char*>(ids_.data()),
                      ids_.size() * sizeof(std::int32_t));
    return Digest{}.add(static_cast<std::uint64_t>(size())).add(content);
  }
  std::string name() const override { return name_; }

 private:
  std::vector<std::int32_t> ids_;
  std::string name_;
};

class Slice final : public Dataset {
 public:
  Slice(DatasetPtr whole, Interval range) : whole_(std::move(whole)), range_(range) {
    check_range(*whole_, range_.begin, range_.size());
  }

  std::int64_t size() const override { return range_.size(); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(*this, begin, count);
    whole_->read(range_.begin + begin, count, out);
  }
  Digest digest() const override {
    return whole_->digest()
        .add(static_cast<std::uint64_t>(range_.begin))
        .add(static_cast<std::uint64_t>(range_.end));
  }
  std::string name() const override { return whole_->name(); }

 private:
  DatasetPtr whole_;
  Interval range_;
};

class Concatenation final : public Dataset {
 public:
  Concatenation(std::vector<DatasetPtr> parts, std::string name)
      : parts_(std::move(parts)), name_(std::move(name)), first_{0} {
    for (const auto& part : parts_) first_.push_back(first_.back() + part->size());
  }

  std::int64_t size() const override { return first_.back(); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(*this, begin, count);
    while (count > 0) {
      const auto after = std::upper_bound(first_.begin(), first_.end(), begin);
      const auto part = static_cast<std::size_t>(after - first_.begin()) - 1;
      const std::int64_t piece = std::min(count, first_[part + 1] - begin);
      parts_[part]->read(begin - first_[part], piece, out);
      out += piece;
      begin += piece;
      count -= piece;
    }
  }
  Digest digest() const override {
    Digest all;
    for (const auto& part : parts_) all.add(part->digest());
    return all;
  }
  std::string name() const override { return name_; }

 private:
  std::vector<DatasetPtr> parts_;
  std::string name_;
  std::vector<std::int64_t> first_;  // token of each part, and the end
};

class RandomTokens final : public Dataset {
 public:
  RandomTokens(std::int64_t size, std::int64_t vocab, std::uint64_t seed)
      : size_(size), vocab_(vocab), key_(stream_key(seed, hash_text("data.random"))) {}

  std::int64_t size() const override { return size_; }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(*this, begin, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t word = random_word(key_, 0, static_cast<std::uint64_t>(begin + i));
      out[i] = static_cast<std::int32_t>((word * static_cast<std::uint64_t>(vocab_)) >> 32);
    }
  }
  Digest digest() const override {
    return Digest{}
        .add(key_)
        .add(static_cast<std::uint64_t>(size_))
        .add(static_cast<std::uint64_t>(vocab_));
  }
  std::string name() const override { return "random tokens"; }

 private:
  std::int64_t size_;
  std::int64_t vocab_;
  std::uint64_t key_;
};

class FileTokens final : public Dataset {
 public:
  FileTokens(FileSet files, int width, std::int64_t vocab, std::string name, std::string stored)
      : files_(std::move(files)),
        width_(width),
        vocab_(vocab),
        name_(std::move(name)),
        stored_(std::move(stored)) {
    TESSERA_CHECK(width == 1 || width == 2 || width == 4 || width == 8, "ids of ", width, " bytes");
    TESSERA_CHECK(files_.bytes() % width == 0, name_, " has a part of an id at its end");
  }

  std::int64_t size() const override { return files_.bytes() / width_; }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(*this, begin, count);
    switch (width_) {
      case 1:
        return read_as<std::uint8_t>(begin, count, out);
      case 2:
        return read_as<std::uint16_t>(begin, count, out);
      case 4:
        return read_as<std::uint32_t>(begin, count, out);
      default:
        return read_as<std::uint64_t>(begin, count, out);
    }
  }
  Digest digest() const override { return files_.digest().add(stored_); }
  std::string name() const override { return name_; }

 private:
  template <class Id>
  void read_as(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
    std::vector<Id> ids(static_cast<std::size_t>(count));
    files_.read(begin * width_, count * width_, ids.data());
    const auto vocab = static_cast<std::uint64_t>(vocab_);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t id = ids[static_cast<std::size_t>(i)];
      if (id >= vocab) outside(begin + i, id);
      out[i] = static_cast<std::int32_t>(id);
    }
  }

  [[noreturn]] void outside(std::int64_t token, std::uint64_t id) const {
    const FileSet::Place place = files_.place_of(token * width_);
    throw UserError(concat("data.path: ", place.path, ": id ", id, " of token ", token,
                           " (file offset ", place.offset, ") is outside the vocabulary of ",
                           vocab_, "; set model.vocab to ", id + 1,
                           " or more, or prepare the data with the vocabulary of the model"));
  }

  FileSet files_;
  int width_;
  std::int64_t vocab_;
  std::string name_;
  std::string stored_;
};

}  // namespace

DatasetPtr from_ids(std::vector<std::int32_t> ids, std::string name) {
  return std::make_shared<IdsInMemory>(std::move(ids), std::move(name));
}

DatasetPtr slice(DatasetPtr whole, Interval range) {
  return std::make_shared<Slice>(std::move(whole), range);
}

DatasetPtr concatenate(std::vector<DatasetPtr> parts, std::string name) {
  if (parts.size() == 1) return parts.front();
  return std::make_shared<Concatenation>(std::move(parts), std::move(name));
}

DatasetPtr random_tokens(std::int64_t size, std::int64_t vocab, std::uint64_t seed) {
  TESSERA_CHECK(size >= 0 && vocab > 0 && vocab <= std::int64_t{1} << 31, size,
                " random tokens below ", vocab);
  return std::make_shared<RandomTokens>(size, vocab, seed);
}

DatasetPtr file_tokens(FileSet files, int width, std::int64_t vocab, std::string name,
                       const std::string& stored_digest) {
  TESSERA_CHECK(vocab > 0 && vocab <= std::int64_t{1} << 31, "vocabulary of ", vocab);
  return std::make_shared<FileTokens>(std::move(files), width, vocab, std::move(name),
                                      stored_digest);
}

}  // namespace tessera::data
