// SPDX-License-Identifier: BSD-3-Clause
// Files that broke while nobody looked: whatever bit is flipped and wherever the file is cut, it is
// either refused or gives back exactly what was saved.
#include <algorithm>
#include <cstdlib>

#include "io/checkpoint_support.hpp"
#include "support/catch.hpp"
#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/io/inspect.hpp"

using namespace tessera;

namespace {

enum class Outcome { refused, intact, wrong };

class Judge {
 public:
  Judge() : collectives_(MeshShape::parse("a:2", 0)) {
    test::TestTiles tiles(tensors(), collectives_, 5);
    file_ = io::save_checkpoint(folder_.path(), tiles.content(), collectives_, 0);
    bytes_ = test::file_bytes(file_);
    groups_ = io::Checkpoint(file_).groups();
  }

  const std::string& bytes() const { return bytes_; }
  const std::string& file() const { return file_; }

  Outcome outcome(const std::string& bytes) {
    test::write_bytes(file_, bytes);
    test::LoadTarget target(tensors(), collectives_);
    const bool whole = inspected_whole();
    try {
      const io::Checkpoint checkpoint(file_);
      io::load_checkpoint(checkpoint, target.wanted(), collectives_);
      const bool same = target.differences(5).empty() && checkpoint.groups() == groups_;
      return same && whole ? Outcome::intact : Outcome::wrong;
    } catch (const UserError& error) {
      const bool named = test::contains(error.what(), file_);
      return named && !whole ? Outcome::refused : Outcome::wrong;
    }
  }

 private:
  std::vector<test::TestTensor> tensors() const { return test::test_tensors(collectives_.mesh()); }
  bool inspected_whole() const {
    try {
      return io::inspect_checkpoint(file_, false).whole;
    } catch (const UserError&) {
      return false;
    }
  }

  test::Scratch folder_;
  comm::SimulatedCollectives collectives_;
  std::string file_;
  std::string bytes_;
  std::map<std::string, Attributes> groups_;
};

/// Every position in a long run, else a sample of them.
std::size_t stride() {
  return std::getenv("TESSERA_LONG_TESTS") ? 1 : 7;
}

}  // namespace

TEST_CASE("no flipped bit goes unnoticed") {
  Judge judge;
  CHECK(judge.outcome(judge.bytes()) == Outcome::intact);
  int refused = 0;
  int wrong = 0;
  for (std::size_t at = 0; at < judge.bytes().size(); at += stride()) {
    std::string bytes = judge.bytes();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at / stride() % 8)));
    const Outcome outcome = judge.outcome(bytes);
    if (outcome == Outcome::refused) ++refused;
    if (outcome == Outcome::wrong) {
      ++wrong;
      INFO("byte " << at);
      CHECK(outcome != Outcome::wrong);
    }
  }
  CHECK(wrong == 0);
  CHECK(refused > 100);
}

TEST_CASE("bytes that were lost or zeroed are noticed") {
  Judge judge;
  for (std::size_t size = 0; size < judge.bytes().size(); size += 97 * stride()) {
    INFO("cut to " << size);
    CHECK(judge.outcome(judge.bytes().substr(0, size)) == Outcome::refused);
  }
  CHECK(judge.outcome(judge.bytes().substr(0, judge.bytes().size() - 1)) == Outcome::refused);
  for (std::size_t at = 0; at + 512 <= judge.bytes().size(); at += 512) {
    std::string bytes = judge.bytes();
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 512, '\0');
    INFO("512 bytes zeroed at " << at);
    CHECK(judge.outcome(bytes) != Outcome::wrong);
  }
}
