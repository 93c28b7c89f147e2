// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera::data {

/// The files and folders that an entry of data.path names: itself, or, of a pattern with * ? [, all
/// that fit, sorted. UserError with near names if there is none.
std::vector<std::string> expand_paths(const std::string& entry);

/// An entry "path:weight" of data.path; without a number behind the last colon the weight is 1.
struct WeightedPath {
  std::string path;
  double weight = 1;
};
WeightedPath parse_weighted(const std::string& entry);

/// open(entry) for each entry of data.validation. What opens files speaks of data.path; here its
/// messages name the key whose files they are.
void open_validation(const std::vector<std::string>& entries,
                     const std::function<void(const std::string& entry)>& open);

}  // namespace tessera::data
