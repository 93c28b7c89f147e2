// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <string>

/// Where kernels run. No Kokkos in this header, so that everybody may include it.
namespace tessera::device {

/// RAII of Kokkos: one object in main, after MPI is up; `local_rank` and `ranks_on_node` choose the
/// accelerator. Strips its own options (--kokkos-*) from the command line.
class Runtime {
 public:
  Runtime(int& argc, char** argv, int local_rank, int ranks_on_node);
  /// For tests: no command line, local rank 0.
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

/// An execution instance (a stream on a GPU). Kernels take it first and launch in its order.
class Exec {
 public:
  Exec();
  ~Exec();
  Exec(Exec&&) noexcept;
  Exec& operator=(Exec&&) noexcept;

  /// Kernels run in the host's memory, in the calling thread's order.
  static bool is_host();
  /// Waits for what was launched on this instance.
  void fence() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Memory where kernels run, 64-byte aligned, not initialised; pages are touched by the owner.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Copies between host memory and kernels' memory, complete on return.
void copy_to_host(const Exec& exec, void* to, const void* from, std::size_t bytes);
void copy_from_host(const Exec& exec, void* to, const void* from, std::size_t bytes);

/// Highest x86-64 level (2, 3, 4) that this CPU and this build have; 0 elsewhere.
int supported_isa_level();
/// Level whose kernels run from now on; at most the supported one. main sets the minimum over
/// ranks.
void set_isa_level(int level);
int isa_level();

/// "Kokkos 3.4.1 Serial, OpenBLAS 0.3.21 Haswell 1 thread, kernels x86-64-v3": for the header.
std::string describe();

}  // namespace tessera::device
