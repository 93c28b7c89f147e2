// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/attributes.hpp"
#include "tessera/graph/variable.hpp"
#include "tessera/shape/mesh_shape.hpp"
#include "tessera/shape/placement.hpp"
#include "tessera/shape/tensor_spec.hpp"
#include "tessera/shape/window.hpp"

/// Plain data: what every rank executes. Nothing here depends on a rank; tiles follow from the
/// mesh, a placement and the rank's coordinates.
namespace tessera::program {

enum class ReduceOp : std::uint8_t { sum, max, min };
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  neighbour_exchange
};
const char* name_of(CollectiveKind kind);
const char* name_of(ReduceOp op);

/// Index of a Buffer in its Section.
using BufferId = int;

/// Memory for a tensor's tile (of the largest rank) during a section.
struct Buffer {
  std::string name;
  TensorSpec spec;
  Placement placement;
  /// By tensor dim; empty: plain tiles. Under a window the placement cuts [0, window.count), and
  /// the tile is what the rank's block needs of the tensor dim; it may begin before 0.
  Windows windows;
  /// In a ring of the ranks along a mesh dim: the tile is that of the rank so many places further
  /// on, and one more with each iteration of the Repeat that a step is in. mesh_dim -1: its own.
  struct Ring {
    int mesh_dim = -1;
    std::int64_t places = 0;
  };
  Ring ring;
  std::int64_t bytes = 0;   ///< of the largest tile
  std::int64_t offset = 0;  ///< in the arena (variables first, then the section's own part)
  BufferId alias_of = -1;   ///< the same memory under another name or shape
  int variable = -1;        ///< in the variable's storage, or -1: the section's part of the arena
  int first_step = -1;      ///< live from this step ...
  int last_step = -1;       ///< ... through this one
};

/// A call of a local kernel on whole tiles.
struct KernelStep {
  std::string kernel;  ///< id in the kernel registry
  std::string label;   ///< scoped name of the operation
  Attributes attributes;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  std::int64_t workspace_bytes = 0;
  std::int64_t workspace_offset = 0;
  double flops = 0;  ///< on the rank with the largest tiles
  /// Pairs (input, output) that may share memory, see Emitter::KernelOptions.
  std::vector<std::pair<int, int>> in_place;
  int micro = 0;  ///< micro-batch that it works on, of those that the section holds
};

/// all_reduce in place of one or more buffers, together in one call (a bucket).
struct AllReduceStep {
  std::string label;
  ReduceOp op = ReduceOp::sum;
  std::vector<int> mesh_dims;
  std::vector<BufferId> buffers;
  /// The buffers follow each other in memory, so the call needs no packing.
  bool contiguous = false;
  BufferId staging = -1;  ///< packed bucket if not contiguous
  int flight = -1;        ///< not -1: the step only starts the call, see FinishStep
};

/// Change of placement of one or more tensors on one mesh dim: all_gather, reduce_scatter or
/// all_to_all. Tensor t goes from inputs[t] to outputs[t]; only that mesh dim's state differs.
struct RelayoutStep {
  std::string label;
  CollectiveKind kind = CollectiveKind::all_gather;
  int mesh_dim = 0;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  BufferId send = -1;  ///< packed pieces to send; -1: the input itself is in that order
  BufferId receive = -1;
  int flight = -1;  ///< not -1: the step only starts the call, see FinishStep
};

/// Waits for the collective that an earlier step of the section started under the same number, and
/// unpacks what it brought. Meanwhile it is under way, a *flight*: what the finish reads, and what
/// the start writes, belongs to it.
struct FinishStep {
  std::string label;
  int flight = -1;
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
};

/// Change of placement on one mesh dim without communication: a rank keeps its block of a
/// replicated tensor (slice), or a tensor that is replicated, or at one coordinate, becomes a
/// partial sum: kept at coordinate `origin`, zero elsewhere.
struct LocalStep {
  enum class Kind : std::uint8_t { slice, keep_at_origin };
  std::string label;
  int origin = 0;
  Kind kind = Kind::slice;
  int mesh_dim = 0;
  BufferId input = -1;
  BufferId output = -1;
};

/// Moves runs of elements along one tensor dim from the tiles of inputs to the tiles of outputs,
/// between the ranks that cut this dim: slices, pads, shifts, concatenations, halos. The operands'
/// other dims are equal and cut alike. Each pair of ranks that share elements exchanges one
/// message, for all runs together; what stays on a rank is copied.
struct ExchangeStep {
  /// gather: each rank's output tiles get the elements that the runs bring, and `fill` elsewhere.
  /// accumulate: the sum of all elements that the runs bring from all tiles that hold them, the
  /// rank's own first, then in the order of the ranks; 0 elsewhere.
  enum class Mode : std::uint8_t { gather, accumulate };
  /// Element to + t * to_step of an output comes from element from + t * from_step of an input, for
  /// t in [0, count). Global indices along the dim.
  struct Run {
    int input = 0;
    int output = 0;
    std::int64_t count = 0;
    std::int64_t from = 0;
    std::int64_t from_step = 1;
    std::int64_t to = 0;
    std::int64_t to_step = 1;
  };
  std::string label;
  Mode mode = Mode::gather;
  int dim = 0;
  std::vector<int>
      mesh_dims;  ///< all that cut the dim, in the mesh's order; the same in all operands
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  std::vector<Run> runs;
  double fill = 0;
  BufferId send = -1;  ///< packed pieces for other ranks; -1 if the dim is whole
  BufferId receive = -1;
};

/// Tiles travel one place along the ring of the ranks along a mesh dim: each rank sends its input
/// tiles to the rank before it and gets those of the rank after it, in one message. An output is
/// one place further on than its input (Buffer::ring) and may be the same memory.
struct RingStep {
  std::string label;
  int mesh_dim = 0;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  BufferId send = -1;
  BufferId receive = -1;
};

/// A tensor that is at one stage goes to another: one message from each rank of stage `from` to the
/// rank of stage `to` with the same other coordinates. The input is at `from`, the output at `to`.
struct TransferStep {
  std::string label;
  int mesh_dim = 0;
  int from = 0;
  int to = 0;
  BufferId input = -1;
  BufferId output = -1;
};

using Step = std::variant<KernelStep, AllReduceStep, RelayoutStep, LocalStep, ExchangeStep,
                          RingStep, FinishStep, TransferStep>;

/// The box of a buffer's tile, in an iteration of a Repeat, and the extents of its largest tile.
Box tile_box(const Buffer& buffer, const MeshShape& mesh, const Coordinates& at,
             std::int64_t iteration = 0);
std::vector<std::int64_t> largest_tile(const Buffer& buffer, const MeshShape& mesh);

/// Mesh dims over which a step communicates; none: it is local.
std::vector<int> mesh_dims_of(const Step& step);

/// Buffers that a step reads and writes, in-place operands in both.
std::vector<BufferId> reads_of(const Step& step);
std::vector<BufferId> writes_of(const Step& step);
const std::string& label_of(const Step& step);
/// The flight that the step starts, or -1.
int started_by(const Step& step);
/// The step that ends the flight of `start`, which has a number.
FinishStep finish_of(const Step& start);

/// One collective as the ledger and the plan count it.
struct CollectiveRow {
  std::string section;
  CollectiveKind op = CollectiveKind::all_reduce;
  std::vector<int> mesh_dims;
  std::int64_t count = 0;            ///< calls
  std::int64_t bytes = 0;            ///< payload on the rank with the largest (neighbour_exchange:
                                     ///< what the rank that sends most sends to others)
  std::int64_t bytes_all_ranks = 0;  ///< exact sum over ranks
  std::int64_t messages = 0;         ///< neighbour_exchange: from the rank that sends most messages
};

struct NamedBuffer {
  std::string name;
  BufferId buffer;
  int micro = 0;  ///< micro-batch that it belongs to, of those that the section holds
};

/// Steps [first, end) of a section that run `count` times, one iteration after the other.
struct Repeat {
  int first = 0;
  int end = 0;
  std::int64_t count = 1;
};

/// The stages that execute a step: all, one, or the two of a TransferStep. Each stage goes through
/// the steps that concern it, in the one order in which the section has them; so a message is never
/// waited for by one side only, whatever the order is.
struct Stages {
  int at = -1;  ///< -1: all
  int to = -1;  ///< TransferStep: the one that receives
  bool is_all() const { return at < 0; }
  bool contain(int stage) const { return at < 0 || stage == at || stage == to; }
};

/// A straight list of steps that the driver runs as a whole, some of them repeatedly.
struct Section {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Repeat> repeats;       ///< in order; none inside another
  int backward_begin = 0;            ///< first step of the backward pass, while it is planned
  int micro_batches = 1;             ///< that one run works on, each with inputs and fetches
  std::vector<NamedBuffer> inputs;   ///< tiles that the host gives
  std::vector<NamedBuffer> feeds;    ///< scalars that the host gives
  std::vector<NamedBuffer> fetches;  ///< results that the host reads
  std::int64_t arena_bytes = 0;      ///< of the section's own part, workspaces included
  std::int64_t workspace_bytes = 0;  ///< largest workspace of a kernel
  double flops = 0;                  ///< per run, on the rank with the largest tiles
  double flops_all_ranks = 0;        ///< if all tiles were as large

  /// The Repeat that a step is in, or null.
  const Repeat* repeat_of(int step) const;
  /// How often a step runs in one run of the section.
  std::int64_t times(int step) const;
};

/// Storage of a variable, the same in all sections.
struct StoredVariable {
  Variable variable;
  Placement placement;  ///< as stored; gradients may be partial
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
};

/// Those of a step: where its operands are.
Stages stages_of(const Section& section, const Step& step);
/// Coordinate at which a placement is, on whichever mesh dim; -1: everywhere.
int stage_of(const Placement& placement);

struct Program {
  MeshShape mesh;
  std::vector<StoredVariable> variables;
  std::vector<Section> sections;
  std::int64_t variable_bytes = 0;  ///< of the variables' part of the arena
  std::int64_t arena_bytes = 0;     ///< variables plus the largest section

  const Section& section(const std::string& name) const;
  bool has_section(const std::string& name) const;
  /// Equal on all ranks if and only if they would do the same; symbolic in coordinates.
  std::uint64_t hash() const;
};

}  // namespace tessera::program
