// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/sampler.hpp"

#include <algorithm>
#include <chrono>

#include "tessera/base/error.hpp"
#include "tessera/base/status.hpp"
#include "tessera/train/text_decoder.hpp"

namespace tessera::train {
namespace {

/// A sequence needs a first token; without a prompt it is the end of a line, if there is such an
/// id.
std::int32_t first_id(const data::Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  const Status status = attempt([&] { ids = vocabulary.encode("\n"); });
  return status.ok() && !ids.empty() ? ids.front() : 0;
}

/// Continues prompts first, first + 1 … as many as run at a time.
void continue_some(const Session& session, TextDecoder& decoder,
                   const std::vector<std::string>& prompts, std::size_t first,
                   Continuations& result) {
  const auto& config = session.settings.sample;
  const auto& vocabulary = session.corpus.vocabulary;
  const std::size_t count =
      std::min(prompts.size() - first, static_cast<std::size_t>(decoder.rows()));
  Texts texts;
  std::vector<std::size_t> invented, given;
  for (std::size_t i = 0; i < count; ++i) {
    auto& text = texts.emplace_back(vocabulary.encode(prompts[first + i]));
    invented.push_back(text.empty() ? 1 : 0);
    if (text.empty()) text.push_back(first_id(vocabulary));
    given.push_back(text.size());
  }
  const auto [shortest, longest] = std::minmax_element(given.begin(), given.end());
  const auto length = static_cast<std::size_t>(config.length);
  const std::size_t end = *longest + length;
  // Rows without a prompt are computed along.
  texts.resize(static_cast<std::size_t>(decoder.rows()), {0});
  decoder.restart();
  for (std::size_t known = *shortest; known < end; ++known) {
    const auto ids =
        decoder.next(texts, static_cast<std::int64_t>(known), static_cast<std::int64_t>(first));
    for (std::size_t i = 0; i < count; ++i) {
      if (known < given[i] || known >= given[i] + length) continue;
      texts[i].push_back(ids[i]);
      ++result.tokens;
    }
  }
  for (std::size_t i = 0; i < count; ++i)
    result.texts.push_back(
        vocabulary.decode(std::span(texts[i]).subspan(invented[i], texts[i].size() - invented[i])));
}

}  // namespace

Continuations sample(const Session& session, const std::vector<std::string>& prompts) {
  TextDecoder decoder(session);
  Continuations result;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t first = 0; first < prompts.size(); first += decoder.rows())
    continue_some(session, decoder, prompts, first, result);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  result.tokens_per_second = static_cast<double>(result.tokens) / std::max(1e-9, passed.count());
  return result;
}

}  // namespace tessera::train
