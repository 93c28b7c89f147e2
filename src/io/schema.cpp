// SPDX-License-Identifier: BSD-3-Clause
#include "io/schema.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"

namespace tessera::io {
namespace {

/// bf16 is stored as its 16 bits: HDF5 tools can't read any other two-byte float in common.
ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {ElementType::Kind::floating, 4};
    case DType::f64:
      return {ElementType::Kind::floating, 8};
    case DType::bf16:
      return {ElementType::Kind::unsigned_integer, 2};
    case DType::i32:
      return {ElementType::Kind::signed_integer, 4};
  }
  throw Error("unknown dtype");
}

DatasetInfo dataset_of(const SavedTensor& tensor, const Digest& digest) {
  DatasetInfo info;
  info.path = tensor.path;
  info.type = element_type(tensor.spec.dtype);
  std::vector<std::string> names;
  for (const Dim& dim : tensor.spec.shape) {
    info.shape.push_back(dim.size);
    names.push_back(dim.name);
  }
  info.attributes.set("dims", join(names, ","));
  info.attributes.set("dtype", std::string(name_of(tensor.spec.dtype)));
  info.attributes.set("digest", digest.to_string());
  return info;
}

struct WriteValue {
  std::string operator()(std::int64_t value) const { return concat('i', value); }
  std::string operator()(double value) const {
    return concat('d', std::bit_cast<std::uint64_t>(value));
  }
  std::string operator()(const std::string& value) const {
    return concat('s', value.size(), ':', value);
  }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    std::string text = concat('v', values.size());
    for (std::int64_t value : values) text += concat(',', value);
    return text;
  }
};

std::string canonical(const Attributes& attributes, bool without_digest) {
  std::map<std::string, std::string> sorted;
  for (const auto& [name, value] : attributes.entries()) {
    if (!(without_digest && name == "digest")) sorted[name] = std::visit(WriteValue{}, value);
  }
  std::string text;
  for (const auto& [name, value] : sorted) text += concat(name, '=', value, '\n');
  return text;
}

}  // namespace

std::string metadata_digest(const FileIndex& index) {
  std::map<std::string, std::string> entries;
  for (const auto& [path, attributes] : index.groups) {
    const std::string text = canonical(attributes, path == kMeta);
    if (!text.empty()) entries[path] = text;
  }
  for (const DatasetInfo& info : index.datasets) {
    std::string text = concat(static_cast<int>(info.type.kind), ' ', info.type.bytes);
    for (std::int64_t extent : info.shape) text += concat(' ', extent);
    entries[info.path] = concat(text, '\n', canonical(info.attributes, false));
  }
  std::uint64_t hash = hash_text("");
  for (const auto& [path, text] : entries) hash = hash_text(concat(path, '\n', text, '\n'), hash);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

FileIndex index_of(const CheckpointContent& content, const std::vector<Digest>& digests) {
  FileIndex index;
  index.groups = content.attributes;
  Attributes& meta = index.groups[kMeta];
  for (const char* key : {"format", "step", "digest"}) {
    TESSERA_CHECK(!meta.contains(key), "attribute ", key, " of ", kMeta, " is the file's own");
  }
  meta.set("format", std::string(kFormat));
  meta.set("step", content.step);
  for (std::size_t t = 0; t < content.tensors.size(); ++t) {
    index.datasets.push_back(dataset_of(content.tensors[t], digests[t]));
  }
  meta.set("digest", metadata_digest(index));
  return index;
}

Checkpoint::Tensor tensor_of(const DatasetInfo& dataset) {
  const auto named = [&](const char* key) -> std::string {
    check_user(dataset.attributes.contains(key), dataset.path, " lacks its attribute ", key);
    return dataset.attributes.text(key);
  };
  Checkpoint::Tensor tensor;
  tensor.path = dataset.path;
  tensor.spec.dtype = parse_dtype(named("dtype"));
  tensor.digest = Digest::parse(named("digest"));
  const std::vector<std::string> names = split(named("dims"), ',');
  check_user(names.size() == dataset.shape.size(), dataset.path, " names ", names.size(),
             " dims and has ", dataset.shape.size());
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < names.size(); ++i) dims.push_back({names[i], dataset.shape[i]});
  tensor.spec.shape = Shape(std::move(dims));
  check_user(element_type(tensor.spec.dtype) == dataset.type, dataset.path,
             " is not stored as its dtype ", name_of(tensor.spec.dtype), " says");
  check_user(dataset.offset >= 0 || dataset.size() == 0, dataset.path, " is not contiguous (",
             dataset.obstacle, ")");
  tensor.offset = dataset.offset;
  return tensor;
}

std::string checkpoint_name(std::int64_t step) {
  char name[48];
  std::snprintf(name, sizeof name, "step_%08lld.h5", static_cast<long long>(step));
  return name;
}

std::int64_t step_of_name(const std::string& name) {
  std::int64_t step = -1;
  const bool ours = name.size() > 8 && name.compare(0, 5, "step_") == 0 &&
                    name.compare(name.size() - 3, 3, ".h5") == 0 &&
                    parse_integer(name.substr(5, name.size() - 8), step);
  return ours && step >= 0 ? step : -1;
}

}  // namespace tessera::io
