// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/reduce.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/builtin.hpp"
#include "kernels/isa/reduce.hpp"
#include "kernels/pointwise_plan.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

struct Loop {
  std::int64_t extent;
  std::int64_t stride;
};

int parse_op(const std::string& name) {
  if (name == "sum") return kReduceSum;
  if (name == "max") return kReduceMax;
  if (name == "min") return kReduceMin;
  TESSERA_CHECK(name == "sum_squares", "reduce: op '", name, "'");
  return kReduceSumSquares;
}

/// Without extents of 1, and neighbours merged that lie in the input as one.
ReduceLoops merged(const std::vector<Loop>& loops) {
  ReduceLoops result{0, {}, {}, 1};
  for (const Loop& loop : loops) {
    result.size *= loop.extent;
    if (loop.extent == 1) continue;
    const int last = result.rank - 1;
    if (last >= 0 && result.stride[last] == loop.stride * loop.extent) {
      result.extent[last] *= loop.extent;
      result.stride[last] = loop.stride;
      continue;
    }
    result.extent[result.rank] = loop.extent;
    result.stride[result.rank++] = loop.stride;
  }
  return result;
}

ReducePlan plan_reduce(const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "reduce takes one input");
  const Tile& x = call.inputs[0];
  const Tile& y = call.outputs[0];
  TESSERA_CHECK(is_floating(x.dtype) && is_floating(y.dtype), "reduce: ", name_of(x.dtype), " to ",
                name_of(y.dtype));
  const std::vector<std::int64_t>& in = call.attributes.integers("in");
  const std::vector<std::int64_t>& out = call.attributes.integers("out");
  TESSERA_CHECK(static_cast<int>(in.size()) == x.rank && static_cast<int>(out.size()) == y.rank,
                "reduce: ", in.size(), " and ", out.size(), " labels for ranks ", x.rank, " and ",
                y.rank);
  std::vector<Loop> kept, reduced;
  for (int d = 0; d < y.rank; ++d) kept.push_back({y.extent[d], 0});
  std::int64_t stride = 1;
  for (int d = x.rank - 1; d >= 0; --d) {
    const auto at = std::find(out.begin(), out.end(), in[static_cast<std::size_t>(d)]);
    if (at == out.end()) {
      reduced.push_back({x.extent[d], stride});
    } else {
      Loop& loop = kept[static_cast<std::size_t>(at - out.begin())];
      TESSERA_CHECK(loop.extent == x.extent[d], "reduce: label ", *at, " has extents ", x.extent[d],
                    " and ", loop.extent);
      loop.stride += stride;
    }
    stride *= x.extent[d];
  }
  std::reverse(reduced.begin(), reduced.end());
  return {x.data,
          y.data,
          static_cast<int>(x.dtype),
          static_cast<int>(y.dtype),
          parse_op(call.attributes.text("op")),
          call.attributes.real_or("alpha", 1.0),
          merged(kept),
          merged(reduced)};
}

/// The output where there is nothing to reduce.
void fill_empty(const device::Exec& exec, const ReducePlan& plan, const Tile& y) {
  double value = 0.0;
  if (plan.op == kReduceMax) value = lowest_of(plan.output_element);
  if (plan.op == kReduceMin) value = -lowest_of(plan.output_element);
  const Attributes attributes{{"value", value}};
  const Feeds feeds;
  const int coordinates[1] = {0};
  const Call call{attributes, nullptr, 0, &y, 1, nullptr, feeds, coordinates};
  find_kernel("fill")(exec, call);
}

void reduce(const device::Exec& exec, const Call& call) {
  ReducePlan plan = plan_reduce(call);
  if (plan.kept.size == 0) return;
  if (plan.reduced.size == 0) {
    fill_empty(exec, plan, call.outputs[0]);
    return;
  }
  if (plan.kept.rank == 0) {
    plan.kept.rank = 1;
    plan.kept.extent[0] = 1;
    plan.kept.stride[0] = 0;
  }
  if (use_portable()) {
    reduce_portable(exec, plan);
  } else if (plan.reduced.rank == 0) {
    TESSERA_ISA_CALL(permute_dims)(plan);
  } else {
    TESSERA_ISA_CALL(reduce_dims)(plan);
  }
}

}  // namespace

double lowest_of(int element) {
  if (element == kElementF64) return std::numeric_limits<double>::lowest();
  if (element == kElementBf16) return -0x1.FEp127;
  return std::numeric_limits<float>::lowest();
}

void register_reduce_kernels() {
  register_kernel("reduce", reduce);
}

}  // namespace tessera::kernels
