// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

/// Texts under way, as ids.
using Texts = std::vector<std::vector<std::int32_t>>;

/// Runs the sections that decode: the first call looks at the texts as a whole (prefill), each
/// further one at one position (decode), where the model keeps keys and values. When these are
/// full, the older half is forgotten and the rest looked at anew.
class TextDecoder {
 public:
  /// UserError if the model cannot sample.
  explicit TextDecoder(const Session& session);

  /// Texts that run at a time.
  std::int64_t rows() const { return rows_; }
  /// Drawn tokens that follow the first `known` (> 0) ones of each of rows() texts; the same on all
  /// ranks. A call with one more known token than the last is a step. `first` is the number of the
  /// first of these texts among all: each has its own draws. Collective.
  std::vector<std::int32_t> next(const Texts& texts, std::int64_t known, std::int64_t first);
  /// Only keeps keys and values of the first `known` tokens, for a search that begins there; all
  /// must fit into length(). Collective.
  void fill(const Texts& texts, std::int64_t known) { prefill(texts, known, {}); }
  std::int64_t length() const { return length_; }
  /// The next call begins with other texts.
  void restart() { known_ = 0; }

 private:
  std::int64_t begin_of(std::int64_t known) const;
  void prefill(const Texts& texts, std::int64_t known, kernels::Feeds feeds);
  void step(const Texts& texts, std::int64_t known, kernels::Feeds feeds);
  void set_tokens(const std::string& section, const Texts& texts, std::int64_t begin,
                  std::int64_t known);

  const Session& session_;
  bool has_caches_ = false;
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;  ///< positions that are looked back at
  std::int64_t begin_ = 0;   ///< first token that is not forgotten
  std::int64_t known_ = 0;   ///< of the last call; 0: none
};

}  // namespace tessera::train
