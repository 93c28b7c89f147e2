// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/device/blas.hpp"
#include "tessera/device/kokkos.hpp"

namespace tessera::device {
namespace {

// Only a Runtime that started Kokkos stops it; the one of tests leaves that to the end of the
// process, because newer Kokkos cannot be started twice.
bool started_by_main = false;
int sharing_ranks = 1;
int device_id = 0;

bool is_kokkos_option(const std::string& argument) {
  return argument.rfind("--kokkos-", 0) == 0;
}

/// Takes --kokkos-* out of the command line: some versions of Kokkos leave what they don't know.
std::vector<std::string> take_options(int& argc, char** argv) {
  std::vector<std::string> options;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    if (i > 0 && is_kokkos_option(argv[i])) {
      options.emplace_back(argv[i]);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  argv[argc] = nullptr;
  return options;
}

bool names_device(const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (option.rfind("--kokkos-device", 0) == 0) return true;
    if (option.rfind("--kokkos-map-device", 0) == 0) return true;
  }
  return false;
}

void start_kokkos(std::vector<std::string> options, int local_rank, int ranks_on_node) {
  const int devices = device_count();
  if (devices > 0 && !names_device(options)) {
    device_id = local_rank % devices;
    sharing_ranks = (ranks_on_node + devices - 1 - device_id) / devices;
    options.push_back("--kokkos-device-id=" + std::to_string(device_id));
  }
  options.insert(options.begin(), "tessera");
  std::vector<char*> argv;
  for (std::string& option : options) argv.push_back(option.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  Kokkos::initialize(argc, argv.data());
}

std::string describe_space() {
  const std::string version =
      concat(KOKKOS_VERSION / 10000, ".", KOKKOS_VERSION / 100 % 100, ".", KOKKOS_VERSION % 100);
  std::string text = "Kokkos " + version + " " + ExecutionSpace::name();
#if defined(KOKKOS_ENABLE_CUDA)
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device_id) == cudaSuccess) {
    text += concat(" on ", properties.name);
  }
#endif
  if (sharing_ranks > 1) text += concat(" shared by ", sharing_ranks, " ranks");
  return text;
}

}  // namespace

Runtime::Runtime(int& argc, char** argv, int local_rank, int ranks_on_node) {
  TESSERA_CHECK(!started_by_main, "device::Runtime exists already");
  start_kokkos(take_options(argc, argv), local_rank, ranks_on_node);
  started_by_main = true;
  set_blas_threads(1);
}

Runtime::Runtime() {
  if (started_by_main) return;
  static const bool once = [] {
    start_kokkos({}, 0, 1);
    std::atexit([] { Kokkos::finalize(); });
    return true;
  }();
  (void)once;
  set_blas_threads(1);
}

Runtime::~Runtime() {
  if (!started_by_main) return;
  Kokkos::finalize();
  started_by_main = false;
}

std::string describe() {
  const int threads = blas_threads();
  std::string text = describe_space() + ", " + describe_blas() + " " + std::to_string(threads) +
                     (threads == 1 ? " thread" : " threads");
  text += isa_level() == 0 ? std::string(", kernels generic")
                           : concat(", kernels x86-64-v", isa_level());
  return text;
}

}  // namespace tessera::device
