// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/train/progress.hpp"
#include "tessera/train/turns.hpp"

/// What servers and workers say to each other. Ranks of one job have one architecture, so values
/// travel as they lie in memory.
namespace tessera::train {

enum Tag : int {
  kAsk = 1,    ///< first rank of a worker → first server: give me work
  kGrant,      ///< back: WorkOrder
  kWeights,    ///< server → rank of a worker: ticket, then tiles
  kGradients,  ///< rank of a worker → server: ticket, then tiles
  kPush,       ///< first rank of a worker → first server, after its gradients: Push
  kEvaluated,  ///< the same: version, ValidationRecord
  kPulse,      ///< rank of a worker → first server: I live; back: a group evaluates, be patient
  kLost,       ///< first server → ranks of a worker: this one of yours is lost, leave
  kSignal,     ///< rank of a worker → first server: a stop signal came
};

/// Puts values one after the other.
class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
    return *this;
  }
  template <class T>
  Writer& put_all(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(static_cast<std::int64_t>(values.size()));
    append(values.data(), values.size() * sizeof(T));
    return *this;
  }
  Writer& put_text(const std::string& text) {
    return put_all(std::vector<char>(text.begin(), text.end()));
  }
  void append(const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
  }
  /// Room for so many more; at least doubled, so that a message of many parts is not copied for
  /// each.
  void reserve(std::size_t bytes) {
    const std::size_t needed = bytes_.size() + bytes;
    if (needed > bytes_.capacity()) bytes_.reserve(std::max(needed, 2 * bytes_.capacity()));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Takes them in the same order.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> get_all() {
    std::vector<T> values(static_cast<std::size_t>(get<std::int64_t>()));
    const std::byte* from = take(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), from, values.size() * sizeof(T));
    return values;
  }
  std::string get_text() {
    const auto text = get_all<char>();
    return {text.begin(), text.end()};
  }
  /// The next bytes, in the message.
  const std::byte* take(std::size_t bytes) {
    TESSERA_CHECK(bytes <= left_.size(), "a message is shorter than what it should hold");
    const std::byte* begin = left_.data();
    left_ = left_.subspan(bytes);
    return begin;
  }

 private:
  std::span<const std::byte> left_;
};

/// What a worker is to do next.
struct WorkOrder {
  Turns::Grant grant;
  std::int64_t ticket = 0;  ///< of the weights that go with it, and of what it comes to
  std::int64_t step = 1;    ///< for random draws: differs between workers
  data::Position batch;
  int exit_code = 0;          ///< of a worker that is told to stop
  bool lost_workers = false;  ///< some do not come to the end
  std::int64_t save = 0;  ///< before that, keep the experience beside the checkpoint of this step
};

/// What came of it, besides gradients.
struct Push {
  std::int64_t sequence = 0;
  std::int64_t epoch = 0;
  std::int64_t targets = 0;          ///< of the whole batch
  std::vector<double> numbers = {};  ///< loss, then metrics, as PhaseRunner::names: this share of
                                     ///< the batch's means

  /// As PhaseRunner::results.
  std::vector<StepResult> results = {};
  Metrics metrics = {};  ///< of experience, as Feeder::report gives them, when a step ends
  std::vector<std::pair<std::string, std::int64_t>> counts = {};

  std::vector<std::byte> bytes() const;
  static Push from(std::span<const std::byte> bytes);
};

struct Evaluated {
  std::int64_t version = 0;
  double seconds = 0;
  ValidationRecord record;

  std::vector<std::byte> bytes() const;
  static Evaluated from(std::span<const std::byte> bytes);
};

}  // namespace tessera::train
