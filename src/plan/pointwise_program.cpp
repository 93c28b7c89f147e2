// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_program.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/program/pointwise_code.hpp"

namespace tessera::plan {

using program::BufferId;
using program::kInstructionLength;
using program::PointOp;

PointwiseProgram PointwiseProgram::of(const program::KernelStep& step) {
  PointwiseProgram result;
  result.inputs = step.inputs;
  result.outputs = step.outputs;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    result.maps.push_back(step.attributes.integers("map" + std::to_string(i)));
  result.code = step.attributes.integers("code");
  result.stores = step.attributes.integers("stores");
  for (int c = 0; step.attributes.contains("c" + std::to_string(c)); ++c)
    result.constants.push_back(step.attributes.real("c" + std::to_string(c)));
  return result;
}

void PointwiseProgram::write_to(program::KernelStep& step) const {
  step.inputs = inputs;
  step.outputs = outputs;
  Attributes attributes;
  attributes.set("code", code);
  for (std::size_t c = 0; c < constants.size(); ++c)
    attributes.set("c" + std::to_string(c), constants[c]);
  attributes.set("stores", stores);
  for (std::size_t i = 0; i < maps.size(); ++i) attributes.set("map" + std::to_string(i), maps[i]);
  step.attributes = std::move(attributes);
}

bool PointwiseProgram::is_identity_map(std::size_t input) const {
  for (std::size_t d = 0; d < maps[input].size(); ++d)
    if (maps[input][d] != static_cast<std::int64_t>(d)) return false;
  return true;
}

int PointwiseProgram::registers() const {
  std::int64_t highest = static_cast<std::int64_t>(inputs.size()) - 1;
  for (std::size_t i = 0; i < code.size(); i += kInstructionLength)
    highest = std::max(highest, code[i + 1]);
  return static_cast<int>(highest) + 1;
}

namespace {

/// Appends programs to one: inputs shared by buffer and map, temporaries renumbered.
class Joiner {
 public:
  explicit Joiner(std::size_t total_inputs)
      : next_register_(static_cast<std::int64_t>(total_inputs)) {}

  static std::vector<std::pair<BufferId, std::vector<std::int64_t>>> inputs_of(
      const PointwiseProgram& a, const PointwiseProgram& b, BufferId joint) {
    std::vector<std::pair<BufferId, std::vector<std::int64_t>>> inputs;
    for (const PointwiseProgram* program : {&a, &b})
      for (std::size_t i = 0; i < program->inputs.size(); ++i) {
        const auto input = std::make_pair(program->inputs[i], program->maps[i]);
        if (program == &b && program->inputs[i] == joint) continue;
        if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
      }
    return inputs;
  }

  /// Copies `from`'s instructions; `names` maps its registers to ours and is completed.
  void append(const PointwiseProgram& from, std::map<std::int64_t, std::int64_t>& names,
              PointwiseProgram& to) {
    const auto constant_base = static_cast<std::int64_t>(to.constants.size());
    to.constants.insert(to.constants.end(), from.constants.begin(), from.constants.end());
    for (std::size_t i = 0; i < from.code.size(); i += kInstructionLength) {
      const auto op = static_cast<PointOp>(from.code[i]);
      std::int64_t operand[3];
      for (int k = 0; k < 3; ++k) {
        const std::int64_t value = from.code[i + 2 + static_cast<std::size_t>(k)];
        const auto known = names.find(value);
        operand[k] = op == PointOp::constant ? (k == 0 ? value + constant_base : 0)
                                             : (known == names.end() ? 0 : known->second);
      }
      const std::int64_t destination = next_register_++;
      to.code.insert(to.code.end(),
                     {from.code[i], destination, operand[0], operand[1], operand[2]});
      names[from.code[i + 1]] = destination;
    }
  }

 private:
  std::int64_t next_register_;
};

}  // namespace

std::optional<PointwiseProgram> join(const PointwiseProgram& producer,
                                     const PointwiseProgram& consumer, BufferId joint, bool keep) {
  PointwiseProgram result;
  const auto inputs = Joiner::inputs_of(producer, consumer, joint);
  if (inputs.size() > static_cast<std::size_t>(program::kMaxInputs)) return std::nullopt;
  for (const auto& [buffer, map] : inputs) {
    result.inputs.push_back(buffer);
    result.maps.push_back(map);
  }
  const auto names_of = [&](const PointwiseProgram& program) {
    std::map<std::int64_t, std::int64_t> names;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const auto at = std::find(inputs.begin(), inputs.end(),
                                std::make_pair(program.inputs[i], program.maps[i]));
      if (at != inputs.end()) names[static_cast<std::int64_t>(i)] = at - inputs.begin();
    }
    return names;
  };
  Joiner joiner(inputs.size());
  auto producer_names = names_of(producer);
  joiner.append(producer, producer_names, result);
  auto consumer_names = names_of(consumer);
  const auto output =
      std::find(producer.outputs.begin(), producer.outputs.end(), joint) - producer.outputs.begin();
  for (std::size_t i = 0; i < consumer.inputs.size(); ++i)
    if (consumer.inputs[i] == joint)
      consumer_names[static_cast<std::int64_t>(i)] =
          producer_names.at(producer.stores[static_cast<std::size_t>(output)]);
  joiner.append(consumer, consumer_names, result);

  for (std::size_t j = 0; j < consumer.outputs.size(); ++j) {
    result.outputs.push_back(consumer.outputs[j]);
    result.stores.push_back(consumer_names.at(consumer.stores[j]));
  }
  if (keep)
    for (std::size_t j = 0; j < producer.outputs.size(); ++j) {
      result.outputs.push_back(producer.outputs[j]);
      result.stores.push_back(producer_names.at(producer.stores[j]));
    }
  if (result.outputs.size() > static_cast<std::size_t>(program::kMaxOutputs) ||
      result.registers() > program::kMaxRegisters)
    return std::nullopt;
  return result;
}

}  // namespace tessera::plan
