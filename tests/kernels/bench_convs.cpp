// SPDX-License-Identifier: BSD-3-Clause
// Times of convolutions on this machine. Reads lines "batch size in out kernel stride" (square
// pictures and filters, padding of half a filter) and answers each with the CPU milliseconds of
// forward, input gradient and filter gradient, each the best of three runs. For people;
// compare_convs.py sets it beside PyTorch.
#include <iostream>

#include "kernels/support.hpp"
#include "support/bench.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

double milliseconds(const char* kernel, const Attributes& attributes, const TestTensor& a,
                    const TestTensor& b, const TestTensor& to, std::int64_t workspace) {
  const device::Memory room(static_cast<std::size_t>(workspace));
  return test::best_of_three([&] {
    test::run_kernel(kernel, attributes, {a.tile(), b.tile()}, {to.tile()}, room.data());
  });
}

}  // namespace

int main() {
  test::exec();
  std::int64_t batch, side, in, out, kernel, stride;
  while (std::cin >> batch >> side >> in >> out >> kernel >> stride) {
    const std::int64_t to = (side - 1) / stride + 1;
    const TestTensor x(DType::f32, {batch, side, side, in}), dx = x;
    const TestTensor filter(DType::f32, {kernel, kernel, in, out}), dfilter = filter;
    const TestTensor y(DType::f32, {batch, to, to, out}), dy = y;
    for (const TestTensor* t : {&x, &filter, &dy})
      for (std::int64_t i = 0; i < t->size(); ++i)
        t->tile().as<float>()[i] = 0.01F * static_cast<float>(i * 37 % 101) - 0.5F;
    const Attributes attributes{
        {"batch", std::int64_t{1}},  {"groups", std::int64_t{0}},
        {"in", std::int64_t{1}},     {"stride", Numbers{stride, stride}},
        {"dilation", Numbers{1, 1}}, {"before", Numbers{kernel / 2, kernel / 2}}};
    program::ConvSize size;
    size.batch = batch, size.in = in, size.out = out;
    for (int d = 1; d < 3; ++d)
      size.x[d] = side, size.y[d] = to, size.taps[d] = kernel, size.stride[d] = stride;
    std::cout << milliseconds("conv", attributes, x, filter, y,
                              program::conv_workspace(DType::f32, size))
              << ' '
              << milliseconds("conv_input_grad", attributes, dy, filter, dx,
                              program::conv_input_grad_workspace(DType::f32, size))
              << ' '
              << milliseconds("conv_filter_grad", attributes, x, dy, dfilter,
                              program::conv_filter_grad_workspace(DType::f32, size))
              << std::endl;
  }
  return 0;
}
