// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/text_decoder.hpp"

#include "tessera/base/error.hpp"

namespace tessera::train {

TextDecoder::TextDecoder(const Session& session) : session_(session) {
  const auto& program = session.compiled.program;
  check_user(program.has_section("prefill"), "model '", session.settings.model_name,
             "' cannot sample: set sample.length = 0");
  has_caches_ = program.has_section("decode");
  const auto& section = program.section("prefill");
  const auto& tokens = section.buffers[static_cast<std::size_t>(section.inputs[0].buffer)];
  rows_ = tokens.spec.shape.size_of("batch");
  length_ = tokens.spec.shape.size_of("length");
}

std::vector<std::int32_t> TextDecoder::next(const Texts& texts, std::int64_t known,
                                            std::int64_t first) {
  TESSERA_CHECK(known > 0 && static_cast<std::int64_t>(texts.size()) == rows_, texts.size(),
                " texts of ", known, " tokens");
  const std::int64_t begin = begin_of(known);
  const bool is_step = has_caches_ && known_ > 0 && known == known_ + 1 && begin == begin_;
  begin_ = begin;
  kernels::Feeds feeds;
  feeds.step = (first << 32) + known;
  if (is_step)
    step(texts, known, feeds);
  else
    prefill(texts, known, feeds);
  known_ = known;
  const auto ids = session_.executor->fetch(is_step ? "decode" : "prefill", "ids", 0);
  return {ids.begin(), ids.end()};
}

/// A function of `known` alone, so that a text does not depend on those that run with it.
std::int64_t TextDecoder::begin_of(std::int64_t known) const {
  const std::int64_t over = known - length_;
  if (over <= 0) return 0;
  if (!has_caches_) return over;
  const std::int64_t half = length_ - length_ / 2;
  return (over + half - 1) / half * half;
}

void TextDecoder::prefill(const Texts& texts, std::int64_t known, kernels::Feeds feeds) {
  set_tokens("prefill", texts, begin_, known);
  feeds.values[nn::kLastFeed] = static_cast<double>(known - 1 - begin_);
  session_.executor->run("prefill", feeds);
}

void TextDecoder::step(const Texts& texts, std::int64_t known, kernels::Feeds feeds) {
  set_tokens("decode", texts, known - 1, known);
  feeds.values[nn::kPositionFeed] = static_cast<double>(known - 1 - begin_);
  session_.executor->run("decode", feeds);
}

/// Tokens [begin, known) of each text, zeros behind them. Tiles are [batch, length] or [batch].
void TextDecoder::set_tokens(const std::string& section, const Texts& texts, std::int64_t begin,
                             std::int64_t known) {
  auto& executor = *session_.executor;
  for (int r = 0; r < executor.local_ranks(); ++r) {
    const Box box = executor.input_box(section, "tokens", r);
    const Interval columns = box.size() > 1 ? box[1] : Interval{0, 1};
    std::vector<std::int32_t> tile;
    for (std::int64_t row = box[0].begin; row < box[0].end; ++row)
      for (std::int64_t at = begin + columns.begin; at < begin + columns.end; ++at) {
        const auto& text = texts[static_cast<std::size_t>(row)];
        tile.push_back(at < known && at < static_cast<std::int64_t>(text.size())
                           ? text[static_cast<std::size_t>(at)]
                           : 0);
      }
    executor.set_input(section, "tokens", r, tile.data());
  }
}

}  // namespace tessera::train
