// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/data/digest.hpp"

#include <cstdio>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"

namespace tessera::data {
namespace {

constexpr std::uint64_t kLowSeed = 0x243f6a8885a308d3ULL;  // digits of pi: no structure, no secret
constexpr std::uint64_t kHighSeed = 0x13198a2e03707344ULL;

}  // namespace

Digest& Digest::add(std::uint64_t word) {
  low = hash_combine(low ^ kLowSeed, word);
  high = hash_combine(high ^ kHighSeed, word);
  return *this;
}

Digest& Digest::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  Digest content;
  content.add_bytes(0, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return add(content);
}

Digest& Digest::add_bytes(std::int64_t offset, const unsigned char* bytes, std::size_t count) {
  TESSERA_CHECK(offset % 8 == 0, "a digest is fed words");
  auto index = static_cast<std::uint64_t>(offset / 8);
  for (std::size_t at = 0; at < count; at += 8, ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, count - at < 8 ? count - at : 8);
    low += hash_combine(hash_combine(kLowSeed, index), word);
    high += hash_combine(hash_combine(kHighSeed, index), word);
  }
  return *this;
}

std::string Digest::to_string() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

}  // namespace tessera::data
