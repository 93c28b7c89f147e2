// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::comm {

/// The processes of a job and the few small services that they need of each other outside a
/// Program. Every call except rank() and size() is collective: all processes make it, in the same
/// order. A simulated run has one process, however many ranks its mesh has.
class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() const = 0;
  /// The root's bytes in everybody's `bytes` (equal sizes).
  virtual void broadcast(std::span<std::byte> bytes, int root = 0) const = 0;
  /// Everybody's bytes (equal sizes), one after the other by rank.
  virtual std::vector<std::byte> gather(std::span<const std::byte> bytes) const = 0;

  /// The root's text on all processes; others' arguments are ignored.
  std::string broadcast_text(const std::string& text, int root = 0) const;
  /// Everybody's text, by rank.
  std::vector<std::string> gather_text(const std::string& text) const;
  /// Everybody's value, by rank.
  std::vector<std::int64_t> gather_integer(std::int64_t value) const;
  /// Everybody's vector (equal lengths), by rank.
  std::vector<std::vector<double>> gather_vector(const std::vector<double>& values) const;
  /// Element-wise over vectors of equal length; the sum in rank order, so equal on all ranks and in
  /// every run; a NaN anywhere gives NaN.
  std::vector<double> sum(const std::vector<double>& values) const;
  std::vector<double> max(const std::vector<double>& values) const;
};

/// A job of one process that needs no MPI.
class SingleProcess final : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() const override {}
  void broadcast(std::span<std::byte>, int) const override {}
  std::vector<std::byte> gather(std::span<const std::byte> bytes) const override {
    return {bytes.begin(), bytes.end()};
  }
};

}  // namespace tessera::comm
