// SPDX-License-Identifier: BSD-3-Clause
#include "collective_check.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::test {
namespace {

using comm::MeshDims;
using comm::ReduceOp;
using Counts = std::vector<std::vector<std::int64_t>>;

template <class T>
constexpr DType dtype_for();
template <>
constexpr DType dtype_for<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_for<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_for<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_for<std::uint16_t>() {
  return DType::bf16;  // moved, not computed with
}

/// The element that rank `rank` contributes at `index` of the block for `to`.
template <class T>
T value(int rank, int to, std::int64_t index) {
  return static_cast<T>((rank * 131 + to * 17 + static_cast<int>(index) * 7) % 251);
}

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// What every rank of a group agrees on: their lowest rank.
int key_of(const MeshShape& mesh, const MeshDims& dims, int rank) {
  return group_of(mesh, dims, rank)[0];
}

std::int64_t piece_of(int member, int key) {
  return (member * 2 + key + 1) % 4;
}

std::int64_t pair_count(int from, int to) {
  return (from * 3 + to * 5 + from * to) % 5;
}

std::vector<std::int64_t> piece_counts(const MeshShape& mesh, const MeshDims& dims, int rank) {
  const auto group = group_of(mesh, dims, rank);
  std::vector<std::int64_t> counts;
  for (std::size_t m = 0; m < group.size(); ++m)
    counts.push_back(piece_of(static_cast<int>(m), group[0]));
  return counts;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// One collective's buffers on the local ranks, with a guard element behind each.
template <class T>
class Buffers {
 public:
  static constexpr T kGuard = static_cast<T>(99);

  std::vector<T>& add(std::vector<T> data) {
    data.push_back(kGuard);
    return data_.emplace_back(std::move(data));
  }
  void add_empty(std::int64_t count) { add(std::vector<T>(static_cast<std::size_t>(count), T{1})); }
  std::vector<void*> pointers() {
    std::vector<void*> all;
    for (auto& data : data_) all.push_back(data.data());
    return all;
  }
  std::vector<const void*> const_pointers() {
    const auto all = pointers();
    return {all.begin(), all.end()};
  }
  /// Whether local rank i holds `expected` and nothing was written behind it.
  bool holds(std::size_t i, std::vector<T> expected) const {
    expected.push_back(kGuard);
    return data_[i] == expected;
  }

 private:
  std::vector<std::vector<T>> data_;
};

struct Checker {
  comm::Collectives& collectives;
  bool as_flights = false;
  MeshDims dims;
  std::vector<std::string> failures;

  static void fly(std::unique_ptr<comm::Flight> flight) {
    flight->test();
    flight->finish();
  }

  const MeshShape& mesh() const { return collectives.mesh(); }
  const std::vector<int>& ranks() const { return collectives.local_ranks(); }

  void expect(bool ok, const char* what, DType dtype, int rank) {
    if (ok) return;
    std::string text;
    for (int dim : dims) text += mesh()[dim].name + " ";
    failures.push_back(concat(what, " of ", name_of(dtype), " on mesh ", mesh().to_string(),
                              " along ", text, "is wrong on rank ", rank));
  }

  template <class T>
  void all_reduce(ReduceOp op) {
    Buffers<T> buffers;
    std::vector<std::int64_t> counts;
    for (int rank : ranks()) {
      counts.push_back((key_of(mesh(), dims, rank) * 5) % 13);
      std::vector<T> data;
      for (std::int64_t i = 0; i < counts.back(); ++i) data.push_back(value<T>(rank, 0, i));
      buffers.add(data);
    }
    const auto pointers = buffers.pointers();
    if (as_flights)
      fly(collectives.start_all_reduce(dims, op, dtype_for<T>(), pointers, counts));
    else
      collectives.all_reduce(dims, op, dtype_for<T>(), pointers, counts);
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      std::vector<T> expected;
      for (std::int64_t i = 0; i < counts[r]; ++i) {
        std::vector<T> terms;
        for (int q : group_of(mesh(), dims, ranks()[r])) terms.push_back(value<T>(q, 0, i));
        expected.push_back(op == ReduceOp::sum   ? std::accumulate(terms.begin(), terms.end(), T{0})
                           : op == ReduceOp::max ? *std::ranges::max_element(terms)
                                                 : *std::ranges::min_element(terms));
      }
      expect(buffers.holds(r, expected), program::name_of(op), dtype_for<T>(), ranks()[r]);
    }
  }

  template <class T>
  void reduce_scatter() {
    Buffers<T> send, receive;
    Counts counts;
    for (int rank : ranks()) {
      counts.push_back(piece_counts(mesh(), dims, rank));
      std::vector<T> data;
      for (std::size_t m = 0; m < counts.back().size(); ++m)
        for (std::int64_t i = 0; i < counts.back()[m]; ++i)
          data.push_back(value<T>(rank, static_cast<int>(m), i));
      send.add(data);
      const auto group = group_of(mesh(), dims, rank);
      const auto place = std::ranges::find(group, rank) - group.begin();
      receive.add_empty(counts.back()[static_cast<std::size_t>(place)]);
    }
    const auto from = send.const_pointers();
    const auto to = receive.pointers();
    if (as_flights)
      fly(collectives.start_reduce_scatter(dims, dtype_for<T>(), from, to, counts));
    else
      collectives.reduce_scatter(dims, dtype_for<T>(), from, to, counts);
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      const auto group = group_of(mesh(), dims, ranks()[r]);
      const int place = static_cast<int>(std::ranges::find(group, ranks()[r]) - group.begin());
      std::vector<T> expected;
      for (std::int64_t i = 0; i < counts[r][at(place)]; ++i) {
        T sum{0};
        for (int q : group) sum += value<T>(q, place, i);
        expected.push_back(sum);
      }
      expect(receive.holds(r, expected), "reduce_scatter", dtype_for<T>(), ranks()[r]);
    }
  }

  template <class T>
  void all_gather() {
    Buffers<T> send, receive;
    Counts counts;
    for (int rank : ranks()) {
      counts.push_back(piece_counts(mesh(), dims, rank));
      const auto group = group_of(mesh(), dims, rank);
      const auto place = std::ranges::find(group, rank) - group.begin();
      std::vector<T> data;
      for (std::int64_t i = 0; i < counts.back()[static_cast<std::size_t>(place)]; ++i)
        data.push_back(value<T>(rank, 0, i));
      send.add(data);
      receive.add_empty(total(counts.back()));
    }
    const auto from = send.const_pointers();
    const auto to = receive.pointers();
    if (as_flights)
      fly(collectives.start_all_gather(dims, dtype_for<T>(), from, to, counts));
    else
      collectives.all_gather(dims, dtype_for<T>(), from, to, counts);
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      const auto group = group_of(mesh(), dims, ranks()[r]);
      std::vector<T> expected;
      for (std::size_t m = 0; m < group.size(); ++m)
        for (std::int64_t i = 0; i < counts[r][m]; ++i)
          expected.push_back(value<T>(group[m], 0, i));
      expect(receive.holds(r, expected), "all_gather", dtype_for<T>(), ranks()[r]);
    }
  }

  /// With `neighbours` by neighbour_exchange: the same result.
  template <class T>
  void all_to_all(bool neighbours) {
    Buffers<T> send, receive;
    Counts send_counts, receive_counts;
    for (int rank : ranks()) {
      std::vector<T> data;
      auto& sent = send_counts.emplace_back();
      auto& received = receive_counts.emplace_back();
      for (int q : group_of(mesh(), dims, rank)) {
        sent.push_back(pair_count(rank, q));
        received.push_back(pair_count(q, rank));
        for (std::int64_t i = 0; i < sent.back(); ++i) data.push_back(value<T>(rank, q, i));
      }
      send.add(data);
      receive.add_empty(total(received));
    }
    if (neighbours)
      collectives.neighbour_exchange(dims, dtype_for<T>(), send.const_pointers(), send_counts,
                                     receive.pointers(), receive_counts);
    else
      collectives.all_to_all(dims, dtype_for<T>(), send.const_pointers(), send_counts,
                             receive.pointers(), receive_counts);
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      std::vector<T> expected;
      for (int q : group_of(mesh(), dims, ranks()[r]))
        for (std::int64_t i = 0; i < pair_count(q, ranks()[r]); ++i)
          expected.push_back(value<T>(q, ranks()[r], i));
      expect(receive.holds(r, expected), neighbours ? "neighbour_exchange" : "all_to_all",
             dtype_for<T>(), ranks()[r]);
    }
  }

  template <class T>
  void broadcast() {
    Buffers<T> buffers;
    std::vector<std::int64_t> counts;
    for (int rank : ranks()) {
      counts.push_back((key_of(mesh(), dims, rank) * 3) % 8);
      std::vector<T> data;
      for (std::int64_t i = 0; i < counts.back(); ++i) data.push_back(value<T>(rank, 1, i));
      buffers.add(data);
    }
    collectives.broadcast(dims, dtype_for<T>(), buffers.pointers(), counts);
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      std::vector<T> expected;
      for (std::int64_t i = 0; i < counts[r]; ++i)
        expected.push_back(value<T>(key_of(mesh(), dims, ranks()[r]), 1, i));
      expect(buffers.holds(r, expected), "broadcast", dtype_for<T>(), ranks()[r]);
    }
  }

  template <class T>
  void move() {
    all_gather<T>();
    all_to_all<T>(false);
    all_to_all<T>(true);
    broadcast<T>();
  }

  template <class T>
  void compute() {
    all_reduce<T>(ReduceOp::sum);
    all_reduce<T>(ReduceOp::max);
    all_reduce<T>(ReduceOp::min);
    reduce_scatter<T>();
    move<T>();
  }
};

}  // namespace

std::vector<std::vector<int>> subsets(int rank) {
  std::vector<std::vector<int>> all;
  for (int mask = 0; mask < 1 << rank; ++mask) {
    auto& subset = all.emplace_back();
    for (int dim = 0; dim < rank; ++dim)
      if (mask >> dim & 1) subset.push_back(dim);
  }
  return all;
}

std::vector<int> group_of(const MeshShape& mesh, const std::vector<int>& dims, int rank) {
  // Coordinates by their own arithmetic: the last dim runs fastest.
  const auto outside = [&](int r) {
    std::vector<int> coordinates;
    for (int dim = mesh.rank() - 1; dim >= 0; --dim) {
      const int size = static_cast<int>(mesh[dim].size);
      if (std::ranges::count(dims, dim) == 0) coordinates.push_back(r % size);
      r /= size;
    }
    return coordinates;
  };
  std::vector<int> group;
  for (int q = 0; q < mesh.size(); ++q)
    if (outside(q) == outside(rank)) group.push_back(q);
  return group;
}

std::vector<std::string> check_all_collectives(comm::Collectives& collectives, bool as_flights) {
  Checker checker{collectives, as_flights, {}, {}};
  for (const auto& dims : subsets(collectives.mesh().rank())) {
    checker.dims = dims;
    checker.compute<float>();
    checker.compute<double>();
    checker.compute<std::int32_t>();
    checker.move<std::uint16_t>();
  }
  return checker.failures;
}

}  // namespace tessera::test
