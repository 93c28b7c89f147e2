// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/graph/graph.hpp"

/// Values that are known as distributions over fixed numbers (Bellemare, Dabney and Munos, "A
/// Distributional Perspective on Reinforcement Learning", 2017): all ordinary operations, so they
/// run under every layout.
namespace tessera::nn {

/// The numbers that such a distribution weighs: `atoms` of them, evenly from `low` to `high`.
struct Support {
  std::int64_t atoms = 51;
  double low = 0;
  double high = 100;
  std::string dim = "atom";  ///< along which they lie

  double gap() const { return (high - low) / static_cast<double>(atoms - 1); }
  Dim along() const { return {dim, atoms}; }
  /// UserError unless there are two atoms at least and low < high; `what` begins the message.
  void validate(const std::string& what) const;
};

/// The atoms' numbers [atom].
Tensor atoms(Graph& graph, const Support& support, DType dtype);

/// Expected value [rows…] of probabilities [rows…, atom].
Tensor expectation(Tensor probabilities, const Support& support);

/// Probabilities [rows…, atom] of reward + discount x Z, where Z is distributed by `probabilities`
/// [rows…, atom], brought back onto the support: each moved atom, cut to [low, high], is shared out
/// to the two atoms beside it in inverse proportion to its distances. reward and discount are
/// [rows…] or broadcast to it. Where `atom` is cut, the probabilities are gathered first.
Tensor project_categorical(Tensor probabilities, Tensor reward, Tensor discount,
                           const Support& support);

/// -sum over atoms of target x log softmax(logits): [rows…] of logits and target [rows…, atom].
Tensor categorical_cross_entropy(Tensor logits, Tensor target, const Support& support);

}  // namespace tessera::nn
