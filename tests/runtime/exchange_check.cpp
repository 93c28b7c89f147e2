// SPDX-License-Identifier: BSD-3-Clause
#include "exchange_check.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include "plan/memory.hpp"
#include "plan/section_builder.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/program/exchange.hpp"

namespace tessera::test {
namespace {

using program::BufferId;
using program::ExchangeStep;

constexpr double kFill = -7;

/// Small whole numbers, so that sums are exact.
double x_value(std::int64_t index) {
  return static_cast<double>((index * 7 + 3) % 23);
}
double y_value(std::int64_t rank, std::int64_t index) {
  return static_cast<double>((rank * 5 + index * 3) % 11);
}

program::Program program_of(const MeshShape& mesh, program::Section section) {
  plan::plan_memory(section);
  program::Program program;
  program.mesh = mesh;
  program.arena_bytes = section.arena_bytes;
  program.sections.push_back(std::move(section));
  return program;
}

class Maker {
 public:
  Maker(const MeshShape& mesh, unsigned seed) : random_(seed) {
    options_.mesh = mesh;
    placement_ = Placement(mesh.rank());
    for (int m = 0; m < mesh.rank(); ++m)
      if (mesh[m].size > 1 && pick(0, 4) > 0)
        placement_[m] = State::split(pick(0, 2), pick(0, 2) == 0);
    spec_ = {Shape{{"a", pick(0, 13)}, {"b", pick(1, 9)}, {"c", pick(1, 5)}}, DType::f64};
    windows_.assign(3, Window::plain());
    const int dim = pick(0, 2);
    windows_[static_cast<std::size_t>(dim)] = window();
    if (pick(0, 1) == 0) windows_[static_cast<std::size_t>((dim + 1) % 3)] = window();
  }

  program::Program make() {
    const VariableSet variables;
    plan::Storage storage(variables, options_);
    plan::SectionBuilder builder(storage, "exchange");
    auto& section = builder.section();
    const BufferId x = builder.new_buffer("x", spec_, placement_);
    const BufferId y = builder.new_buffer("y", spec_, placement_, windows_);
    section.inputs = {{"x", x}, {"y", y}};
    section.fetches = {{"window", gather(builder, x)}, {"sum", accumulate(builder, y)}};
    return program_of(options_.mesh, std::move(section));
  }

 private:
  int pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
  }
  Window window() {
    return {pick(0, 14), pick(1, 4), pick(-5, 5), pick(1, 9),
            static_cast<Window::Outside>(pick(0, 2))};
  }
  BufferId gather(plan::SectionBuilder& builder, BufferId from) {
    Windows held(3);
    for (int d = 0; d < 3; ++d) {
      const Window& window = windows_[static_cast<std::size_t>(d)];
      if (window.is_plain()) continue;
      held[static_cast<std::size_t>(d)] = window;
      ExchangeStep step;
      step.label = "gather";
      step.dim = d;
      step.fill = kFill;
      step.runs = program::runs_of(window, spec_.shape[d].size);
      step.inputs = {from};
      from = builder.new_buffer("window", spec_, placement_, held);
      step.outputs = {from};
      builder.exchange(std::move(step));
    }
    return from;
  }
  BufferId accumulate(plan::SectionBuilder& builder, BufferId from) {
    Windows held = windows_;
    for (int d = 2; d >= 0; --d) {
      const Window window = held[static_cast<std::size_t>(d)];
      if (window.is_plain()) continue;
      held[static_cast<std::size_t>(d)] = Window::plain();
      ExchangeStep step;
      step.label = "accumulate";
      step.mode = ExchangeStep::Mode::accumulate;
      step.dim = d;
      step.runs = program::reversed(program::runs_of(window, spec_.shape[d].size));
      step.inputs = {from};
      from = builder.new_buffer("sum", spec_, placement_, held);
      step.outputs = {from};
      builder.exchange(std::move(step));
    }
    return from;
  }

  std::mt19937 random_;
  plan::PlanOptions options_;
  Placement placement_;
  TensorSpec spec_;
  Windows windows_;
};

/// f(place in the tile, global indices) for each element of a box.
void for_each_index(const Box& box,
                    const std::function<void(std::int64_t, const std::vector<std::int64_t>&)>& f) {
  for (std::int64_t i = 0; i < volume(box); ++i) {
    std::vector<std::int64_t> index(box.size());
    std::int64_t rest = i;
    for (std::size_t d = box.size(); d-- > 0;) {
      index[d] = box[d].begin + rest % box[d].size();
      rest /= box[d].size();
    }
    f(i, index);
  }
}

class Checker {
 public:
  Checker(const program::Program& program, comm::Collectives& collectives)
      : section_(program.sections[0]),
        mesh_(program.mesh),
        collectives_(collectives),
        x_(buffer(section_.inputs[0])),
        y_(buffer(section_.inputs[1])),
        executor_(program, collectives, shared_exec(), {true, false}) {}

  std::vector<std::string> run() {
    for (int r = 0; r < executor_.local_ranks(); ++r) {
      set("x", r, [&](std::int64_t, const auto& index) { return x_value(flat(index)); });
      set("y", r, [&](std::int64_t i, const auto&) { return y_value(rank(r), i); });
    }
    executor_.run("exchange", {});
    std::vector<std::vector<double>> products;
    for (int r = 0; r < executor_.local_ranks(); ++r) {
      check_window(r);
      check_sum(r);
      products.push_back({product("window", "y", r), product("sum", "x", r)});
    }
    const auto sums = collectives_.sum_over_ranks(products);
    if (sums[0] != sums[1])
      failures_.push_back(concat("<A x, y> = ", sums[0], " but <x, A' y> = ", sums[1]));
    return failures_;
  }

 private:
  using Value = std::function<double(std::int64_t, const std::vector<std::int64_t>&)>;
  const program::Buffer& buffer(const program::NamedBuffer& named) const {
    return section_.buffers[static_cast<std::size_t>(named.buffer)];
  }
  std::int64_t rank(int local) const {
    return collectives_.local_ranks()[static_cast<std::size_t>(local)];
  }
  Box box(const program::Buffer& of, std::int64_t rank) const {
    return tile_box(of, mesh_, mesh_.coordinates(rank));
  }
  std::int64_t flat(const std::vector<std::int64_t>& index) const {
    std::int64_t result = 0;
    for (int d = 0; d < 3; ++d)
      result = result * x_.spec.shape[d].size + index[static_cast<std::size_t>(d)];
    return result;
  }
  void set(const std::string& name, int local, const Value& value) {
    const Box tile = executor_.input_box("exchange", name, local);
    std::vector<double> values(static_cast<std::size_t>(volume(tile)));
    for_each_index(tile, [&](std::int64_t i, const auto& index) {
      values[static_cast<std::size_t>(i)] = value(i, index);
    });
    executor_.set_input("exchange", name, local, values.data());
    inputs_[{name, local}] = values;
  }
  /// The element of x that index `index` of a window means; false if it is filled.
  bool source_of(std::vector<std::int64_t>& index) const {
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t n = x_.spec.shape[static_cast<int>(d)].size;
      if (index[d] >= 0 && index[d] < n) continue;
      if (y_.windows[d].outside != Window::Outside::wrap || n == 0) return false;
      index[d] = (index[d] % n + n) % n;
    }
    return true;
  }
  void check_window(int local) {
    const auto found = executor_.fetch("exchange", "window", local);
    for_each_index(box(y_, rank(local)), [&](std::int64_t i, auto index) {
      const double expected = source_of(index) ? x_value(flat(index)) : kFill;
      compare("window", local, i, found[static_cast<std::size_t>(i)], expected);
    });
  }
  void check_sum(int local) {
    // Every rank that differs only in mesh dims that cut a windowed dim adds its windows.
    const Coordinates here = mesh_.coordinates(rank(local));
    std::map<std::int64_t, double> sums;
    for (std::int64_t other = 0; other < mesh_.size(); ++other) {
      const Coordinates there = mesh_.coordinates(other);
      bool in_group = true;
      for (int m = 0; m < mesh_.rank(); ++m) {
        const State& state = x_.placement[m];
        const bool summed =
            state.is_split() && !y_.windows[static_cast<std::size_t>(state.dim)].is_plain();
        in_group = in_group && (summed || here[static_cast<std::size_t>(m)] ==
                                              there[static_cast<std::size_t>(m)]);
      }
      if (!in_group) continue;
      for_each_index(box(y_, other), [&](std::int64_t i, auto index) {
        if (source_of(index)) sums[flat(index)] += y_value(other, i);
      });
    }
    const auto found = executor_.fetch("exchange", "sum", local);
    for_each_index(box(x_, rank(local)), [&](std::int64_t i, const auto& index) {
      compare("sum", local, i, found[static_cast<std::size_t>(i)], sums[flat(index)]);
    });
  }
  void compare(const char* what, int local, std::int64_t i, double found, double expected) {
    if (found == expected) return;
    failures_.push_back(concat(what, " on rank ", rank(local), " element ", i, " is ", found,
                               ", not ", expected, "; x ", x_.spec.shape.to_string(), " ",
                               x_.placement.to_string(x_.spec.shape, mesh_)));
  }
  /// Leaves out filled elements, with which the map is affine: no element of x is kFill.
  double product(const std::string& result, const std::string& input, int local) {
    const auto found = executor_.fetch("exchange", result, local);
    double sum = 0;
    const auto& values = inputs_.at({input, local});
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i] != kFill) sum += found[i] * values[i];
    return sum;
  }

  const program::Section& section_;
  const MeshShape& mesh_;
  comm::Collectives& collectives_;
  const program::Buffer& x_;
  const program::Buffer& y_;
  runtime::Executor executor_;
  std::map<std::pair<std::string, int>, std::vector<double>> inputs_;
  std::vector<std::string> failures_;
};

}  // namespace

program::Program random_exchange(const MeshShape& mesh, unsigned seed) {
  return Maker(mesh, seed).make();
}

program::Program random_relayout(const MeshShape& mesh, unsigned seed) {
  std::mt19937 random(seed);
  const auto placement = [&] {
    Placement placement(mesh.rank());
    for (int m = 0; m < mesh.rank(); ++m)
      if (mesh[m].size > 1 && random() % 4 > 0)
        placement[m] = State::split(static_cast<int>(random() % 2), random() % 2 == 0);
    return placement;
  };
  const VariableSet variables;
  plan::PlanOptions options;
  options.mesh = mesh;
  plan::Storage storage(variables, options);
  plan::SectionBuilder builder(storage, "relayout");
  const TensorSpec spec{Shape{{"a", static_cast<std::int64_t>(random() % 12)}, {"b", 7}},
                        DType::f64};
  const Placement from = placement(), to = placement();
  BufferId buffer = builder.new_buffer("x", spec, from);
  builder.section().inputs = {{"x", buffer}};
  for (const auto& change : plan::relayout_path(from, to)) buffer = builder.change(buffer, change);
  builder.section().fetches = {{"y", buffer}};
  return program_of(mesh, std::move(builder.section()));
}

std::vector<std::string> check_relayout(const program::Program& program,
                                        comm::Collectives& collectives) {
  const auto& section = program.sections[0];
  const auto& y = section.buffers[static_cast<std::size_t>(section.fetches[0].buffer)];
  runtime::Executor executor(program, collectives, shared_exec(), {true, false});
  const auto value = [&](const std::vector<std::int64_t>& index) {
    return static_cast<double>(index[0] * y.spec.shape[1].size + index[1]);
  };
  for (int r = 0; r < executor.local_ranks(); ++r) {
    std::vector<double> values;
    for_each_index(executor.input_box("relayout", "x", r),
                   [&](std::int64_t, const auto& index) { values.push_back(value(index)); });
    executor.set_input("relayout", "x", r, values.data());
  }
  executor.run("relayout", {});
  std::vector<std::string> failures;
  for (int r = 0; r < executor.local_ranks(); ++r) {
    const int rank = collectives.local_ranks()[static_cast<std::size_t>(r)];
    const auto found = executor.fetch("relayout", "y", r);
    for_each_index(
        tile_box(y, program.mesh, program.mesh.coordinates(rank)),
        [&](std::int64_t i, const auto& index) {
          if (found[static_cast<std::size_t>(i)] != value(index))
            failures.push_back(concat("element ", i, " on rank ", rank, " is ",
                                      found[static_cast<std::size_t>(i)], ", not ", value(index)));
        });
  }
  return failures;
}

std::vector<std::string> check_exchange(const program::Program& program,
                                        comm::Collectives& collectives) {
  return Checker(program, collectives).run();
}

}  // namespace tessera::test
