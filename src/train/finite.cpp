// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/finite.hpp"

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/comm/agree.hpp"

namespace tessera::train {
namespace {

template <class Word>
std::int64_t first_with_full_exponent(const void* values, std::int64_t count, Word exponent) {
  // IEEE: infinities and NaN are the numbers whose exponent bits are all set. Blocks first, so
  // that the usual case, all finite, is a loop that the compiler vectorises.
  constexpr std::int64_t kBlock = 4096;
  const auto* words = static_cast<const Word*>(values);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    Word found = 0;
    for (std::int64_t i = begin; i < end; ++i) found |= (words[i] & exponent) == exponent;
    if (!found) continue;
    for (std::int64_t i = begin; i < end; ++i)
      if ((words[i] & exponent) == exponent) return i;
  }
  return -1;
}

struct Found {
  int variable = -1;
  std::int64_t element = 0;  ///< in the tile of the local rank
};

/// The first variable of some kinds whose tile on a local rank is not finite.
template <class Wanted>
std::optional<Found> find_nonfinite(const Session& session, int local_rank, Wanted&& wanted) {
  const auto& stored = session.compiled.program.variables;
  std::vector<char> buffer;
  for (int i = 0; i < static_cast<int>(stored.size()); ++i) {
    const auto& variable = stored[static_cast<std::size_t>(i)].variable;
    if (!wanted(variable) || !is_floating(variable.spec.dtype)) continue;
    const std::int64_t count = volume(session.executor->variable_box(i, local_rank));
    buffer.resize(static_cast<std::size_t>(count) * bytes_of(variable.spec.dtype));
    session.executor->read_variable(i, local_rank, buffer.data());
    const std::int64_t element = first_nonfinite(variable.spec.dtype, buffer.data(), count);
    if (element >= 0) return Found{i, element};
  }
  return std::nullopt;
}

/// For each rank of the mesh its first such variable, or -1.
template <class Wanted>
std::vector<int> first_by_rank(const Session& session, Wanted&& wanted) {
  std::vector<std::vector<double>> mine;
  for (int r = 0; r < session.executor->local_ranks(); ++r) {
    const auto found = find_nonfinite(session, r, wanted);
    mine.push_back({found ? static_cast<double>(found->variable) : -1.0});
  }
  std::vector<int> first;
  for (const auto& values : session.collectives->gather_over_ranks(mine))
    first.push_back(static_cast<int>(values.front()));
  return first;
}

/// "gradient of x on rank 3 (first), also on ranks 4, 5"; "" if there is none.
std::string describe(const Session& session, const std::vector<int>& first, const char* what) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(first.size()); ++rank)
    if (first[static_cast<std::size_t>(rank)] >= 0) ranks.push_back(rank);
  if (ranks.empty()) return "";
  const auto index = static_cast<std::size_t>(first[static_cast<std::size_t>(ranks.front())]);
  const Variable& variable = session.compiled.program.variables[index].variable;
  std::string text =
      concat(what, variable.of.empty() ? variable.name : variable.of, " on rank ", ranks.front());
  ranks.erase(ranks.begin());
  if (!ranks.empty())
    text += (ranks.size() == 1 ? ", and on rank " : ", and on ranks ") + comm::format_ranks(ranks);
  return text;
}

}  // namespace

std::int64_t first_nonfinite(DType dtype, const void* values, std::int64_t count) {
  switch (dtype) {
    case DType::f32:
      return first_with_full_exponent<std::uint32_t>(values, count, 0x7f800000U);
    case DType::f64:
      return first_with_full_exponent<std::uint64_t>(values, count, 0x7ff0000000000000ULL);
    case DType::bf16:
      return first_with_full_exponent<std::uint16_t>(values, count, 0x7f80U);
    default:
      return -1;
  }
}

std::string describe_nonfinite(const Session& session, const std::vector<double>& loss_shares) {
  std::vector<std::vector<double>> mine;
  for (double share : loss_shares) mine.push_back({share});
  std::vector<int> ranks;
  const auto all = session.collectives->gather_over_ranks(mine);
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank)
    if (!std::isfinite(all[static_cast<std::size_t>(rank)].front())) ranks.push_back(rank);
  const std::string loss = ranks.empty()
                               ? "the loss is finite on all ranks"
                               : "the loss of rank" + std::string(ranks.size() > 1 ? "s " : " ") +
                                     comm::format_ranks(ranks);
  const auto first = first_by_rank(
      session, [](const Variable& variable) { return variable.kind == Variable::Kind::gradient; });
  const std::string gradients = describe(session, first, "the gradient of ");
  return gradients.empty() ? loss : loss + ", first in " + gradients;
}

void require_finite_variables(const Session& session) {
  const auto first =
      first_by_rank(session, [](const Variable& variable) { return variable.is_saved(); });
  const std::string where = describe(session, first, "");
  if (!where.empty())
    throw Error(concat("refused to save a checkpoint that is not finite: ", where,
                       "; the older checkpoints stay"));
}

}  // namespace tessera::train
