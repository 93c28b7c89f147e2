// SPDX-License-Identifier: BSD-3-Clause
#include "fuse.hpp"

#include <algorithm>

#include "pointwise_program.hpp"
#include "tessera/program/pointwise_code.hpp"

namespace tessera::plan {
namespace {

using program::Buffer;
using program::BufferId;
using program::KernelStep;
using program::PointOp;
using program::Step;

class Fuser {
 public:
  explicit Fuser(Draft& draft) : section_(draft.section), kept_(section_.buffers.size()) {
    for (const auto& store : draft.stores) keep(store.value);
    for (const auto& fetch : section_.fetches) keep(fetch.buffer);
    for (const auto& buffer : section_.buffers)
      if (buffer.alias_of >= 0) keep(buffer.alias_of);
    removed_.assign(section_.steps.size(), false);
    find_users();
  }

  void run() {
    widen_products();
    for (std::size_t a = 0; a < section_.steps.size(); ++a)
      if (pointwise(a)) absorb(a);
    drop_removed();
  }

 private:
  void keep(BufferId id) { kept_[static_cast<std::size_t>(id)] = true; }
  const Buffer& buffer(BufferId id) const { return section_.buffers[static_cast<std::size_t>(id)]; }
  bool is_kept(BufferId id) const {
    return kept_[static_cast<std::size_t>(id)] || buffer(id).variable >= 0;
  }
  KernelStep* pointwise(std::size_t i) {
    auto* step = removed_[i] ? nullptr : std::get_if<KernelStep>(&section_.steps[i]);
    return step && step->kernel == "pointwise" ? step : nullptr;
  }

  std::size_t root_of(BufferId id) const {
    while (buffer(id).alias_of >= 0) id = buffer(id).alias_of;
    return static_cast<std::size_t>(id);
  }

  void find_users() {
    names_.assign(section_.buffers.size(), {});
    for (BufferId id = 0; id < static_cast<BufferId>(section_.buffers.size()); ++id)
      names_[root_of(id)].push_back(id);
    readers_.assign(section_.buffers.size(), {});
    writers_.assign(section_.buffers.size(), {});
    for (std::size_t i = 0; i < section_.steps.size(); ++i) note(i);
  }
  void note(std::size_t i) {
    for (BufferId id : program::reads_of(section_.steps[i]))
      add(readers_[static_cast<std::size_t>(id)], i);
    for (BufferId id : program::writes_of(section_.steps[i]))
      add(writers_[static_cast<std::size_t>(id)], i);
  }
  void forget(std::size_t i) {
    for (BufferId id : program::reads_of(section_.steps[i]))
      std::erase(readers_[static_cast<std::size_t>(id)], i);
    for (BufferId id : program::writes_of(section_.steps[i]))
      std::erase(writers_[static_cast<std::size_t>(id)], i);
  }
  static void add(std::vector<std::size_t>& list, std::size_t i) {
    if (std::find(list.begin(), list.end(), i) == list.end())
      list.insert(std::upper_bound(list.begin(), list.end(), i), i);
  }
  const std::vector<std::size_t>& readers(BufferId id) const {
    return readers_[static_cast<std::size_t>(id)];
  }

  /// A product in bf16 whose only reader casts it to f32 is written in f32.
  void widen_products() {
    for (std::size_t i = 0; i < section_.steps.size(); ++i) {
      auto* step = std::get_if<KernelStep>(&section_.steps[i]);
      if (!step || (step->kernel != "einsum" && step->kernel != "reduce") ||
          is_kept(step->outputs[0]))
        continue;
      const BufferId narrow = step->outputs[0];
      if (buffer(narrow).spec.dtype != DType::bf16 || readers(narrow).size() != 1) continue;
      const std::size_t reader = readers(narrow)[0];
      const KernelStep* cast = pointwise(reader);
      if (!cast || cast->outputs.size() != 1 || buffer(cast->outputs[0]).spec.dtype != DType::f32 ||
          !(buffer(cast->outputs[0]).placement == buffer(narrow).placement))
        continue;
      const auto program = PointwiseProgram::of(*cast);
      if (!program.code.instructions().empty() || program.inputs.size() != 1 ||
          !program.is_identity_map(0))
        continue;
      const BufferId wide = cast->outputs[0];
      forget(reader);
      removed_[reader] = true;
      forget(i);
      step->outputs[0] = wide;
      note(i);
    }
  }

  /// Same elements in the same order, whatever the dims' names.
  bool same_tiles(BufferId a, BufferId b) const {
    return buffer(a).spec.shape == buffer(b).spec.shape &&
           buffer(a).placement == buffer(b).placement && buffer(a).windows == buffer(b).windows;
  }

  /// True if `b` reads `joint` element by element, and it need not pass through memory: what is
  /// stored as i32 loses its fraction there.
  bool reads_in_step(const KernelStep& b, BufferId joint) const {
    if (!same_tiles(joint, b.outputs[0]) || !is_floating(buffer(joint).spec.dtype)) return false;
    const auto program = PointwiseProgram::of(b);
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      if (program.inputs[i] == joint && !program.is_identity_map(i)) return false;
    return true;
  }

  /// Step `a` may run as late as `b`: nothing that it reads is written, and nothing that it writes
  /// is read, in between, under other names of the same memory neither.
  bool may_move(const KernelStep& step, std::size_t a, std::size_t b) const {
    for (BufferId id : step.inputs)
      if (is_written_between(id, a, b)) return false;
    for (BufferId id : step.outputs) {
      for (BufferId name : names_[root_of(id)])
        for (std::size_t reader : readers(name))
          if (reader > a && (reader < b || (reader == b && name != id))) return false;
      if (writers_[static_cast<std::size_t>(id)].size() != 1) return false;
    }
    return true;
  }

  bool is_written_between(BufferId id, std::size_t a, std::size_t b) const {
    for (BufferId name : names_[root_of(id)])
      for (std::size_t writer : writers_[static_cast<std::size_t>(name)])
        if (writer > a && writer <= b) return true;
    return false;
  }
  /// Both in the same Repeat, or in none.
  bool run_together(std::size_t a, std::size_t b) const {
    return section_.repeat_of(static_cast<int>(a)) == section_.repeat_of(static_cast<int>(b));
  }

  void absorb(std::size_t a) {
    const KernelStep& producer = *pointwise(a);
    if (producer.outputs.size() == 1 && is_cheap(producer) && absorb_into_all(a)) return;
    std::size_t first = section_.steps.size();
    BufferId joint = -1;
    for (BufferId output : producer.outputs)
      if (!readers(output).empty() && readers(output)[0] < first) {
        first = readers(output)[0];
        joint = output;
      }
    if (joint < 0) return;
    const KernelStep* consumer = pointwise(first);
    if (!consumer || !reads_in_step(*consumer, joint) || !may_move(producer, a, first) ||
        !run_together(a, first))
      return;
    bool keep = producer.outputs.size() > 1;
    for (BufferId output : producer.outputs) {
      if (!same_tiles(output, joint)) return;
      keep = keep || is_kept(output) || readers(output).size() > 1;
      // One name for one value: a second output read by the same step stays a separate step.
      if (output != joint && std::find(consumer->inputs.begin(), consumer->inputs.end(), output) !=
                                 consumer->inputs.end())
        return;
    }
    const auto joined =
        join_programs(PointwiseProgram::of(producer), PointwiseProgram::of(*consumer), joint, keep);
    if (!joined) return;
    replace(first, *joined, producer.flops);
    remove(a);
  }

  /// One pass over one large operand with an addition or scaling: cheaper to do again than to
  /// store.
  bool is_cheap(const KernelStep& step) const {
    if (is_kept(step.outputs[0])) return false;
    const auto program = PointwiseProgram::of(step);
    int large = 0;
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      large += program.is_identity_map(i) && buffer(program.inputs[i]).spec.shape.rank() > 0;
    if (large > 1) return false;
    for (const auto& instruction : program.code.instructions()) {
      const PointOp op = instruction.op;
      if (op != PointOp::constant && op != PointOp::add && op != PointOp::subtract &&
          op != PointOp::multiply && op != PointOp::multiply_add)
        return false;
    }
    return program.code.instructions().size() <= 3;
  }

  bool absorb_into_all(std::size_t a) {
    const KernelStep producer = *pointwise(a);
    const BufferId joint = producer.outputs[0];
    const auto users = readers(joint);
    if (users.empty()) return false;
    std::vector<PointwiseProgram> joined;
    for (std::size_t b : users) {
      const KernelStep* consumer = pointwise(b);
      if (!consumer || !reads_in_step(*consumer, joint) || !run_together(a, b)) return false;
      for (BufferId id : producer.inputs)
        if (is_written_between(id, a, b)) return false;
      auto program = join_programs(PointwiseProgram::of(producer), PointwiseProgram::of(*consumer),
                                   joint, false);
      if (!program) return false;
      joined.push_back(std::move(*program));
    }
    for (std::size_t k = 0; k < users.size(); ++k) replace(users[k], joined[k], producer.flops);
    remove(a);
    return true;
  }

  void replace(std::size_t i, const PointwiseProgram& program, double more_flops) {
    forget(i);
    auto& step = std::get<KernelStep>(section_.steps[i]);
    program.write_to(step);
    step.flops += more_flops;
    note(i);
  }
  void remove(std::size_t i) {
    // What the step wrote is now written elsewhere: forget its own entries only.
    auto& step = section_.steps[i];
    for (BufferId id : program::reads_of(step))
      std::erase(readers_[static_cast<std::size_t>(id)], i);
    for (BufferId id : program::writes_of(step))
      std::erase(writers_[static_cast<std::size_t>(id)], i);
    removed_[i] = true;
  }
  void drop_removed() {
    for (auto& repeat : section_.repeats)
      for (int* border : {&repeat.first, &repeat.end})
        *border -= static_cast<int>(std::count(removed_.begin(), removed_.begin() + *border, true));
    section_.backward_begin -= static_cast<int>(
        std::count(removed_.begin(), removed_.begin() + section_.backward_begin, true));
    std::vector<Step> steps;
    for (std::size_t i = 0; i < section_.steps.size(); ++i)
      if (!removed_[i]) steps.push_back(std::move(section_.steps[i]));
    section_.steps = std::move(steps);
  }

  program::Section& section_;
  std::vector<bool> kept_;
  std::vector<bool> removed_;
  std::vector<std::vector<std::size_t>> readers_, writers_;  // by buffer: steps in order
  std::vector<std::vector<BufferId>> names_;                 // by root: all names of its memory
};

}  // namespace

void fuse(Draft& draft) {
  Fuser(draft).run();
}

}  // namespace tessera::plan
