// SPDX-License-Identifier: BSD-3-Clause
#include "support/simulated_run.hpp"

#include <cmath>
#include <cstring>

#include "tessera/base/bf16.hpp"
#include "tessera/base/error.hpp"

namespace tessera::test {
namespace {

void write_element(char* to, DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      std::memcpy(to, &value, 8);
      return;
    case DType::f32: {
      const float narrow = static_cast<float>(value);
      std::memcpy(to, &narrow, 4);
      return;
    }
    case DType::i32: {
      const auto whole = static_cast<std::int32_t>(value);
      std::memcpy(to, &whole, 4);
      return;
    }
    case DType::bf16: {
      const Bf16 narrow = to_bf16(static_cast<float>(value));
      std::memcpy(to, &narrow, 2);
      return;
    }
  }
}

double read_element(const char* from, DType dtype) {
  if (dtype == DType::f64) {
    double value;
    std::memcpy(&value, from, 8);
    return value;
  }
  TESSERA_CHECK(dtype == DType::f32, "tests read f32 and f64 only");
  float value;
  std::memcpy(&value, from, 4);
  return value;
}

/// f(index in the box, index in the whole tensor) for all elements of a box, row-major.
template <class Function>
void for_each_element(const Shape& shape, const Box& box, const Function& f) {
  const std::int64_t size = volume(box);
  for (std::int64_t i = 0; i < size; ++i) {
    std::int64_t rest = i, global = 0, stride = 1;
    for (int d = shape.rank(); d-- > 0;) {
      const Interval& interval = box[static_cast<std::size_t>(d)];
      global += (interval.begin + rest % interval.size()) * stride;
      rest /= interval.size();
      stride *= shape[d].size;
    }
    f(i, global);
  }
}

}  // namespace

std::vector<char> cut_tile(const std::vector<double>& values, const TensorSpec& spec,
                           const Box& box) {
  const std::size_t width = bytes_of(spec.dtype);
  std::vector<char> bytes(static_cast<std::size_t>(volume(box)) * width);
  for_each_element(spec.shape, box, [&](std::int64_t i, std::int64_t global) {
    write_element(bytes.data() + static_cast<std::size_t>(i) * width, spec.dtype,
                  values[static_cast<std::size_t>(global)]);
  });
  return bytes;
}

const device::Exec& shared_exec() {
  static device::Runtime runtime;
  static device::Exec instance;
  return instance;
}

SimulatedRun::SimulatedRun(const VariableSet& variables, const std::vector<const Graph*>& graphs,
                           const plan::PlanOptions& options,
                           std::shared_ptr<comm::Collectives> collectives)
    : program_(plan::compile(variables, graphs, options)), collectives_(std::move(collectives)) {
  if (!collectives_)
    collectives_ = std::make_shared<comm::SimulatedCollectives>(program_.mesh, &shared_exec());
  runtime::ExecutorOptions run_options;
  run_options.poison = true;
  executor_ =
      std::make_unique<runtime::Executor>(program_, *collectives_, shared_exec(), run_options);
}

void SimulatedRun::run(const std::string& section, const Values& inputs,
                       const kernels::Feeds& feeds) {
  const auto& plan = program_.section(section);
  for (const auto& input : plan.inputs) {
    const auto& spec = plan.buffers[static_cast<std::size_t>(input.buffer)].spec;
    const auto found = inputs.find(input.name);
    TESSERA_CHECK(found != inputs.end(), "no value for input '", input.name, "'");
    TESSERA_CHECK(static_cast<std::int64_t>(found->second.size()) == spec.shape.size(), "input '",
                  input.name, "' has ", found->second.size(), " values");
    for (int rank = 0; rank < executor_->local_ranks(); ++rank)
      executor_->set_input(
          section, input.name, rank,
          cut_tile(found->second, spec, executor_->input_box(section, input.name, rank)).data());
  }
  executor_->run(section, feeds);
}

std::vector<double> SimulatedRun::fetch(const std::string& section, const std::string& name) {
  const auto& plan = program_.section(section);
  for (const auto& fetch : plan.fetches) {
    if (fetch.name != name) continue;
    const auto& buffer = plan.buffers[static_cast<std::size_t>(fetch.buffer)];
    if (buffer.spec.shape.rank() == 0) {
      double sum = 0;
      for (int rank = 0; rank < executor_->local_ranks(); ++rank)
        sum += executor_->fetch_share(section, name, rank);
      if (executor_->local_ranks() == program_.mesh.size()) return {sum};
      return collectives_->sum_over_ranks(std::vector<std::vector<double>>{{sum}});
    }
  }
  const auto values = executor_->fetch(section, name, 0);
  for (int rank = 1; rank < executor_->local_ranks(); ++rank) {
    const auto others = executor_->fetch(section, name, rank);
    TESSERA_CHECK(
        values.empty() || std::memcmp(values.data(), others.data(), 8 * values.size()) == 0,
        "ranks 0 and ", rank, " hold different values of '", name, "'");
  }
  return values;
}

std::vector<double> SimulatedRun::variable(const std::string& name) {
  for (int v = 0; v < static_cast<int>(program_.variables.size()); ++v) {
    const TensorSpec& spec = program_.variables[static_cast<std::size_t>(v)].variable.spec;
    if (program_.variables[static_cast<std::size_t>(v)].variable.name != name) continue;
    std::vector<double> whole(static_cast<std::size_t>(spec.shape.size()), std::nan(""));
    const std::size_t width = bytes_of(spec.dtype);
    for (int rank = 0; rank < executor_->local_ranks(); ++rank) {
      const Box box = executor_->variable_box(v, rank);
      std::vector<char> tile(static_cast<std::size_t>(volume(box)) * width);
      executor_->read_variable(v, rank, tile.data());
      for_each_element(spec.shape, box, [&](std::int64_t i, std::int64_t global) {
        const double value =
            read_element(tile.data() + static_cast<std::size_t>(i) * width, spec.dtype);
        double& slot = whole[static_cast<std::size_t>(global)];
        TESSERA_CHECK(std::isnan(slot) || slot == value, "replicas of '", name, "' differ: ", slot,
                      " and ", value);
        slot = value;
      });
    }
    return whole;
  }
  throw Error("no variable '" + name + "'");
}

void SimulatedRun::set_variable(const std::string& name, const std::vector<double>& values) {
  for (int v = 0; v < static_cast<int>(program_.variables.size()); ++v) {
    const auto& variable = program_.variables[static_cast<std::size_t>(v)].variable;
    if (variable.name != name) continue;
    for (int rank = 0; rank < executor_->local_ranks(); ++rank)
      executor_->write_variable(
          v, rank, cut_tile(values, variable.spec, executor_->variable_box(v, rank)).data());
    return;
  }
  throw Error("no variable '" + name + "'");
}

}  // namespace tessera::test
