// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/sampler.hpp"

#include <algorithm>
#include <chrono>

#include "tessera/base/error.hpp"
#include "tessera/base/status.hpp"
#include "tessera/train/beam_decoder.hpp"
#include "tessera/train/text_decoder.hpp"

namespace tessera::train {
namespace {

/// A sequence needs a first token; without a prompt it is the end of a line, if there is such an
/// id.
std::int32_t first_id(const data::Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  const Status status = attempt([&] { ids = vocabulary.encode("\n"); });
  return status.ok() && !ids.empty() ? ids.back() : 0;  // behind a leading blank
}

/// A prompt's ids. UserError if the model cannot continue it.
std::vector<std::int32_t> ids_of(const Session& session, const TextDecoder& decoder,
                                 const std::string& prompt) {
  const auto& settings = session.settings;
  const auto& config = settings.sample;
  auto ids = session.corpus.vocabulary.encode(prompt);
  const std::int64_t vocab = settings.model->vocab();  // 0: not known
  for (const std::int32_t id : ids)
    check_user(vocab == 0 || id < vocab, "the prompt '", prompt, "' holds the token ", id,
               ", but model.vocab = ", vocab, ": leave it out");
  if (config.beam == 0) return ids;
  const auto known = std::max<std::int64_t>(1, static_cast<std::int64_t>(ids.size()));
  check_user(session.compiled.program.has_section("reorder"), "model '", settings.model_name,
             "' keeps no keys and values: set sample.beam = 0");
  check_user(config.length <= decoder.length() - (known - 1), "sample.beam: a prompt of ", known,
             " tokens and sample.length = ", config.length,
             " are more than data.length = ", decoder.length(), ", of which nothing is forgotten");
  return ids;
}

/// Appends drawn tokens to texts that begin with `given` tokens each.
void draw_all(const Session& session, TextDecoder& decoder, Texts& texts,
              const std::vector<std::size_t>& given, std::size_t first, Continuations& result) {
  const auto [shortest, longest] = std::minmax_element(given.begin(), given.end());
  const auto length = static_cast<std::size_t>(session.settings.sample.length);
  const std::size_t end = *longest + length;
  // Rows without a prompt are computed along.
  texts.resize(static_cast<std::size_t>(decoder.rows()), {0});
  decoder.restart();
  for (std::size_t known = *shortest; known < end; ++known) {
    const auto ids =
        decoder.next(texts, static_cast<std::int64_t>(known), static_cast<std::int64_t>(first));
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (known < given[i] || known >= given[i] + length) continue;
      texts[i].push_back(ids[i]);
      ++result.tokens;
    }
  }
}

/// The prompt's ids and the likeliest continuation that beam search finds.
std::vector<std::int32_t> search(const Session& session, TextDecoder& decoder,
                                 std::vector<std::int32_t> ids) {
  const auto& config = session.settings.sample;
  const auto known = static_cast<std::int64_t>(ids.size());
  if (known > 1) decoder.fill({ids}, known - 1);
  const auto found = beam_search(*session.executor, {{ids.back()}, known - 1},
                                 {.beam = config.beam, .alpha = 0, .max_length = config.length});
  const auto& best = found.front().front().tokens;
  ids.insert(ids.end(), best.begin(), best.end());
  return ids;
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
    auto& text = texts.emplace_back(ids_of(session, decoder, prompts[first + i]));
    invented.push_back(text.empty() ? 1 : 0);
    if (text.empty()) text.push_back(first_id(vocabulary));
    given.push_back(text.size());
  }
  if (config.beam > 0) {
    texts[0] = search(session, decoder, texts[0]);
    result.tokens += config.length;
  } else {
    draw_all(session, decoder, texts, given, first, result);
  }
  for (std::size_t i = 0; i < count; ++i)
    result.texts.push_back(
        vocabulary.decode(std::span(texts[i]).subspan(invented[i], texts[i].size() - invented[i])));
}

}  // namespace

void check_can_sample(const Session& session) {
  const TextDecoder decoder(session);
  static_cast<void>(ids_of(session, decoder, session.settings.sample.prompt));
}

Continuations sample(const Session& session, const std::vector<std::string>& prompts) {
  TextDecoder decoder(session);
  // All of them before time is spent on the first.
  for (const auto& prompt : prompts) static_cast<void>(ids_of(session, decoder, prompt));
  Continuations result;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t first = 0; first < prompts.size(); first += decoder.rows())
    continue_some(session, decoder, prompts, first, result);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  result.tokens_per_second = static_cast<double>(result.tokens) / std::max(1e-9, passed.count());
  return result;
}

}  // namespace tessera::train
