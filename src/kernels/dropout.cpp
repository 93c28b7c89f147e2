// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>

#include "kernels/builtin.hpp"
#include "kernels/isa/dropout.hpp"
#include "kernels/random.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/random.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

using HostRun = void (*)(const DropoutRun&);

HostRun host_run(DType dtype) {
  if (dtype == DType::f64) return TESSERA_ISA_CALL(dropout_f64);
  if (dtype == DType::bf16) return TESSERA_ISA_CALL(dropout_bf16);
  return TESSERA_ISA_CALL(dropout_f32);
}

void drop_on_host(const RandomPlan& plan, const Tile& x, const Tile& y, std::uint64_t threshold,
                  double scale) {
  const HostRun drop = host_run(x.dtype);
  const auto bytes = static_cast<std::int64_t>(bytes_of(x.dtype));
  for_each_run(plan, [&](std::int64_t offset, std::int64_t first) {
    drop({x.as<const char>() + offset * bytes, y.as<char>() + offset * bytes, plan.length,
          static_cast<std::uint64_t>(first), plan.key, plan.step, threshold, scale});
  });
}

void dropout(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 1 && call.output_count == 1, "dropout: one input");
  const Tile& x = call.inputs[0];
  const Tile& y = call.outputs[0];
  TESSERA_CHECK(x.dtype == y.dtype && is_floating(x.dtype) && x.size() == y.size(),
                "dropout: ", x.size(), " ", name_of(x.dtype), " to ", y.size(), " ",
                name_of(y.dtype));
  const double rate = call.attributes.real("rate");
  const auto batch_dim = static_cast<int>(call.attributes.integer_or("batch_dim", -1));
  const RandomPlan plan = plan_random(
      x, static_cast<std::uint64_t>(call.attributes.integer("key")),
      static_cast<std::uint64_t>(call.feeds.step), batch_dim,
      batch_dim < 0 ? 0 : call.attributes.integer_or("batch_total", x.global[batch_dim]),
      call.feeds.micro);
  if (plan.runs * plan.length == 0) return;
  const std::uint64_t threshold = dropout_threshold(rate);
  const double scale = 1.0 / (1.0 - rate);
  if (use_portable()) return portable::dropout(exec, plan, x, y, threshold, scale);
  drop_on_host(plan, x, y, threshold, scale);
}

}  // namespace

void register_dropout_kernels() {
  register_kernel("dropout", dropout);
}

}  // namespace tessera::kernels
