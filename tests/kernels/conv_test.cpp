// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/support.hpp"
#include "support/apart.hpp"
#include "support/catch.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

/// A convolution of tiles over up to three dims of space; tiles begin at the given global indices.
struct Case {
  Numbers x, y, taps, stride, dilation, before;
  std::int64_t batch = 2, groups = 1, in = 3, out = 5;
  Numbers x_offset = {}, y_offset = {}, tap_offset = {};

  std::size_t space() const { return x.size(); }
  std::int64_t offset(const Numbers& offsets, std::size_t d) const {
    return offsets.empty() ? 0 : offsets[d];
  }
  TestTensor image(DType dtype, const Numbers& extent, const Numbers& offsets,
                   std::int64_t channels) const {
    Numbers shape{batch}, begin{0};
    for (std::size_t d = 0; d < space(); ++d) {
      shape.push_back(extent[d]);
      begin.push_back(offset(offsets, d));
    }
    shape.insert(shape.end(), {groups, channels});
    begin.insert(begin.end(), {0, 0});
    return TestTensor(dtype, shape, begin, shape);
  }
  TestTensor filter(DType dtype) const {
    Numbers shape = taps, begin(taps.size());
    for (std::size_t d = 0; d < space(); ++d) begin[d] = offset(tap_offset, d);
    shape.insert(shape.end(), {groups, in, out});
    begin.insert(begin.end(), {0, 0, 0});
    return TestTensor(dtype, shape, begin, shape);
  }
  Attributes attributes() const {
    return {{"batch", std::int64_t{1}}, {"groups", std::int64_t{1}}, {"in", std::int64_t{1}},
            {"stride", stride},         {"dilation", dilation},      {"before", before}};
  }
  program::ConvSize size() const {
    program::ConvSize size;
    size.batch = batch, size.groups = groups, size.in = in, size.out = out;
    for (std::size_t s = 0; s < space(); ++s) {
      const std::size_t d = 3 - space() + s;
      size.x[d] = x[s], size.y[d] = y[s], size.taps[d] = taps[s];
      size.stride[d] = stride[s], size.dilation[d] = dilation[s];
    }
    return size;
  }
  std::string text() const {
    return Attributes{{"x", x}, {"y", y}, {"taps", taps}}.to_string() + " " +
           attributes().to_string() + " in=" + std::to_string(in) + " out=" + std::to_string(out) +
           " groups=" + std::to_string(groups);
  }

  /// f(image place in x, place in y, tap) for all that meet.
  template <class Function>
  void for_each(const Function& f) const {
    const auto volume = [](const Numbers& n) {
      std::int64_t v = 1;
      for (auto e : n) v *= e;
      return v;
    };
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t i = 0; i < volume(y); ++i)
        for (std::int64_t t = 0; t < volume(taps); ++t) {
          std::int64_t at = 0, i_left = i, t_left = t, scale = 1;
          bool inside = true;
          for (std::size_t s = space(); s-- > 0;) {
            const std::int64_t place = (i_left % y[s] + offset(y_offset, s)) * stride[s] +
                                       (t_left % taps[s] + offset(tap_offset, s)) * dilation[s] -
                                       before[s] - offset(x_offset, s);
            inside = inside && place >= 0 && place < x[s];
            at += place * scale;
            scale *= x[s];
            i_left /= y[s], t_left /= taps[s];
          }
          if (inside) f(b * volume(x) + at, b * volume(y) + i, t);
        }
  }
};

std::vector<Case> cases() {
  std::vector<Case> all{
      {{7}, {7}, {3}, {1}, {1}, {1}},
      {{9}, {4}, {3}, {2}, {1}, {0}},
      {{6, 7}, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{6, 7}, {6, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {{6, 7}, {3, 4}, {1, 1}, {2, 2}, {1, 1}, {0, 0}},
      {{8, 9}, {4, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{8, 10}, {3, 3}, {2, 3}, {3, 4}, {1, 1}, {1, 2}},
      {{9, 11}, {5, 7}, {3, 3}, {1, 1}, {2, 2}, {0, 0}},
      {{9, 11}, {6, 4}, {2, 3}, {2, 3}, {3, 2}, {2, 1}},
      {{3, 4, 5}, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {{4, 5, 6}, {2, 3, 3}, {3, 2, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}},
      // Wider than x on both sides, and a kernel that sees padding only in places.
      {{2, 3}, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {3, 3}},
  };
  Case c{{10, 12}, {5, 6}, {7, 7}, {2, 2}, {1, 1}, {3, 3}};
  c.out = 40;
  all.push_back(c);
  c = {{7, 7}, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 5, 1, 37, 33};
  all.push_back(c);
  c = {{6, 7}, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, 3, 4, 2};
  all.push_back(c);
  c.in = c.out = 1;
  c.groups = 70;
  all.push_back(c);
  c.stride = {2, 2}, c.y = {3, 4};
  all.push_back(c);
  // Tiles in the midst of larger tensors: a window of x, a part of the taps.
  c = {{5, 8}, {3, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  c.x_offset = {4, 0}, c.y_offset = {5, 0};
  all.push_back(c);
  c = {{7, 8}, {7, 8}, {1, 3}, {1, 1}, {1, 1}, {1, 1}};
  c.tap_offset = {2, 0};
  all.push_back(c);
  // Empty tiles.
  c = {{5, 8}, {0, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  all.push_back(c);
  c = {{5, 8}, {5, 8}, {0, 3}, {1, 1}, {1, 1}, {1, 1}};
  all.push_back(c);
  c = {{5, 8}, {5, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  c.batch = 0;
  all.push_back(c);
  c.batch = 2, c.in = 0;
  all.push_back(c);
  return all;
}

void check_close(const TestTensor& found, const std::vector<double>& expected, double tolerance) {
  double scale = 1, worst = 0;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (std::int64_t i = 0; i < found.size(); ++i) {
    const double apart = std::abs(found.get(i) - expected[static_cast<std::size_t>(i)]);
    worst = test::worse(worst, apart);
  }
  CHECK(worst <= tolerance * scale);
}

/// Runs with as much workspace as planned and checks that nothing behind it is written.
void run(const std::string& id, const Case& c, const TestTensor& a, const TestTensor& b,
         TestTensor& result, std::int64_t workspace) {
  const device::Memory room(static_cast<std::size_t>(workspace) + 64);
  auto* canary = static_cast<char*>(room.data()) + workspace;
  std::fill(canary, canary + 64, 'c');
  result.fill([](auto) { return std::nan(""); });
  test::run_kernel(id, c.attributes(), {a.tile(), b.tile()}, {result.tile()}, room.data());
  CHECK(std::all_of(canary, canary + 64, [](char byte) { return byte == 'c'; }));
}

}  // namespace

TEST_CASE("convolutions and their gradients equal plain loops in double") {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      TestTensor x = c.image(dtype, c.x, c.x_offset, c.in), w = c.filter(dtype);
      TestTensor dy = c.image(dtype, c.y, c.y_offset, c.out);
      std::mt19937 random(11);
      std::normal_distribution<double> normal;
      for (TestTensor* t : {&x, &w, &dy}) t->fill([&](auto) { return normal(random); });
      std::vector<double> y(static_cast<std::size_t>(dy.size())),
          dx(static_cast<std::size_t>(x.size())), dw(static_cast<std::size_t>(w.size()));
      c.for_each([&](std::int64_t from, std::int64_t to, std::int64_t tap) {
        for (std::int64_t g = 0; g < c.groups; ++g)
          for (std::int64_t i = 0; i < c.in; ++i)
            for (std::int64_t o = 0; o < c.out; ++o) {
              const auto at_x = (from * c.groups + g) * c.in + i;
              const auto at_y = (to * c.groups + g) * c.out + o;
              const auto at_w = ((tap * c.groups + g) * c.in + i) * c.out + o;
              y[static_cast<std::size_t>(at_y)] += x.get(at_x) * w.get(at_w);
              dx[static_cast<std::size_t>(at_x)] += dy.get(at_y) * w.get(at_w);
              dw[static_cast<std::size_t>(at_w)] += x.get(at_x) * dy.get(at_y);
            }
      });
      const double allowed = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1e-5 : 0.01;
      test::for_each_variant([&](const std::string& variant) {
        INFO(variant << ", " << name_of(dtype) << ", " << c.text());
        TestTensor found_y(dy), found_dx(x), found_dw(w);
        run("conv", c, x, w, found_y, program::conv_workspace(dtype, c.size()));
        check_close(found_y, y, allowed);
        run("conv_input_grad", c, dy, w, found_dx,
            program::conv_input_grad_workspace(dtype, c.size()));
        check_close(found_dx, dx, allowed);
        run("conv_filter_grad", c, x, dy, found_dw,
            program::conv_filter_grad_workspace(dtype, c.size()));
        check_close(found_dw, dw, allowed);
        if (dtype != DType::bf16) return;
        TestTensor wide = c.filter(DType::f32);
        run("conv_filter_grad", c, x, dy, wide,
            program::conv_filter_grad_workspace(dtype, c.size()));
        check_close(wide, dw, 1e-5);
      });
    }
  }
}

TEST_CASE("workspaces of convolutions grow with every extent") {
  const Case c{{9, 11}, {5, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}};
  const program::ConvSize small = c.size();
  for (int field = 0; field < 12; ++field) {
    program::ConvSize large = small;
    std::int64_t* const extents[] = {&large.batch,   &large.groups,  &large.in,   &large.out,
                                     &large.x[1],    &large.x[2],    &large.y[1], &large.y[2],
                                     &large.taps[1], &large.taps[2], &large.x[0], &large.y[0]};
    for (int step = 0; step < 50; ++step) {
      const program::ConvSize before = large;
      *extents[field] += step;
      CHECK(program::conv_workspace(DType::f32, large) >=
            program::conv_workspace(DType::f32, before));
      CHECK(program::conv_input_grad_workspace(DType::f32, large) >=
            program::conv_input_grad_workspace(DType::f32, before));
      CHECK(program::conv_filter_grad_workspace(DType::f32, large) >=
            program::conv_filter_grad_workspace(DType::f32, before));
    }
  }
}
