// SPDX-License-Identifier: BSD-3-Clause
#include <cfloat>
#include <limits>

#include "kernels/attention.hpp"
#include "kernels/portable_math.hpp"
#include "tessera/base/error.hpp"
#include "tessera/device/kokkos.hpp"

// One team for each query (forward, dq) or each key (dk, dv), which walks over the other side in
// tiles. All sums run in a fixed order: each thread adds a whole tile for its own depths.
namespace tessera::kernels {
namespace {

using Policy = Kokkos::TeamPolicy<device::ExecutionSpace>;
using Member = Policy::member_type;
template <class T>
using Scratch = Kokkos::View<T*, device::ExecutionSpace::scratch_memory_space,
                             Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

constexpr int kTeamSize = device::kHostMemory ? 1 : 128;
constexpr int kTile = 128;

/// A team's memory: two tiles of kTile and two rows of `depth`.
template <class T>
struct Room {
  T *tile0, *tile1, *row0, *row1;

  KOKKOS_INLINE_FUNCTION Room(const Member& member, std::int64_t depth)
      : tile0(Scratch<T>(member.team_scratch(0), kTile).data()),
        tile1(Scratch<T>(member.team_scratch(0), kTile).data()),
        row0(Scratch<T>(member.team_scratch(0), static_cast<std::size_t>(depth)).data()),
        row1(Scratch<T>(member.team_scratch(0), static_cast<std::size_t>(depth)).data()) {}

  static std::size_t bytes(std::int64_t depth) {
    return 2 * Scratch<T>::shmem_size(kTile) +
           2 * Scratch<T>::shmem_size(static_cast<std::size_t>(depth));
  }
};

/// f(member) for each team, which has a Room<T>.
template <class T, class Function>
void for_each_team(const char* label, const device::Exec& exec, std::int64_t teams,
                   std::int64_t depth, const Function& f) {
  if (teams < 1) return;
  TESSERA_CHECK(teams <= std::numeric_limits<int>::max(), label, ": ", teams, " rows on one rank");
  Policy policy(device::space_of(exec), static_cast<int>(teams), kTeamSize);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Room<T>::bytes(depth))));
  Kokkos::parallel_for(label, policy, f);
}

template <class T, class E>
KOKKOS_INLINE_FUNCTION T dot(const E* x, const E* y, std::int64_t n) {
  T sum = 0;
  for (std::int64_t d = 0; d < n; ++d) {
    sum += static_cast<T>(portable::load(x[d])) * static_cast<T>(portable::load(y[d]));
  }
  return sum;
}

/// row[d] = row[d] * by + scale * sum over the tile of weight[t] * x[t * ld + d], for this thread's
/// d.
template <class T, class E>
KOKKOS_INLINE_FUNCTION void add_tile(const Member& member, T* row, T by, T scale,
                                     std::int64_t depth, const T* weight, const E* x,
                                     std::int64_t ld, int count) {
  for (std::int64_t d = member.team_rank(); d < depth; d += member.team_size()) {
    T sum = 0;
    for (int t = 0; t < count; ++t)
      sum += weight[t] * static_cast<T>(portable::load(x[t * ld + d]));
    row[d] = row[d] * by + scale * sum;
  }
}

/// Adds the values of a tile whose keys are at `relative` and on to this thread's buckets.
template <class T>
KOKKOS_INLINE_FUNCTION void add_to_buckets(const Member& member, const Attention& at,
                                           std::int64_t relative, const T* values, int count,
                                           T* buckets) {
  for (int b = member.team_rank(); b < at.buckets.count; b += member.team_size()) {
    T sum = buckets[b];
    for (int t = 0; t < count; ++t) {
      if (bucket_of(at.buckets, relative + t) == b) sum += values[t];
    }
    buckets[b] = sum;
  }
}

KOKKOS_INLINE_FUNCTION void store_output(void* data, DType dtype, std::int64_t i, double value) {
  switch (dtype) {
    case DType::f64:
      return portable::store(static_cast<double*>(data)[i], value);
    case DType::bf16:
      return portable::store(static_cast<Bf16*>(data)[i], value);
    default:
      return portable::store(static_cast<float*>(data)[i], value);
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION T load_output(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f64:
      return static_cast<T>(portable::load(static_cast<const double*>(data)[i]));
    case DType::bf16:
      return static_cast<T>(portable::load(static_cast<const Bf16*>(data)[i]));
    default:
      return static_cast<T>(portable::load(static_cast<const float*>(data)[i]));
  }
}

KOKKOS_INLINE_FUNCTION double mask_factor(const Attention& at, std::uint64_t index) {
  if (!at.drops) return 1;
  return random_word(at.key, at.step, index) >= at.threshold ? at.factor : 0;
}

/// Bias of a key at a distance from the query; 0 without one.
template <class T>
KOKKOS_INLINE_FUNCTION T bias_of(const Attention& at, std::int64_t head, std::int64_t group,
                                 std::int64_t query, std::int64_t key) {
  if (at.bias == nullptr) return 0;
  const int bucket = bucket_of(at.buckets, at.key_offset + key - at.query_offset - query);
  return static_cast<const T*>(at.bias)[(head * at.size.group + group) * at.size.buckets + bucket];
}

/// Which row a team has.
struct Row {
  std::int64_t batch, head, group, i;
};

/// Query row number `index`, in the order of lse.
KOKKOS_INLINE_FUNCTION Row query_row_of(const Attention& at, std::int64_t index) {
  const auto& s = at.size;
  const std::int64_t head = index / s.queries / s.group;
  return {head / s.heads, head % s.heads, index / s.queries % s.group, index % s.queries};
}

struct Pointers {
  const void *dout = nullptr, *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr;
  const void* lse = nullptr;
  void* delta = nullptr;
  void* bias_rows = nullptr;  ///< each query row's gradients of the biases
};

template <class T, class E>
void forward(const device::Exec& exec, const Attention& at, const Pointers& from, Tile out,
             Tile lse) {
  const std::int64_t depth = at.size.depth;
  const std::int64_t rows = at.size.batch * at.size.heads * at.size.group * at.size.queries;
  for_each_team<T>(
      "tessera::kernels::attention_forward", exec, rows, depth,
      KOKKOS_LAMBDA(const Member& member) {
        const Room<T> room(member, depth);
        T *score = room.tile0, *kept = room.tile1, *sums = room.row0;
        const Row row = query_row_of(at, member.league_rank());
        const std::int64_t place =
            query_place(at, row.batch, row.head, row.group) + row.i * at.query_row();
        const std::int64_t keys_at = key_place(at, row.batch, row.head);
        const E* q = static_cast<const E*>(from.q) + place;
        const E* k = static_cast<const E*>(from.k) + keys_at;
        const E* v = static_cast<const E*>(from.v) + keys_at;
        const KeyRange keys = visible_keys(at, row.i);
        const std::int64_t ld = at.key_row();
        const std::uint64_t first = mask_index(at, row.batch, row.head, row.group, row.i, 0);
        const int me = member.team_rank(), size = member.team_size();
        const T lowest = sizeof(T) == 8 ? T(-DBL_MAX) : T(-FLT_MAX);
        T* row_lse = static_cast<T*>(lse.data) + member.league_rank();
        // Going on: values whose weights sum up to 1 at scores shifted by lse.
        T maximum = at.accumulates ? *row_lse : lowest;
        T sum = maximum == lowest ? T(0) : T(1);
        for (std::int64_t d = me; d < depth; d += size) {
          sums[d] = sum == T(0) ? T(0) : load_output<T>(out.data, out.dtype, place + d);
        }
        member.team_barrier();  // all have read lse
        for (std::int64_t j = keys.begin; j < keys.end; j += kTile) {
          const int count = static_cast<int>(keys.end - j < kTile ? keys.end - j : kTile);
          for (int t = me; t < count; t += size) {
            score[t] = same_segment(at, row.batch, row.i, j + t)
                           ? static_cast<T>(at.scale) * dot<T>(q, k + (j + t) * ld, depth) +
                                 bias_of<T>(at, row.head, row.group, row.i, j + t)
                           : lowest;
          }
          member.team_barrier();
          T now = maximum;
          for (int t = 0; t < count; ++t) now = score[t] > now ? score[t] : now;
          const T rescale = portable::exponential(maximum - now);
          maximum = now;
          member.team_barrier();
          for (int t = me; t < count; t += size) {
            score[t] = score[t] == lowest ? T(0) : portable::exponential(score[t] - now);
            kept[t] = score[t] * static_cast<T>(mask_factor(at, first + j + t));
          }
          member.team_barrier();
          sum *= rescale;
          for (int t = 0; t < count; ++t) sum += score[t];
          add_tile(member, sums, rescale, T(1), depth, kept, v + j * ld, ld, count);
          member.team_barrier();
        }
        for (std::int64_t d = me; d < depth; d += size) {
          store_output(out.data, out.dtype, place + d, sum == T(0) ? T(0) : sums[d] / sum);
        }
        if (me == 0) *row_lse = sum == T(0) ? lowest : maximum + portable::logarithm(sum);
      });
}

/// dq, and for the keys' pass the sums of dout times out.
template <class T, class E>
void backward_queries(const device::Exec& exec, const Attention& at, const Pointers& from,
                      Tile dq) {
  const std::int64_t depth = at.size.depth;
  const std::int64_t rows = at.size.batch * at.size.heads * at.size.group * at.size.queries;
  for_each_team<T>(
      "tessera::kernels::attention_backward::queries", exec, rows, depth,
      KOKKOS_LAMBDA(const Member& member) {
        const Room<T> room(member, depth);
        T *dscore = room.tile0, *sums = room.row0;
        const Row row = query_row_of(at, member.league_rank());
        const std::int64_t place =
            query_place(at, row.batch, row.head, row.group) + row.i * at.query_row();
        const std::int64_t keys_at = key_place(at, row.batch, row.head);
        const E* q = static_cast<const E*>(from.q) + place;
        const E* dout = static_cast<const E*>(from.dout) + place;
        const E* k = static_cast<const E*>(from.k) + keys_at;
        const E* v = static_cast<const E*>(from.v) + keys_at;
        const T lse = static_cast<const T*>(from.lse)[member.league_rank()];
        const T delta = dot<T>(dout, static_cast<const E*>(from.out) + place, depth);
        const KeyRange keys = visible_keys(at, row.i);
        const std::int64_t ld = at.key_row();
        const std::uint64_t first = mask_index(at, row.batch, row.head, row.group, row.i, 0);
        const int me = member.team_rank(), size = member.team_size();
        T* bias_row = at.bias == nullptr ? nullptr
                                         : static_cast<T*>(from.bias_rows) +
                                               member.league_rank() * at.size.buckets;
        for (std::int64_t d = me; d < depth; d += size) {
          sums[d] = at.accumulates ? load_output<T>(dq.data, dq.dtype, place + d) : T(0);
        }
        for (int b = me; b < at.buckets.count; b += size) bias_row[b] = 0;
        for (std::int64_t j = keys.begin; j < keys.end; j += kTile) {
          const int count = static_cast<int>(keys.end - j < kTile ? keys.end - j : kTile);
          for (int t = me; t < count; t += size) {
            dscore[t] = 0;
            if (!same_segment(at, row.batch, row.i, j + t)) continue;
            const std::int64_t at_key = (j + t) * ld;
            const T p =
                portable::exponential(static_cast<T>(at.scale) * dot<T>(q, k + at_key, depth) +
                                      bias_of<T>(at, row.head, row.group, row.i, j + t) - lse);
            const T dp =
                dot<T>(dout, v + at_key, depth) * static_cast<T>(mask_factor(at, first + j + t));
            dscore[t] = p * (dp - delta);
          }
          member.team_barrier();
          add_tile(member, sums, T(1), static_cast<T>(at.scale), depth, dscore, k + j * ld, ld,
                   count);
          add_to_buckets(member, at, at.key_offset + j - at.query_offset - row.i, dscore, count,
                         bias_row);
          member.team_barrier();
        }
        for (std::int64_t d = me; d < depth; d += size) {
          store_output(dq.data, dq.dtype, place + d, sums[d]);
        }
        if (me == 0) static_cast<T*>(from.delta)[member.league_rank()] = delta;
      });
}

template <class T, class E>
void backward_keys(const device::Exec& exec, const Attention& at, const Pointers& from, Tile dk,
                   Tile dv) {
  const std::int64_t depth = at.size.depth;
  const std::int64_t rows = at.size.batch * at.size.heads * at.size.keys;
  for_each_team<T>(
      "tessera::kernels::attention_backward::keys", exec, rows, depth,
      KOKKOS_LAMBDA(const Member& member) {
        const Room<T> room(member, depth);
        T *dscore = room.tile0, *kept = room.tile1, *sums_k = room.row0, *sums_v = room.row1;
        const auto& s = at.size;
        const std::int64_t j = member.league_rank() % s.keys;
        const std::int64_t head = member.league_rank() / s.keys % s.heads;
        const std::int64_t batch = member.league_rank() / s.keys / s.heads;
        const std::int64_t place = key_place(at, batch, head) + j * at.key_row();
        const E* k = static_cast<const E*>(from.k) + place;
        const E* v = static_cast<const E*>(from.v) + place;
        const std::int64_t ld = at.query_row();
        const int me = member.team_rank(), size = member.team_size();
        for (std::int64_t d = me; d < depth; d += size) {
          sums_k[d] = at.accumulates ? load_output<T>(dk.data, dk.dtype, place + d) : T(0);
          sums_v[d] = at.accumulates ? load_output<T>(dv.data, dv.dtype, place + d) : T(0);
        }
        // The queries that see this key.
        const std::int64_t position = at.key_offset + j - at.query_offset;
        const std::int64_t begin = position - at.right < 0 ? 0 : position - at.right;
        const std::int64_t end =
            position + at.left + 1 < s.queries ? position + at.left + 1 : s.queries;
        for (std::int64_t group = 0; group < s.group; ++group) {
          const std::int64_t queries_at = query_place(at, batch, head, group);
          const E* q = static_cast<const E*>(from.q) + queries_at;
          const E* dout = static_cast<const E*>(from.dout) + queries_at;
          const T* lse = static_cast<const T*>(from.lse) + row_place(at, batch, head, group);
          const T* delta = static_cast<const T*>(from.delta) + row_place(at, batch, head, group);
          for (std::int64_t i = begin; i < end; i += kTile) {
            const int count = static_cast<int>(end - i < kTile ? end - i : kTile);
            for (int t = me; t < count; t += size) {
              kept[t] = dscore[t] = 0;
              if (!same_segment(at, batch, i + t, j)) continue;
              const std::int64_t at_query = (i + t) * ld;
              const T factor =
                  static_cast<T>(mask_factor(at, mask_index(at, batch, head, group, i + t, j)));
              const T p =
                  portable::exponential(static_cast<T>(at.scale) * dot<T>(q + at_query, k, depth) +
                                        bias_of<T>(at, head, group, i + t, j) - lse[i + t]);
              const T dp = dot<T>(dout + at_query, v, depth) * factor;
              kept[t] = p * factor;
              dscore[t] = p * (dp - delta[i + t]);
            }
            member.team_barrier();
            add_tile(member, sums_k, T(1), static_cast<T>(at.scale), depth, dscore, q + i * ld, ld,
                     count);
            add_tile(member, sums_v, T(1), T(1), depth, kept, dout + i * ld, ld, count);
            member.team_barrier();
          }
        }
        for (std::int64_t d = me; d < depth; d += size) {
          store_output(dk.data, dk.dtype, place + d, sums_k[d]);
          store_output(dv.data, dv.dtype, place + d, sums_v[d]);
        }
      });
}

/// The biases' gradients out of those of each query row, in order.
template <class T>
void backward_bias(const device::Exec& exec, const Attention& at, const T* rows, T* dbias) {
  const program::AttentionSize s = at.size;
  const bool accumulates = at.accumulates;
  Kokkos::parallel_for(
      "tessera::kernels::attention_backward::bias",
      Kokkos::RangePolicy<device::ExecutionSpace>(device::space_of(exec), 0,
                                                  s.heads * s.group * s.buckets),
      KOKKOS_LAMBDA(const std::int64_t i) {
        const std::int64_t bucket = i % s.buckets, head = i / s.buckets;
        T sum = accumulates ? dbias[i] : T(0);
        for (std::int64_t batch = 0; batch < s.batch; ++batch) {
          const std::int64_t first = (batch * s.heads * s.group + head) * s.queries;
          for (std::int64_t r = 0; r < s.queries; ++r)
            sum += rows[(first + r) * s.buckets + bucket];
        }
        dbias[i] = sum;
      });
}

template <class T, class E>
void backward(const device::Exec& exec, const Attention& at, const Pointers& from,
              const Tile* outputs) {
  backward_queries<T, E>(exec, at, from, outputs[0]);
  backward_keys<T, E>(exec, at, from, outputs[1], outputs[2]);
  if (at.bias == nullptr) return;
  backward_bias(exec, at, static_cast<const T*>(from.bias_rows), outputs[3].as<T>());
}

/// Room in the workspace for what the queries' pass leaves to the others.
void place_rows(const Attention& at, void* workspace, std::int64_t element, Pointers& to) {
  const auto& s = at.size;
  to.delta = workspace;
  to.bias_rows = static_cast<char*>(workspace) +
                 program::round_up_workspace(element * s.batch * s.heads * s.group * s.queries);
}

void check_dtypes(const Tile* tiles, int count) {
  for (int i = 1; i < count; ++i) {
    TESSERA_CHECK(tiles[i].dtype == tiles[0].dtype, "attention: input ", i, " is ",
                  name_of(tiles[i].dtype), " beside ", name_of(tiles[0].dtype));
  }
}

}  // namespace

void attention_forward_portable(const device::Exec& exec, const Attention& at, const Call& call) {
  check_dtypes(call.inputs, 3);
  Pointers from;
  from.q = call.inputs[0].data, from.k = call.inputs[1].data, from.v = call.inputs[2].data;
  const Tile &out = call.outputs[0], &lse = call.outputs[1];
  switch (call.inputs[0].dtype) {
    case DType::f64:
      return forward<double, double>(exec, at, from, out, lse);
    case DType::bf16:
      return forward<float, Bf16>(exec, at, from, out, lse);
    default:
      return forward<float, float>(exec, at, from, out, lse);
  }
}

void attention_backward_portable(const device::Exec& exec, const Attention& at, const Call& call) {
  check_dtypes(call.inputs, 5);
  Pointers from;
  from.dout = call.inputs[0].data, from.q = call.inputs[1].data, from.k = call.inputs[2].data;
  from.v = call.inputs[3].data, from.out = call.inputs[4].data, from.lse = call.inputs[5].data;
  place_rows(at, call.workspace, call.inputs[0].dtype == DType::f64 ? 8 : 4, from);
  switch (call.inputs[0].dtype) {
    case DType::f64:
      return backward<double, double>(exec, at, from, call.outputs);
    case DType::bf16:
      return backward<float, Bf16>(exec, at, from, call.outputs);
    default:
      return backward<float, float>(exec, at, from, call.outputs);
  }
}

}  // namespace tessera::kernels
