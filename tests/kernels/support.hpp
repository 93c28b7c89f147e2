// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/kernels/kernel.hpp"
#include "tessera/kernels/variant.hpp"

/// What all tests of kernels need: an instance, tiles, and a loop over the variants of a kernel.
namespace tessera::test {

/// The instance that tests launch on; starts Kokkos on first use.
inline const device::Exec& exec() {
  static device::Runtime runtime;
  static device::Exec instance;
  return instance;
}

/// f(name) once for each x86-64 level that runs here and once for the portable variant.
template <class Function>
void for_each_variant(const Function& f) {
  exec();
  const int supported = device::supported_isa_level();
  for (int level = supported == 0 ? 0 : 2; level <= supported; ++level) {
    device::set_isa_level(level);
    f("x86-64-v" + std::to_string(level));
  }
  kernels::force_portable(true);
  f(std::string("portable"));
  kernels::force_portable(false);
}

inline std::uint16_t to_bf16(double value) {
  const float narrow = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline double from_bf16(std::uint16_t value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

/// A whole tensor or a tile of one, in memory of its own, read and written as double.
class TestTensor {
 public:
  TestTensor(DType dtype, std::vector<std::int64_t> extents) : TestTensor(dtype, extents, {}, {}) {}
  /// A tile: first global index and extents of the whole tensor, by dim.
  TestTensor(DType dtype, std::vector<std::int64_t> extents, std::vector<std::int64_t> offset,
             std::vector<std::int64_t> global) {
    tile_.dtype = dtype;
    tile_.rank = static_cast<int>(extents.size());
    for (std::size_t d = 0; d < extents.size(); ++d) {
      tile_.extent[d] = extents[d];
      tile_.offset[d] = offset.empty() ? 0 : offset[d];
      tile_.global[d] = global.empty() ? extents[d] : global[d];
    }
    // Exactly as long as the tile, so that a sanitizer sees any access beyond it.
    bytes_.resize(static_cast<std::size_t>(tile_.size()) * bytes_of(dtype));
    tile_.data = bytes_.data();
  }
  TestTensor(const TestTensor& other) : tile_(other.tile_), bytes_(other.bytes_) {
    tile_.data = bytes_.data();
  }
  TestTensor& operator=(const TestTensor&) = delete;

  const kernels::Tile& tile() const { return tile_; }
  std::int64_t size() const { return tile_.size(); }

  double get(std::int64_t i) const {
    switch (tile_.dtype) {
      case DType::f32:
        return tile_.as<float>()[i];
      case DType::f64:
        return tile_.as<double>()[i];
      case DType::bf16:
        return from_bf16(tile_.as<std::uint16_t>()[i]);
      default:
        return tile_.as<std::int32_t>()[i];
    }
  }
  void set(std::int64_t i, double value) {
    switch (tile_.dtype) {
      case DType::f32:
        tile_.as<float>()[i] = static_cast<float>(value);
        break;
      case DType::f64:
        tile_.as<double>()[i] = value;
        break;
      case DType::bf16:
        tile_.as<std::uint16_t>()[i] = to_bf16(value);
        break;
      default:
        tile_.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
    }
  }
  std::vector<double> values() const {
    std::vector<double> result(static_cast<std::size_t>(size()));
    for (std::int64_t i = 0; i < size(); ++i) result[i] = get(i);
    return result;
  }
  template <class Function>
  TestTensor& fill(const Function& f) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, f(i));
    return *this;
  }

 private:
  kernels::Tile tile_;
  std::vector<unsigned char> bytes_;
};

/// Runs a kernel and waits for it.
inline void run_kernel(const std::string& id, const Attributes& attributes,
                       const std::vector<kernels::Tile>& inputs,
                       const std::vector<kernels::Tile>& outputs, void* workspace = nullptr,
                       const kernels::Feeds& feeds = {}) {
  const int coordinates[1] = {0};
  const kernels::Call call{attributes,
                           inputs.data(),
                           static_cast<int>(inputs.size()),
                           outputs.data(),
                           static_cast<int>(outputs.size()),
                           workspace,
                           feeds,
                           coordinates};
  kernels::find_kernel(id)(exec(), call);
  exec().fence();
}

/// sum = the shares of all parts, which a moments kernel makes of each part's moments.
inline void add_shares(const std::string& id, const Attributes& attributes,
                       const std::vector<TestTensor>& moments, const TestTensor* mean,
                       TestTensor& sum) {
  std::vector<double> total(static_cast<std::size_t>(sum.size()), 0.0);
  for (const auto& part : moments) {
    const TestTensor share(sum);
    std::vector<kernels::Tile> inputs{part.tile()};
    if (mean != nullptr) inputs.push_back(mean->tile());
    run_kernel(id, attributes, inputs, {share.tile()});
    for (std::int64_t i = 0; i < sum.size(); ++i)
      total[static_cast<std::size_t>(i)] += share.get(i);
  }
  sum.fill([&](std::int64_t i) { return total[static_cast<std::size_t>(i)]; });
}

/// Exactly the planned workspace, filled with what is not a number, and a canary behind it.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::int64_t bytes)
      : memory_(static_cast<std::size_t>(bytes) + 64), end_(bytes) {
    std::fill_n(at(0), bytes, 0xFF);
    std::fill_n(at(bytes), 64, 0xC5);
  }
  ~GuardedWorkspace() {
    CHECK(std::all_of(at(end_), at(end_) + 64, [](unsigned char byte) { return byte == 0xC5; }));
  }
  void* data() const { return memory_.data(); }

 private:
  unsigned char* at(std::int64_t byte) const {
    return static_cast<unsigned char*>(memory_.data()) + byte;
  }
  device::Memory memory_;
  std::int64_t end_;
};

}  // namespace tessera::test
