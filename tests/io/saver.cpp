// SPDX-License-Identifier: BSD-3-Clause
// Saves checkpoints until it is killed, for the Python tests beside it:
//   saver FOLDER FIRST_STEP STEPS MEGABYTES
// Each rank writes its process id to FOLDER/pid.<rank>. Large tensors (MEGABYTES in all; split,
// replicated, strided) come on top of the small ones of all kinds.
#include <iostream>

#include "io/checkpoint_support.hpp"
#include "tessera/base/status.hpp"
#include "tessera/comm/environment.hpp"
#include "tessera/comm/mpi_collectives.hpp"

using namespace tessera;

namespace {

std::vector<test::TestTensor> tensors(const MeshShape& mesh, std::int64_t megabytes) {
  std::vector<test::TestTensor> result = test::test_tensors(mesh);
  const std::int64_t rows = megabytes * 1024 / 3;  // of 1 KiB, in each of three tensors
  if (rows == 0) return result;
  const Shape shape{{"rows", rows}, {"columns", 256}};
  for (int cut : {0, 1, -1}) {
    Placement placement(mesh.rank());
    if (cut >= 0) placement[0] = State::split(cut);
    result.push_back({concat("/variables/large", cut + 1), {shape, DType::f32}, placement});
  }
  return result;
}

int run(const std::string& folder, std::int64_t first, std::int64_t steps, std::int64_t megabytes,
        const comm::Environment& environment) {
  test::write_bytes(concat(folder, "/pid.", environment.rank()), concat(::getpid()));
  comm::MpiCollectives ranks(MeshShape::parse(concat("a:", environment.size()), 0),
                             environment.world());
  for (std::int64_t step = first; step < first + steps; ++step) {
    test::TestTiles tiles(tensors(ranks.mesh(), megabytes), ranks, step);
    const Status status =
        attempt([&] { io::save_checkpoint(folder + "/checkpoints", tiles.content(), ranks, 2); });
    if (environment.rank() == 0 && status.ok()) std::cout << "saved " << step << std::endl;
    if (environment.rank() == 0 && !status.ok()) std::cerr << status.message << std::endl;
    if (!status.ok()) return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  comm::Environment environment(argc, argv);
  if (argc != 5) return 64;
  return run(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]), environment);
}
