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

/// row[d] = row[d] * by + sum over the tile of weight[t] * x[t * ld + d], for this thread's d.
template <class T, class E>
KOKKOS_INLINE_FUNCTION void add_tile(const Member& member, T* row, T by, std::int64_t depth,
                                     const T* weight, const E* x, std::int64_t ld, int count) {
  for (std::int64_t d = member.team_rank(); d < depth; d += member.team_size()) {
    T sum = row[d] * by;
    for (int t = 0; t < count; ++t)
      sum += weight[t] * static_cast<T>(portable::load(x[t * ld + d]));
    row[d] = sum;
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

KOKKOS_INLINE_FUNCTION double mask_factor(const Attention& at, std::uint64_t index) {
  if (!at.drops) return 1;
  return random_word(at.key, at.step, index) >= at.threshold ? at.factor : 0;
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
        const std::int64_t ld = at.key_row(), keys = visible_keys(at, row.i);
        const std::uint64_t first = mask_index(at, row.batch, row.head, row.group, row.i, 0);
        const int me = member.team_rank(), size = member.team_size();
        for (std::int64_t d = me; d < depth; d += size) sums[d] = 0;
        T maximum = 0, sum = 0;
        for (std::int64_t j = 0; j < keys; j += kTile) {
          const int count = static_cast<int>(keys - j < kTile ? keys - j : kTile);
          for (int t = me; t < count; t += size) {
            score[t] = static_cast<T>(at.scale) * dot<T>(q, k + (j + t) * ld, depth);
          }
          member.team_barrier();
          T now = j == 0 ? score[0] : maximum;
          for (int t = 0; t < count; ++t) now = score[t] > now ? score[t] : now;
          const T rescale = j == 0 ? T(0) : portable::exponential(maximum - now);
          maximum = now;
          member.team_barrier();
          for (int t = me; t < count; t += size) {
            score[t] = portable::exponential(score[t] - now);
            kept[t] = score[t] * static_cast<T>(mask_factor(at, first + j + t));
          }
          member.team_barrier();
          sum *= rescale;
          for (int t = 0; t < count; ++t) sum += score[t];
          add_tile(member, sums, rescale, depth, kept, v + j * ld, ld, count);
          member.team_barrier();
        }
        for (std::int64_t d = me; d < depth; d += size) {
          store_output(out.data, out.dtype, place + d, keys == 0 ? T(0) : sums[d] / sum);
        }
        if (me == 0) {
          const T lowest = sizeof(T) == 8 ? T(-DBL_MAX) : T(-FLT_MAX);
          static_cast<T*>(lse.data)[member.league_rank()] =
              keys == 0 ? lowest : maximum + portable::logarithm(sum);
        }
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
        const std::int64_t ld = at.key_row(), keys = visible_keys(at, row.i);
        const std::uint64_t first = mask_index(at, row.batch, row.head, row.group, row.i, 0);
        const int me = member.team_rank(), size = member.team_size();
        for (std::int64_t d = me; d < depth; d += size) sums[d] = 0;
        for (std::int64_t j = 0; j < keys; j += kTile) {
          const int count = static_cast<int>(keys - j < kTile ? keys - j : kTile);
          for (int t = me; t < count; t += size) {
            const std::int64_t at_key = (j + t) * ld;
            const T p = portable::exponential(
                static_cast<T>(at.scale) * dot<T>(q, k + at_key, depth) - lse);
            const T dp =
                dot<T>(dout, v + at_key, depth) * static_cast<T>(mask_factor(at, first + j + t));
            dscore[t] = static_cast<T>(at.scale) * p * (dp - delta);
          }
          member.team_barrier();
          add_tile(member, sums, T(1), depth, dscore, k + j * ld, ld, count);
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
        for (std::int64_t d = me; d < depth; d += size) sums_k[d] = sums_v[d] = 0;
        // The first query that sees this key.
        std::int64_t begin = at.causal ? at.key_offset + j - at.query_offset : 0;
        begin = begin < 0 ? 0 : begin;
        for (std::int64_t group = 0; group < s.group; ++group) {
          const std::int64_t queries_at = query_place(at, batch, head, group);
          const E* q = static_cast<const E*>(from.q) + queries_at;
          const E* dout = static_cast<const E*>(from.dout) + queries_at;
          const T* lse = static_cast<const T*>(from.lse) + row_place(at, batch, head, group);
          const T* delta = static_cast<const T*>(from.delta) + row_place(at, batch, head, group);
          for (std::int64_t i = begin; i < s.queries; i += kTile) {
            const int count = static_cast<int>(s.queries - i < kTile ? s.queries - i : kTile);
            for (int t = me; t < count; t += size) {
              const std::int64_t at_query = (i + t) * ld;
              const T factor =
                  static_cast<T>(mask_factor(at, mask_index(at, batch, head, group, i + t, j)));
              const T p = portable::exponential(
                  static_cast<T>(at.scale) * dot<T>(q + at_query, k, depth) - lse[i + t]);
              const T dp = dot<T>(dout + at_query, v, depth) * factor;
              kept[t] = p * factor;
              dscore[t] = static_cast<T>(at.scale) * p * (dp - delta[i + t]);
            }
            member.team_barrier();
            add_tile(member, sums_k, T(1), depth, dscore, q + i * ld, ld, count);
            add_tile(member, sums_v, T(1), depth, kept, dout + i * ld, ld, count);
            member.team_barrier();
          }
        }
        for (std::int64_t d = me; d < depth; d += size) {
          store_output(dk.data, dk.dtype, place + d, sums_k[d]);
          store_output(dv.data, dv.dtype, place + d, sums_v[d]);
        }
      });
}

template <class T, class E>
void backward(const device::Exec& exec, const Attention& at, const Pointers& from,
              const Tile* outputs) {
  backward_queries<T, E>(exec, at, from, outputs[0]);
  backward_keys<T, E>(exec, at, from, outputs[1], outputs[2]);
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
  from.delta = call.workspace;
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
