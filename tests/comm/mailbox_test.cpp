// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/mailbox.hpp"

#include <chrono>
#include <map>

#include "support/catch.hpp"
#include "support/world.hpp"

using namespace tessera;
using comm::Mailbox;

namespace {

/// Bytes that depend on all four numbers, so that mixed-up messages are found.
std::vector<std::byte> content(int from, int to, int number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((from * 101 + to * 31 + number * 7) + static_cast<int>(i));
  return bytes;
}

/// Lengths around the size of a piece (8), with an empty one.
constexpr std::size_t kSizes[] = {3, 8, 0, 7, 9, 16, 17, 1000};
constexpr int kMessages = 8;

void send_all(Mailbox& mailbox, int from, int ranks) {
  for (int number = 0; number < kMessages; ++number)
    for (int to = 0; to < ranks; ++to)
      mailbox.send({from, to, number % 2, content(from, to, number, kSizes[number])});
}

/// Every rank's messages came whole and in order.
void check_all(Mailbox& mailbox, int at, int ranks) {
  std::map<int, int> next;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int got = 0; got < kMessages * ranks && std::chrono::steady_clock::now() < end;) {
    const auto message = mailbox.receive(at);
    if (!message) {
      mailbox.pause();
      continue;
    }
    ++got;
    const int number = next[message->from]++;
    CHECK(message->to == at);
    CHECK(message->tag == number % 2);
    CHECK(message->bytes == content(message->from, at, number, kSizes[number]));
  }
  REQUIRE(next.size() == static_cast<std::size_t>(ranks));
  for (const auto& [from, count] : next) CHECK(count == kMessages);
}

}  // namespace

TEST_CASE("messages between processes arrive whole and in order, however long") {
  const auto& world = test::world();
  const auto mailbox = comm::mpi_mailbox(world, 8);
  send_all(*mailbox, world.rank(), world.size());
  check_all(*mailbox, world.rank(), world.size());
  mailbox->flush(60);
  CHECK(!mailbox->receive(world.rank()));
  world.barrier();
}

TEST_CASE("what nobody takes keeps nobody") {
  const auto& world = test::world();
  const auto mailbox = comm::mpi_mailbox(world);
  // Too long to leave without the receiver's help.
  if (world.rank() == 0)
    mailbox->send({0, world.size() - 1, 5, std::vector<std::byte>(std::size_t{1} << 22)});
  mailbox->flush(0.01);
  world.barrier();
  if (world.rank() == world.size() - 1) {
    std::optional<Mailbox::Message> message;
    while (!message) message = mailbox->receive(world.rank());
    CHECK(message->bytes.size() == std::size_t{1} << 22);
  } else {
    mailbox->flush(60);
  }
  world.barrier();
}

TEST_CASE("a local mailbox does the same for many ranks of one process") {
  const auto mailbox = comm::local_mailbox();
  for (int from = 0; from < 3; ++from) send_all(*mailbox, from, 3);
  for (int at = 0; at < 3; ++at) check_all(*mailbox, at, 3);
  CHECK(!mailbox->receive(0));
}
