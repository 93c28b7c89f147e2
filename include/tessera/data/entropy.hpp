// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/token_samples.hpp"

namespace tessera::data {

/// Cross-entropy in nats per token of `validation` under the frequencies of single tokens in
/// `train` (each count plus one): what a model without context reaches. Of each stream at most the
/// first `limit` tokens are read.
double unigram_nats(const std::vector<Stream>& train, const std::vector<Stream>& validation,
                    std::int64_t vocab, std::int64_t limit = std::int64_t{1} << 24);

}  // namespace tessera::data
