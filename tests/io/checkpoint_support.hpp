// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/scratch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/comm/collectives.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::test {

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

struct TestTensor {
  std::string path;
  TensorSpec spec;
  Placement placement;
};

/// The bytes of one element: any bit pattern, a function of tensor, step and global index.
inline void set_element(char* to, std::size_t bytes, const std::string& path, std::int64_t step,
                        std::int64_t index) {
  const std::uint64_t bits =
      hash_combine(hash_combine(hash_text(path), static_cast<std::uint64_t>(step)),
                   static_cast<std::uint64_t>(index));
  std::memcpy(to, &bits, bytes);
}

/// The dense row-major bytes of a box, computed element by element from indices alone.
inline std::string box_bytes(const TestTensor& tensor, const Box& box, std::int64_t step) {
  const Shape& shape = tensor.spec.shape;
  const std::size_t bytes = bytes_of(tensor.spec.dtype);
  const std::int64_t count = volume(box);
  std::string data(static_cast<std::size_t>(count) * bytes, '\0');
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t global = 0;
    std::int64_t stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const Interval& part = box[static_cast<std::size_t>(d)];
      global += (part.begin + rest % part.size()) * stride;
      rest /= part.size();
      stride *= shape[d].size;
    }
    set_element(data.data() + static_cast<std::size_t>(i) * bytes, bytes, tensor.path, step,
                global);
  }
  return data;
}

/// Tensors of all kinds: uneven dims, two dims of one tensor split, storage cut once more, fewer
/// rows than ranks, scalars, empty ones, all dtypes; placed in a way that any mesh allows.
inline std::vector<TestTensor> test_tensors(const MeshShape& mesh) {
  const int last = mesh.rank() - 1;
  const auto placed = [&](std::vector<std::pair<int, State>> states) {
    Placement placement(mesh.rank());
    for (const auto& [m, state] : states) {
      if (m >= 0) placement[m] = state;
    }
    return placement;
  };
  const int first = mesh.rank() > 0 ? 0 : -1;
  const int second = mesh.rank() > 1 ? last : -1;
  const Shape vocab{{"vocab", 11}, {"d_model", 6}};
  const Shape wide{{"d_model", 6}, {"d_ff", 13}};
  const Shape cube{{"x", 5}, {"y", 7}, {"z", 3}};
  return {
      {"/variables/embedding", {vocab, DType::f32}, placed({{last, State::split(0)}})},
      {"/variables/block/in", {wide, DType::f32}, placed({{last, State::split(1)}})},
      {"/variables/block/both",
       {wide, DType::bf16},
       placed({{first, State::split(0)}, {second, State::split(1)}})},
      {"/variables/bias", {{{"d_ff", 2}}, DType::f32}, placed({{first, State::split(0)}})},
      {"/variables/scale", {{}, DType::f64}, placed({})},
      {"/variables/none",
       {{{"gone", 0}, {"z", 3}}, DType::f32},
       placed({{first, State::split(1)}})},
      {"/optimizer/m/block/in",
       {wide, DType::f64},
       placed({{first, State::split(1, true)}, {second, State::split(1)}})},
      {"/optimizer/v/cube",
       {cube, DType::f64},
       placed({{first, State::split(1)}, {second, State::split(2)}})},
      {"/state/count", {{{"x", 3}}, DType::i32}, placed({})},
  };
}

/// The tiles of all local ranks, as saved at `step`.
class TestTiles {
 public:
  TestTiles(std::vector<TestTensor> tensors, const comm::Collectives& collectives,
            std::int64_t step)
      : tensors_(std::move(tensors)), step_(step) {
    for (const TestTensor& tensor : tensors_) {
      std::vector<std::string> tiles;
      for (int rank : collectives.local_ranks()) {
        const Box box = tile_box(tensor.spec.shape, tensor.placement, collectives.mesh(),
                                 collectives.mesh().coordinates(rank));
        tiles.push_back(box_bytes(tensor, box, step));
      }
      tiles_.push_back(std::move(tiles));
    }
  }

  const std::vector<TestTensor>& tensors() const { return tensors_; }
  std::string& tile(std::size_t tensor, int local_rank) {
    return tiles_[tensor][static_cast<std::size_t>(local_rank)];
  }

  io::CheckpointContent content() {
    io::CheckpointContent content;
    content.step = step_;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      content.tensors.push_back({tensors_[t].path, tensors_[t].spec, tensors_[t].placement,
                                 [this, t](int r) { return tile(t, r).data(); }});
    }
    content.attributes["/meta"]
        .set("deck", std::string("[run]\nseed = 7\n"))
        .set("mesh", std::string(""));
    content.attributes["/data"]
        .set("position", std::int64_t{123456789012})
        .set("rate", 0.1)
        .set("counts", std::vector<std::int64_t>{3, -1, 4});
    return content;
  }

 private:
  std::vector<TestTensor> tensors_;
  std::int64_t step_;
  std::vector<std::vector<std::string>> tiles_;
};

/// What a load put where, to be compared with what was saved.
class LoadTarget {
 public:
  LoadTarget(std::vector<TestTensor> tensors, const comm::Collectives& collectives)
      : tensors_(std::move(tensors)), collectives_(collectives) {
    const std::size_t ranks = collectives.local_ranks().size();
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      tiles_.emplace_back(ranks);
      wanted_.push_back({tensors_[t].path, tensors_[t].spec, tensors_[t].placement,
                         [this, t](int r, const void* data) {
                           const std::size_t bytes = static_cast<std::size_t>(volume(box(t, r))) *
                                                     bytes_of(tensors_[t].spec.dtype);
                           tiles_[t][static_cast<std::size_t>(r)].assign(
                               static_cast<const char*>(data), bytes);
                         }});
    }
  }
  LoadTarget(const LoadTarget&) = delete;

  std::span<const io::LoadedTensor> wanted() const { return wanted_; }
  std::vector<io::LoadedTensor>& all_wanted() { return wanted_; }
  const std::string& tile(std::size_t tensor, int local_rank) const {
    return tiles_[tensor][static_cast<std::size_t>(local_rank)];
  }
  /// Paths of tensors that some local rank does not hold as they were at `step`.
  std::string differences(std::int64_t step) const {
    std::string paths;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      for (int r = 0; r < static_cast<int>(collectives_.local_ranks().size()); ++r) {
        if (tile(t, r) == box_bytes(tensors_[t], box(t, r), step)) continue;
        paths += tensors_[t].path + ' ';
        break;
      }
    }
    return paths;
  }

 private:
  Box box(std::size_t t, int r) const {
    const int rank = collectives_.local_ranks()[static_cast<std::size_t>(r)];
    return tile_box(tensors_[t].spec.shape, tensors_[t].placement, collectives_.mesh(),
                    collectives_.mesh().coordinates(rank));
  }

  std::vector<TestTensor> tensors_;
  const comm::Collectives& collectives_;
  std::vector<std::vector<std::string>> tiles_;
  std::vector<io::LoadedTensor> wanted_;
};

}  // namespace tessera::test
