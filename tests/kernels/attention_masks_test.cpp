// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/attention_support.hpp"

using namespace tessera;
using namespace tessera::test::attention;
using test::TestTensor;

TEST_CASE("masks and biases follow the definition") {
  std::vector<Case> cases;
  const auto add = [&](Case c, std::int64_t window, std::int64_t segments, std::int64_t buckets) {
    c.window = window, c.segments = segments, c.buckets = buckets;
    cases.push_back(c);
  };
  add({2, 9, 9, 2, 0, 4, true}, 3, 0, 0);
  add({1, 130, 600, 1, 0, 4, false, 0, 300}, 40, 0, 0);  // several blocks, none of them whole
  add({1, 70, 1100, 1, 0, 4, true, 0, 1030}, 600, 0, 0);
  add({2, 20, 20, 2, 2, 4, true}, 0, 3, 0);
  add({1, 140, 600, 1, 0, 4, false, 0, 200}, 0, 5, 0);
  add({2, 7, 9, 2, 0, 4, false}, 0, 0, 8);
  add({1, 200, 200, 2, 0, 4, true}, 0, 0, 32);
  add({1, 150, 560, 1, 2, 4, false, 0, 200}, 0, 0, 32);
  add({2, 90, 90, 2, 2, 8, true, 0.25}, 30, 2, 16);
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    for (const Case& c : cases)
      for (const DType dtype : kFloats) check_case(c, dtype);
  });
}

TEST_CASE("keys in parts, one call going on from the other, give the whole") {
  test::for_each_variant([&](const std::string& variant) {
    INFO(variant);
    Case whole{2, 70, 90, 2, 2, 8, true, 0.25, 20};
    whole.window = 60, whole.segments = 2, whole.buckets = 16;
    for (const DType dtype : {DType::f64, DType::f32}) {
      INFO(name_of(dtype));
      Operands o(whole, dtype);
      const Reference ref = by_definition(whole, o);
      // A part is a contiguous run of keys: one row of the batch at a time keeps it so in memory.
      const auto part = [&](kernels::Tile tile, int row, std::int64_t begin, std::int64_t end) {
        std::int64_t inner = 1;
        for (int d = 2; d < tile.rank; ++d) inner *= tile.extent[d];
        tile.data = static_cast<char*>(tile.data) +
                    (row * tile.extent[1] + begin) * inner * std::int64_t(bytes_of(tile.dtype));
        tile.extent[0] = 1, tile.extent[1] = end - begin;
        tile.offset[0] = row, tile.offset[1] += begin;
        return tile;
      };
      const auto statistics = [&](int row) {
        kernels::Tile tile = o.lse.tile();
        tile.data = static_cast<char*>(tile.data) +
                    row * tile.size() / tile.extent[0] * std::int64_t(bytes_of(tile.dtype));
        tile.extent[0] = 1;
        return tile;
      };
      kernels::Feeds feeds;
      feeds.step = whole.step;
      program::AttentionSize size = whole.size();
      const test::GuardedWorkspace room(program::attention_forward_workspace(dtype, size));
      const test::GuardedWorkspace more(program::attention_backward_workspace(dtype, size));
      const std::int64_t borders[] = {50, 90, 0, 50};  // the later keys first
      for (int row = 0; row < 2; ++row) {
        const auto operands = [&](std::vector<kernels::Tile> tiles, std::int64_t begin,
                                  std::int64_t end) {
          tiles.push_back(part(o.query_ids.tile(), row, 0, whole.queries));
          tiles.push_back(part(o.key_ids.tile(), row, begin, end));
          tiles.push_back(o.bias.tile());
          return tiles;
        };
        const auto q = [&](const TestTensor& x) { return part(x.tile(), row, 0, whole.queries); };
        for (const int turn : {0, 1}) {
          const std::int64_t begin = borders[2 * turn], end = borders[2 * turn + 1];
          Attributes attributes = whole.attributes();
          attributes.set("accumulate", std::int64_t{turn});
          test::run_kernel("attention_forward", attributes,
                           operands({q(o.q), part(o.k.tile(), row, begin, end),
                                     part(o.v.tile(), row, begin, end)},
                                    begin, end),
                           {q(o.out), statistics(row)}, room.data(), feeds);
        }
        for (const int turn : {0, 1}) {
          const std::int64_t begin = borders[2 * turn], end = borders[2 * turn + 1];
          Attributes attributes = whole.attributes();
          attributes.set("accumulate", std::int64_t{turn});
          const kernels::Tile dk = part(o.dk.tile(), row, begin, end);
          const kernels::Tile dv = part(o.dv.tile(), row, begin, end);
          // What is gone on from: nothing yet in these keys.
          for (std::int64_t i = 0; i < dk.size(); ++i) {
            const std::int64_t at = row * o.dk.size() / 2 + begin * whole.heads * whole.depth + i;
            o.dk.set(at, 0), o.dv.set(at, 0);
          }
          if (row == 1) attributes.set("accumulate", std::int64_t{1});
          if (row == 1 && turn == 0) {
            for (std::int64_t i = o.dq.size() / 2; i < o.dq.size(); ++i) o.dq.set(i, 0);
          }
          test::run_kernel("attention_backward", attributes,
                           operands({q(o.dout), q(o.q), part(o.k.tile(), row, begin, end),
                                     part(o.v.tile(), row, begin, end), q(o.out), statistics(row)},
                                    begin, end),
                           {q(o.dq), dk, dv, o.dbias.tile()}, more.data(), feeds);
        }
      }
      const double tolerance = 3 * tolerance_of(dtype);
      CHECK(distance(o.out, ref.out) <= tolerance);
      CHECK(distance(o.dq, ref.dq) <= tolerance);
      CHECK(distance(o.dk, ref.dk) <= tolerance);
      CHECK(distance(o.dv, ref.dv) <= tolerance);
      CHECK(distance(o.dbias, ref.dbias) <= 10 * tolerance);
    }
  });
}
