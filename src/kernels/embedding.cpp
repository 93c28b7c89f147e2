// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/embedding.hpp"

#include "kernels/builtin.hpp"
#include "kernels/isa/embedding.hpp"
#include "tessera/base/error.hpp"
#include "tessera/kernels/copy_box.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

namespace tessera::kernels {
namespace {

EmbeddingPlan plan_embedding(const Tile& table, const Tile& ids, const Tile& vectors) {
  TESSERA_CHECK(table.rank >= 1 && is_floating(table.dtype) && is_floating(vectors.dtype) &&
                    ids.dtype == DType::i32,
                "embedding: a table of ", name_of(table.dtype), " and rank ", table.rank,
                ", ids of ", name_of(ids.dtype));
  EmbeddingPlan plan{};
  plan.table_element = static_cast<int>(table.dtype);
  plan.element = static_cast<int>(vectors.dtype);
  plan.first = table.offset[0];
  plan.rows = table.extent[0];
  plan.width = 1;
  for (int d = 1; d < table.rank; ++d) plan.width *= table.extent[d];
  plan.count = ids.size();
  plan.ids = ids.as<const std::int32_t>();
  TESSERA_CHECK(vectors.size() == plan.count * plan.width, "embedding: ", vectors.size(),
                " elements for ", plan.count, " ids of ", plan.width);
  return plan;
}

void embedding_forward(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "embedding_forward: table, ids");
  EmbeddingPlan plan = plan_embedding(call.inputs[0], call.inputs[1], call.outputs[0]);
  plan.from = call.inputs[0].data;
  plan.to = call.outputs[0].data;
  if (use_portable()) return portable::embedding_forward(exec, plan);
  TESSERA_ISA_CALL(embedding_forward)(plan);
}

void embedding_backward(const device::Exec& exec, const Call& call) {
  TESSERA_CHECK(call.input_count == 2 && call.output_count == 1, "embedding_backward: ids, dout");
  const Tile& dtable = call.outputs[0];
  EmbeddingPlan plan = plan_embedding(dtable, call.inputs[0], call.inputs[1]);
  plan.from = call.inputs[1].data;
  plan.to = dtable.data;
  plan.order = static_cast<std::int32_t*>(call.workspace);
  plan.accumulate = call.attributes.integer_or("accumulate", 0) != 0;
  if (!plan.accumulate) {
    set_zero(exec, dtable.data, static_cast<std::size_t>(dtable.size()) * bytes_of(dtable.dtype));
  }
  if (use_portable() || dtable.dtype == DType::bf16) {
    portable::embedding_backward(exec, plan);
  } else {
    TESSERA_ISA_CALL(embedding_backward)(plan);
  }
}

}  // namespace

void register_embedding_kernels() {
  register_kernel("embedding_forward", embedding_forward);
  register_kernel("embedding_backward", embedding_backward);
}

}  // namespace tessera::kernels
