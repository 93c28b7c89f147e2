// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/comm/world.hpp"

namespace tessera::comm {

/// Messages between ranks that share no collective. No call waits for another rank, so nobody
/// hangs on one that was lost: what it has not sent in full never arrives, what was sent to it is
/// kept or dropped. Messages of one rank to another arrive in order.
class Mailbox {
 public:
  struct Message {
    int from = 0;
    int to = 0;
    int tag = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~Mailbox() = default;

  /// `message.from` is a rank of this process.
  virtual void send(Message message) = 0;
  /// The next whole message for rank `at` of this process; nothing if none has come.
  virtual std::optional<Message> receive(int at) = 0;
  /// Gives the core to others for a moment, when there was nothing to do.
  virtual void pause() = 0;
  /// Waits until what was sent has left this process, for at most so many seconds.
  virtual void flush(double seconds) = 0;
};

/// Between ranks of this process: any number of them.
std::unique_ptr<Mailbox> local_mailbox();

/// Between the processes of `world`, which must be made by MPI. Collective. Long messages travel in
/// pieces of `piece_bytes`. What lost ranks have never received is left to the end of the process.
std::unique_ptr<Mailbox> mpi_mailbox(const World& world, std::size_t piece_bytes = 64u << 20);

}  // namespace tessera::comm
