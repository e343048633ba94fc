// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Nectar's HUB by itself: what each of its commands does, and each bit of what it tells.
#include <gtest/gtest.h>

#include <array>

#include "core/base/random.h"
#include "nic/nectar/hub.h"
#include "nic/packet.h"

namespace torii::nic::nectar {
namespace {

constexpr unsigned kPorts = 4;
constexpr uint32_t kNumber = 3;  // of the HUB

// What is at the far end of the fibres of a port.
struct Far final : LinkEnd {
  void connect(unsigned, Link*, Link*) override {}
  void link_ready(Link&) override {}
  void link_down(Link&, std::vector<Packet>&&) override {}
  void link_arrive(Link& link, Packet&& packet) override {
    link.release();
    all.push_back(std::move(packet.bytes));
  }
  std::vector<Bytes> all;
};

struct HubAlone {
  HubAlone() {
    const LinkOptions options{.rate = 1e8, .overhead = 1, .head = 0};
    for (unsigned i = 0; i < kPorts; i++) {
      in[i] = std::make_unique<Link>(engine, options, "in");
      out[i] = std::make_unique<Link>(engine, options, "out");
      in[i]->connect(&far[i], 0, hub.get(), i, true);
      out[i]->connect(hub.get(), i, &far[i], 0, true);
      hub->connect(i, in[i].get(), out[i].get());
    }
    hub->on_down = [](Link&, std::vector<Packet>&&) {};
  }
  void run() { engine.run_to(engine.now_ns() + 1000000); }
  void send(unsigned port, const Bytes& item) {
    Packet packet;
    packet.bytes = item;
    seal(packet);
    in[port]->send(std::move(packet));
    run();
  }
  void command(unsigned port, Opcode opcode, uint32_t output, uint32_t number = kNumber) {
    send(port, one_command(opcode, {number, output}));
  }
  // What has come there since the last call.
  std::vector<Bytes> at(unsigned port) { return std::exchange(far[port].all, {}); }
  // StatusBits of the reply that has come there; ~0: not one reply of this HUB about that output.
  uint32_t reply(unsigned port, uint32_t output) {
    const std::vector<Bytes> all = at(port);
    if (all.size() != 1 || all[0].size() != kReplyBytes) return ~0u;
    const auto from = header_of<HubCommand>(all[0]);
    if (from.opcode != kReply || from.hub != kNumber || from.output != output) return ~0u;
    return header_of<uint32_t>(std::span(all[0]).subspan(kCommandBytes));
  }
  uint32_t status(unsigned port, uint32_t output) {
    at(port);
    command(port, kStatus, output);
    return reply(port, output);
  }

  Engine engine{1};
  std::unique_ptr<Switch> hub = make_hub(engine, kNumber, {.latency_ns = 700, .ports = kPorts});
  std::array<Far, kPorts> far;
  std::array<std::unique_ptr<Link>, kPorts> in, out;
};

constexpr uint32_t holder(uint32_t input) { return (1 + input) << kHolderShift; }

Bytes packet_of(size_t bytes, bool closes = false) {
  Bytes out;
  add_packet(&out, Bytes(bytes, std::byte{'x'}), closes);
  return out;
}

const std::vector<Bytes> kNothing;
std::vector<Bytes> one(const Bytes& item) { return std::vector<Bytes>(1, item); }

TEST(NicHub, TheStateOfAnOutputIsToldBitByBit) {
  HubAlone h;
  EXPECT_EQ(h.status(0, 2), kOutputReady | kOutputMine) << "nobody has it";
  h.command(1, kOpenRetryReply, 2);
  EXPECT_EQ(h.reply(1, 2), kStatusOpened | kOutputReady | kOutputMine | holder(1));
  EXPECT_EQ(h.status(1, 2), kOutputReady | kOutputMine | holder(1)) << "nothing was opened now";
  EXPECT_EQ(h.status(0, 2), kOutputReady | holder(1)) << "another one has it";
  h.send(1, packet_of(100));
  EXPECT_EQ(h.at(2), one(packet_of(100)));
  EXPECT_EQ(h.at(1), one(one_command(kReadySignal))) << "its queue is empty again";
  EXPECT_EQ(h.status(0, 2), holder(1) | 1 << kPassedShift) << "the input behind it has a packet";
  h.send(2, one_command(kReadySignal));
  EXPECT_EQ(h.status(0, 2), kOutputReady | holder(1) | 1 << kPassedShift);
  h.send(1, packet_of(10, true));
  EXPECT_EQ(h.status(0, 2), kOutputMine | 2 << kPassedShift) << "close all has freed it";
  h.command(0, kSetReady, 2);
  EXPECT_EQ(h.status(0, 2), kOutputReady | kOutputMine | 2 << kPassedShift);
  h.command(0, kStatus, kPorts);
  EXPECT_EQ(h.at(0), kNothing) << "there is no such output";
  h.out[3]->cut();
  h.run();
  h.command(0, kStatus, 3);
  EXPECT_EQ(h.at(0), kNothing) << "nor is that one there any more";
}

TEST(NicHub, ALockedOutputIsKept) {
  HubAlone h;
  h.command(0, kLock, 3);
  EXPECT_EQ(h.status(0, 3), kOutputReady | kOutputMine) << "locked, not connected";
  EXPECT_EQ(h.status(1, 3), kOutputReady);
  h.command(1, kLock, 3);
  h.command(1, kOpen, 3);
  EXPECT_EQ(h.status(1, 3), kOutputReady) << "neither is for another input";
  h.send(1, packet_of(10));
  EXPECT_EQ(h.at(3), kNothing);
  EXPECT_EQ(h.hub->dropped(), 2u) << "the command and the packet";
  h.command(0, kOpen, 3);
  EXPECT_EQ(h.status(1, 3), kOutputReady | holder(0));
  h.command(1, kClose, 3);
  EXPECT_EQ(h.status(1, 3), kOutputReady | kOutputMine) << "whoever has it";
}

TEST(NicHub, ACommandWithRetryWaitsAndOneWithoutDoesNot) {
  HubAlone h;
  h.command(0, kOpen, 2);
  h.command(1, kOpenRetryReply, 2);
  EXPECT_EQ(h.at(1), kNothing);
  h.command(0, kClose, 2);
  EXPECT_EQ(h.reply(1, 2), kStatusOpened | kOutputReady | kOutputMine | holder(1));
  // What follows a command without retry was for those behind the output.
  Bytes item = one_command(kOpen, {kNumber, 2});
  append(&item, packet_of(10));
  h.send(0, item);
  EXPECT_EQ(h.at(2), kNothing);
  EXPECT_EQ(h.at(0), one(one_command(kReadySignal)));
  EXPECT_EQ(h.hub->dropped(), 1u);
  // With a test it waits for the input behind, too.
  h.command(1, kCloseEvery, 0, kEveryHub);
  h.send(1, one_command(kOpen, {kNumber, 2}));
  h.send(1, packet_of(10, true));
  h.at(2);
  item = one_command(kTestOpenRetry, {kNumber, 2});
  append(&item, packet_of(20, true));
  h.send(0, item);
  EXPECT_EQ(h.at(2), kNothing) << "that is not ready";
  h.send(2, one_command(kReadySignal));
  EXPECT_EQ(h.at(2), one(packet_of(20, true)));
}

TEST(NicHub, ItsOwnCommandsAreCarriedOutAndOthersPass) {
  HubAlone h;
  h.command(0, kOpen, 1);
  h.command(0, kOpen, 2);
  const Bytes other = one_command(kStatus, {kNumber + 1, 1});
  Bytes item = one_command(kStatus, {kNumber, 1});
  append(&item, other);
  h.send(0, item);
  EXPECT_EQ(h.at(1), one(other));
  EXPECT_EQ(h.at(2), one(other)) << "all that the input is connected to";
  EXPECT_EQ(h.reply(0, 1), kOutputReady | kOutputMine | holder(0));
  // A reply of a HUB behind finds its way back by the connection that leads there.
  Bytes back = one_command(kReply, {kNumber + 1, 1});
  back.resize(kReplyBytes);
  h.send(2, back);
  EXPECT_EQ(h.at(0), one(back));
  h.send(3, back);
  EXPECT_EQ(h.hub->dropped(), 1u) << "nobody has asked there";
  h.command(0, kCloseEvery, 0, kEveryHub);
  EXPECT_EQ(h.at(1), one(one_command(kCloseEvery)));
  EXPECT_EQ(h.at(2), one(one_command(kCloseEvery)));
  h.send(0, packet_of(10));
  EXPECT_EQ(h.at(1), kNothing) << "that has closed all of its connections";
}

// Whatever comes, parts of an item are inside of it, and a HUB that is set right works.
TEST(NicHub, ArbitraryItemsDoNoHarm) {
  HubAlone h;
  Random random(1);
  for (int i = 0; i < 5000; i++) {
    Bytes item;
    for (uint64_t k = random.between(0, 6); k > 0; k--)
      append(&item, one_command(static_cast<Opcode>(random.between(0, 20)),
                                {static_cast<uint32_t>(random.between(kNumber, kNumber + 1)),
                                 static_cast<uint32_t>(random.between(0, kPorts))}));
    if (random.chance(500000)) append(&item, packet_of(random.between(0, 1200)));
    if (random.chance(200000)) item.resize(random.between(0, item.size()));
    if (random.chance(200000) && !item.empty())
      item[random.between(0, item.size() - 1)] = static_cast<std::byte>(random.next());
    const Item parts(item);
    EXPECT_LE(parts.commands.size() * kCommandBytes + parts.rest.size(), item.size());
    EXPECT_LE(parts.data.size(), parts.rest.size());
    const auto port = static_cast<unsigned>(random.between(0, kPorts - 1));
    if (h.in[port]->ready()) h.send(port, item);
  }
  for (unsigned port = 0; port < kPorts; port++) h.command(port, kCloseEvery, 0, kEveryHub);
  for (unsigned port = 0; port < kPorts; port++) h.command(0, kSetReady, port);
  for (unsigned port = 1; port < kPorts; port++) {
    h.at(port);
    Bytes item = one_command(kTestOpenRetry, {kNumber, port});
    append(&item, packet_of(30, true));
    h.send(0, item);
    EXPECT_EQ(h.at(port), one(packet_of(30, true))) << port;
  }
}

}  // namespace
}  // namespace torii::nic::nectar
