// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/hdf5.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

#include "io/hdf5_attribute.hpp"
#include "io/hdf5_handle.hpp"
#include "io/posix_file.hpp"

namespace tessera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "datasets are read and written in place");

constexpr int kMaxDepth = 64;  // of groups: a damaged file may hold a cycle

PropertyHandle file_access() {
  PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS), "creating file access properties");
  check_hdf5(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110),
             "choosing the file format");
  // Large datasets start on pages of their own, so ranks that write neighbours share none.
  check_hdf5(H5Pset_alignment(access.id(), 1 << 16, 1 << 12), "choosing the alignment");
  return access;
}

ElementType element_type(hid_t type) {
  ElementType result;
  result.bytes = static_cast<int>(H5Tget_size(type));
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_FLOAT) {
    result.kind = ElementType::Kind::floating;
  } else if (kind == H5T_INTEGER) {
    result.kind = H5Tget_sign(type) == H5T_SGN_NONE ? ElementType::Kind::unsigned_integer
                                                    : ElementType::Kind::signed_integer;
  } else if (kind == H5T_STRING) {
    result.kind = ElementType::Kind::text;
  }
  return result;
}

std::string obstacle_of(const DatasetInfo& info, hid_t dataset, hid_t type) {
  if (info.type.kind == ElementType::Kind::text || info.type.kind == ElementType::Kind::other) {
    return "not numbers";
  }
  if (info.type.bytes > 1 && H5Tget_order(type) == H5T_ORDER_BE) return "big-endian";
  PropertyHandle creation(H5Dget_create_plist(dataset), "creation properties");
  if (H5Pget_external_count(creation.id()) > 0) return "external";
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  if (layout == H5D_COMPACT) return "compact";
  if (layout != H5D_CONTIGUOUS) return "chunked";
  return info.size() == 0 ? "empty" : "";
}

DatasetInfo read_dataset(hid_t dataset, const std::string& path) {
  DatasetInfo info;
  info.path = path;
  TypeHandle type(H5Dget_type(dataset), "type");
  SpaceHandle space(H5Dget_space(dataset), "extent");
  hsize_t extent[H5S_MAX_RANK];
  const int rank = check_hdf5(H5Sget_simple_extent_dims(space.id(), extent, nullptr), "extent");
  info.shape.assign(extent, extent + rank);
  info.type = element_type(type.id());
  info.attributes = read_attributes(dataset);
  info.obstacle = obstacle_of(info, dataset, type.id());
  if (info.obstacle.empty()) {
    const haddr_t offset = H5Dget_offset(dataset);
    if (offset == HADDR_UNDEF) {
      info.obstacle = "empty";  // space that was never allocated
    } else {
      info.offset = static_cast<std::int64_t>(offset);
    }
  }
  return info;
}

std::string link_name(hid_t group, hsize_t i) {
  const ssize_t size = check_hdf5(
      H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT),
      "listing a group");
  std::string name(static_cast<std::size_t>(size), '\0');
  check_hdf5(H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(),
                                name.size() + 1, H5P_DEFAULT),
             "listing a group");
  return name;
}

void read_group(hid_t group, const std::string& path, int depth, FileIndex& index) {
  if (depth > kMaxDepth) throw Error(concat("group ", path, " is nested too deep"));
  index.groups[path] = read_attributes(group);
  H5G_info_t info;
  check_hdf5(H5Gget_info(group, &info), "listing group ", path);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const std::string name = link_name(group, i);
    const std::string child = (path == "/" ? "/" : path + "/") + name;
    ObjectHandle object(H5Oopen(group, name.c_str(), H5P_DEFAULT), child);
    const H5I_type_t kind = H5Iget_type(object.id());
    if (kind == H5I_GROUP) read_group(object.id(), child, depth + 1, index);
    if (kind == H5I_DATASET) index.datasets.push_back(read_dataset(object.id(), child));
  }
}

FileHandle open_for_reading(const std::string& file) {
  std::error_code unknown;
  const auto status = std::filesystem::status(file, unknown);
  if (std::filesystem::is_directory(status)) throw Error("it is a folder, not a file");
  // Opening a pipe would wait for its other end.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error("it is a pipe or device, not a file");
  if (::access(file.c_str(), R_OK) != 0)
    throw Error(errno == ENOENT ? "there is no such file"
                                : concat("can't open it: ", std::strerror(errno)));
  PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS), "creating file access properties");
  return FileHandle(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.id()), "HDF5 can't open it");
}

/// Runs `phase` on `file` and names the file in whatever goes wrong.
template <class Phase>
auto reading(const std::string& file, const Phase& phase) {
  prepare_hdf5();
  try {
    return phase();
  } catch (const std::exception& error) {
    throw UserError(concat(file, ": ", error.what()));
  }
}

hid_t hdf5_type(const ElementType& type) {
  using Kind = ElementType::Kind;
  if (type == ElementType{Kind::floating, 4}) return H5T_IEEE_F32LE;
  if (type == ElementType{Kind::floating, 8}) return H5T_IEEE_F64LE;
  if (type == ElementType{Kind::signed_integer, 4}) return H5T_STD_I32LE;
  if (type == ElementType{Kind::signed_integer, 8}) return H5T_STD_I64LE;
  if (type == ElementType{Kind::unsigned_integer, 1}) return H5T_STD_U8LE;
  if (type == ElementType{Kind::unsigned_integer, 2}) return H5T_STD_U16LE;
  if (type == ElementType{Kind::unsigned_integer, 4}) return H5T_STD_U32LE;
  throw Error("an element type that is never written");
}

std::int64_t create_dataset(hid_t file, const DatasetInfo& info) {
  PropertyHandle creation(H5Pcreate(H5P_DATASET_CREATE), "creation properties");
  check_hdf5(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), "layout");
  check_hdf5(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), "allocation");
  check_hdf5(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), "filling");
  check_hdf5(H5Pset_obj_track_times(creation.id(), false), "times");  // equal runs, equal files
  const std::vector<hsize_t> extent(info.shape.begin(), info.shape.end());
  SpaceHandle space(extent.empty()
                        ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
                    "extent of ", info.path);
  DatasetHandle dataset(H5Dcreate2(file, info.path.c_str(), hdf5_type(info.type), space.id(),
                                   H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                        "creating ", info.path);
  write_attributes(dataset.id(), info.attributes);
  const haddr_t offset = H5Dget_offset(dataset.id());
  return info.size() == 0 || offset == HADDR_UNDEF ? -1 : static_cast<std::int64_t>(offset);
}

/// All groups of an index and those above groups and datasets, parents first.
std::set<std::string> groups_of(const FileIndex& index) {
  std::set<std::string> paths;
  const auto add_parents = [&](const std::string& path) {
    for (auto slash = path.rfind('/'); slash != 0 && slash != path.npos;
         slash = path.rfind('/', slash - 1)) {
      paths.insert(path.substr(0, slash));
    }
  };
  for (const DatasetInfo& info : index.datasets) add_parents(info.path);
  for (const auto& [path, attributes] : index.groups) {
    add_parents(path);
    if (path != "/") paths.insert(path);
  }
  return paths;
}

void create_group(hid_t file, const std::string& path, const Attributes& attributes) {
  PropertyHandle creation(H5Pcreate(H5P_GROUP_CREATE), "creation properties");
  check_hdf5(H5Pset_obj_track_times(creation.id(), false), "times");
  GroupHandle group(H5Gcreate2(file, path.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                    "creating ", path);
  write_attributes(group.id(), attributes);
}

FileHandle create_file(const std::string& file) {
  const PropertyHandle access = file_access();
  PropertyHandle creation(H5Pcreate(H5P_FILE_CREATE), "creation properties");
  check_hdf5(H5Pset_obj_track_times(creation.id(), false), "times");
  return FileHandle(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()),
                    "HDF5 can't create it");
}

void lay_out(const std::string& file, FileIndex& index) {
  prepare_hdf5();
  FileHandle handle = create_file(file);
  write_attributes(handle.id(), index.group("/"));
  for (const std::string& path : groups_of(index)) {
    create_group(handle.id(), path, index.group(path));
  }
  for (DatasetInfo& info : index.datasets) info.offset = create_dataset(handle.id(), info);
  check_hdf5(H5Fflush(handle.id(), H5F_SCOPE_GLOBAL), "flushing");
  handle.close();
}

}  // namespace

std::int64_t DatasetInfo::size() const {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

const DatasetInfo* FileIndex::find(const std::string& path) const {
  const auto at = std::find_if(datasets.begin(), datasets.end(),
                               [&](const DatasetInfo& info) { return info.path == path; });
  return at == datasets.end() ? nullptr : &*at;
}

const Attributes& FileIndex::group(const std::string& path) const {
  static const Attributes none;
  const auto at = groups.find(path);
  return at == groups.end() ? none : at->second;
}

FileIndex read_index(const std::string& file) {
  return reading(file, [&] {
    FileHandle handle = open_for_reading(file);
    GroupHandle root(H5Gopen2(handle.id(), "/", H5P_DEFAULT), "opening the root group");
    FileIndex index;
    read_group(root.id(), "/", 0, index);
    return index;
  });
}

void write_index(const std::string& file, FileIndex& index) {
  try {
    // HDF5 can neither close a file that it failed to write (a full disk) nor go on after that. So
    // it writes into memory, where the elements are a hole, and we carry that to the disk.
    const MemoryFile memory;
    lay_out(memory.path(), index);
    memory.copy_to(file);
  } catch (const std::exception& error) {
    throw Error(concat("writing ", file, ": ", error.what()));
  }
}

}  // namespace tessera::io
