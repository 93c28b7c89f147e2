// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/io/hdf5.hpp"

namespace tessera::test {

/// Datasets of an HDF5 file that is written for a test.
class Writer {
 public:
  explicit Writer(std::string path) : path_(std::move(path)) {}

  Attributes& root() { return index_.groups["/"]; }
  template <class Element>
  Attributes& add(const std::string& name, const std::vector<Element>& elements,
                  io::ElementType::Kind kind = io::ElementType::Kind::unsigned_integer) {
    return add(name, {static_cast<std::int64_t>(elements.size())}, elements, kind);
  }
  template <class Element>
  Attributes& add(const std::string& name, std::vector<std::int64_t> shape,
                  const std::vector<Element>& elements, io::ElementType::Kind kind) {
    io::DatasetInfo dataset;
    dataset.path = name;
    dataset.shape = std::move(shape);
    dataset.type = {kind, sizeof(Element)};
    index_.datasets.push_back(dataset);
    contents_.emplace_back(reinterpret_cast<const char*>(elements.data()),
                           elements.size() * sizeof(Element));
    return index_.datasets.back().attributes;
  }
  std::string write() {
    index_.groups["/"];
    std::vector<std::string> names;
    for (const auto& dataset : index_.datasets) names.push_back(dataset.path);
    io::write_index(path_, index_);
    std::fstream out(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (contents_[i].empty()) continue;
      out.seekp(index_.find(names[i])->offset);
      out << contents_[i];
    }
    return path_;
  }

 private:
  std::string path_;
  io::FileIndex index_;
  std::vector<std::string> contents_;
};

}  // namespace tessera::test
