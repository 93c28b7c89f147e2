// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/backend.hpp"

#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/comm/mpi_collectives.hpp"
#include "tessera/comm/simulated_collectives.hpp"

namespace tessera::train {
namespace {

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(const comm::Environment& environment) : environment_(environment) {}
  /// A part of the ranks.
  MpiBackend(const comm::Environment& environment, std::unique_ptr<comm::World> part, Notes notes)
      : environment_(environment), part_(std::move(part)), notes_(std::move(notes)) {}

  const comm::World& world() const override { return part_ ? *part_ : environment_.world(); }
  std::int64_t ranks() const override { return world().size(); }
  NodeRanks node_ranks() const override {
    // The environment sorts ranks by node.
    return {environment_.rank() - environment_.local_rank(), environment_.ranks_on_node()};
  }
  std::string library() const override { return environment_.library(); }

  std::unique_ptr<comm::Collectives> make_collectives(const MeshShape& mesh,
                                                      const NumericsConfig& config,
                                                      const device::Exec& exec) override {
    comm::MpiCollectivesOptions options;
    options.reduce = comm::parse_reduce_mode(config.reduce);
    options.gpu_aware = comm::parse_gpu_aware(config.gpu_aware);
    options.exec = &exec;
    return std::make_unique<comm::MpiCollectives>(mesh, world(), options);
  }

  Notes notes(const comm::Collectives& collectives) override {
    Notes notes = part_ ? notes_ : notes_of_cores();
    const auto* mpi = dynamic_cast<const comm::MpiCollectives*>(&collectives);
    if (mpi && environment_.nodes() > 1) {
      const auto dims = mpi->dims_across_nodes();
      notes.lines.push_back(dims.empty() ? "no mesh dim crosses nodes"
                                         : "mesh dims that cross nodes: " + join(dims, ", "));
    }
    if (mpi && !device::Exec::is_host())
      notes.lines.push_back("collectives use " + mpi->memory_path());
    return notes;
  }

  std::unique_ptr<Backend> part(std::int64_t first, std::int64_t count) const override {
    return std::make_unique<MpiBackend>(
        environment_, environment_.part(static_cast<int>(first), static_cast<int>(count)),
        notes_of_cores());
  }
  bool has_rank(std::int64_t rank) const override { return rank == world().rank(); }
  std::unique_ptr<comm::Mailbox> make_mailbox() const override {
    return comm::mpi_mailbox(environment_.world());
  }

 private:
  /// Collective over all ranks.
  Notes notes_of_cores() const {
    const auto cores = environment_.report_cores(1);
    return {cores.lines, cores.warnings};
  }

  const comm::Environment& environment_;
  std::unique_ptr<comm::World> part_;  // null: all ranks
  Notes notes_;                        // of a part, which must not ask the others later
};

class SimulatedBackend final : public Backend {
 public:
  explicit SimulatedBackend(std::int64_t ranks) : ranks_(ranks) {}

  const comm::World& world() const override { return world_; }
  std::int64_t ranks() const override { return ranks_; }
  NodeRanks node_ranks() const override { return {0, ranks_}; }
  std::string library() const override { return "simulated"; }
  std::unique_ptr<comm::Collectives> make_collectives(const MeshShape& mesh,
                                                      const NumericsConfig& /*config*/,
                                                      const device::Exec& exec) override {
    return std::make_unique<comm::SimulatedCollectives>(mesh, &exec);
  }
  Notes notes(const comm::Collectives& /*collectives*/) override {
    return {{std::to_string(ranks_) + " ranks simulated in one process on " + base::host_name()},
            {}};
  }
  std::unique_ptr<Backend> part(std::int64_t /*first*/, std::int64_t count) const override {
    return simulated_backend(count);
  }
  bool has_rank(std::int64_t rank) const override { return rank >= 0 && rank < ranks_; }
  std::unique_ptr<comm::Mailbox> make_mailbox() const override { return comm::local_mailbox(); }

 private:
  comm::SingleProcess world_;
  std::int64_t ranks_;
};

}  // namespace

std::unique_ptr<Backend> mpi_backend(const comm::Environment& environment) {
  return std::make_unique<MpiBackend>(environment);
}

std::unique_ptr<Backend> simulated_backend(std::int64_t ranks) {
  return std::make_unique<SimulatedBackend>(ranks);
}

}  // namespace tessera::train
