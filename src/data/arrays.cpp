// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/arrays.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "data/paths.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/data/column.hpp"
#include "tessera/data/order.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::data {
namespace {

/// The wanted fields of consecutive samples of one file; a null column: weights of 1.
struct Rows {
  std::vector<ColumnPtr> columns;
  Interval range;
  double weight = 1;
  std::string name;
};

class ArraySamples final : public Samples {
 public:
  ArraySamples(std::vector<Field> fields, std::vector<Rows> streams, std::uint64_t seed,
               Order::Kind kind)
      : fields_(std::move(fields)),
        streams_(std::move(streams)),
        order_(counted(streams_), seed, kind),
        is_training_(kind == Order::Kind::shuffled) {}

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t per_epoch() const override { return order_.per_epoch(); }

  Count count(std::int64_t epoch, std::int64_t index) const override {
    const auto [rows, draw] = find(epoch, index);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].name != "weights") continue;
      const Box box = whole_box(fields_[f].spec.shape);
      std::vector<float> weights(static_cast<std::size_t>(volume(box)), 1.0F);
      if (rows->columns[f]) rows->columns[f]->read(draw, box.data(), weights.data());
      Count count;
      for (const float weight : weights) {
        count.targets += weight != 0;
        count.weight += static_cast<double>(weight);
      }
      return count;
    }
    return {1, 1};
  }

  void read(std::int64_t epoch, std::int64_t index, std::span<const Part> parts) const override {
    const auto [rows, draw] = find(epoch, index);
    for (const Part& part : parts) {
      const auto& column = rows->columns[part.field];
      const int rank = fields_[part.field].spec.shape.rank();
      if (column)
        column->read(draw, part.box, part.out);
      else
        std::fill_n(static_cast<float*>(part.out), volume(Box(part.box, part.box + rank)), 1.0F);
    }
  }

  Digest digest() const override {
    Digest digest;
    for (const Rows& rows : streams_) {
      for (const auto& column : rows.columns)
        if (column) digest.add(column->digest());
      digest.add(static_cast<std::uint64_t>(rows.range.begin))
          .add(static_cast<std::uint64_t>(rows.range.end))
          .add(std::bit_cast<std::uint64_t>(rows.weight));
    }
    return digest;
  }
  std::int64_t size() const override {
    std::int64_t size = 0;
    for (const Rows& rows : streams_) size += rows.range.size();
    return size;
  }
  std::string unit() const override { return unit_of(fields_); }
  std::int64_t targets_per_sample() const override { return weights_of(fields_); }

 private:
  static std::vector<Order::Stream> counted(const std::vector<Rows>& streams) {
    std::vector<Order::Stream> counted;
    for (const Rows& rows : streams) counted.push_back({rows.range.size(), rows.weight, rows.name});
    return counted;
  }
  std::pair<const Rows*, Draw> find(std::int64_t epoch, std::int64_t index) const {
    const Order::Place place = order_.at(epoch, index);
    const Rows& rows = streams_[static_cast<std::size_t>(place.stream)];
    return {&rows, {rows.range.begin + place.item, epoch, index, is_training_}};
  }

  std::vector<Field> fields_;
  std::vector<Rows> streams_;
  Order order_;
  bool is_training_;
};

/// The columns of a part of a file ("train"); nothing if the file has none of them.
std::optional<Rows> open_part(const std::string& path, const io::FileIndex& index,
                              const std::string& part, const std::vector<Field>& fields,
                              const ColumnOpener& open_column) {
  Rows rows;
  rows.name = path;
  std::int64_t samples = -1;
  std::string missing, first;
  for (const Field& field : fields) {
    const std::string name = "/" + part + "/" + field.name;
    rows.columns.push_back(open_column(path, index, name, field));
    if (!rows.columns.back()) {
      if (field.name != "weights") missing = field.name;
      continue;
    }
    const std::int64_t count = rows.columns.back()->samples();
    check_user(samples < 0 || count == samples, "data.path: ", path, ": ", first, " has ", samples,
               " samples and ", name, " has ", count);
    samples = count;
    if (first.empty()) first = name;
  }
  if (samples < 0) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& dataset : index.datasets) names.push_back(dataset.path);
  check_user(missing.empty(), "data.path: ", path, " has no dataset /", part, "/", missing,
             ", which the model needs, but ", join(names, ", "));
  check_user(samples > 0, "data.path: ", path, ": ", first, " has no samples");
  rows.range = {0, samples};
  return rows;
}

/// Cuts the last part of a file's samples off for validation.
void cut(const Rows& whole, double fraction, std::vector<Rows>& train,
         std::vector<Rows>& validation) {
  const std::int64_t size = whole.range.size();
  const auto held = static_cast<std::int64_t>(std::llround(static_cast<double>(size) * fraction));
  train.push_back(whole);
  if (fraction == 0) return;
  check_user(size >= 2, "data.path: '", whole.name,
             "' holds one sample; set data.validation_fraction = 0");
  const std::int64_t border = size - std::clamp<std::int64_t>(held, 1, size - 1);
  train.back().range.end = border;
  validation.push_back(whole);
  validation.back().range.begin = border;
  validation.back().weight = 1;
}

class ArraysOpener {
 public:
  ArraysOpener(const DataConfig& config, const Wanted& wanted, const ColumnOpener& open_column)
      : config_(config), wanted_(wanted), open_column_(open_column) {}

  void open() {
    check_user(!config_.path.empty(), "data.path is empty; data.source = ", config_.source,
               " needs HDF5 files with datasets /train/<input of the model>");
    for (const std::string& entry : config_.path) {
      const WeightedPath weighted = parse_weighted(entry);
      for (const std::string& path : expand_paths(weighted.path)) open_train(path, weighted.weight);
    }
    open_validation(config_.validation, [&](const std::string& entry) {
      for (const std::string& path : expand_paths(entry)) {
        const io::FileIndex index = io::read_index(path);
        auto rows = open(path, index, "validation");
        validation.push_back(rows ? *rows : need_train(path, index));
      }
    });
  }

  std::vector<Rows> train, validation;

 private:
  std::optional<Rows> open(const std::string& path, const io::FileIndex& index,
                           const std::string& part) const {
    return open_part(path, index, part, wanted_.inputs, open_column_);
  }
  Rows need_train(const std::string& path, const io::FileIndex& index) const {
    auto rows = open(path, index, "train");
    check_user(rows.has_value(), "data.path: ", path, " has no datasets /train/",
               wanted_.inputs.front().name, ", …: one is needed for each input of the model");
    return *rows;
  }
  void open_train(const std::string& path, double weight) {
    const io::FileIndex index = io::read_index(path);
    Rows rows = need_train(path, index);
    rows.weight = weight;
    const bool own = !config_.validation.empty();
    const double fraction = own ? 0 : config_.validation_fraction;
    auto held = open(path, index, "validation");
    if (!held || own) return cut(rows, fraction, train, validation);
    train.push_back(rows);
    if (fraction > 0) validation.push_back(*held);
  }

  const DataConfig& config_;
  const Wanted& wanted_;
  const ColumnOpener& open_column_;
};

std::int64_t samples_in(const std::vector<Rows>& streams) {
  std::int64_t samples = 0;
  for (const Rows& rows : streams) samples += rows.range.size();
  return samples;
}

}  // namespace

ColumnPtr open_array_column(const std::string& path, const io::FileIndex& index,
                            const std::string& name, const Field& field) {
  const io::DatasetInfo* dataset = index.find(name);
  return dataset ? std::make_shared<ArrayColumn>(path, *dataset, field) : nullptr;
}

Corpus open_arrays(const DataConfig& config, const Wanted& wanted) {
  return open_columns(config, wanted, open_array_column);
}

Corpus open_columns(const DataConfig& config, const Wanted& wanted,
                    const ColumnOpener& open_column) {
  ArraysOpener opener(config, wanted, open_column);
  opener.open();
  Corpus corpus;
  corpus.train = std::make_shared<ArraySamples>(wanted.inputs, opener.train,
                                                order_seed(config, wanted), Order::Kind::shuffled);
  if (!opener.validation.empty())
    corpus.validation = std::make_shared<ArraySamples>(wanted.inputs, opener.validation, 0,
                                                       Order::Kind::sequential);
  corpus.vocabulary = Vocabulary::numbers(wanted.vocab);
  const std::size_t files = opener.train.size();
  corpus.text =
      concat(files, files == 1 ? " file, " : " files, ", with_commas(samples_in(opener.train)),
             " training and ", with_commas(samples_in(opener.validation)), " validation samples");
  return corpus;
}

}  // namespace tessera::data
