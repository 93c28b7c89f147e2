// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise_program.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace tessera::plan {

using ops::PointwiseCode;
using program::BufferId;
using program::PointOp;

namespace {

/// Single assignment again out of the kernel's words, which use registers of dead values twice.
PointwiseCode decode(const Attributes& attributes, int inputs) {
  PointwiseCode code(inputs);
  std::map<std::int64_t, int> now;  // kernel register -> register that it holds
  for (int i = 0; i < inputs; ++i) now[i] = i;
  const auto& words = attributes.integers("code");
  for (std::size_t i = 0; i < words.size(); i += program::kInstructionLength) {
    const auto op = static_cast<PointOp>(words[i]);
    int operands[3] = {-1, -1, -1};
    for (int k = 0; k < program::operand_count(op); ++k)
      operands[k] = now.at(words[i + 2 + static_cast<std::size_t>(k)]);
    now[words[i + 1]] = op == PointOp::constant
                            ? code.constant(attributes.real("c" + std::to_string(words[i + 2])))
                            : code.append(op, operands[0], operands[1], operands[2]);
  }
  for (auto reg : attributes.integers("stores")) code.stores.push_back(now.at(reg));
  return code;
}

}  // namespace

PointwiseProgram PointwiseProgram::of(const program::KernelStep& step) {
  PointwiseProgram result;
  result.inputs = step.inputs;
  result.outputs = step.outputs;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    result.maps.push_back(step.attributes.integers("map" + std::to_string(i)));
  result.code = decode(step.attributes, static_cast<int>(step.inputs.size()));
  return result;
}

void PointwiseProgram::write_to(program::KernelStep& step) const {
  step.kernel = "pointwise";
  step.inputs = inputs;
  step.outputs = outputs;
  step.attributes = code.encode();
  for (std::size_t i = 0; i < maps.size(); ++i)
    step.attributes.set("map" + std::to_string(i), maps[i]);
}

bool PointwiseProgram::is_identity_map(std::size_t input) const {
  for (std::size_t d = 0; d < maps[input].size(); ++d)
    if (maps[input][d] != static_cast<std::int64_t>(d)) return false;
  return true;
}

PointwiseProgram copy_program(BufferId from, BufferId to, int rank) {
  PointwiseProgram program;
  program.code = PointwiseCode(1);
  program.code.stores = {0};
  program.inputs = {from};
  program.outputs = {to};
  program.maps.emplace_back();
  for (int d = 0; d < rank; ++d) program.maps[0].push_back(d);
  return program;
}

namespace {

/// Operands of both programs, shared where buffer and map are equal.
class Operands {
 public:
  int add(BufferId buffer, const std::vector<std::int64_t>& map) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i] == buffer && maps[i] == map) return static_cast<int>(i);
    buffers.push_back(buffer);
    maps.push_back(map);
    return static_cast<int>(buffers.size()) - 1;
  }
  std::vector<BufferId> buffers;
  std::vector<std::vector<std::int64_t>> maps;
};

}  // namespace

std::optional<PointwiseProgram> join_programs(const PointwiseProgram& producer,
                                              const PointwiseProgram& consumer, BufferId joint,
                                              bool keep) {
  Operands operands;
  std::vector<int> producer_arguments, consumer_arguments;
  for (std::size_t i = 0; i < producer.inputs.size(); ++i)
    producer_arguments.push_back(operands.add(producer.inputs[i], producer.maps[i]));
  for (std::size_t i = 0; i < consumer.inputs.size(); ++i)
    consumer_arguments.push_back(
        consumer.inputs[i] == joint ? -1 : operands.add(consumer.inputs[i], consumer.maps[i]));
  PointwiseProgram result;
  result.code = PointwiseCode(static_cast<int>(operands.buffers.size()));
  const auto produced = result.code.inline_code(producer.code, producer_arguments);
  const auto output =
      std::find(producer.outputs.begin(), producer.outputs.end(), joint) - producer.outputs.begin();
  for (int& argument : consumer_arguments)
    if (argument < 0) argument = produced[static_cast<std::size_t>(output)];
  result.code.stores = result.code.inline_code(consumer.code, consumer_arguments);
  result.outputs = consumer.outputs;
  if (keep) {
    result.code.stores.insert(result.code.stores.end(), produced.begin(), produced.end());
    result.outputs.insert(result.outputs.end(), producer.outputs.begin(), producer.outputs.end());
  }
  result.inputs = std::move(operands.buffers);
  result.maps = std::move(operands.maps);
  if (!result.code.fits()) return std::nullopt;
  return result;
}

}  // namespace tessera::plan
