// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/conv_plan.hpp"
#include "tessera/device/exec.hpp"
#include "tessera/program/workspace.hpp"

/// The three convolution kernels on the host and in Kokkos.
namespace tessera::kernels {

program::ConvSize conv_size(const ConvPlan& plan);

void conv_host(const device::Exec& exec, const ConvPlan& plan, void* workspace);
void conv_input_grad_host(const device::Exec& exec, const ConvPlan& plan, void* workspace);
void conv_filter_grad_host(const device::Exec& exec, const ConvPlan& plan, void* workspace);

namespace portable {
void conv(const device::Exec& exec, const ConvPlan& plan);
void conv_input_grad(const device::Exec& exec, const ConvPlan& plan);
void conv_filter_grad(const device::Exec& exec, const ConvPlan& plan);
}  // namespace portable

}  // namespace tessera::kernels
