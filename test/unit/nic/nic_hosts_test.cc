// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Many hosts whose programs take time, on one fabric.
#include <ctime>

#include "nic/hosts.h"
#include "nic_cards.h"
#include "sanitized.h"

namespace torii::test {
namespace {

const uint32_t kHosts = in_short() ? 16 : 64;
constexpr size_t kEach = 157;  // messages of a host, to the others in turn: 10,048 of 64 hosts
constexpr size_t kBytes = 1024;

// A host of a cluster in which all send to all.
class Talker {
 public:
  Talker(nic::Fabric& fabric, nic::Host& host, uint32_t self)
      : host_(host), self_(self), end_([&](const DriverEnv& env) {
          std::string why;
          std::unique_ptr<Driver> driver = open_tnet(fabric.open(self, &why, &host), env, &why);
          EXPECT_TRUE(driver) << why;
          return driver;
        }) {
    end_.sink.on_packet = [this](PeerId from, const std::string& bytes) { take(from, bytes); };
  }
  void meet(const std::vector<std::unique_ptr<Talker>>& all) {
    for (const auto& other : all) peers_.push_back(end_.connect(other->end_));
    next_.resize(kHosts + 1);
  }
  // Sends and receives all that is due. False: nothing happens any more.
  bool talk() {
    size_t sent = 0;
    while (sent < kEach || received_ < kEach) {
      const uint32_t to = (self_ + 1 + static_cast<uint32_t>(sent) % (kHosts - 1)) % kHosts;
      const bool went =
          sent < kEach && end_.send(peers_[to], std::to_string(sent / (kHosts - 1)), body_);
      sent += went;
      if (end_.driver->poll(host_.now_ns(), 64) == 0 && !went && !host_.poll_memory(50))
        return false;
    }
    return true;
  }
  // The others may still wait for credits.
  void listen() {
    while (host_.poll_memory(50)) end_.driver->poll(host_.now_ns(), 64);
  }
  size_t received() const { return received_; }

 private:
  void take(PeerId from, const std::string& bytes) {
    ASSERT_LT(from, next_.size());
    EXPECT_EQ(bytes, std::to_string(next_[from]++) + body_) << "out of order";
    received_++;
    end_.sink.packets.clear();
  }

  nic::Host& host_;
  const uint32_t self_;
  const std::string body_ = std::string(kBytes, 'x');
  End end_;
  std::vector<PeerId> peers_;
  std::vector<size_t> next_;  // by peer
  size_t received_ = 0;
};

TEST(NicHosts, SixtyFourSendToAllOthersInLessThanAMinute) {
  const std::clock_t begin = std::clock();
  const auto fabric = make_cards("tnet", {.nodes = kHosts, .topology = "fattree"});
  nic::Hosts hosts(fabric->engine());
  std::vector<std::unique_ptr<Talker>> all(kHosts);
  uint32_t open = 0;
  for (uint32_t i = 0; i < kHosts; i++) {
    hosts.add([&, i](nic::Host& host) {
      all[i] = std::make_unique<Talker>(*fabric, host, i);
      open++;
      while (open < kHosts) host.spend(1000);
      all[i]->meet(all);
      if (all[i]->talk()) all[i]->listen();
    });
  }
  std::string why;
  EXPECT_FALSE(hosts.run(&why)) << "whoever listens waits until nothing happens any more";
  for (const auto& talker : all) EXPECT_EQ(talker->received(), kEach);
  // The limit is of processor time: others may have the machine, too.
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, kSanitized ? 300 : 60);
}

}  // namespace
}  // namespace torii::test
