// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pool.hpp"

#include <vector>

#include "kernels/builtin.hpp"
#include "kernels/isa/pool.hpp"
#include "kernels/pointwise_plan.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

using HostPool = void (*)(const ConvPlan&);
using PortablePool = void (*)(const device::Exec&, const ConvPlan&);

/// What the tiles of x and y say; the operands are the call's, in order.
void launch(const device::Exec& exec, const Call& call, const Tile& x, const Tile& y, HostPool host,
            PortablePool portable) {
  const int batch = static_cast<int>(call.attributes.integer("batch"));
  const auto& window = call.attributes.integers("window");
  const auto& stride = call.attributes.integers("stride");
  const auto& before = call.attributes.integers("before");
  const int space = static_cast<int>(window.size());
  TESSERA_CHECK(space >= 1 && space <= kSpace && static_cast<int>(stride.size()) == space &&
                    static_cast<int>(before.size()) == space && x.rank == y.rank &&
                    x.rank >= batch + space && call.output_count == 1,
                "pool: operands of ranks ", x.rank, " and ", y.rank);
  TESSERA_CHECK(is_floating(x.dtype), "pool of ", name_of(x.dtype));
  for (int i = 0; i < call.input_count; ++i)
    TESSERA_CHECK(call.inputs[i].dtype == x.dtype, "pool: operands of two types");
  TESSERA_CHECK(call.outputs[0].dtype == x.dtype, "pool: operands of two types");
  ConvPlan plan{};
  plan.batch = merged_extent(y, 0, batch);
  plan.groups = merged_extent(y, batch + space, y.rank - batch - space);
  plan.in = plan.out = 1;
  for (int d = 0; d < kSpace; ++d) {
    plan.x[d] = plan.y[d] = plan.taps[d] = plan.stride[d] = plan.dilation[d] = 1;
  }
  for (int s = 0; s < space; ++s) {
    const int d = kSpace - space + s;
    const auto at = static_cast<std::size_t>(s);
    plan.x[d] = x.extent[batch + s], plan.y[d] = y.extent[batch + s];
    plan.taps[d] = window[at], plan.stride[d] = stride[at];
    plan.base[d] = y.offset[batch + s] * stride[at] - before[at] - x.offset[batch + s];
  }
  TESSERA_CHECK(merged_extent(x, 0, batch) == plan.batch &&
                    merged_extent(x, batch + space, x.rank - batch - space) == plan.groups,
                "pool: tiles that do not fit together");
  plan.element = plan.result_element = static_cast<int>(x.dtype);
  plan.a = call.inputs[0].data;
  plan.b = call.input_count > 1 ? call.inputs[1].data : nullptr;
  plan.result = call.outputs[0].data;
  if (use_portable()) {
    portable(exec, plan);
  } else {
    host(plan);
  }
}

void max_pool(const device::Exec& exec, const Call& call) {
  launch(exec, call, call.inputs[0], call.outputs[0], TESSERA_ISA_CALL(max_pool),
         portable::max_pool);
}
void max_pool_scatter(const device::Exec& exec, const Call& call) {
  launch(exec, call, call.inputs[0], call.inputs[1], TESSERA_ISA_CALL(max_pool_scatter),
         portable::max_pool_scatter);
}
void max_pool_gather(const device::Exec& exec, const Call& call) {
  launch(exec, call, call.inputs[0], call.outputs[0], TESSERA_ISA_CALL(max_pool_gather),
         portable::max_pool_gather);
}
void average_pool(const device::Exec& exec, const Call& call) {
  launch(exec, call, call.inputs[0], call.outputs[0], TESSERA_ISA_CALL(average_pool),
         portable::average_pool);
}
void average_pool_scatter(const device::Exec& exec, const Call& call) {
  launch(exec, call, call.outputs[0], call.inputs[0], TESSERA_ISA_CALL(average_pool_scatter),
         portable::average_pool_scatter);
}

}  // namespace

void register_pool_kernels() {
  register_kernel("max_pool", max_pool);
  register_kernel("max_pool_scatter", max_pool_scatter);
  register_kernel("max_pool_gather", max_pool_gather);
  register_kernel("average_pool", average_pool);
  register_kernel("average_pool_scatter", average_pool_scatter);
}

}  // namespace tessera::kernels
