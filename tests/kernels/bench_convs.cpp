// SPDX-License-Identifier: BSD-3-Clause
// Times of convolutions on this machine. Reads lines "batch size in out kernel stride" (square
// pictures and filters, padding of half a filter) and answers each with the CPU milliseconds of
// forward, input gradient and filter gradient, each the best of three runs. For people;
// compare_convs.py sets it beside PyTorch.
#include <time.h>

#include <algorithm>
#include <iostream>

#include "kernels/support.hpp"
#include "tessera/program/workspace.hpp"

using namespace tessera;
using test::TestTensor;

namespace {

using Numbers = std::vector<std::int64_t>;

double cpu_milliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double best_of_three(const char* kernel, const Attributes& attributes, const TestTensor& a,
                     const TestTensor& b, const TestTensor& to, std::int64_t workspace) {
  const device::Memory room(static_cast<std::size_t>(workspace));
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const double begin = cpu_milliseconds();
    test::run_kernel(kernel, attributes, {a.tile(), b.tile()}, {to.tile()}, room.data());
    best = std::min(best, cpu_milliseconds() - begin);
  }
  return best;
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
    std::cout << best_of_three("conv", attributes, x, filter, y,
                               program::conv_workspace(DType::f32, size))
              << ' '
              << best_of_three("conv_input_grad", attributes, dy, filter, dx,
                               program::conv_input_grad_workspace(DType::f32, size))
              << ' '
              << best_of_three("conv_filter_grad", attributes, x, dy, dfilter,
                               program::conv_filter_grad_workspace(DType::f32, size))
              << std::endl;
  }
  return 0;
}
