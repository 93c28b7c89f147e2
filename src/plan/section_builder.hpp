// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "relayout.hpp"
#include "storage.hpp"
#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Memory in which pieces of several buffers lie packed, on the stages where `like` is.
program::Buffer staging_buffer(const std::string& name, std::int64_t bytes, const Placement& like);

/// Appends buffers and steps to a section; knows how to carry out relayouts, one tensor or many.
class SectionBuilder {
 public:
  SectionBuilder(Storage& storage, std::string name) : storage_(storage) {
    section_.name = std::move(name);
  }

  program::Section& section() { return section_; }
  const program::Section& section() const { return section_; }
  Storage& storage() { return storage_; }
  const MeshShape& mesh() const { return storage_.mesh(); }
  const program::Buffer& buffer(program::BufferId id) const {
    return section_.buffers[static_cast<std::size_t>(id)];
  }

  /// A buffer in the section's part of the arena. Partial sums of bf16 tensors are kept in f32.
  program::BufferId new_buffer(const std::string& name, TensorSpec spec, Placement placement,
                               Windows windows = {});
  /// A buffer that is a variable's storage.
  program::BufferId variable_buffer(int variable, Placement placement);

  void kernel(program::KernelStep step) { section_.steps.emplace_back(std::move(step)); }
  void all_reduce(const std::string& label, program::ReduceOp op, const std::vector<int>& mesh_dims,
                  std::vector<program::BufferId> buffers);
  /// A cast or copy into `to`.
  void copy(const std::string& label, program::BufferId from, program::BufferId to);

  /// Appends an exchange: finds the mesh dims that cut its dim, and room for what they send; a step
  /// between ranks that share nothing becomes a local copy.
  void exchange(program::ExchangeStep step);

  /// Appends a move along the ring of a mesh dim, with room for what it sends.
  void ring(const std::string& label, int mesh_dim, std::vector<program::BufferId> inputs,
            std::vector<program::BufferId> outputs);

  /// One elementary change of one buffer; returns the buffer that has the new placement (the same
  /// memory for an all_reduce).
  program::BufferId change(program::BufferId from, const Change& change);
  /// The same elementary one-mesh-dim change of several buffers as one collective. `to` gives the
  /// new placements, by buffer.
  std::vector<program::BufferId> bucket_change(const std::string& label,
                                               program::CollectiveKind kind, int mesh_dim,
                                               const std::vector<program::BufferId>& from,
                                               const std::vector<Placement>& to);

 private:
  /// On the stages where `like` is.
  program::BufferId staging(const std::string& name, std::int64_t bytes, program::BufferId like);
  /// True if the tile's blocks along the tensor dim `dim` follow each other in memory as they are.
  bool is_contiguous_along(const Shape& shape, const Placement& placement, int dim) const;

  Storage& storage_;
  program::Section section_;
};

}  // namespace tessera::plan
