// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/translator.hpp"

#include <algorithm>
#include <chrono>

#include "tessera/base/error.hpp"
#include "tessera/train/beam_decoder.hpp"

namespace tessera::train {
namespace {

using Ids = std::vector<std::int32_t>;

/// What an input says of one place of a source, as a number: by the end of the input's name, its
/// id, whether there is one, or its index.
double value_of(const std::string& input, const Ids& source, std::int64_t at) {
  const auto ends_with = [&](const std::string& end) {
    return input.size() >= end.size() && input.substr(input.size() - end.size()) == end;
  };
  const bool is_there = at < static_cast<std::int64_t>(source.size());
  if (ends_with("positions")) return is_there ? static_cast<double>(at) : 0;
  if (ends_with("segments") || ends_with("weights")) return is_there ? 1 : 0;
  check_user(ends_with("source"), "translate knows nothing to give the model's input '", input,
             "'");
  return is_there ? source[static_cast<std::size_t>(at)] : 0;
}

void set_source(const Session& session, const program::NamedBuffer& input, DType dtype,
                const std::vector<Ids>& sources) {
  auto& executor = *session.executor;
  for (int r = 0; r < executor.local_ranks(); ++r) {
    const Box box = executor.input_box("encode", input.name, r);
    TESSERA_CHECK(box.size() == 2, "input '", input.name, "' is not [batch, length]");
    std::vector<std::int32_t> whole;
    std::vector<float> real;
    for (std::int64_t row = box[0].begin; row < box[0].end; ++row)
      for (std::int64_t at = box[1].begin; at < box[1].end; ++at) {
        const double value = value_of(input.name, sources[static_cast<std::size_t>(row)], at);
        whole.push_back(static_cast<std::int32_t>(value));
        real.push_back(static_cast<float>(value));
      }
    const void* values = whole.data();
    if (dtype == DType::f32) values = real.data();
    executor.set_input("encode", input.name, r, values);
  }
}

/// The ids of a line and an end, at most `length` of them.
Ids source_ids(const Session& session, const std::string& line, std::int64_t length,
               std::int64_t& cut) {
  Ids ids = session.corpus.vocabulary.encode(line);
  ids.push_back(kEndToken);
  if (static_cast<std::int64_t>(ids.size()) <= length) return ids;
  ++cut;
  ids.resize(static_cast<std::size_t>(length));
  ids.back() = kEndToken;
  return ids;
}

std::vector<Translation> texts_of(const Session& session, const std::vector<Hypothesis>& found) {
  std::vector<Translation> result;
  for (const auto& hypothesis : found) {
    if (static_cast<std::int64_t>(result.size()) == session.settings.translate.best) break;
    Ids ids = hypothesis.tokens;
    if (!ids.empty() && ids.back() == kEndToken) ids.pop_back();
    result.push_back(
        {session.corpus.vocabulary.decode(ids), hypothesis.score, hypothesis.log_probability});
  }
  return result;
}

}  // namespace

Translations translate(const Session& session, const std::vector<std::string>& lines) {
  const auto& config = session.settings.translate;
  const auto& program = session.compiled.program;
  const auto& section = program.section("encode");
  const auto buffer_of = [&](const program::NamedBuffer& input) -> const program::Buffer& {
    return section.buffers[static_cast<std::size_t>(input.buffer)];
  };
  const Shape& shape = buffer_of(section.inputs.at(0)).spec.shape;
  const auto rows = static_cast<std::size_t>(shape[0].size);
  const BeamOptions options{.beam = config.beam,
                            .alpha = config.alpha,
                            .max_length = session.settings.task_config().decode.length,
                            .end = kEndToken};
  Translations result;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t first = 0; first < lines.size(); first += rows) {
    const std::size_t count = std::min(rows, lines.size() - first);
    std::vector<Ids> sources;
    for (std::size_t i = 0; i < count; ++i)
      sources.push_back(source_ids(session, lines[first + i], shape[1].size, result.cut));
    sources.resize(rows, {kEndToken});
    for (const auto& input : section.inputs)
      set_source(session, input, buffer_of(input).spec.dtype, sources);
    session.executor->run("encode", {});
    const auto found = beam_search(*session.executor, {Ids(rows, kBeginToken), 0}, options);
    for (std::size_t i = 0; i < count; ++i) {
      result.of_lines.push_back(texts_of(session, found[i]));
      result.tokens += static_cast<std::int64_t>(found[i].front().tokens.size());
    }
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  result.tokens_per_second = static_cast<double>(result.tokens) / std::max(1e-9, passed.count());
  return result;
}

}  // namespace tessera::train
