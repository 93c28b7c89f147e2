// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/mailbox.hpp"
#include "tessera/comm/mpi_world.hpp"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// A piece under way, with the memory that MPI reads or writes.
struct Piece {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
  int peer = 0;
  int tag = 0;
  bool done = false;
  bool failed = false;
};

/// A piece that fails is no error of this process: its peer was killed (UCX then says "endpoint
/// timeout").
bool test(Piece& piece) {
  int done = 0;
  if (!piece.done && !piece.failed)
    piece.failed = MPI_Test(&piece.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  piece.done = piece.done || done != 0;
  return piece.done;
}

/// A message is cut into pieces of `piece_bytes`, of which the last is shorter (and may be empty):
/// so its end is known without a header.
class MpiMailbox final : public Mailbox {
 public:
  MpiMailbox(const World& world, std::size_t piece_bytes)
      : piece_bytes_(piece_bytes), world_(dynamic_cast<const MpiWorld&>(world)) {
    MPI_Comm made = MPI_COMM_NULL;
    TESSERA_MPI(MPI_Comm_dup, world_.communicator(), &made);
    communicator_ = Communicator(made);
  }
  /// Pieces that a lost rank never took, or never sent in full, stay: MPI may still touch them.
  ~MpiMailbox() override {
    flush(0);
    if (sent_.empty() && arriving_.empty()) return;
    auto* kept = new std::list<Piece>(std::move(sent_));
    kept->splice(kept->end(), arriving_);
    static_cast<void>(new Communicator(std::move(communicator_)));
  }

  void send(Message message) override {
    TESSERA_CHECK(message.from == world_.rank(), "a message in the name of rank ", message.from);
    std::size_t begin = 0;
    for (bool last = false; !last; begin += piece_bytes_) {
      const std::size_t size = std::min(piece_bytes_, message.bytes.size() - begin);
      last = size < piece_bytes_;
      Piece& piece = sent_.emplace_back();
      if (begin == 0 && last) {
        piece.bytes = std::move(message.bytes);
      } else {
        const auto from = message.bytes.begin() + static_cast<std::ptrdiff_t>(begin);
        piece.bytes.assign(from, from + static_cast<std::ptrdiff_t>(size));
      }
      if (MPI_Isend(piece.bytes.data(), static_cast<int>(size), MPI_BYTE, message.to, message.tag,
                    communicator_.get(), &piece.request) == MPI_SUCCESS)
        continue;
      sent_.pop_back();
      break;
    }
    progress();
  }

  std::optional<Message> receive(int at) override {
    TESSERA_CHECK(at == world_.rank(), "the mail of rank ", at);
    progress();
    if (whole_.empty()) return std::nullopt;
    Message message = std::move(whole_.front());
    whole_.pop_front();
    return message;
  }

  void pause() override { world_.waiter().pause(); }

  void flush(double seconds) override {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    progress();
    while (!sent_.empty() && Clock::now() < end) {
      pause();
      progress();
    }
  }

 private:
  void progress() {
    std::erase_if(sent_, [](Piece& piece) { return test(piece) || piece.failed; });
    while (begin_receive()) {
    }
    take_arrived();
  }

  bool begin_receive() {
    int found = 0;
    MPI_Message matched;
    MPI_Status status;
    TESSERA_MPI(MPI_Improbe, MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_.get(), &found, &matched,
                &status);
    if (found == 0) return false;
    int size = 0;
    TESSERA_MPI(MPI_Get_count, &status, MPI_BYTE, &size);
    Piece& piece = arriving_.emplace_back();
    piece.bytes.resize(static_cast<std::size_t>(size));
    piece.peer = status.MPI_SOURCE;
    piece.tag = status.MPI_TAG;
    TESSERA_MPI(MPI_Imrecv, piece.bytes.data(), size, MPI_BYTE, &matched, &piece.request);
    return true;
  }

  /// Pieces in the order in which they were matched; one that has not arrived holds back only what
  /// its sender sent after it.
  void take_arrived() {
    std::vector<int> waiting;
    for (auto piece = arriving_.begin(); piece != arriving_.end();) {
      const bool behind = std::ranges::find(waiting, piece->peer) != waiting.end();
      if (!test(*piece) || behind) {
        waiting.push_back(piece->peer);
        ++piece;
        continue;
      }
      add(*piece);
      piece = arriving_.erase(piece);
    }
  }

  void add(Piece& piece) {
    auto& begun = begun_[{piece.peer, piece.tag}];
    const bool last = piece.bytes.size() < piece_bytes_;
    if (begun.empty())
      begun = std::move(piece.bytes);
    else
      begun.insert(begun.end(), piece.bytes.begin(), piece.bytes.end());
    if (!last) return;
    whole_.push_back({piece.peer, world_.rank(), piece.tag, std::move(begun)});
    begun_.erase({piece.peer, piece.tag});
  }

  std::size_t piece_bytes_;
  const MpiWorld& world_;
  Communicator communicator_;
  std::list<Piece> sent_;  // a list: MPI holds addresses
  std::list<Piece> arriving_;
  std::map<std::pair<int, int>, std::vector<std::byte>> begun_;  // by sender and tag
  std::deque<Message> whole_;
};

}  // namespace

std::unique_ptr<Mailbox> mpi_mailbox(const World& world, std::size_t piece_bytes) {
  return std::make_unique<MpiMailbox>(world, piece_bytes);
}

}  // namespace tessera::comm
