// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/runtime/executor.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "flights.hpp"
#include "prepared.hpp"
#include "step_runner.hpp"
#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/kernels/copy_box.hpp"

namespace tessera::runtime {
namespace {

using program::Buffer;
using program::Section;

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
  StepRunner runner{program, collectives, exec, places, flights};
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

  void poison_dead(const Section& section, int step) const {
    for (const auto& buffer : section.buffers)
      if (buffer.variable < 0 && buffer.last_step == step && buffer.bytes > 0)
        for (std::size_t r = 0; r < ranks(); ++r)
          if (places.are_on({program::stage_of(buffer.placement)}, r))
            poison(exec, places.arenas[r] + buffer.offset, static_cast<std::size_t>(buffer.bytes),
                   buffer.spec.dtype);
  }
};

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
      return impl_->runner.book_absence(plan.steps[i]);
    const auto* kernel = std::get_if<program::KernelStep>(&plan.steps[i]);
    if (impl_->recorder) impl_->recorder->begin(section, plan.steps[i]);
    impl_->runner.run(plan.steps[i], step, part,
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
