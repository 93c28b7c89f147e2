// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <variant>
#include <vector>

#include "tessera/program/program.hpp"

namespace tessera::plan {

/// A step that exchanges with neighbours, and how often it runs.
struct CountedExchange {
  std::variant<const program::ExchangeStep*, const program::RingStep*, const program::TransferStep*>
      step;
  std::int64_t times = 1;
};

/// Adds to `row` what exchange steps over the same mesh dims move in one run of their section,
/// exactly as ranks count it: bytes and messages of the rank that has most in all steps together,
/// and the sum over ranks. The cost grows with the ranks that cut windowed dims, not with others.
void count_exchanges(const std::vector<CountedExchange>& steps,
                     const std::vector<program::Buffer>& buffers, const MeshShape& mesh,
                     program::CollectiveRow& row);

}  // namespace tessera::plan
