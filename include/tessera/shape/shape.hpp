// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A tensor dim: a name and a size >= 0 (Mesh-TensorFlow's Dimension).
struct Dim {
  std::string name;
  std::int64_t size = 0;
  bool operator==(const Dim&) const = default;
};

/// Named dims with distinct names, outermost first. A shape without dims is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::vector<Dim> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  /// Number of elements.
  std::int64_t size() const;
  const std::vector<Dim>& dims() const { return dims_; }
  const Dim& operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }

  /// Index of the dim `name`, if it is there.
  std::optional<int> find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name).has_value(); }
  /// Index or size of the dim `name`; UserError naming the shape if it is missing.
  int index_of(std::string_view name) const;
  std::int64_t size_of(std::string_view name) const;

  Shape without(std::string_view name) const;
  Shape renamed(std::string_view from, std::string_view to) const;
  Shape resized(std::string_view name, std::int64_t size) const;
  /// This shape's dims, then those of `other` that it lacks; UserError if a common dim's sizes
  /// differ.
  Shape united(const Shape& other) const;

  /// "[batch:4, d_model:8]".
  std::string to_string() const;
  bool operator==(const Shape&) const = default;

 private:
  std::vector<Dim> dims_;
};

}  // namespace tessera
