// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/fit.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/plan/cost_model.hpp"

namespace tessera::plan {
namespace {

/// min over x >= 0 of sum (row . x - 1)^2, rows being units over seconds.
Units fit(const std::vector<Units>& rows) {
  Units scale{}, x{};
  for (const auto& row : rows)
    for (std::size_t u = 0; u < scale.size(); ++u) scale[u] = std::max(scale[u], row[u]);
  double gram[kUnits][kUnits] = {}, right[kUnits] = {};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < scale.size(); ++i) {
      if (scale[i] == 0) continue;
      right[i] += row[i] / scale[i];
      for (std::size_t j = 0; j < scale.size(); ++j)
        if (scale[j] > 0) gram[i][j] += row[i] / scale[i] * (row[j] / scale[j]);
    }
  constexpr int kSweeps = 4000;
  // Backwards: what too few samples leave open grows with the size rather than with the calls.
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t i = scale.size(); i-- > 0;) {
      if (gram[i][i] == 0) continue;
      double rest = right[i];
      for (std::size_t j = 0; j < scale.size(); ++j)
        if (j != i) rest -= gram[i][j] * x[j];
      x[i] = std::max(0.0, rest / gram[i][i]);
    }
  for (std::size_t u = 0; u < scale.size(); ++u)
    if (scale[u] > 0) x[u] /= scale[u];
  return x;
}

}  // namespace

std::map<std::string, Units> fit_rates(const std::vector<Measured>& samples) {
  std::map<std::string, std::vector<Units>> rows;
  for (const auto& sample : samples) {
    if (sample.seconds <= 0) continue;
    Units row = sample.work.units;
    for (auto& unit : row) unit /= sample.seconds;
    rows[sample.work.kind].push_back(row);
  }
  std::map<std::string, Units> rates;
  for (const auto& [kind, list] : rows) rates[kind] = fit(list);
  return rates;
}

Link fit_link(const std::vector<MeasuredCollective>& samples) {
  std::vector<Units> rows;
  for (const auto& sample : samples) {
    if (sample.seconds <= 0) continue;
    const auto seconds = [&](Link link) {
      return collective_seconds(sample.kind, sample.bytes, sample.members, link);
    };
    // Few bytes tell of messages, many of bytes: both in the terms of the algorithm for many.
    const double rounds = std::ceil(std::log2(sample.members));
    const bool doubles = sample.kind == program::CollectiveKind::all_reduce && sample.members > 2;
    const double messages = seconds({1, 0}) * (doubles && sample.bytes > 65536 ? 2 : 1);
    const double bytes = doubles && sample.bytes <= 65536 ? rounds * sample.bytes : seconds({0, 1});
    rows.push_back({messages / sample.seconds, bytes / sample.seconds});
  }
  const Units fitted = fit(rows);
  return {fitted[0], fitted[1]};
}

}  // namespace tessera::plan
