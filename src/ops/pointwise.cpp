// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/pointwise.hpp"

#include <algorithm>
#include <map>

#include "ops/pointwise_lowering.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {

Pointwise::Pointwise(PointwiseCode code, Shape shape, std::vector<DType> dtypes)
    : code_(std::move(code)), shape_(std::move(shape)), dtypes_(std::move(dtypes)) {
  TESSERA_CHECK(code_.stores.size() == dtypes_.size(), "a pointwise operation stores ",
                code_.stores.size(), " values and has ", dtypes_.size(), " dtypes");
  TESSERA_CHECK(code_.fits(), "a pointwise operation of ", code_.inputs(), " inputs, ",
                code_.stores.size(), " outputs and ", code_.registers(),
                " registers is too large for the kernel");
}

Attributes Pointwise::attributes() const {
  Attributes attributes = code_.encode();
  attributes.set("shape", shape_.to_string());
  for (std::size_t i = 0; i < dtypes_.size(); ++i)
    attributes.set("dtype" + std::to_string(i), std::string(name_of(dtypes_[i])));
  return attributes;
}

std::vector<TensorSpec> Pointwise::infer(std::span<const TensorSpec> inputs) const {
  TESSERA_CHECK(static_cast<int>(inputs.size()) == code_.inputs(), "pointwise code of ",
                code_.inputs(), " inputs got ", inputs.size());
  for (const auto& input : inputs)
    for (const auto& dim : input.shape) {
      const auto found = shape_.find(dim.name);
      check_user(found && shape_[*found].size == dim.size, "input ", input.shape.to_string(),
                 " cannot be broadcast to ", shape_.to_string(), ": dim '", dim.name,
                 found ? "' has another size there" : "' is missing there");
    }
  std::vector<TensorSpec> outputs;
  for (const auto dtype : dtypes_) outputs.push_back({shape_, dtype});
  return outputs;
}

namespace {

/// A value that is never trained: its gradient would be thrown away.
bool is_given(const Tensor& tensor) {
  const auto& info = tensor.graph().info(tensor.id());
  return info.is_feed || !is_floating(tensor.dtype());
}

/// The output of the gradient's operation that an input's gradient comes from.
struct Piece {
  int reg;
  DType dtype;
  bool operator<(const Piece& other) const {
    return std::pair(reg, dtype) < std::pair(other.reg, other.dtype);
  }
};

/// One operation for each instruction, whatever the number of operands and of pieces.
void compute_singly(const PointwiseCode& code, const Shape& shape,
                    const std::vector<Tensor>& operands, const std::vector<Piece>& wanted,
                    std::map<Piece, Tensor>& results) {
  const bool wide = std::any_of(operands.begin(), operands.end(),
                                [](const Tensor& t) { return t.dtype() == DType::f64; });
  const DType dtype = wide ? DType::f64 : DType::f32;
  std::vector<Tensor> values = operands;
  for (const auto& instruction : code.instructions()) {
    if (instruction.op == PointOp::constant) {
      const double value = code.constants()[static_cast<std::size_t>(instruction.a)];
      values.push_back(fill(operands[0].graph(), value, {Shape{}, dtype}));
      continue;
    }
    const int registers[3] = {instruction.a, instruction.b, instruction.c};
    const int count = program::operand_count(instruction.op);
    PointwiseCode single(count);
    single.stores = {single.append(instruction.op, 0, count > 1 ? 1 : -1, count > 2 ? 2 : -1)};
    std::vector<Tensor> inputs;
    Shape own;
    for (int i = 0; i < count; ++i) {
      inputs.push_back(values[static_cast<std::size_t>(registers[i])]);
      own = own.united(inputs.back().shape());
    }
    values.push_back(operands[0].graph().add1(
        std::make_shared<Pointwise>(std::move(single), own, std::vector<DType>{dtype}), inputs));
  }
  for (const auto& piece : wanted)
    results[piece] =
        cast(broadcast(values[static_cast<std::size_t>(piece.reg)], shape), piece.dtype);
}

/// Computes the pieces in one operation if the kernel takes it; those that are a given gradient
/// itself need none.
std::map<Piece, Tensor> compute_pieces(const PointwiseCode& code, const Shape& shape,
                                       const std::vector<Tensor>& operands,
                                       const std::vector<Piece>& wanted) {
  std::map<Piece, Tensor> results;
  std::vector<Piece> rest;
  for (const auto& piece : wanted) {
    if (results.contains(piece)) continue;
    results[piece] = {};
    if (piece.reg < code.inputs() && operands[static_cast<std::size_t>(piece.reg)].shape() == shape)
      results[piece] = cast(operands[static_cast<std::size_t>(piece.reg)], piece.dtype);
    else
      rest.push_back(piece);
  }
  if (rest.empty()) return results;
  PointwiseCode joint = code;
  joint.stores.clear();
  std::vector<DType> dtypes;
  for (const auto& piece : rest) {
    joint.stores.push_back(piece.reg);
    dtypes.push_back(piece.dtype);
  }
  std::vector<int> kept;
  std::vector<Tensor> inputs;
  const auto used = joint.used_inputs();
  for (int i = 0; i < joint.inputs(); ++i)
    if (used[static_cast<std::size_t>(i)]) {
      kept.push_back(i);
      inputs.push_back(operands[static_cast<std::size_t>(i)]);
    }
  const PointwiseCode needed = joint.with_inputs(kept);
  if (!needed.fits()) {
    std::vector<Piece> pieces = rest;
    for (std::size_t i = 0; i < rest.size(); ++i) pieces[i].reg = needed.stores[i];
    std::map<Piece, Tensor> singly;
    compute_singly(needed, shape, inputs, pieces, singly);
    for (std::size_t i = 0; i < rest.size(); ++i) results[rest[i]] = singly[pieces[i]];
    return results;
  }
  Graph& graph = operands[0].graph();
  const auto outputs =
      graph.add(std::make_shared<Pointwise>(needed, shape, std::move(dtypes)), inputs);
  for (std::size_t i = 0; i < rest.size(); ++i) results[rest[i]] = outputs[i];
  return results;
}

}  // namespace

/// A ReLU alone. Its slope is read off its result, which others mostly keep, not off its input.
static bool is_relu(const PointwiseCode& code) {
  return code.inputs() == 1 && code.instructions().size() == 1 &&
         code.instructions()[0].op == PointOp::relu;
}

std::vector<Tensor> Pointwise::gradient(std::span<const Tensor> inputs,
                                        std::span<const Tensor> outputs,
                                        std::span<const Tensor> output_gradients) const {
  if (is_relu(code_) && dtypes_[0] == inputs[0].dtype())
    return {pointwise1({output_gradients[0], outputs[0]}, [](std::span<const Value> in) {
      return in[0] * in[1].apply(PointOp::relu_derivative);
    })};
  std::vector<bool> has_gradient;
  std::vector<Tensor> operands(inputs.begin(), inputs.end());
  for (const auto& gradient : output_gradients) {
    has_gradient.push_back(static_cast<bool>(gradient));
    if (gradient) operands.push_back(gradient);
  }
  const PointwiseCode code = gradient_code(code_, has_gradient);

  std::vector<Piece> pieces(inputs.size(), Piece{-1, DType::f32});
  std::vector<Piece> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (code.stores[i] < 0 || is_given(inputs[i])) continue;
    // What is summed over broadcast dims is read once: share the elementwise gradient's storage.
    const bool summed = inputs[i].shape().rank() < shape_.rank();
    pieces[i] = {code.stores[i], summed ? dtypes_[0] : inputs[i].dtype()};
    wanted.push_back(pieces[i]);
  }
  auto computed = compute_pieces(code, shape_, operands, wanted);
  std::vector<Tensor> results(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (pieces[i].reg >= 0)
      results[i] = reduce_sum(computed[pieces[i]], inputs[i].shape(), 1, inputs[i].dtype());
  return results;
}

std::vector<Strategy> Pointwise::strategies(const StrategyContext& context) const {
  auto result = passing_cuts(context, [](const std::string&) { return true; });
  std::vector<std::size_t> partial;
  for (std::size_t i = 0; i < context.current.size(); ++i)
    if (context.current[i].kind == State::Kind::partial_sum) partial.push_back(i);
  // All partial inputs together, then each alone: what is best depends on what the code does.
  std::vector<std::vector<std::size_t>> sets;
  if (!partial.empty()) sets.push_back(partial);
  if (partial.size() > 1)
    for (auto i : partial) sets.push_back({i});
  // A replicated scalar becomes partial for free: sums of many are reduced once.
  if (!partial.empty() && shape_.rank() == 0 && partial.size() < context.inputs.size()) {
    sets.emplace_back();
    for (std::size_t i = 0; i < context.inputs.size(); ++i) sets.back().push_back(i);
  }
  for (const auto& set : sets) {
    std::vector<bool> flagged(context.inputs.size());
    for (auto i : set) flagged[i] = true;
    const bool narrows = std::any_of(dtypes_.begin(), dtypes_.end(), [&](DType dtype) {
      return !is_floating(dtype) ||
             (dtype == DType::bf16 && context.inputs[set[0]].dtype != DType::bf16);
    });
    if (narrows || !code_.is_linear_in(flagged)) continue;
    Strategy strategy{all_replicated(context.inputs.size()),
                      std::vector<State>(context.outputs.size(), State::partial_sum())};
    for (auto i : set) strategy.inputs[i] = State::partial_sum();
    result.push_back(std::move(strategy));
  }
  return result;
}

void emit_pointwise(program::Emitter& emitter, const PointwiseCode& code, const Shape& shape,
                    std::vector<program::BufferId> inputs, std::vector<program::BufferId> outputs) {
  Attributes attributes = code.encode();
  program::Emitter::KernelOptions options;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& buffer = emitter.buffer(inputs[i]);
    std::vector<std::int64_t> map;
    for (const auto& dim : shape) {
      const auto found = buffer.spec.shape.find(dim.name);
      map.push_back(found ? *found : -1);
    }
    attributes.set("map" + std::to_string(i), map);
    if (buffer.spec.shape == shape)
      for (std::size_t j = 0; j < outputs.size(); ++j)
        if (emitter.buffer(outputs[j]).spec.dtype == buffer.spec.dtype)
          options.in_place.emplace_back(static_cast<int>(i), static_cast<int>(j));
  }
  double elements = 1;
  for (const auto& dim : emitter.local_shape(outputs[0])) elements *= static_cast<double>(dim.size);
  options.flops = elements * static_cast<double>(code.instructions().size());
  emitter.kernel("pointwise", std::move(attributes), std::move(inputs), std::move(outputs),
                 std::move(options));
}

void Pointwise::lower(program::Emitter& emitter) const {
  std::vector<program::BufferId> inputs, outputs;
  for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
  for (int j = 0; j < emitter.outputs(); ++j) outputs.push_back(emitter.output(j));
  emit_pointwise(emitter, code_, shape_, std::move(inputs), std::move(outputs));
}

double Pointwise::flops(std::span<const Shape>, std::span<const Shape> outputs) const {
  return static_cast<double>(outputs[0].size()) * static_cast<double>(code_.instructions().size());
}

DType result_dtype(const std::vector<Tensor>& inputs, const Shape& shape) {
  const auto rank = [](DType dtype) {
    return dtype == DType::f64 ? 3 : dtype == DType::f32 ? 2 : dtype == DType::bf16 ? 1 : 0;
  };
  DType full = DType::i32, any = DType::i32;
  for (const auto& input : inputs) {
    if (rank(input.dtype()) > rank(any)) any = input.dtype();
    if (input.shape().rank() == shape.rank() && rank(input.dtype()) > rank(full))
      full = input.dtype();
  }
  return is_floating(full) ? full : any;
}

std::vector<Tensor> pointwise(
    const std::vector<Tensor>& inputs,
    const std::function<std::vector<Value>(std::span<const Value>)>& function,
    PointwiseOptions options) {
  install();
  TESSERA_CHECK(!inputs.empty(), "a pointwise operation without inputs");
  Shape shape;
  if (options.shape)
    shape = *options.shape;
  else
    for (const auto& input : inputs) shape = shape.united(input.shape());
  PointwiseCode code(static_cast<int>(inputs.size()));
  std::vector<Value> values;
  for (int i = 0; i < code.inputs(); ++i) values.emplace_back(&code, i);
  for (const auto& value : function(values)) code.stores.push_back(value.reg());
  if (options.dtypes.empty())
    options.dtypes.assign(code.stores.size(), result_dtype(inputs, shape));
  return inputs[0].graph().add(
      std::make_shared<Pointwise>(code.pruned(), shape, std::move(options.dtypes)), inputs,
      options.name);
}

Tensor pointwise1(const std::vector<Tensor>& inputs,
                  const std::function<Value(std::span<const Value>)>& function,
                  PointwiseOptions options) {
  return pointwise(
      inputs, [&](std::span<const Value> values) { return std::vector<Value>{function(values)}; },
      std::move(options))[0];
}

}  // namespace tessera::ops
