// SPDX-License-Identifier: BSD-3-Clause
#include "io/hdf5_attribute.hpp"

#include <algorithm>
#include <optional>

#include "io/hdf5_handle.hpp"

namespace tessera::io {
namespace {

std::string trimmed(const char* text, std::size_t size) {
  return {text, std::find(text, text + size, '\0')};
}

TypeHandle text_type(std::size_t size) {
  TypeHandle type(H5Tcopy(H5T_C_S1), "copying the text type");
  check_hdf5(H5Tset_size(type.id(), size), "setting a text's size");
  check_hdf5(H5Tset_cset(type.id(), H5T_CSET_UTF8), "setting a text's encoding");
  check_hdf5(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "setting a text's padding");
  return type;
}

/// Texts of `count` elements; `read` is H5Aread or H5Dread on the given memory type.
template <class Read>
std::vector<std::string> read_texts_with(hid_t file_type, hid_t space, std::size_t count,
                                         const Read& read) {
  std::vector<std::string> texts;
  if (check_hdf5(H5Tis_variable_str(file_type), "asking for a text's kind") > 0) {
    TypeHandle type(H5Tcopy(H5T_C_S1), "copying the text type");
    check_hdf5(H5Tset_size(type.id(), H5T_VARIABLE), "setting a text's size");
    check_hdf5(H5Tset_cset(type.id(), H5Tget_cset(file_type)), "setting a text's encoding");
    std::vector<char*> pieces(count, nullptr);
    check_hdf5(read(type.id(), static_cast<void*>(pieces.data())), "reading texts");
    for (const char* piece : pieces) texts.emplace_back(piece ? piece : "");
    check_hdf5(H5Dvlen_reclaim(type.id(), space, H5P_DEFAULT, pieces.data()), "freeing texts");
    return texts;
  }
  const std::size_t size = H5Tget_size(file_type);
  std::vector<char> bytes(size * count);
  check_hdf5(read(file_type, static_cast<void*>(bytes.data())), "reading texts");
  for (std::size_t i = 0; i < count; ++i) texts.push_back(trimmed(bytes.data() + i * size, size));
  return texts;
}

std::size_t elements(hid_t space) {
  return static_cast<std::size_t>(
      check_hdf5(H5Sget_simple_extent_npoints(space), "counting elements"));
}

std::optional<Attribute> read_attribute(hid_t object, const std::string& name) {
  AttributeHandle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), "opening attribute ", name);
  TypeHandle type(H5Aget_type(attribute.id()), "type of attribute ", name);
  SpaceHandle space(H5Aget_space(attribute.id()), "extent of attribute ", name);
  const H5T_class_t kind = H5Tget_class(type.id());
  const std::size_t count = elements(space.id());
  const bool scalar = H5Sget_simple_extent_ndims(space.id()) == 0 && count == 1;
  if (kind == H5T_INTEGER) {
    std::vector<std::int64_t> values(count);
    check_hdf5(H5Aread(attribute.id(), H5T_NATIVE_INT64, values.data()), "attribute ", name);
    if (scalar) return values.front();
    return values;
  }
  if (!scalar) return std::nullopt;
  if (kind == H5T_FLOAT) {
    double value = 0;
    check_hdf5(H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value), "attribute ", name);
    return value;
  }
  if (kind == H5T_STRING) {
    return read_texts_with(type.id(), space.id(), 1, [&](hid_t memory, void* to) {
      return H5Aread(attribute.id(), memory, to);
    })[0];
  }
  return std::nullopt;
}

void write_one(hid_t object, const std::string& name, hid_t type, hid_t space, const void* value) {
  AttributeHandle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                            "creating attribute ", name);
  check_hdf5(H5Awrite(attribute.id(), type, value), "writing attribute ", name);
}

void write_attribute(hid_t object, const std::string& name, const Attribute& value) {
  SpaceHandle scalar(H5Screate(H5S_SCALAR), "creating a scalar");
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    write_one(object, name, H5T_STD_I64LE, scalar.id(), integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    write_one(object, name, H5T_IEEE_F64LE, scalar.id(), real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    // HDF5 has no texts of size 0; the padding byte is dropped again on reading.
    const TypeHandle type = text_type(std::max<std::size_t>(1, text->size()));
    write_one(object, name, type.id(), scalar.id(), text->c_str());
  } else {
    const auto& integers = std::get<std::vector<std::int64_t>>(value);
    const hsize_t count = integers.size();
    SpaceHandle space(H5Screate_simple(1, &count, nullptr), "creating an extent");
    write_one(object, name, H5T_STD_I64LE, space.id(), integers.data());
  }
}

herr_t collect_name(hid_t /*object*/, const char* name, const H5A_info_t* /*info*/, void* data) {
  static_cast<std::vector<std::string>*>(data)->emplace_back(name);
  return 0;
}

}  // namespace

Attributes read_attributes(hid_t object) {
  std::vector<std::string> names;
  check_hdf5(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect_name, &names),
             "listing attributes");
  std::sort(names.begin(), names.end());
  Attributes attributes;
  for (const std::string& name : names) {
    if (auto value = read_attribute(object, name)) attributes.set(name, std::move(*value));
  }
  return attributes;
}

void write_attributes(hid_t object, const Attributes& attributes) {
  for (const auto& [name, value] : attributes.entries()) write_attribute(object, name, value);
}

}  // namespace tessera::io
