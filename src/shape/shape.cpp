// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/shape/shape.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera {

Shape::Shape(std::initializer_list<Dim> dims) : Shape(std::vector<Dim>(dims)) {}

Shape::Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    check_user(dims_[i].size >= 0, "dim '", dims_[i].name, "' has the negative size ",
               dims_[i].size);
    for (std::size_t j = 0; j < i; ++j)
      check_user(dims_[i].name != dims_[j].name, "shape ", to_string(), " has two dims named '",
                 dims_[i].name, "'; rename one of them first");
  }
}

std::int64_t Shape::size() const {
  std::int64_t size = 1;
  for (const auto& dim : dims_) size *= dim.size;
  return size;
}

std::optional<int> Shape::find(std::string_view name) const {
  for (int i = 0; i < rank(); ++i)
    if ((*this)[i].name == name) return i;
  return std::nullopt;
}

int Shape::index_of(std::string_view name) const {
  const auto found = find(name);
  check_user(found.has_value(), "shape ", to_string(), " has no dim '", name, "'");
  return *found;
}

std::int64_t Shape::size_of(std::string_view name) const {
  return (*this)[index_of(name)].size;
}

Shape Shape::without(std::string_view name) const {
  std::vector<Dim> dims;
  for (const auto& dim : dims_)
    if (dim.name != name) dims.push_back(dim);
  return Shape(std::move(dims));
}

Shape Shape::renamed(std::string_view from, std::string_view to) const {
  std::vector<Dim> dims = dims_;
  dims[static_cast<std::size_t>(index_of(from))].name = to;
  return Shape(std::move(dims));
}

Shape Shape::resized(std::string_view name, std::int64_t size) const {
  std::vector<Dim> dims = dims_;
  dims[static_cast<std::size_t>(index_of(name))].size = size;
  return Shape(std::move(dims));
}

Shape Shape::united(const Shape& other) const {
  std::vector<Dim> dims = dims_;
  for (const auto& dim : other) {
    const auto found = find(dim.name);
    if (!found) {
      dims.push_back(dim);
      continue;
    }
    check_user((*this)[*found].size == dim.size, "dim '", dim.name, "' has size ",
               (*this)[*found].size, " in ", to_string(), " and ", dim.size, " in ",
               other.to_string());
  }
  return Shape(std::move(dims));
}

std::string Shape::to_string() const {
  std::vector<std::string> pieces;
  for (const auto& dim : dims_) pieces.push_back(dim.name + ":" + std::to_string(dim.size));
  return "[" + join(pieces, ", ") + "]";
}

}  // namespace tessera
