// SPDX-License-Identifier: BSD-3-Clause
#include "prepared.hpp"

#include "exchange_copies.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime {
namespace {

using program::Buffer;
using program::BufferId;
using program::Section;

const Buffer& buffer_of(const Section& section, BufferId id) {
  return section.buffers[static_cast<std::size_t>(id)];
}

/// Copies of boxes to or from one packed stretch, one after the other.
class Packer {
 public:
  explicit Packer(char* packed, std::size_t element_bytes)
      : packed_(packed), element_bytes_(element_bytes) {}

  BoxCopy out_of(const kernels::Tile& tile, const Box& tile_box, const Box& region) {
    return copy_region(region, static_cast<const char*>(tile.data), tile_box, advance(region),
                       region, element_bytes_);
  }
  BoxCopy into(const kernels::Tile& tile, const Box& tile_box, const Box& region) {
    return copy_region(region, advance(region), region, static_cast<char*>(tile.data), tile_box,
                       element_bytes_);
  }

 private:
  char* advance(const Box& region) {
    char* here = packed_;
    packed_ += volume(region) * static_cast<std::int64_t>(element_bytes_);
    return here;
  }
  char* packed_;
  std::size_t element_bytes_;
};

struct Preparer {
  const Section& section;
  const Places& places;
  std::int64_t iteration;

  kernels::Tile tile(BufferId id, std::size_t r) const {
    return places.tile(buffer_of(section, id), r, iteration);
  }
  Box box(BufferId id, std::size_t r) const {
    const Buffer& buffer = buffer_of(section, id);
    return tile_box(buffer, *places.mesh, places.coordinates[r], iteration);
  }
  char* address(BufferId id, std::size_t r) const {
    return places.arenas[r] + buffer_of(section, id).offset;
  }
  std::size_t ranks() const { return places.arenas.size(); }

  PreparedStep operator()(const program::KernelStep& step) const {
    PreparedKernel prepared;
    prepared.kernel = kernels::find_kernel(step.kernel);
    prepared.attributes = &step.attributes;
    for (std::size_t r = 0; r < ranks(); ++r) {
      auto& rank = prepared.ranks.emplace_back();
      for (BufferId id : step.inputs) rank.inputs.push_back(tile(id, r));
      for (BufferId id : step.outputs) rank.outputs.push_back(tile(id, r));
      rank.workspace =
          step.workspace_bytes > 0 ? places.arenas[r] + step.workspace_offset : nullptr;
    }
    return prepared;
  }

  PreparedStep operator()(const program::AllReduceStep& step) const {
    PreparedAllReduce prepared;
    prepared.dtype = buffer_of(section, step.buffers[0]).spec.dtype;
    const std::size_t element = bytes_of(prepared.dtype);
    const auto takes_part = places.taking_part(section, step);
    for (std::size_t r = 0; r < ranks(); ++r) {
      auto& pack = prepared.pack.emplace_back();
      auto& unpack = prepared.unpack.emplace_back();
      if (!takes_part[r]) {
        prepared.data.push_back(places.arenas[r]);
        prepared.counts.push_back(0);
        continue;
      }
      if (step.contiguous) {
        prepared.data.push_back(address(step.buffers[0], r));
        const Buffer& last = buffer_of(section, step.buffers.back());
        const std::int64_t stretch =
            last.offset + last.bytes - buffer_of(section, step.buffers[0]).offset;
        prepared.counts.push_back(step.buffers.size() == 1
                                      ? tile(step.buffers[0], r).size()
                                      : stretch / static_cast<std::int64_t>(element));
        continue;
      }
      prepared.data.push_back(address(step.staging, r));
      std::int64_t count = 0;
      Packer packer(address(step.staging, r), element), unpacker(address(step.staging, r), element);
      for (BufferId id : step.buffers) {
        TESSERA_CHECK(buffer_of(section, id).spec.dtype == prepared.dtype, step.label,
                      ": a bucket of several types");
        pack.push_back(packer.out_of(tile(id, r), box(id, r), box(id, r)));
        unpack.push_back(unpacker.into(tile(id, r), box(id, r), box(id, r)));
        count += tile(id, r).size();
      }
      prepared.counts.push_back(count);
    }
    return prepared;
  }

  PreparedStep operator()(const program::RelayoutStep& step) const {
    PreparedRelayout prepared;
    prepared.dtype = buffer_of(section, step.inputs[0]).spec.dtype;
    const std::size_t element = bytes_of(prepared.dtype);
    for (std::size_t r = 0; r < ranks(); ++r) {
      const Exchange exchange = exchange_of(step, section, *places.mesh, places.coordinates[r]);
      prepared.send_counts.push_back(exchange.send_counts);
      prepared.receive_counts.push_back(exchange.receive_counts);
      auto& pack = prepared.pack.emplace_back();
      auto& unpack = prepared.unpack.emplace_back();
      prepared.send.push_back(step.send >= 0 ? address(step.send, r)
                                             : tile(step.inputs[0], r).data);
      prepared.receive.push_back(step.receive >= 0 ? address(step.receive, r)
                                                   : tile(step.outputs[0], r).data);
      const bool gather = step.kind == program::CollectiveKind::all_gather;
      const bool scatter = step.kind == program::CollectiveKind::reduce_scatter;
      if (step.send >= 0) {
        Packer packer(address(step.send, r), element);
        for (std::size_t j = 0; j < (gather ? 1 : exchange.send.size()); ++j)
          for (std::size_t t = 0; t < step.inputs.size(); ++t)
            pack.push_back(packer.out_of(tile(step.inputs[t], r), box(step.inputs[t], r),
                                         exchange.send[j][t]));
      }
      if (step.receive >= 0) {
        Packer packer(address(step.receive, r), element);
        for (std::size_t j = 0; j < (scatter ? 1 : exchange.receive.size()); ++j)
          for (std::size_t t = 0; t < step.inputs.size(); ++t)
            unpack.push_back(packer.into(tile(step.outputs[t], r), box(step.outputs[t], r),
                                         exchange.receive[j][t]));
      }
    }
    return prepared;
  }

  PreparedStep operator()(const program::RingStep& step) const {
    PreparedRing prepared;
    prepared.dtype = buffer_of(section, step.inputs[0]).spec.dtype;
    const std::size_t element = bytes_of(prepared.dtype);
    const auto ways = static_cast<int>((*places.mesh)[step.mesh_dim].size);
    for (std::size_t r = 0; r < ranks(); ++r) {
      char *send = address(step.send, r), *receive = address(step.receive, r);
      Packer packer(send, element), unpacker(receive, element);
      auto& pack = prepared.pack.emplace_back();
      auto& unpack = prepared.unpack.emplace_back();
      auto& sent = prepared.send_counts.emplace_back(ways, 0);
      auto& received = prepared.receive_counts.emplace_back(ways, 0);
      const int here = places.coordinates[r][static_cast<std::size_t>(step.mesh_dim)];
      for (std::size_t t = 0; t < step.inputs.size(); ++t) {
        const Box out = box(step.inputs[t], r), in = box(step.outputs[t], r);
        pack.push_back(packer.out_of(tile(step.inputs[t], r), out, out));
        unpack.push_back(unpacker.into(tile(step.outputs[t], r), in, in));
        sent[static_cast<std::size_t>((here + ways - 1) % ways)] += volume(out);
        received[static_cast<std::size_t>((here + 1) % ways)] += volume(in);
      }
      prepared.send.push_back(send);
      prepared.receive.push_back(receive);
    }
    return prepared;
  }

  PreparedStep operator()(const program::TransferStep& step) const {
    PreparedTransfer prepared;
    prepared.dtype = buffer_of(section, step.input).spec.dtype;
    const auto ways = static_cast<std::size_t>((*places.mesh)[step.mesh_dim].size);
    for (std::size_t r = 0; r < ranks(); ++r) {
      const int here = places.coordinates[r][static_cast<std::size_t>(step.mesh_dim)];
      auto& sent = prepared.send_counts.emplace_back(ways, 0);
      auto& received = prepared.receive_counts.emplace_back(ways, 0);
      if (here == step.from) sent[static_cast<std::size_t>(step.to)] = tile(step.input, r).size();
      if (here == step.to)
        received[static_cast<std::size_t>(step.from)] = tile(step.output, r).size();
      prepared.send.push_back(address(step.input, r));
      prepared.receive.push_back(address(step.output, r));
    }
    return prepared;
  }

  PreparedStep operator()(const program::LocalStep& step) const {
    PreparedLocal prepared;
    const std::size_t element = bytes_of(buffer_of(section, step.input).spec.dtype);
    for (std::size_t r = 0; r < ranks(); ++r) {
      auto& rank = prepared.ranks.emplace_back();
      const kernels::Tile output = tile(step.output, r);
      const Box region = box(step.output, r);
      rank.copy = copy_region(region, static_cast<const char*>(tile(step.input, r).data),
                              box(step.input, r), static_cast<char*>(output.data), region, element);
      rank.zero = step.kind == program::LocalStep::Kind::keep_at_origin &&
                  places.coordinates[r][static_cast<std::size_t>(step.mesh_dim)] != step.origin;
      rank.bytes = static_cast<std::size_t>(output.size()) * element;
    }
    return prepared;
  }

  PreparedStep operator()(const program::ExchangeStep& step) const {
    return prepare_exchange(section, step, places);
  }

  PreparedStep operator()(const program::FinishStep&) const { return PreparedFinish(); }
};

}  // namespace

kernels::Tile Places::tile(const Buffer& buffer, std::size_t rank, std::int64_t iteration) const {
  kernels::Tile tile;
  tile.data = arenas[rank] + buffer.offset;
  tile.dtype = buffer.spec.dtype;
  tile.rank = buffer.spec.shape.rank();
  TESSERA_CHECK(tile.rank <= kernels::kMaxRank, "tensor '", buffer.name, "' ",
                buffer.spec.shape.to_string(), " has more than ", kernels::kMaxRank, " dims");
  const Box box = tile_box(buffer, *mesh, coordinates[rank], iteration);
  for (int d = 0; d < tile.rank; ++d) {
    tile.extent[d] = box[static_cast<std::size_t>(d)].size();
    tile.offset[d] = box[static_cast<std::size_t>(d)].begin;
    tile.global[d] = buffer.spec.shape[d].size;
  }
  return tile;
}

bool Places::are_on(const program::Stages& stages, std::size_t rank) const {
  if (stages.is_all()) return true;
  const auto stage = mesh->find(kStageDim);
  TESSERA_CHECK(stage.has_value(), "a step of one stage on a mesh without stages");
  return stages.contain(coordinates[rank][static_cast<std::size_t>(*stage)]);
}

std::vector<bool> Places::taking_part(const Section& section, const program::Step& step) const {
  const auto stages = program::stages_of(section, step);
  std::vector<bool> part;
  for (std::size_t r = 0; r < arenas.size(); ++r) part.push_back(are_on(stages, r));
  return part;
}

PreparedStep prepare(const Section& section, const program::Step& step, const Places& places,
                     std::int64_t iteration) {
  return std::visit(Preparer{section, places, iteration}, step);
}

}  // namespace tessera::runtime
