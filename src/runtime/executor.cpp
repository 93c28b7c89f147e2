// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/runtime/executor.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "flights.hpp"
#include "prepared.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/kernels/copy_box.hpp"

namespace tessera::runtime {
namespace {

using program::Buffer;
using program::Section;

void run_copies(const device::Exec& exec, const std::vector<BoxCopy>& copies) {
  for (const auto& copy : copies)
    kernels::copy_box(exec, copy.to, copy.from, copy.rank, copy.extents, copy.to_strides,
                      copy.from_strides, copy.element_bytes);
}

void run_sums(const device::Exec& exec, const std::vector<BoxCopy>& sums, DType dtype) {
  for (const auto& sum : sums)
    kernels::add_box(exec, sum.to, sum.from, sum.rank, sum.extents, sum.to_strides,
                     sum.from_strides, dtype);
}

/// A signalling NaN of the element type (the largest integer for i32), repeated.
void poison(const device::Exec& exec, void* to, std::size_t bytes, DType dtype) {
  const std::uint64_t pattern = dtype == DType::f64    ? 0x7ff4000000000001ULL
                                : dtype == DType::bf16 ? 0x7fa07fa07fa07fa0ULL
                                : dtype == DType::i32  ? 0x7fffffff7fffffffULL
                                                       : 0x7fa000017fa00001ULL;
  std::vector<char> host(bytes);
  for (std::size_t i = 0; i < bytes; ++i) host[i] = reinterpret_cast<const char*>(&pattern)[i % 8];
  device::copy_from_host(exec, to, host.data(), bytes);
}

const Buffer& named_buffer(const Section& section, const std::vector<program::NamedBuffer>& list,
                           const std::string& name, const char* what, int micro = 0) {
  for (const auto& named : list)
    if (named.name == name && named.micro == micro)
      return section.buffers[static_cast<std::size_t>(named.buffer)];
  throw Error(concat("section '", section.name, "' has no ", what, " '", name, "'"));
}

}  // namespace

struct Executor::Impl {
  const program::Program& program;
  comm::Collectives& collectives;
  const device::Exec& exec;
  ExecutorOptions options;
  Recorder* recorder = nullptr;
  std::vector<device::Memory> arenas;
  Places places;
  std::map<std::string, std::vector<PreparedStep>> sections;
  Flights flights;
  std::map<std::string, std::vector<std::vector<bool>>> taking_part;  // by step and local rank

  Impl(const program::Program& p, comm::Collectives& c, const device::Exec& e, ExecutorOptions o)
      : program(p), collectives(c), exec(e), options(o) {
    TESSERA_CHECK(program.mesh == collectives.mesh(), "the program is for mesh ",
                  program.mesh.to_string(), ", the collectives for ",
                  collectives.mesh().to_string());
    places.mesh = &program.mesh;
    for (int rank : collectives.local_ranks()) {
      arenas.emplace_back(static_cast<std::size_t>(program.arena_bytes));
      places.arenas.push_back(static_cast<char*>(arenas.back().data()));
      places.coordinates.push_back(program.mesh.coordinates(rank));
    }
    for (const auto& section : program.sections) {
      auto& steps = sections[section.name];
      // Steps of a Repeat are prepared for each iteration when it comes.
      for (std::size_t i = 0; i < section.steps.size(); ++i)
        steps.push_back(section.repeat_of(static_cast<int>(i)) != nullptr
                            ? PreparedStep()
                            : prepare(section, section.steps[i], places));
      auto& parts = taking_part[section.name];  // of a section without steps, too
      for (const auto& step : section.steps) {
        parts.push_back(places.taking_part(section, step));
        const auto dims = program::mesh_dims_of(step);
        if (!dims.empty() && !program::stages_of(section, step).is_all())
          collectives.open_groups(dims);
      }
    }
  }

  std::size_t ranks() const { return places.arenas.size(); }

  void clear() {
    for (char* arena : places.arenas) {
      // Gaps between uneven gradients take part in bucketed reductions: let them be zero.
      kernels::set_zero(exec, arena, static_cast<std::size_t>(program.variable_bytes));
      if (options.poison)
        poison(exec, arena + program.variable_bytes,
               static_cast<std::size_t>(program.arena_bytes - program.variable_bytes), DType::f32);
    }
  }

  Buffer stored(int variable) const {
    const auto& stored = program.variables[static_cast<std::size_t>(variable)];
    Buffer buffer;
    buffer.name = stored.variable.name;
    buffer.spec = stored.variable.spec;
    buffer.placement = stored.placement;
    buffer.offset = stored.offset;
    buffer.bytes = stored.bytes;
    return buffer;
  }

  void initialize_tile(const Variable& variable, const kernels::Tile& tile,
                       std::uint64_t seed) const {
    static constexpr const char* ids[] = {"fill", "random_normal", "random_uniform"};
    const Initializer& initializer = variable.initializer;
    const Attributes attributes{
        {"value", initializer.mean},
        {"mean", initializer.mean},
        {"scale", initializer.scale},
        {"key",
         static_cast<std::int64_t>(stream_key(
             seed, hash_text(variable.drawn_as.empty() ? variable.name : variable.drawn_as)))}};
    const kernels::Feeds feeds;
    kernels::find_kernel(ids[static_cast<int>(initializer.kind)])(
        exec, {attributes, nullptr, 0, &tile, 1, nullptr, feeds, nullptr});
  }

  void set_feeds(const Section& section, const kernels::Feeds& feeds) const {
    for (const auto& feed : section.feeds) {
      const auto found = feeds.values.find(feed.name);
      const bool is_step = feed.name == "step" && found == feeds.values.end();
      TESSERA_CHECK(is_step || found != feeds.values.end(), "section '", section.name,
                    "' runs without its feed '", feed.name, "'");
      const double value = is_step ? static_cast<double>(feeds.step) : found->second;
      const Buffer& buffer = section.buffers[static_cast<std::size_t>(feed.buffer)];
      const float narrow = static_cast<float>(value);
      const void* source =
          buffer.spec.dtype == DType::f64 ? static_cast<const void*>(&value) : &narrow;
      for (char* arena : places.arenas)
        device::copy_from_host(exec, arena + buffer.offset, source, bytes_of(buffer.spec.dtype));
    }
  }

  void run_step(const program::Step& step, const PreparedStep& prepared,
                const std::vector<bool>& takes_part, const kernels::Feeds& feeds);
  void book_absence(const program::Step& step) const;
  void run_all_reduce(const program::Step& step, const PreparedStep& prepared);
  void run_relayout(const program::Step& step, const PreparedStep& prepared);
  std::unique_ptr<comm::Flight> start_relayout(const program::RelayoutStep& step,
                                               const PreparedRelayout& prepared);
  void finish(const program::FinishStep& step);
  void run_exchange(const program::ExchangeStep& step, const PreparedExchange& prepared) const;
  void poison_dead(const Section& section, int step) const {
    for (const auto& buffer : section.buffers)
      if (buffer.variable < 0 && buffer.last_step == step && buffer.bytes > 0)
        for (std::size_t r = 0; r < ranks(); ++r)
          if (places.are_on({program::stage_of(buffer.placement)}, r))
            poison(exec, places.arenas[r] + buffer.offset, static_cast<std::size_t>(buffer.bytes),
                   buffer.spec.dtype);
  }
};

/// A collective of other stages counts as a call here too, so that all ranks' books have the same
/// rows.
void Executor::Impl::book_absence(const program::Step& step) const {
  using program::CollectiveKind;
  const auto dims = program::mesh_dims_of(step);
  if (dims.empty() || program.mesh.group_size(dims) == 1) return;
  const std::vector<std::int64_t> none(ranks(), 0);
  CollectiveKind kind = CollectiveKind::neighbour_exchange;
  if (std::holds_alternative<program::AllReduceStep>(step)) kind = CollectiveKind::all_reduce;
  if (const auto* relayout = std::get_if<program::RelayoutStep>(&step)) kind = relayout->kind;
  collectives.ledger().count(kind, dims, none, none);
}

void Executor::Impl::run_step(const program::Step& step, const PreparedStep& prepared,
                              const std::vector<bool>& takes_part, const kernels::Feeds& feeds) {
  if (const auto* kernel = std::get_if<PreparedKernel>(&prepared)) {
    for (std::size_t r = 0; r < kernel->ranks.size(); ++r) {
      if (!takes_part[r]) continue;
      const auto& rank = kernel->ranks[r];
      kernel->kernel(
          exec, {*kernel->attributes, rank.inputs.data(), static_cast<int>(rank.inputs.size()),
                 rank.outputs.data(), static_cast<int>(rank.outputs.size()), rank.workspace, feeds,
                 places.coordinates[r].data()});
    }
  } else if (std::holds_alternative<PreparedAllReduce>(prepared)) {
    run_all_reduce(step, prepared);
  } else if (std::holds_alternative<PreparedRelayout>(prepared)) {
    run_relayout(step, prepared);
  } else if (std::holds_alternative<PreparedFinish>(prepared)) {
    finish(std::get<program::FinishStep>(step));
  } else if (const auto* ring = std::get_if<PreparedRing>(&prepared)) {
    for (const auto& copies : ring->pack) run_copies(exec, copies);
    if (!device::Exec::is_host()) exec.fence();
    collectives.neighbour_exchange({std::get<program::RingStep>(step).mesh_dim}, ring->dtype,
                                   ring->send, ring->send_counts, ring->receive,
                                   ring->receive_counts);
    for (const auto& copies : ring->unpack) run_copies(exec, copies);
  } else if (const auto* transfer = std::get_if<PreparedTransfer>(&prepared)) {
    if (!device::Exec::is_host()) exec.fence();
    collectives.neighbour_exchange({std::get<program::TransferStep>(step).mesh_dim},
                                   transfer->dtype, transfer->send, transfer->send_counts,
                                   transfer->receive, transfer->receive_counts);
  } else if (const auto* exchange = std::get_if<PreparedExchange>(&prepared)) {
    run_exchange(std::get<program::ExchangeStep>(step), *exchange);
  } else {
    const auto& local = std::get<PreparedLocal>(prepared).ranks;
    for (std::size_t r = 0; r < local.size(); ++r) {
      const auto& rank = local[r];
      if (!takes_part[r])
        continue;
      else if (rank.zero)
        kernels::set_zero(exec, rank.copy.to, rank.bytes);
      else
        run_copies(exec, {rank.copy});
    }
  }
}

void Executor::Impl::run_all_reduce(const program::Step& step, const PreparedStep& prepared) {
  const auto& plan = std::get<program::AllReduceStep>(step);
  const auto& reduce = std::get<PreparedAllReduce>(prepared);
  for (const auto& copies : reduce.pack) run_copies(exec, copies);
  if (!device::Exec::is_host()) exec.fence();
  if (plan.flight >= 0)
    return flights.add(step, prepared,
                       collectives.start_all_reduce(plan.mesh_dims, plan.op, reduce.dtype,
                                                    reduce.data, reduce.counts));
  collectives.all_reduce(plan.mesh_dims, plan.op, reduce.dtype, reduce.data, reduce.counts);
  for (const auto& copies : reduce.unpack) run_copies(exec, copies);
}

void Executor::Impl::run_relayout(const program::Step& step, const PreparedStep& prepared) {
  const auto& plan = std::get<program::RelayoutStep>(step);
  const auto& relayout = std::get<PreparedRelayout>(prepared);
  const comm::MeshDims dims{plan.mesh_dim};
  for (const auto& copies : relayout.pack) run_copies(exec, copies);
  if (!device::Exec::is_host()) exec.fence();
  if (plan.flight >= 0) return flights.add(step, prepared, start_relayout(plan, relayout));
  switch (plan.kind) {
    case program::CollectiveKind::reduce_scatter:
      collectives.reduce_scatter(dims, relayout.dtype, relayout.send, relayout.receive,
                                 relayout.send_counts);
      break;
    case program::CollectiveKind::all_gather:
      collectives.all_gather(dims, relayout.dtype, relayout.send, relayout.receive,
                             relayout.receive_counts);
      break;
    default:
      collectives.all_to_all(dims, relayout.dtype, relayout.send, relayout.send_counts,
                             relayout.receive, relayout.receive_counts);
  }
  for (const auto& copies : relayout.unpack) run_copies(exec, copies);
}

std::unique_ptr<comm::Flight> Executor::Impl::start_relayout(const program::RelayoutStep& step,
                                                             const PreparedRelayout& prepared) {
  const comm::MeshDims dims{step.mesh_dim};
  if (step.kind == program::CollectiveKind::reduce_scatter)
    return collectives.start_reduce_scatter(dims, prepared.dtype, prepared.send, prepared.receive,
                                            prepared.send_counts);
  TESSERA_CHECK(step.kind == program::CollectiveKind::all_gather, step.label,
                ": an all_to_all is no flight");
  return collectives.start_all_gather(dims, prepared.dtype, prepared.send, prepared.receive,
                                      prepared.receive_counts);
}

void Executor::Impl::finish(const program::FinishStep& step) {
  const PreparedStep& start = flights.finish(step);
  const auto* reduce = std::get_if<PreparedAllReduce>(&start);
  const auto& unpack = reduce ? reduce->unpack : std::get<PreparedRelayout>(start).unpack;
  for (const auto& copies : unpack) run_copies(exec, copies);
}

void Executor::Impl::run_exchange(const program::ExchangeStep& step,
                                  const PreparedExchange& prepared) const {
  for (const auto& rank : prepared.ranks) {
    run_copies(exec, rank.pack);
    for (const auto& stretch : rank.fill)
      kernels::fill_box(exec, stretch.to, stretch.rank, stretch.extents, stretch.to_strides,
                        prepared.dtype, step.fill);
    run_copies(exec, rank.own);
    run_sums(exec, rank.add_own, prepared.dtype);
  }
  if (!step.mesh_dims.empty()) {
    std::vector<const void*> send;
    std::vector<void*> receive;
    std::vector<std::vector<std::int64_t>> send_counts, receive_counts;
    for (const auto& rank : prepared.ranks) {
      send.push_back(rank.send);
      receive.push_back(rank.receive);
      send_counts.push_back(rank.send_counts);
      receive_counts.push_back(rank.receive_counts);
    }
    if (!device::Exec::is_host()) exec.fence();
    collectives.neighbour_exchange(step.mesh_dims, prepared.dtype, send, send_counts, receive,
                                   receive_counts);
  }
  for (const auto& rank : prepared.ranks) {
    run_copies(exec, rank.unpack);
    run_sums(exec, rank.add, prepared.dtype);
  }
}

Executor::Executor(const program::Program& program, comm::Collectives& collectives,
                   const device::Exec& exec, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(program, collectives, exec, options)) {
  impl_->clear();
}
Executor::~Executor() = default;

const program::Program& Executor::program() const {
  return impl_->program;
}
comm::Collectives& Executor::collectives() const {
  return impl_->collectives;
}
int Executor::local_ranks() const {
  return static_cast<int>(impl_->ranks());
}
void Executor::set_recorder(Recorder* recorder) {
  impl_->recorder = recorder;
}

void Executor::initialize(std::uint64_t seed) {
  impl_->clear();
  for (std::size_t v = 0; v < impl_->program.variables.size(); ++v) {
    const Variable& variable = impl_->program.variables[v].variable;
    if (variable.kind == Variable::Kind::gradient || impl_->program.variables[v].bytes == 0)
      continue;
    for (int r = 0; r < local_ranks(); ++r)
      impl_->initialize_tile(variable, variable_tile(static_cast<int>(v), r), seed);
  }
  impl_->exec.fence();
}

kernels::Tile Executor::variable_tile(int variable, int local_rank) const {
  return impl_->places.tile(impl_->stored(variable), static_cast<std::size_t>(local_rank));
}

Box Executor::variable_box(int variable, int local_rank) const {
  const Buffer buffer = impl_->stored(variable);
  return tile_box(buffer, impl_->program.mesh,
                  impl_->places.coordinates[static_cast<std::size_t>(local_rank)]);
}

void Executor::read_variable(int variable, int local_rank, void* to) const {
  const kernels::Tile tile = variable_tile(variable, local_rank);
  device::copy_to_host(impl_->exec, to, tile.data,
                       static_cast<std::size_t>(tile.size()) * bytes_of(tile.dtype));
}

void Executor::write_variable(int variable, int local_rank, const void* from) {
  const kernels::Tile tile = variable_tile(variable, local_rank);
  device::copy_from_host(impl_->exec, tile.data, from,
                         static_cast<std::size_t>(tile.size()) * bytes_of(tile.dtype));
}

Box Executor::input_box(const std::string& section, const std::string& input,
                        int local_rank) const {
  const Section& found = impl_->program.section(section);
  const Buffer& buffer = named_buffer(found, found.inputs, input, "input");
  return tile_box(buffer, impl_->program.mesh,
                  impl_->places.coordinates[static_cast<std::size_t>(local_rank)]);
}

void Executor::set_input(const std::string& section, const std::string& input, int local_rank,
                         const void* from, int micro) {
  const Section& found = impl_->program.section(section);
  const Buffer& buffer = named_buffer(found, found.inputs, input, "input", micro);
  const kernels::Tile tile = impl_->places.tile(buffer, static_cast<std::size_t>(local_rank));
  device::copy_from_host(impl_->exec, tile.data, from,
                         static_cast<std::size_t>(tile.size()) * bytes_of(tile.dtype));
}

void Executor::run(const std::string& section, const kernels::Feeds& feeds) {
  const Section& plan = impl_->program.section(section);
  const auto& prepared = impl_->sections.at(section);
  impl_->collectives.ledger().set_section(section);
  impl_->set_feeds(plan, feeds);
  impl_->flights.begin_section(section, impl_->recorder);
  const auto& taking_part = impl_->taking_part.at(section);
  std::vector<kernels::Feeds> of_micro(static_cast<std::size_t>(plan.micro_batches), feeds);
  for (std::size_t micro = 0; micro < of_micro.size(); ++micro)
    of_micro[micro].micro += static_cast<std::int64_t>(micro);
  const auto run = [&](std::size_t i, const PreparedStep& step) {
    const auto& part = taking_part[i];
    if (std::find(part.begin(), part.end(), true) == part.end())
      return impl_->book_absence(plan.steps[i]);
    const auto* kernel = std::get_if<program::KernelStep>(&plan.steps[i]);
    if (impl_->recorder) impl_->recorder->begin(section, plan.steps[i]);
    impl_->run_step(plan.steps[i], step, part,
                    of_micro[static_cast<std::size_t>(kernel ? kernel->micro : 0)]);
    if (impl_->options.synchronous) impl_->exec.fence();
    if (impl_->recorder) impl_->recorder->end(section, plan.steps[i]);
    impl_->flights.test();
  };
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    if (const program::Repeat* repeat = plan.repeat_of(static_cast<int>(i))) {
      const auto end = static_cast<std::size_t>(repeat->end);
      for (std::int64_t iteration = 0; iteration < repeat->count; ++iteration)
        for (std::size_t j = i; j < end; ++j)
          run(j, prepare(plan, plan.steps[j], impl_->places, iteration));
      i = end - 1;
    } else {
      run(i, prepared[i]);
    }
    if (impl_->options.poison) impl_->poison_dead(plan, static_cast<int>(i));
  }
  impl_->flights.end_section();
  impl_->exec.fence();
  impl_->collectives.ledger().set_section("");
}

std::vector<double> Executor::fetch(const std::string& section, const std::string& name,
                                    int local_rank, int micro) const {
  const Section& found = impl_->program.section(section);
  const kernels::Tile tile =
      impl_->places.tile(named_buffer(found, found.fetches, name, "fetch", micro),
                         static_cast<std::size_t>(local_rank));
  std::vector<char> host(static_cast<std::size_t>(tile.size()) * bytes_of(tile.dtype));
  device::copy_to_host(impl_->exec, host.data(), tile.data, host.size());
  std::vector<double> values;
  for (std::int64_t i = 0; i < tile.size(); ++i)
    values.push_back(number_at(host.data(), tile.dtype, i));
  return values;
}

double Executor::fetch_share(const std::string& section, const std::string& name, int local_rank,
                             int micro) const {
  const Section& found = impl_->program.section(section);
  const Buffer& buffer = named_buffer(found, found.fetches, name, "fetch", micro);
  TESSERA_CHECK(buffer.spec.shape.rank() == 0, "fetch '", name, "' is no scalar");
  const Coordinates& at = impl_->places.coordinates[static_cast<std::size_t>(local_rank)];
  for (int m : buffer.placement.replicated_mesh_dims())
    if (at[static_cast<std::size_t>(m)] != 0) return 0;
  if (!impl_->places.are_on({program::stage_of(buffer.placement)},
                            static_cast<std::size_t>(local_rank)))
    return 0;
  return fetch(section, name, local_rank, micro)[0];
}

}  // namespace tessera::runtime
