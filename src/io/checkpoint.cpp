// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/checkpoint.hpp"

#include <algorithm>
#include <filesystem>

#include "io/schema.hpp"
#include "tessera/base/error.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

void check_meta(const FileIndex& index) {
  const Attributes& meta = index.group(kMeta);
  check_user(meta.contains("format"), "is no Tessera checkpoint: ", kMeta, " has no format");
  check_user(meta.text("format") == kFormat, "has format '", meta.text("format"),
             "', but this version reads '", kFormat, "'");
  const std::string found = metadata_digest(index);
  check_user(found == meta.text("digest"), "its attributes are damaged: their digest is ", found,
             ", recorded is ", meta.text("digest"));
}

}  // namespace

Checkpoint::Checkpoint(const std::string& file) : file_(file), index_(read_index(file)) {
  try {
    check_meta(index_);
    step_ = index_.group(kMeta).integer("step");
    for (const DatasetInfo& dataset : index_.datasets) tensors_.push_back(tensor_of(dataset));
  } catch (const std::exception& error) {
    throw UserError(concat(file, ": ", error.what()));
  }
}

const Checkpoint::Tensor* Checkpoint::find(const std::string& path) const {
  const auto at = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const Tensor& tensor) { return tensor.path == path; });
  return at == tensors_.end() ? nullptr : &*at;
}

std::vector<std::string> find_checkpoints(const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    const std::int64_t step = step_of_name(name);
    if (step >= 0) found.emplace_back(step, folder + "/" + name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> files;
  for (const auto& [step, file] : found) files.push_back(file);
  return files;
}

}  // namespace tessera::io
