// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/arrays_file.hpp"

#include <fcntl.h>

#include <filesystem>

#include "io/posix_file.hpp"
#include "tessera/base/error.hpp"

namespace tessera::io {

void write_arrays(const std::string& file, const std::vector<HostArray>& arrays) {
  FileIndex index;
  index.groups["/"];
  for (const auto& array : arrays) {
    DatasetInfo dataset;
    dataset.path = array.path;
    dataset.shape = array.shape;
    dataset.type = array.type;
    TESSERA_CHECK(
        static_cast<std::int64_t>(array.bytes.size()) == dataset.size() * dataset.type.bytes,
        array.path, ": ", array.bytes.size(), " bytes for ", dataset.size(), " elements");
    index.datasets.push_back(std::move(dataset));
  }
  const std::string aside = file + ".part";
  write_index(aside, index);
  {
    PosixFile out(aside, O_WRONLY);
    for (const auto& array : arrays)
      if (!array.bytes.empty())
        out.write(array.bytes.data(), array.bytes.size(), index.find(array.path)->offset);
    out.close();
  }
  std::filesystem::rename(aside, file);
}

}  // namespace tessera::io
