// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/program/program.hpp"
#include "tessera/runtime/executor.hpp"
#include "tessera/shape/tile.hpp"
#include "tessera/train/messages.hpp"

/// Parts of variables on their way between ranks that run different Programs over the same
/// variables, on different meshes.
namespace tessera::train {

/// A part of a variable that one rank gives and another one takes.
struct Shared {
  int from = 0;  ///< index of the variable in the giver's Program
  int to = 0;    ///< and in the taker's
  Box box;       ///< global indices
};

/// What rank `giver` of `from` gives to rank `taker` of `to` of the named variables: the parts that
/// both hold, each given by one of the ranks that hold it (coordinate 0 on the mesh dims that
/// replicate it).
std::vector<Shared> shared_parts(const program::Program& from, std::int64_t giver,
                                 const program::Program& to, std::int64_t taker,
                                 const std::vector<std::string>& names);
/// Bytes of all that the ranks of one Program give to those of another of the named variables.
std::int64_t bytes_between(const program::Program& from, const program::Program& to,
                           const std::vector<std::string>& names);

/// shared_parts between the ranks of two Programs, each computed once. Lists of names are numbered
/// in the order in which they are added.
class Routes {
 public:
  Routes(const program::Program& from, const program::Program& to) : from_(from), to_(to) {}
  void add(std::vector<std::string> names) { lists_.push_back(std::move(names)); }
  const std::vector<Shared>& parts(std::size_t list, std::int64_t giver, std::int64_t taker);

 private:
  const program::Program& from_;
  const program::Program& to_;
  std::vector<std::vector<std::string>> lists_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::vector<Shared>> parts_;
};

/// A variable's tile on a local rank in host memory; what was changed is written back at the end.
class HostTile {
 public:
  HostTile(runtime::Executor& executor, int variable, int local_rank);
  ~HostTile();
  HostTile(const HostTile&) = delete;
  HostTile& operator=(const HostTile&) = delete;

  void* data() { return data_; }
  const Box& box() const { return box_; }
  std::int64_t elements() const { return volume(box_); }
  void mark_changed() { changed_ = true; }

 private:
  runtime::Executor& executor_;
  int variable_;
  int local_rank_;
  Box box_;
  std::vector<std::byte> copy_;  // where kernels run in a device's memory
  void* data_ = nullptr;
  bool changed_ = false;
};

/// How parts that arrive change a tile: they replace its elements, or `scale` times each is added.
enum class Arrival { replace, add };

/// Appends a part of a local rank's tile.
void pack(runtime::Executor& executor, int local_rank, const Shared& part, Writer& to);
/// The same out of another tile of the same box.
void pack_from(const void* tile, const Box& tile_box, DType dtype, const Box& part, Writer& to);
void unpack(runtime::Executor& executor, int local_rank, const Shared& part, Reader& from,
            Arrival arrival = Arrival::replace, double scale = 1);
/// Sets a variable's tiles to zero on all local ranks.
void clear(runtime::Executor& executor, int variable);

}  // namespace tessera::train
