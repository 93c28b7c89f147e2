// SPDX-License-Identifier: BSD-3-Clause
#include <deque>
#include <map>

#include "tessera/comm/mailbox.hpp"

namespace tessera::comm {
namespace {

class LocalMailbox final : public Mailbox {
 public:
  void send(Message message) override { boxes_[message.to].push_back(std::move(message)); }

  std::optional<Message> receive(int at) override {
    auto& box = boxes_[at];
    if (box.empty()) return std::nullopt;
    Message message = std::move(box.front());
    box.pop_front();
    return message;
  }

  void pause() override {}
  void flush(double /*seconds*/) override {}

 private:
  std::map<int, std::deque<Message>> boxes_;
};

}  // namespace

std::unique_ptr<Mailbox> local_mailbox() {
  return std::make_unique<LocalMailbox>();
}

}  // namespace tessera::comm
