// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <string>

#include "kernels/builtin.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {
namespace {

using Table = std::map<std::string, Kernel>;

/// Tessera's own kernels, by explicit calls: static initialisers of a library may be dropped by the
/// linker.
void register_builtin_kernels() {
  register_attention_kernels();
  register_conv_kernels();
  register_decoding_kernels();
  register_dropout_kernels();
  register_einsum_kernels();
  register_embedding_kernels();
  register_lookup_kernels();
  register_group_norm_kernels();
  register_moments_kernels();
  register_norm_kernels();
  register_pointwise_kernels();
  register_pool_kernels();
  register_position_kernels();
  register_random_kernels();
  register_reduce_kernels();
  register_scan_kernels();
  register_shape_kernels();
  register_softmax_kernels();
  register_top_k_kernels();
}

/// Filled on first use. A builtin registration comes back here, so `filled` is set beforehand.
Table& table() {
  static Table kernels;
  static bool filled = false;
  if (!filled) {
    filled = true;
    register_builtin_kernels();
  }
  return kernels;
}

}  // namespace

void register_kernel(const std::string& id, Kernel kernel) {
  TESSERA_CHECK(kernel != nullptr, "kernel '", id, "' has no function");
  if (!table().emplace(id, kernel).second) {
    throw Error(concat("kernel '", id, "' is registered already; choose another id"));
  }
}

Kernel find_kernel(const std::string& id) {
  const auto found = table().find(id);
  if (found == table().end()) {
    throw Error(concat("no kernel '", id, "' is registered; a program's own kernels are to be ",
                       "registered before the first Executor"));
  }
  return found->second;
}

}  // namespace tessera::kernels
