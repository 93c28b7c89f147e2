// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "section_planner.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::plan {

/// Writes one operation's steps into the section.
class NodeEmitter final : public program::Emitter {
 public:
  NodeEmitter(SectionPlanner& planner, std::string label, std::vector<program::BufferId> inputs,
              std::vector<program::BufferId> outputs)
      : planner_(planner),
        label_(std::move(label)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  int inputs() const override { return static_cast<int>(inputs_.size()); }
  int outputs() const override { return static_cast<int>(outputs_.size()); }
  program::BufferId input(int i) const override { return inputs_[static_cast<std::size_t>(i)]; }
  program::BufferId output(int i) const override { return outputs_[static_cast<std::size_t>(i)]; }
  const program::Buffer& buffer(program::BufferId id) const override {
    return planner_.builder().buffer(id);
  }
  const MeshShape& mesh() const override { return planner_.builder().mesh(); }
  Shape local_shape(program::BufferId id) const override;
  using program::Emitter::temporary;
  program::BufferId temporary(const std::string& name, TensorSpec spec, Placement placement,
                              Windows windows) override;
  program::BufferId view(program::BufferId of, TensorSpec spec, Placement placement,
                         Windows windows) override;
  using program::Emitter::kernel;
  void kernel(const std::string& id, Attributes attributes, std::vector<program::BufferId> inputs,
              std::vector<program::BufferId> outputs, KernelOptions options) override;
  void alias(int output, int input) override;
  void all_reduce(program::ReduceOp op, const std::vector<int>& mesh_dims,
                  std::vector<program::BufferId> buffers) override;
  program::BufferId relayout(program::BufferId from, int mesh_dim, State to) override;
  program::BufferId exchange(program::BufferId from, const Windows& windows, double fill) override;
  program::BufferId windowed(program::BufferId like, const Windows& windows) override;
  void accumulate(program::BufferId from, program::BufferId into) override;
  void exchange(program::ExchangeStep step) override;
  program::BufferId passing(program::BufferId of, int mesh_dim, std::int64_t places) override;
  void ring(int mesh_dim, std::vector<program::BufferId> inputs,
            std::vector<program::BufferId> outputs) override;
  void repeat(std::int64_t count, const std::function<void()>& body) override;
  void copy(program::BufferId from, program::BufferId to) override;

 private:
  program::BufferId temporary_like(program::BufferId like, Windows windows);

  SectionPlanner& planner_;
  std::string label_;
  std::vector<program::BufferId> inputs_;
  std::vector<program::BufferId> outputs_;
};

/// The extents of the largest tile as a Shape with the tensor's dim names.
Shape local_shape(const Shape& shape, const Placement& placement, const MeshShape& mesh);

}  // namespace tessera::plan
