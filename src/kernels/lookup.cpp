// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/lookup.hpp"

#include <algorithm>
#include <vector>

#include "kernels/builtin.hpp"
#include "tessera/base/bf16.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/copy_box.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

using Labels = std::vector<std::int64_t>;

/// Stride of the dim with a label in a tile, or 0; TESSERA_CHECKs its extent.
std::int64_t stride_of(const Tile& tile, const Labels& labels, std::int64_t label,
                       std::int64_t extent, bool& found) {
  std::int64_t stride = 1;
  for (int d = tile.rank - 1; d >= 0; --d) {
    if (labels[static_cast<std::size_t>(d)] == label) {
      TESSERA_CHECK(tile.extent[d] == extent, "lookup: label ", label, " has extents ",
                    tile.extent[d], " and ", extent);
      found = true;
      return stride;
    }
    stride *= tile.extent[d];
  }
  found = false;
  return 0;
}

LookupPlan plan_lookup(const Attributes& attributes, const Tile& flat, const Tile& ids,
                       const Tile& table) {
  const Labels &of_flat = attributes.integers("flat"), &of_ids = attributes.integers("ids"),
               &of_table = attributes.integers("table"), &dims = attributes.integers("dims");
  TESSERA_CHECK(static_cast<int>(of_flat.size()) == flat.rank &&
                    static_cast<int>(of_ids.size()) == ids.rank &&
                    static_cast<int>(of_table.size()) == table.rank && ids.dtype == DType::i32 &&
                    !dims.empty() && dims.size() <= 4,
                "lookup: ranks ", flat.rank, ", ", ids.rank, ", ", table.rank, " along ",
                dims.size(), " dims");
  LookupPlan plan{};
  plan.rank = flat.rank;
  plan.size = flat.size();
  plan.ids = ids.as<const std::int32_t>();
  for (const std::int64_t dim : dims) {
    TESSERA_CHECK(dim >= 0 && dim < table.rank, "lookup: dim ", dim, " of rank ", table.rank);
    plan.global[plan.indexed] = table.global[dim];
    plan.first[plan.indexed] = table.offset[dim];
    plan.here[plan.indexed] = table.extent[dim];
    plan.stride[plan.indexed] = 1;
    for (int d = static_cast<int>(dim) + 1; d < table.rank; ++d)
      plan.stride[plan.indexed] *= table.extent[d];
    ++plan.indexed;
  }
  for (int d = 0; d < flat.rank; ++d) {
    const std::int64_t label = of_flat[static_cast<std::size_t>(d)];
    bool in_ids = false;
    plan.extent[d] = flat.extent[d];
    plan.id_stride[d] = stride_of(ids, of_ids, label, flat.extent[d], in_ids);
    plan.table_stride[d] = stride_of(table, of_table, label, flat.extent[d], plan.in_table[d]);
    TESSERA_CHECK(in_ids || plan.in_table[d], "lookup: label ", label, " is in one operand only");
  }
  plan.width = 1;
  for (int d = plan.rank - 1;
       d >= 0 && plan.in_table[d] && plan.id_stride[d] == 0 && plan.table_stride[d] == plan.width;
       --d)
    plan.width *= plan.extent[d];
  return plan;
}

/// Copies elements as words of their size: all bits 0 is the number 0 in every type.
template <class Word>
void gather_words(const LookupPlan& plan, const Tile& table, const Tile& flat) {
  const Word* from = table.as<const Word>();
  Word* to = flat.as<Word>();
  for (std::int64_t i = 0; i < plan.size; i += plan.width) {
    const std::int64_t at = table_place(plan, i);
    if (at < 0)
      std::fill_n(to + i, plan.width, Word{});
    else
      std::copy_n(from + at, plan.width, to + i);
  }
}

void gather_wider(const LookupPlan& plan, const Bf16* from, float* to) {
  for (std::int64_t i = 0; i < plan.size; i += plan.width) {
    const std::int64_t at = table_place(plan, i);
    for (std::int64_t j = 0; j < plan.width; ++j)
      to[i + j] = at < 0 ? 0.0F : to_float(from[at + j]);
  }
}

void gather(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "gather: table, ids");
  const Tile &table = call.inputs[0], &flat = call.outputs[0];
  const bool widens = table.dtype == DType::bf16 && flat.dtype == DType::f32;
  TESSERA_CHECK(widens || table.dtype == flat.dtype, "gather: ", name_of(table.dtype), " to ",
                name_of(flat.dtype));
  const LookupPlan plan = plan_lookup(call.attributes, flat, call.inputs[1], table);
  if (plan.size == 0) return;
  if (use_portable()) return portable::gather(exec, plan, table, flat);
  if (widens) return gather_wider(plan, table.as<const Bf16>(), flat.as<float>());
  switch (bytes_of(table.dtype)) {
    case 8:
      return gather_words<std::uint64_t>(plan, table, flat);
    case 4:
      return gather_words<std::uint32_t>(plan, table, flat);
    default:
      return gather_words<std::uint16_t>(plan, table, flat);
  }
}

template <class T, class E, class Convert>
void add_rows(const LookupPlan& plan, const Tile& flat, const Tile& table, const Convert& load) {
  const E* from = flat.as<const E>();
  T* to = table.as<T>();
  for (std::int64_t i = 0; i < plan.size; i += plan.width) {
    const std::int64_t at = table_place(plan, i);
    if (at < 0) continue;
    for (std::int64_t j = 0; j < plan.width; ++j) to[at + j] += load(from[i + j]);
  }
}

void scatter_add(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "scatter_add: values, ids");
  const Tile &flat = call.inputs[0], &table = call.outputs[0];
  TESSERA_CHECK(
      (table.dtype == DType::f64 && flat.dtype == DType::f64) ||
          (table.dtype == DType::f32 && flat.dtype != DType::i32 && flat.dtype != DType::f64),
      "scatter_add: ", name_of(flat.dtype), " into ", name_of(table.dtype));
  set_zero(exec, table.data, static_cast<std::size_t>(table.size()) * bytes_of(table.dtype));
  const LookupPlan plan = plan_lookup(call.attributes, flat, call.inputs[1], table);
  if (plan.size == 0) return;
  if (use_portable()) return portable::scatter_add(exec, plan, flat, table);
  switch (flat.dtype) {
    case DType::f64:
      return add_rows<double, double>(plan, flat, table, [](double v) { return v; });
    case DType::bf16:
      return add_rows<float, Bf16>(plan, flat, table, [](Bf16 v) { return to_float(v); });
    default:
      return add_rows<float, float>(plan, flat, table, [](float v) { return v; });
  }
}

}  // namespace

void register_lookup_kernels() {
  register_kernel("gather", gather);
  register_kernel("scatter_add", scatter_add);
}

}  // namespace tessera::kernels
