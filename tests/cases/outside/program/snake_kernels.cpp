// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/device/kokkos.hpp>
#include <tessera/kernels/kernel.hpp>

#include "snake.hpp"

namespace outside {
namespace {

using namespace tessera;
using kernels::Call;

template <class T>
void forward(const device::Exec& exec, const Call& call) {
  const T a = static_cast<T>(call.attributes.real("a"));
  const T* x = call.inputs[0].as<const T>();
  T* y = call.outputs[0].as<T>();
  device::for_each_index(
      "outside::snake", exec, call.outputs[0].size(), KOKKOS_LAMBDA(std::int64_t i) {
        const T sine = device::math::sin(a * x[i]);
        y[i] = x[i] + sine * sine / a;
      });
}

template <class T>
void backward(const device::Exec& exec, const Call& call) {
  const T a = static_cast<T>(call.attributes.real("a"));
  const T* x = call.inputs[0].as<const T>();
  const T* dy = call.inputs[1].as<const T>();
  T* dx = call.outputs[0].as<T>();
  device::for_each_index(
      "outside::snake_backward", exec, call.outputs[0].size(), KOKKOS_LAMBDA(std::int64_t i) {
        dx[i] = dy[i] * (T(1) + device::math::sin(T(2) * a * x[i]));
      });
}

}  // namespace

void register_snake_kernels() {
  kernels::register_kernel("outside_snake", [](const device::Exec& exec, const Call& call) {
    call.outputs[0].dtype == DType::f64 ? forward<double>(exec, call) : forward<float>(exec, call);
  });
  kernels::register_kernel("outside_snake_backward",
                           [](const device::Exec& exec, const Call& call) {
                             call.outputs[0].dtype == DType::f64 ? backward<double>(exec, call)
                                                                 : backward<float>(exec, call);
                           });
}

}  // namespace outside
