// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tessera/base/attributes.hpp"
#include "tessera/program/pointwise_code.hpp"

namespace tessera::ops {

using program::PointOp;

/// Straight-line code over one element of each operand: what a Pointwise operation computes.
/// Single assignment: registers 0 .. inputs-1 hold the inputs' elements, instruction k writes
/// register inputs + k and nothing else, so codes are joined by renumbering alone:
///
///   PointwiseCode joint(3);                              // a, b, c
///   const auto sum = joint.inline_code(add_code, {0, 1});       // a + b
///   joint.stores = joint.inline_code(gelu_code, {sum[0]});      // gelu(a + b)
class PointwiseCode {
 public:
  /// Operands are registers; of `constant`, a is the index of its value in constants(). -1: unused.
  struct Instruction {
    PointOp op;
    int a = -1;
    int b = -1;
    int c = -1;
    bool operator==(const Instruction&) const = default;
  };

  explicit PointwiseCode(int inputs = 0) : inputs_(inputs) {}

  int inputs() const { return inputs_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<double>& constants() const { return constants_; }
  int registers() const { return inputs_ + static_cast<int>(instructions_.size()); }

  /// Register of the result of an instruction; an equal earlier instruction is used again, and
  /// products with 1 and sums with 0 cost nothing.
  int append(PointOp op, int a = -1, int b = -1, int c = -1);
  int constant(double value);
  /// True if the register holds a constant; its value goes to `value`.
  bool is_constant(int reg, double& value) const;

  /// Appends the code `part`, whose inputs are the registers `arguments` of this code. Returns the
  /// registers that hold what `part` stores.
  std::vector<int> inline_code(const PointwiseCode& part, std::span<const int> arguments);
  std::vector<int> inline_code(const PointwiseCode& part, std::initializer_list<int> arguments) {
    return inline_code(part, std::span<const int>(arguments.begin(), arguments.size()));
  }

  /// The same stores without instructions that none of them needs.
  PointwiseCode pruned() const;
  /// Which inputs some store depends on.
  std::vector<bool> used_inputs() const;
  /// Pruned code over the inputs `kept` alone, which must be all that are used.
  PointwiseCode with_inputs(const std::vector<int>& kept) const;

  /// True if each store is linear and homogeneous in the flagged inputs taken together, so that the
  /// code of partial sums is a partial sum of the code's results.
  bool is_linear_in(const std::vector<bool>& flagged) const;
  /// True if the kernel can run it: numbers of operands and of registers after allocation.
  bool fits() const;
  /// Attributes `code`, `c0` …, `stores` of the kernel, registers of dead values used again.
  Attributes encode() const;
  std::uint64_t hash() const;
  bool operator==(const PointwiseCode&) const = default;

  /// Registers that go to the outputs.
  std::vector<int> stores;

 private:
  int inputs_ = 0;
  std::vector<Instruction> instructions_;
  std::vector<double> constants_;
};

/// Code of the gradient: inputs are those of `code`, then one for each store's gradient; stores one
/// register for each input of `code`, or -1 where the stores do not depend on it. `has_gradient`
/// says for which of `code`'s stores a gradient exists (only these have an input).
PointwiseCode gradient_code(const PointwiseCode& code, const std::vector<bool>& has_gradient);

/// A register under construction; operators append instructions.
class Value {
 public:
  Value() = default;
  Value(PointwiseCode* code, int reg) : code_(code), reg_(reg) {}
  PointwiseCode& code() const { return *code_; }
  int reg() const { return reg_; }
  Value constant(double value) const { return {code_, code_->constant(value)}; }
  Value apply(PointOp op) const { return {code_, code_->append(op, reg_)}; }
  Value apply(PointOp op, Value b) const { return {code_, code_->append(op, reg_, b.reg_)}; }

 private:
  PointwiseCode* code_ = nullptr;
  int reg_ = -1;
};

Value operator+(Value a, Value b);
Value operator+(Value a, double b);
Value operator-(Value a, Value b);
Value operator-(double a, Value b);
Value operator-(Value a);
Value operator*(Value a, Value b);
Value operator*(double a, Value b);
Value operator/(Value a, Value b);
/// condition != 0 ? a : b.
Value select(Value condition, Value a, Value b);

}  // namespace tessera::ops
