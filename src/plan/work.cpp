// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/plan/work.hpp"

#include <algorithm>
#include <map>

#include "tessera/program/pointwise_code.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::BufferId;
using program::KernelStep;
using program::PointOp;
using program::Section;

bool is_attention(const std::string& kernel) {
  return kernel.rfind("attention", 0) == 0;
}

/// Price classes of register code, as places in pointwise's units.
enum PointUnit { kArithmetic = 3, kExp = 4, kGelu = 5 };

int price_of(PointOp op) {
  switch (op) {
    case PointOp::constant:
    case PointOp::copy:
      return -1;
    case PointOp::divide:
    case PointOp::sqrt:
    case PointOp::rsqrt:
    case PointOp::reciprocal:
    case PointOp::exp:
    case PointOp::log:
    case PointOp::sin:
    case PointOp::cos:
    case PointOp::tanh:
    case PointOp::sigmoid:
    case PointOp::power:
    case PointOp::silu:
    case PointOp::silu_derivative:
      return kExp;
    case PointOp::erf:
    case PointOp::gelu:
    case PointOp::gelu_derivative:
    case PointOp::gelu_tanh:
    case PointOp::gelu_tanh_derivative:
      return kGelu;
    default:
      return kArithmetic;
  }
}

class Meter {
 public:
  Meter(const Section& section, const MeshShape& mesh) : section_(section), mesh_(mesh) {}

  const Buffer& buffer(BufferId id) const { return section_.buffers[static_cast<std::size_t>(id)]; }
  std::vector<std::int64_t> extents(BufferId id) const {
    return largest_tile(buffer(id).spec.shape, buffer(id).placement, mesh_);
  }
  double elements(BufferId id) const {
    return static_cast<double>(
        largest_tile_size(buffer(id).spec.shape, buffer(id).placement, mesh_));
  }
  double bytes(const std::vector<BufferId>& ids) const {
    double sum = 0;
    for (BufferId id : ids) sum += static_cast<double>(buffer(id).bytes);
    return sum;
  }

  Work work_of(const KernelStep& step) const {
    Work work{step.kernel + "." + name_of(dtype_of(step)), {}};
    work.units[0] = 1;
    if (step.kernel == "einsum")
      einsum(step, work.units);
    else if (step.kernel == "pointwise")
      pointwise(step, work.units);
    else if (is_attention(step.kernel))
      attention(step, work.units);
    else {
      count_bytes(step, work.units);
      work.units[3] = step.flops;
    }
    return work;
  }

  static Work copy(double bytes) { return {"copy", {1, 2 * bytes, far_part(2 * bytes)}}; }

 private:
  /// Bytes that come from memory because the step's operands together don't stay in a cache: none
  /// of 2 MiB, all of 8 MiB.
  static double far_part(double bytes) {
    constexpr double kMebi = 1 << 20;
    return bytes * std::clamp((bytes - 2 * kMebi) / (6 * kMebi), 0.0, 1.0);
  }
  void count_bytes(const KernelStep& step, Units& units) const {
    units[1] = bytes(step.inputs) + bytes(step.outputs);
    units[2] = far_part(units[1]);
  }
  /// The narrowest floating type that the step touches: 16-bit operands cost conversions.
  DType dtype_of(const KernelStep& step) const {
    DType found = DType::i32;
    const auto look = [&](BufferId id) {
      const DType dtype = buffer(id).spec.dtype;
      if (dtype == DType::i32) return;
      if (found == DType::i32 || bytes_of(dtype) < bytes_of(found)) found = dtype;
    };
    for (BufferId id : step.inputs) look(id);
    for (BufferId id : step.outputs) look(id);
    return found;
  }

  void einsum(const KernelStep& step, Units& units) const {
    const auto &in0 = step.attributes.integers("in0"), &in1 = step.attributes.integers("in1"),
               &out = step.attributes.integers("out");
    const auto shape0 = extents(step.inputs[0]);
    const auto has = [](const std::vector<std::int64_t>& labels, std::int64_t label) {
      return std::find(labels.begin(), labels.end(), label) != labels.end();
    };
    double products = 1;
    for (std::size_t d = 0; d < in0.size(); ++d)
      if (has(in1, in0[d]) && has(out, in0[d])) products *= static_cast<double>(shape0[d]);
    units[1] = products;
    units[2] = step.flops;
    units[3] = elements(step.inputs[0]);
    units[4] = elements(step.inputs[1]);
    units[5] = elements(step.outputs[0]);
  }

  void pointwise(const KernelStep& step, Units& units) const {
    count_bytes(step, units);
    const double count = elements(step.outputs[0]);
    const auto& code = step.attributes.integers("code");
    for (std::size_t i = 0; i < code.size(); i += program::kInstructionLength) {
      const int price = price_of(static_cast<PointOp>(code[i]));
      if (price >= 0) units[static_cast<std::size_t>(price)] += count;
    }
  }

  void attention(const KernelStep& step, Units& units) const {
    // Forward begins with q [batch, length, heads, ...], backward with dout of that shape.
    const auto shape = extents(step.inputs[0]);
    double heads = 1;
    for (std::size_t d = 0; d + 1 < shape.size(); ++d)
      if (d != 1) heads *= static_cast<double>(shape[d]);
    units[1] = heads;
    units[2] = step.flops;
    units[3] = bytes(step.inputs) + bytes(step.outputs);
  }

  const Section& section_;
  const MeshShape& mesh_;
};

}  // namespace

std::array<std::string, kUnits> unit_names(const std::string& kind) {
  if (kind.rfind("einsum", 0) == 0) return {"call", "product", "flop", "a", "b", "c"};
  if (kind.rfind("pointwise", 0) == 0)
    return {"call", "byte", "far byte", "arithmetic", "exp", "gelu"};
  if (is_attention(kind)) return {"call", "head", "flop", "byte", "", ""};
  if (kind == "copy") return {"call", "byte", "far byte", "", "", ""};
  return {"call", "byte", "far byte", "flop", "", ""};
}

std::vector<Work> works_of(const Section& section, const program::Step& step,
                           const MeshShape& mesh) {
  const Meter meter(section, mesh);
  if (const auto* kernel = std::get_if<KernelStep>(&step)) return {meter.work_of(*kernel)};
  std::vector<Work> works;
  if (const auto* reduce = std::get_if<program::AllReduceStep>(&step)) {
    if (reduce->staging >= 0) works.assign(2, Meter::copy(meter.bytes(reduce->buffers)));
  } else if (const auto* relayout = std::get_if<program::RelayoutStep>(&step)) {
    if (relayout->send >= 0) works.push_back(Meter::copy(meter.bytes(relayout->inputs)));
    if (relayout->receive >= 0) works.push_back(Meter::copy(meter.bytes(relayout->outputs)));
  } else if (const auto* ring = std::get_if<program::RingStep>(&step)) {
    works.assign(2, Meter::copy(meter.bytes(ring->inputs)));
  } else if (const auto* local = std::get_if<program::LocalStep>(&step)) {
    works.push_back(Meter::copy(meter.bytes({local->output})));
  } else if (const auto* exchange = std::get_if<program::ExchangeStep>(&step)) {
    // What stays is copied, what goes is packed and unpacked.
    works.push_back(Meter::copy(meter.bytes(exchange->outputs)));
    if (exchange->send >= 0) works.push_back(Meter::copy(meter.bytes({exchange->send})));
    if (exchange->receive >= 0) works.push_back(Meter::copy(meter.bytes({exchange->receive})));
  }
  return works;
}

Transfer transfer_of(const Section& section, const program::Step& step, const MeshShape& mesh) {
  const Meter meter(section, mesh);
  Transfer transfer;
  if (const auto* reduce = std::get_if<program::AllReduceStep>(&step)) {
    transfer = {program::CollectiveKind::all_reduce, reduce->mesh_dims,
                meter.bytes(reduce->buffers), 1};
  } else if (const auto* relayout = std::get_if<program::RelayoutStep>(&step)) {
    const bool gathers = relayout->kind == program::CollectiveKind::all_gather;
    transfer = {relayout->kind,
                {relayout->mesh_dim},
                meter.bytes(gathers ? relayout->outputs : relayout->inputs),
                1};
  } else if (const auto* exchange = std::get_if<program::ExchangeStep>(&step)) {
    if (exchange->send >= 0)
      transfer = {program::CollectiveKind::neighbour_exchange, exchange->mesh_dims,
                  meter.bytes({exchange->send}), 1};
  } else if (const auto* ring = std::get_if<program::RingStep>(&step)) {
    transfer = {program::CollectiveKind::neighbour_exchange,
                {ring->mesh_dim},
                meter.bytes(ring->inputs),
                1};
  }
  if (const auto* message = std::get_if<program::TransferStep>(&step))
    transfer = {program::CollectiveKind::neighbour_exchange,
                {message->mesh_dim},
                meter.bytes({message->input}),
                1};
  if (mesh.group_size(transfer.mesh_dims) == 1) transfer.count = 0;
  return transfer;
}

}  // namespace tessera::plan
