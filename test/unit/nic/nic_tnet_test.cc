// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// TNet's adapter, register by register, and what its driver makes of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/random.h"
#include "drivers/mailbox.h"
#include "drivers/tnet/tnet.h"
#include "nic/fabric.h"
#include "nic/tnet/regs.h"
#include "nic_cards.h"
#include "recorder.h"

namespace torii::nic {
namespace {

using namespace tnet;

std::unique_ptr<Fabric> make_tnet(uint32_t nodes, const char* faults = "") {
  FabricOptions options;
  options.nodes = nodes;
  options.faults = faults;
  return test::make_cards("tnet", options);
}

// A process that uses the card by hand. Its page 2 is mapped to the same place of its memory.
struct Adapter {
  Adapter(Fabric& f, uint32_t node) : fabric(f) {
    std::string why;
    card = fabric.open(node, &why);
    EXPECT_TRUE(card) << why;
    EXPECT_EQ(call(kMapPages, {2, 1, card->info().shared_address + 2 * kPageBytes}), Status::ok);
  }
  Status call(uint32_t number, std::array<uint64_t, 6> words, Control* out = nullptr) {
    Control ignored;
    return card->control({number, words}, out ? out : &ignored);
  }
  // The rules of a send by stores, as a driver would follow them.
  void send(uint32_t destination, uint32_t target, unsigned slot, const std::string& data,
            bool assembled = true) {
    ASSERT_TRUE(card->read32(kLock) & kLockTaken);
    describe(destination, target, slot, data.size());
    card->write32(kBurst, assembled ? static_cast<uint32_t>(data.size()) : 0);
    for (size_t i = 0; i < data.size(); i += 16)
      card->write(kWindow, data.data() + i, std::min<size_t>(16, data.size() - i));
    card->write32(kLock, 0);
    run();
  }
  void describe(uint32_t destination, uint32_t target, unsigned slot, size_t bytes) {
    const uint32_t words[] = {destination, static_cast<uint32_t>(bytes / 4), target >> 2,
                              slot << 16};
    card->write(kDestination, words, sizeof(words));
  }
  void run() { fabric.engine().run_to(fabric.engine().now_ns() + 100000); }
  std::string memory(uint32_t at, size_t bytes) const {
    return {reinterpret_cast<const char*>(card->shared().data()) + at, bytes};
  }
  uint64_t packets() const { return fabric.link(card->info().node, false).counts().packets; }

  Fabric& fabric;
  std::unique_ptr<Card> card;
};

std::string text_of(size_t bytes) {
  std::string out(bytes, ' ');
  for (size_t i = 0; i < bytes; i++) out[i] = static_cast<char>('a' + i % 26);
  return out;
}

TEST(NicTnet, StoresBecomeMicropackets) {
  const auto fabric = make_tnet(2);
  Adapter a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.call(kValidate, {1}), Status::ok);
  const std::string data = text_of(1000);
  a.send(1, 2 * kPageBytes + 40, 0, data);
  EXPECT_EQ(b.memory(2 * kPageBytes + 40, 1000), data);
  EXPECT_EQ(a.packets(), 9u) << "112 bytes each";
  EXPECT_EQ(fabric->link(0, false).counts().bytes, 1000u + 9 * 12);
  a.send(1, 2 * kPageBytes + 2000, 0, data, false);
  EXPECT_EQ(b.memory(2 * kPageBytes + 2000, 1000), data);
  EXPECT_EQ(a.packets(), 9u + 63) << "without assembling each burst of 16 bytes is a packet";
}

TEST(NicTnet, ADestinationThatIsNotValidIsStopped) {
  const auto fabric = make_tnet(3);
  Adapter a(*fabric, 0), other(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.call(kValidate, {2}), Status::ok);
  ASSERT_EQ(other.call(kValidate, {1}), Status::ok);
  EXPECT_EQ(a.call(kValidate, {7}), Status::unreachable) << "there is no such node";
  a.card->write32(kMask, kCauseDestination);
  a.send(1, 2 * kPageBytes, 0, text_of(200));
  EXPECT_EQ(b.memory(2 * kPageBytes, 200), std::string(200, '\0'));
  EXPECT_EQ(a.packets(), 0u);
  uint64_t count;
  EXPECT_EQ(read(a.card->interrupt(), &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
  EXPECT_EQ(other.card->read32(kCause), 0u);
  EXPECT_EQ(a.card->read32(kCause), uint32_t{kCauseDestination});
  EXPECT_EQ(a.card->read32(kCause), 0u) << "reading clears it";
  EXPECT_NE(fabric->model(0).report().find(" 1 to invalid destinations"), std::string::npos);
  a.send(kToGroup | 10, 2 * kPageBytes, 0, text_of(200));
  EXPECT_EQ(a.packets(), 0u) << "a group that it is no member of";
  EXPECT_EQ(a.call(kSend, {1, 50, 2 * kPageBytes >> 2, 0, a.card->info().shared_address}),
            Status::ok);
  a.run();
  EXPECT_EQ(a.packets(), 0u) << "by DMA";
  EXPECT_EQ(a.card->read32(kCause), kCauseDestination | kCauseSent);
  other.send(1, 2 * kPageBytes, 0, "four");
  EXPECT_EQ(b.memory(2 * kPageBytes, 4), "four");
}

TEST(NicTnet, PagesThatAreNotMappedAreNotWritten) {
  const auto fabric = make_tnet(2);
  Adapter a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.call(kValidate, {1}), Status::ok);
  a.send(1, 3 * kPageBytes, 0, "page");
  EXPECT_EQ(b.card->read32(kCause), uint32_t{kCausePage});
  a.send(1, 3 * kPageBytes - 4, 0, "fitsnot ");  // one of its words
  EXPECT_EQ(b.card->read32(kCause), uint32_t{kCausePage});
  EXPECT_EQ(b.memory(3 * kPageBytes, 4), std::string(4, '\0'));
  a.send(1, 2 * kPageBytes, 1, "slot");  // nobody is there
  a.send(1, 2 * kPageBytes, 99, "slot");
  EXPECT_EQ(b.memory(2 * kPageBytes, 4), std::string(4, '\0'));
  EXPECT_NE(fabric->model(1).report().find(" 4 to unmapped pages"), std::string::npos)
      << fabric->model(1).report();
  ASSERT_EQ(b.call(kUnmapPages, {2, 1}), Status::ok);
  a.send(1, 2 * kPageBytes, 0, "gone");
  EXPECT_EQ(b.memory(2 * kPageBytes, 4), std::string(4, '\0'));
  EXPECT_EQ(b.call(kMapPages, {kPages - 1, 2, 0}), Status::invalid);
  EXPECT_EQ(b.call(kMapPages, {~uint64_t{0}, 1, 0}), Status::invalid);
  EXPECT_EQ(b.call(kMapIndex, {kIndices, 0}), Status::invalid);
  EXPECT_EQ(b.call(99, {}), Status::unsupported);
}

TEST(NicTnet, TheLockKeepsOthersOut) {
  const auto fabric = make_tnet(2);
  Adapter a(*fabric, 0), b(*fabric, 0), target(*fabric, 1);
  for (Adapter* adapter : {&a, &b}) ASSERT_EQ(adapter->call(kValidate, {1}), Status::ok);
  ASSERT_TRUE(a.card->read32(kLock) & kLockTaken);
  EXPECT_FALSE(b.card->read32(kLock) & kLockTaken);
  EXPECT_TRUE(a.card->read32(kLock) & kLockTaken) << "it is still its own";
  a.describe(1, 2 * kPageBytes, 0, 8);
  b.describe(1, 2 * kPageBytes + 100, 0, 8);
  b.card->write(kWindow, "intruder", 8);
  a.card->write(kWindow, "of its own", 8);
  b.card->write32(kLock, 0);
  EXPECT_FALSE(b.card->read32(kLock) & kLockTaken) << "it was given back by another process";
  a.run();
  EXPECT_EQ(target.memory(2 * kPageBytes, 8), "of its o");
  EXPECT_EQ(target.memory(2 * kPageBytes + 100, 8), std::string(8, '\0'));
  // The kernel driver waits for it, too.
  std::memcpy(b.card->shared().data() + 64, "by DMA..", 8);
  ASSERT_EQ(
      b.call(kSend, {1, 2, (2 * kPageBytes + 200) >> 2, 0, b.card->info().shared_address + 64}),
      Status::ok);
  a.run();
  EXPECT_EQ(target.memory(2 * kPageBytes + 200, 8), std::string(8, '\0'));
  fabric->kill(a.card->info().name);  // and ends with its process
  b.run();
  EXPECT_EQ(target.memory(2 * kPageBytes + 200, 8), "by DMA..");
  EXPECT_EQ(b.memory(0, 1)[0], 1) << "transfers that are over";
}

TEST(NicTnet, RemoteInterruptsComeWithTheLastPacket) {
  const auto fabric = make_tnet(2);
  Adapter a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.call(kValidate, {1}), Status::ok);
  a.send(1 | 5u << kInterruptShift, 2 * kPageBytes, 0, text_of(500));
  EXPECT_EQ(fabric->bus(1).counts().interrupts, 0u) << "nobody has asked for it";
  b.card->write32(kMask, 1u << 5);
  EXPECT_EQ(fabric->bus(1).counts().interrupts, 1u) << "it had come before";
  EXPECT_EQ(b.card->read32(kCause), 1u << 5);
  a.send(1 | 5u << kInterruptShift, 2 * kPageBytes, 0, text_of(500));
  EXPECT_EQ(fabric->bus(1).counts().interrupts, 2u) << "one for five packets";
  EXPECT_EQ(b.card->read32(kCause), 1u << 5);
}

TEST(NicTnet, OnePacketReachesTheProcessesOfANodeAndAGroup) {
  const auto fabric = make_tnet(3);
  Adapter a(*fabric, 0), b0(*fabric, 1), b1(*fabric, 1), c(*fabric, 2);
  Control out;
  for (Adapter* adapter : {&a, &b0, &b1, &c}) {
    ASSERT_EQ(adapter->call(kJoin, {0x6f72, 0, 2}, &out), Status::ok);
    EXPECT_EQ(out.words[0], 0u) << "one group";
    if (adapter == &a) continue;
    ASSERT_EQ(adapter->call(kMapIndex, {77, adapter->card->info().shared_address + 8 * kPageBytes}),
              Status::ok);
  }
  ASSERT_EQ(a.call(kJoin, {0x6f72, 0, 2}, &out), Status::ok);
  const std::string data = text_of(300);
  a.send(static_cast<uint32_t>(out.words[1]) | kToGroup | kTableMapped, (77 * kPageBytes + 40) << 2,
         0, data);
  for (Adapter* adapter : {&b0, &b1, &c})
    EXPECT_EQ(adapter->memory(8 * kPageBytes + 40, 300), data) << adapter->card->info().name;
  EXPECT_EQ(a.packets(), 3u) << "it was sent more than once";
  EXPECT_EQ(fabric->link(1, true).counts().packets, 3u) << "the node has got it more than once";
  // Whoever leaves hears no more of it.
  ASSERT_EQ(b0.call(kUnmapIndex, {77}), Status::ok);
  ASSERT_EQ(c.call(kLeave, {0}), Status::ok);
  a.send(static_cast<uint32_t>(out.words[1]) | kToGroup | kTableMapped, (77 * kPageBytes) << 2, 0,
         "more");
  EXPECT_EQ(b1.memory(8 * kPageBytes, 4), "more");
  EXPECT_EQ(b0.memory(8 * kPageBytes, 4), std::string(4, '\0'));
  EXPECT_EQ(fabric->link(2, true).counts().packets, 3u);
}

TEST(NicTnet, ChecksWhatItsDriverWrites) {
  const auto fabric = make_tnet(2);
  Adapter a(*fabric, 0), b(*fabric, 0), other(*fabric, 1);
  Random random(1);
  for (int i = 0; i < 4000; i++) {
    Adapter& adapter = random.chance(500000) ? a : b;
    const auto value =
        static_cast<uint32_t>(random.chance(500000) ? random.next() : random.between(0, 70));
    if (random.chance(300000)) static_cast<void>(adapter.card->read32(kLock));
    if (random.chance(300000)) {
      adapter.card->write32(static_cast<uint32_t>(random.between(0, 20)) * 4, value);
    } else if (random.chance(300000)) {
      adapter.card->write(kWindow, text_of(400).data(), random.between(0, 100) * 4);
    } else {
      static_cast<void>(adapter.call(
          static_cast<uint32_t>(random.between(0, 10)),
          {random.between(0, 3), random.next(), value, random.next(), random.next(), 0}));
    }
    fabric->engine().run_to(fabric->engine().now_ns() + random.between(0, 3000));
  }
  fabric->kill(a.card->info().name);
  fabric->kill(b.card->info().name);
  other.run();
  ASSERT_EQ(other.call(kValidate, {1}), Status::ok);
  other.send(1, 2 * kPageBytes, 0, "sane");
  EXPECT_EQ(other.memory(2 * kPageBytes, 4), "sane");
}

// --- the driver ------------------------------------------------------------------------------

test::End::Open tnet_on(Fabric& fabric, uint32_t node) {
  return [&fabric, node](const DriverEnv& env) {
    std::string why;
    return open_tnet(fabric.open(node, &why), env, &why);
  };
}

void run(Fabric& fabric, const std::vector<test::End*>& ends, int rounds) {
  for (int i = 0; i < rounds; i++) {
    fabric.engine().run_to(fabric.engine().now_ns() + 1000);
    for (test::End* end : ends) end->driver->poll(fabric.engine().now_ns(), 64);
  }
}

TEST(NicTnet, AFrameToAGroupLeavesTheSenderOnce) {
  const auto fabric = make_tnet(4, "ber=1e-6");
  std::vector<std::unique_ptr<test::End>> ends;
  std::vector<test::End*> all;
  std::vector<PeerId> groups(8);
  const std::byte name[4] = {};
  for (uint32_t i = 0; i < 8; i++) {
    ends.push_back(std::make_unique<test::End>(tnet_on(*fabric, i % 4)));
    all.push_back(ends.back().get());
    ASSERT_EQ(ends[i]->driver->join(name, &groups[i]), Status::ok);
  }
  run(*fabric, all, 200);  // all have mailboxes for each other
  const Link::Counts before = fabric->link(0, false).counts();
  size_t sent = 0;
  while (sent < 50) {
    sent += ends[0]->send(groups[0], "head", text_of(3000));
    run(*fabric, all, 5);
  }
  run(*fabric, all, 1000);
  for (uint32_t i = 0; i < 8; i++) EXPECT_EQ(ends[i]->sink.packets.size(), i ? 50u : 0u) << i;
  const Link::Counts& after = fabric->link(0, false).counts();
  const uint64_t packets = after.packets - after.resends - (before.packets - before.resends);
  // 3008 bytes and a trailer of 24 are 28 packets; beside them the credits of the other processes.
  EXPECT_GE(packets, 50 * 28u);
  EXPECT_LE(packets, 50 * 28u + 100);
}

// The receiver has read nothing of the one before when the next process begins.
TEST(NicTnet, ALaterProcessOfAnEndpointDoesNotOverwriteFramesOfTheEarlierOne) {
  const auto fabric = make_tnet(2);
  const auto wait = [&] { fabric->engine().run_to(fabric->engine().now_ns() + 200000); };
  test::End b(tnet_on(*fabric, 1));
  for (const char* name : {"first", "second"}) {
    test::End a(tnet_on(*fabric, 0));
    const PeerId to = a.connect(b);
    for (int i = 0; i < 4; i++) ASSERT_TRUE(a.send(to, name)) << "one frame for each slot";
    EXPECT_FALSE(a.send(to, name)) << "without credit";
    wait();
  }
  wait();
  run(*fabric, {&b}, 10);
  ASSERT_EQ(b.sink.packets.size(), 8u);
  for (size_t i = 0; i < 8; i++)
    EXPECT_EQ(b.sink.packets[i].bytes, i < 4 ? "first" : "second") << i;
  EXPECT_EQ(b.sink.downs.size(), 2u);
}

// Nobody but the sender knows when it writes to a slot again.
TEST(NicTnet, TheLengthOfAFrameIsTheOneThatWasChecked) {
  alignas(8) static std::byte memory[kMailboxBytes];
  const Name from = make_name(1, 1), to = make_name(0, 1);
  MailWriter().seal(memory, {100, 0, 1, from, to, 0});
  MailReader reader(memory, from, to);
  const MailTrailer* const head = reader.head();
  ASSERT_TRUE(head);
  const uint32_t huge = ~0u;
  std::memcpy(memory + kMailMax + offsetof(MailTrailer, bytes), &huge, sizeof(huge));
  EXPECT_EQ(reader.frame(*head).size(), 100u);
  EXPECT_EQ(reader.frame(*head).data(), memory + MailWriter::begin(100));
  EXPECT_FALSE(reader.head()) << "too long";
}

// The answer to its put has no room at a process that does not poll.
TEST(NicTnet, AProcessThatDoesNotPollHoldsUpNoOthersPut) {
  const auto fabric = make_tnet(3);
  test::End target(tnet_on(*fabric, 0)), stopped(tnet_on(*fabric, 1)), other(tnet_on(*fabric, 2));
  std::string memory(8, '.'), word = "the word";
  Region region;
  ASSERT_EQ(target.driver->reg(memory.data(), memory.size(), kRemoteWrite, &region), Status::ok);
  const PeerId to_stopped = target.connect(stopped);
  for (uint32_t i = 0; i < kMailSlots; i++) ASSERT_TRUE(target.send(to_stopped, "fills its slots"));
  const auto put = [&](test::End& end) {
    const iovec piece{word.data(), word.size()};
    Rma rma;
    rma.peer = end.connect(target);
    const auto key = std::span(region.key).first(end.driver->caps().key_bytes);
    EXPECT_EQ(end.driver->import(rma.peer, key, &rma.remote), Status::ok);
    rma.pieces = &piece;
    rma.piece_count = 1;
    rma.bytes = word.size();
    rma.cookie = 1;
    EXPECT_EQ(end.driver->put(rma), Status::pending);
  };
  put(stopped);
  run(*fabric, {&target}, 300);
  EXPECT_EQ(memory, word);
  put(other);
  run(*fabric, {&target, &other}, 300);
  ASSERT_EQ(other.sink.dones.size(), 1u) << "it waits for the one that does not poll";
  EXPECT_EQ(other.sink.dones[0].status, Status::ok);
  run(*fabric, {&target, &stopped}, 300);
  EXPECT_EQ(stopped.sink.dones.size(), 1u);
  EXPECT_EQ(stopped.sink.packets.size(), size_t{kMailSlots});
  target.driver->dereg(region);
}

TEST(NicTnet, TheDriverRefusesOtherCards) { test::expect_other_cards_refused(open_tnet); }

}  // namespace
}  // namespace torii::nic
