// SPDX-License-Identifier: BSD-3-Clause
// Bytes per second of the collectives over all ranks, against the machine's copy rate.
//   mpiexec -n 2 bench_collectives
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "tessera/comm/environment.hpp"
#include "tessera/comm/mpi_collectives.hpp"

using namespace tessera;

namespace {

using Clock = std::chrono::steady_clock;

/// Best seconds of several calls, the slowest rank's.
double seconds_of(const comm::World& world, const std::function<void()>& call) {
  double best = 1e9;
  for (int turn = 0; turn < 12; ++turn) {
    world.barrier();
    const auto begin = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, world.max({seconds})[0]);
  }
  return best;
}

struct Bench {
  const comm::World& world;
  comm::MpiCollectives collectives;
  std::vector<float> send, receive;
  double copy_rate = 0;

  explicit Bench(const comm::World& w)
      : world(w), collectives(MeshShape({{"ranks", w.size()}}), w) {}

  void print(const char* what, std::int64_t bytes, double seconds) const {
    if (world.rank() != 0) return;
    const double rate = static_cast<double>(bytes) / seconds;
    std::printf("%-20s %10lld B %10.1f us %8.2f GB/s  %5.2f of copy\n", what,
                static_cast<long long>(bytes), 1e6 * seconds, rate / 1e9, rate / copy_rate);
  }

  void run(std::int64_t elements) {
    const std::int64_t bytes = 4 * elements;
    const auto p = static_cast<std::int64_t>(world.size());
    const auto me = static_cast<std::int64_t>(world.rank());
    send.assign(static_cast<std::size_t>(elements), 1);
    receive.assign(static_cast<std::size_t>(elements), 0);
    const auto copying = [&] {
      std::memcpy(receive.data(), send.data(), static_cast<std::size_t>(bytes));
    };
    copy_rate = static_cast<double>(bytes) / seconds_of(world, copying);
    print("copy", bytes, static_cast<double>(bytes) / copy_rate);
    const std::vector<const void*> from{send.data()};
    const std::vector<void*> to{receive.data()};
    std::vector<std::vector<std::int64_t>> pieces(1);
    for (std::int64_t r = 0; r < p; ++r) pieces[0].push_back(elements / p);
    const comm::MeshDims all{0};
    print("all_reduce", bytes, seconds_of(world, [&] {
            collectives.all_reduce(all, comm::ReduceOp::sum, DType::f32, to,
                                   std::vector<std::int64_t>{elements});
          }));
    print("reduce_scatter", bytes, seconds_of(world, [&] {
            collectives.reduce_scatter(all, DType::f32, from, to, pieces);
          }));
    print("all_gather", bytes,
          seconds_of(world, [&] { collectives.all_gather(all, DType::f32, from, to, pieces); }));
    print("all_to_all", bytes, seconds_of(world, [&] {
            collectives.all_to_all(all, DType::f32, from, pieces, to, pieces);
          }));
    // A halo: half of the elements to each side.
    std::vector<std::vector<std::int64_t>> sides(1, std::vector<std::int64_t>(pieces[0].size()));
    std::int64_t sent = 0;
    for (std::int64_t r : {me - 1, me + 1})
      if (r >= 0 && r < p) {
        sides[0][static_cast<std::size_t>(r)] = elements / 2;
        sent += elements / 2;
      }
    const auto most = static_cast<std::int64_t>(world.max({static_cast<double>(sent)})[0]);
    print("neighbour_exchange", 4 * most, seconds_of(world, [&] {
            collectives.neighbour_exchange(all, DType::f32, from, sides, to, sides);
          }));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment environment(argc, argv);
  Bench bench(environment.world());
  for (std::int64_t elements : {1 << 10, 1 << 14, 1 << 18, 1 << 22}) bench.run(elements);
  return 0;
}
