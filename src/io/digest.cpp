// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/digest.hpp"

#include <cstdio>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/shape/runs.hpp"

namespace tessera::io {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kFirst = 0xd6e8feb86659fd93ULL;
constexpr std::uint64_t kSecond = 0xbf58476d1ce4e5b9ULL;

template <class Word>
Digest digest_run(std::int64_t global, std::int64_t count, const unsigned char* bytes) {
  Digest digest;
  std::uint64_t key = static_cast<std::uint64_t>(global + 1) * kStep;
  for (std::int64_t i = 0; i < count; ++i, key += kStep) {
    Word bits;  // tiles have no alignment of their own
    std::memcpy(&bits, bytes + static_cast<std::size_t>(i) * sizeof(Word), sizeof(Word));
    std::uint64_t z = key + bits;
    z = (z ^ (z >> 32)) * kFirst;
    const std::uint64_t low = z ^ (z >> 29);
    const std::uint64_t high = low * kSecond;
    digest.low += low;
    digest.high += high ^ (high >> 32);
  }
  return digest;
}

template <class Word>
Digest digest_box(const Shape& shape, const Box& box, const void* tile) {
  Digest digest;
  const auto* bytes = static_cast<const unsigned char*>(tile);
  for_each_run(shape, box, [&](const Run& run) {
    digest += digest_run<Word>(run.global, run.count,
                               bytes + static_cast<std::size_t>(run.local) * sizeof(Word));
  });
  return digest;
}

}  // namespace

Digest& Digest::operator+=(const Digest& other) {
  low += other.low;
  high += other.high;
  return *this;
}

std::string Digest::to_string() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Digest Digest::parse(const std::string& text) {
  const bool digits =
      text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  check_user(digits, "'", text, "' is no digest (32 hexadecimal digits)");
  return {std::stoull(text.substr(16), nullptr, 16), std::stoull(text.substr(0, 16), nullptr, 16)};
}

Digest digest_tile(DType dtype, const Shape& shape, const Box& box, const void* tile) {
  switch (bytes_of(dtype)) {
    case 2:
      return digest_box<std::uint16_t>(shape, box, tile);
    case 8:
      return digest_box<std::uint64_t>(shape, box, tile);
    default:
      return digest_box<std::uint32_t>(shape, box, tile);
  }
}

}  // namespace tessera::io
