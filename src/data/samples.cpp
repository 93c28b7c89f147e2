// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/samples.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::data {

std::int64_t weights_of(const std::vector<Field>& fields) {
  for (const Field& field : fields)
    if (field.name == "weights") return field.spec.shape.size();
  return 1;
}

std::string unit_of(const std::vector<Field>& fields) {
  constexpr int kPictureDims = 3;  // height, width, channels
  const auto has = [&](const char* name, int least_rank) {
    return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
      return field.name == name && field.spec.shape.rank() >= least_rank;
    });
  };
  if (has("tokens", 0)) return "tokens";
  return has("image", kPictureDims) && weights_of(fields) == 1 ? "images" : "samples";
}

std::size_t field_index(const Samples& samples, const std::string& name) {
  const auto& fields = samples.fields();
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].name == name) return i;
  throw Error(concat("the data have no field '", name, "'"));
}

}  // namespace tessera::data
