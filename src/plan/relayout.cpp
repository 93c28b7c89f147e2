// SPDX-License-Identifier: BSD-3-Clause
#include "relayout.hpp"

#include <algorithm>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::plan {
namespace {

/// Cuts of a dim, outermost first, end with this one.
bool is_innermost(const Placement& placement, int m) {
  return placement.mesh_dims_splitting(placement[m].dim).back() == m;
}

bool same_kinds(const Placement& a, const Placement& b) {
  for (int m = 0; m < a.mesh_rank(); ++m)
    if (a[m].kind != b[m].kind || a[m].dim != b[m].dim) return false;
  return true;
}

class PathFinder {
 public:
  PathFinder(const Placement& from, const Placement& to) : current_(from), target_(to) {
    for (int m = 0; m < current_.mesh_rank(); ++m)
      if (current_[m].is_replicated() && target_[m].is_at()) current_[m] = target_[m];
  }

  std::vector<Change> run() {
    for (int round = 0; !same_tiles(current_, target_); ++round) {
      TESSERA_CHECK(round < 64, "no way from one placement to another");
      if (slice() || reduce_scatter() || spread() || all_reduce() || transfer() || all_to_all() ||
          reorder() || slice_inside() || all_gather() || keep_at_origin())
        continue;
      TESSERA_CHECK(false, "no way from one placement to another");
    }
    if (!path_.empty()) path_.back().after = target_;
    return std::move(path_);
  }

 private:
  void push(Change::Kind kind, std::vector<int> mesh_dims, Placement after) {
    path_.push_back({kind, std::move(mesh_dims), after});
    current_ = std::move(after);
  }

  /// Applies the target's split on m if the cut would be the innermost one of its dim.
  bool split_on(int m, Change::Kind kind) {
    Placement after = current_;
    after[m] = target_[m];
    if (!is_innermost(after, m)) return false;
    // A cut that comes before this one in the target must be there already.
    const auto wanted = target_.mesh_dims_splitting(target_[m].dim);
    const auto got = after.mesh_dims_splitting(target_[m].dim);
    if (got.size() > wanted.size() || !std::equal(got.begin(), got.end(), wanted.begin()))
      return false;
    push(kind, {m}, std::move(after));
    return true;
  }
  bool slice() {
    for (int m = 0; m < current_.mesh_rank(); ++m)
      if (current_[m].is_replicated() && target_[m].is_split() && split_on(m, Change::Kind::slice))
        return true;
    return false;
  }
  bool reduce_scatter() {
    for (int m = 0; m < current_.mesh_rank(); ++m)
      if (current_[m].kind == State::Kind::partial_sum && target_[m].is_split() &&
          split_on(m, Change::Kind::reduce_scatter))
        return true;
    return false;
  }
  bool all_reduce() {
    for (const auto kind : {State::Kind::partial_sum, State::Kind::partial_max}) {
      Placement after = current_;
      std::vector<int> dims;
      for (int m = 0; m < current_.mesh_rank(); ++m)
        if (current_[m].kind == kind && target_[m].kind != kind) {
          dims.push_back(m);
          // The sum is on all stages, so at the one that wants it too.
          after[m] = target_[m].is_at() ? target_[m] : State::replicated();
        }
      if (dims.empty()) continue;
      push(Change::Kind::all_reduce, std::move(dims), std::move(after));
      return true;
    }
    return false;
  }
  bool spread() {
    for (int m = 0; m < current_.mesh_rank(); ++m) {
      if (!current_[m].is_at() || target_[m].is_at()) continue;
      Placement after = current_;
      after[m] = State::partial_sum();
      push(Change::Kind::spread, {m}, std::move(after));
      return true;
    }
    return false;
  }
  bool transfer() {
    for (int m = 0; m < current_.mesh_rank(); ++m) {
      if (!current_[m].is_at() || !target_[m].is_at() || current_[m] == target_[m]) continue;
      Placement after = current_;
      after[m] = target_[m];
      push(Change::Kind::transfer, {m}, std::move(after));
      return true;
    }
    return false;
  }
  bool all_to_all() {
    for (int m = 0; m < current_.mesh_rank(); ++m) {
      if (!current_[m].is_split() || !target_[m].is_split() || current_[m].dim == target_[m].dim)
        continue;
      if (is_innermost(current_, m) && split_on(m, Change::Kind::all_to_all)) return true;
    }
    return false;
  }
  bool stays(int m) const { return target_[m].is_split() && target_[m].dim == current_[m].dim; }
  /// A cut that stays is gathered only where nothing else is left: first where the cuts around it
  /// can't be put in order, then where others can't be put around it.
  bool all_gather() {
    return gather_if([this](int m) { return !stays(m); }) ||
           gather_if([this](int m) { return !in_order(current_, current_[m].dim); }) ||
           gather_if([this](int m) { return !is_complete(current_[m].dim); });
  }
  template <class Condition>
  bool gather_if(const Condition& condition) {
    for (int m = current_.mesh_rank() - 1; m >= 0; --m) {
      if (!current_[m].is_split() || !is_innermost(current_, m) || !condition(m)) continue;
      gathered_staying_ = gathered_staying_ || stays(m);
      Placement after = current_;
      after[m] = State::replicated();
      push(Change::Kind::all_gather, {m}, std::move(after));
      return true;
    }
    return false;
  }
  /// The target's cuts of a dim that are there.
  std::vector<int> kept_cuts(const Placement& placement, int dim) const {
    std::vector<int> kept;
    for (int m : target_.mesh_dims_splitting(dim))
      if (placement[m].is_split() && placement[m].dim == dim) kept.push_back(m);
    return kept;
  }
  /// True if these come first, in the target's order.
  bool in_order(const Placement& placement, int dim) const {
    const auto kept = kept_cuts(placement, dim);
    const auto order = placement.mesh_dims_splitting(dim);
    return std::equal(kept.begin(), kept.end(), order.begin());
  }
  bool is_complete(int dim) const {
    return in_order(current_, dim) && kept_cuts(current_, dim) == target_.mesh_dims_splitting(dim);
  }
  /// The placement with these first in the target's order and other cuts of the dim inside them:
  /// not always to be written with what is outer and inner.
  Placement ordered(Placement placement, int dim) const {
    for (int m : placement.mesh_dims_splitting(dim)) placement[m] = State::split(dim, true);
    for (int m : kept_cuts(placement, dim)) placement[m] = target_[m];
    return placement;
  }
  bool reorder() {
    for (int m = 0; m < current_.mesh_rank(); ++m) {
      if (!current_[m].is_split()) continue;
      const int dim = current_[m].dim;
      Placement after = ordered(current_, dim);
      if (in_order(current_, dim) || !in_order(after, dim)) continue;
      std::vector<int> mesh_dims = current_.mesh_dims_splitting(dim);
      std::sort(mesh_dims.begin(), mesh_dims.end());
      push(Change::Kind::neighbour_exchange, std::move(mesh_dims), std::move(after));
      return true;
    }
    return false;
  }
  /// A cut that the target has outside of cuts that are there already: inside them for now. Not
  /// once a cut that stays had to be gathered, or that would come back.
  bool slice_inside() {
    for (int m = 0; m < current_.mesh_rank() && !gathered_staying_; ++m) {
      if (!current_[m].is_replicated() || !target_[m].is_split()) continue;
      const int dim = target_[m].dim;
      const auto order = current_.mesh_dims_splitting(dim);
      Placement after = current_;
      if (std::is_sorted(order.begin(), order.end()))
        for (int cut : order) after[cut] = State::split(dim);
      after[m] = State::split(dim, true);
      if (!is_innermost(after, m) || !in_order(ordered(after, dim), dim)) continue;
      push(Change::Kind::slice, {m}, std::move(after));
      return true;
    }
    return false;
  }
  bool keep_at_origin() {
    for (int m = 0; m < current_.mesh_rank(); ++m)
      if (current_[m].is_replicated() && target_[m].kind == State::Kind::partial_sum) {
        Placement after = current_;
        after[m] = target_[m];
        push(Change::Kind::keep_at_origin, {m}, std::move(after));
        return true;
      }
    return false;
  }

  Placement current_;
  Placement target_;
  bool gathered_staying_ = false;
  std::vector<Change> path_;
};

double change_bytes(const TensorSpec& spec, const Placement& before, const Change& change,
                    const MeshShape& mesh) {
  if (change.kind == Change::Kind::slice || change.kind == Change::Kind::keep_at_origin ||
      change.kind == Change::Kind::spread)
    return 0;
  const Placement& counted = change.kind == Change::Kind::all_gather ? change.after : before;
  return static_cast<double>(largest_tile_size(spec.shape, counted, mesh)) *
         static_cast<double>(bytes_of(spec.dtype));
}

}  // namespace

bool same_tiles(const Placement& a, const Placement& b) {
  if (!same_kinds(a, b)) return false;
  for (int m = 0; m < a.mesh_rank(); ++m)
    if (a[m].is_split() && a.mesh_dims_splitting(a[m].dim) != b.mesh_dims_splitting(b[m].dim))
      return false;
  return true;
}

std::vector<Change> relayout_path(const Placement& from, const Placement& to) {
  return PathFinder(from, to).run();
}

double relayout_bytes(const TensorSpec& spec, const Placement& from, const Placement& to,
                      const MeshShape& mesh) {
  double bytes = 0;
  Placement before = from;
  for (const auto& change : relayout_path(from, to)) {
    bytes += change_bytes(spec, before, change, mesh);
    before = change.after;
  }
  return bytes;
}

double state_bytes(const TensorSpec& spec, const Placement& from, int mesh_dim, const State& to,
                   const MeshShape& mesh) {
  if (from[mesh_dim] == to) return 0;
  if (to.is_partial() && !may_become_partial(spec.shape, from[mesh_dim]))
    return std::numeric_limits<double>::infinity();
  Placement after = from;
  after[mesh_dim] = to;
  return relayout_bytes(spec, from, after, mesh);
}

}  // namespace tessera::plan
