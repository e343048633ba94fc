// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Nectar's CAB and HUB, register by register and command by command, and how its firmware recovers.
#include <algorithm>
#include <cstring>

#include "core/base/random.h"
#include "nic/nectar/hub.h"
#include "nic/nectar/regs.h"
#include "nic/trace.h"
#include "nic_cards.h"

namespace torii::nic::nectar {
namespace {

using test::CardEnds;

constexpr uint32_t kOutAt = kDataRam + 0x10000, kInAt = kDataRam + 0x20000;

std::string letters(size_t bytes) {
  std::string out(bytes, ' ');
  for (size_t i = 0; i < bytes; i++) out[i] = static_cast<char>('a' + i % 26);
  return out;
}

struct Step {
  Opcode opcode;
  uint32_t hub, output;
};

// A board without firmware, used by hand.
struct Board {
  Board(Fabric& f, uint32_t node) : fabric(f) {
    std::string why;
    card = fabric.open(node, &why);
    EXPECT_TRUE(card) << why;
    run(100000);
  }
  void run(uint64_t ns) { fabric.engine().run_to(fabric.engine().now_ns() + ns); }
  // Commands, then a packet if there are data.
  void send(std::vector<Step> commands, const std::string& data = {}, bool closes = true) {
    Bytes bytes;
    for (const Step& c : commands) append(&bytes, one_command(c.opcode, {c.hub, c.output}));
    const auto front = static_cast<uint32_t>(bytes.size());
    for (const char c : data) bytes.push_back(static_cast<std::byte>(c));
    const auto length = static_cast<uint32_t>(bytes.size());
    bytes.resize((bytes.size() + 3) / 4 * 4);
    card->write(kOutAt, bytes.data(), bytes.size());
    card->write32(dma(kFiberOut, kAddress), kOutAt);
    card->write32(dma(kFiberOut, kLength), length);
    card->write32(dma(kFiberOut, kControl),
                  kStart | (data.empty() ? 0 : kPacket | front << kCommandShift) |
                      (closes && !data.empty() ? uint32_t{kCloseAll} : 0));
  }
  void arm(uint32_t bytes = 0x10000) {
    card->write32(dma(kFiberIn, kAddress), kInAt);
    card->write32(dma(kFiberIn, kLength), bytes);
    card->write32(dma(kFiberIn, kControl), kStart);
  }
  uint32_t get(DmaChannel channel, DmaRegister reg) { return card->read32(dma(channel, reg)); }
  // The packet that has come in since arm(); "-": none.
  std::string input() {
    if (get(kFiberIn, kControl) & kBusy) return "-";
    std::string out((get(kFiberIn, kLength) + 3) / 4 * 4, ' ');
    card->read(kInAt, out.data(), out.size());
    out.resize(get(kFiberIn, kLength));
    return out;
  }

  Fabric& fabric;
  std::unique_ptr<Card> card;
};

struct Boards {
  explicit Boards(FabricOptions options) : fabric(test::make_cards("nectar", options)) {
    for (uint32_t i = 0; i < options.nodes; i++) all.push_back(std::make_unique<Board>(*fabric, i));
    for (const auto& board : all) board->arm();
  }
  Board& operator[](size_t i) { return *all[i]; }
  std::unique_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<Board>> all;
};

bool reports(Fabric& fabric, uint32_t node, const std::string& what) {
  return fabric.model(node).report().find(what) != std::string::npos;
}

// --- the board -------------------------------------------------------------------------------

TEST(NicNectar, DmaOverVmeMovesDataRam) {
  Boards b({.nodes = 1});
  Card& card = *b[0].card;
  const std::string data = letters(4000);
  std::memcpy(card.shared().data() + 100, data.data(), data.size());
  const auto move = [&](uint64_t address, uint32_t at, uint32_t bytes, uint32_t control) {
    card.write32(kNodeAddress, static_cast<uint32_t>(address));
    card.write32(dma(kVme, kAddress), at);
    card.write32(dma(kVme, kLength), bytes);
    card.write32(dma(kVme, kControl), kStart | control);
  };
  move(card.info().shared_address + 100, kOutAt, 4000, 0);
  EXPECT_EQ(b[0].get(kVme, kControl), kBusy);
  b[0].run(500000);
  EXPECT_EQ(b[0].get(kVme, kControl), 0u);
  EXPECT_EQ(b[0].get(kVme, kChecksum), crc32(std::as_bytes(std::span(data))));
  move(card.info().shared_address + 10000, kOutAt + 400, 1000, kToNode);
  b[0].run(500000);
  EXPECT_EQ(std::memcmp(card.shared().data() + 10000, data.data() + 400, 1000), 0);
  for (const auto& [at, bytes] : {std::pair<uint32_t, uint32_t>{kProgramRam, 8},
                                  {kDataRam + kDataBytes - 4, 8},
                                  {kDataRam, ~0u},
                                  {~0u, 1}}) {
    move(card.info().shared_address, at, bytes, 0);
    b[0].run(1000);
    EXPECT_EQ(b[0].get(kVme, kControl), kFailed) << at << ' ' << bytes;
  }
}

TEST(NicNectar, EachPageHasItsRightsInEachDomain) {
  Boards b({.nodes = 1});
  Card& card = *b[0].card;
  const uint32_t page = (kOutAt - kDataRam) / kPageBytes + kDataRam / kPageBytes;
  const auto give = [&](uint32_t domain, uint32_t rights) {
    card.write32(kRights + domain * kPagesOfDomain + page, rights | kMayRead << 8);
  };
  card.write32(kOutAt, 1);
  give(kVmeDomain, kMayRead);
  card.write32(kOutAt, 2);
  EXPECT_EQ(card.read32(kOutAt), 1u);
  EXPECT_EQ(card.read32(kFaults), 1u);
  card.write32(kOutAt + 4 * kPageBytes, 3);
  EXPECT_EQ(card.read32(kOutAt + 4 * kPageBytes), 3u) << "other pages are as they were";
  give(kVmeDomain, kMayWrite);
  card.write32(kOutAt, 4);
  EXPECT_EQ(card.read32(kOutAt), ~0u);
  give(7, 0);
  give(kVmeDomain, kMayRead | kMayWrite);
  EXPECT_EQ(card.read32(kOutAt), 4u) << "other domains are not the node's";
  card.write32(kProm, 5);
  EXPECT_EQ(card.read32(kProm), 0u);
  // With its firmware the board keeps what is not the node's.
  Control out;
  ASSERT_EQ(card.control({kBoot, {kReliableProtocol}}, &out), Status::ok);
  EXPECT_EQ(card.read32(kDataRam), kMagic);
  EXPECT_EQ(card.read32(kInputAt), ~0u);
  EXPECT_EQ(card.read32(kProgramRam), ~0u);
  EXPECT_NE(card.read32(kProm), ~0u);
}

TEST(NicNectar, DmaChecksWhatComesIn) {
  Boards b({.nodes = 2, .faults = "ber=1e-3/cable=0"});
  for (int i = 0; i < 3; i++) {
    b[1].arm();
    b[0].send({{kOpenRetry, 0, 1}}, letters(900));
    b[0].run(2000000);
    if (!(b[1].get(kFiberIn, kControl) & kBusy)) {
      EXPECT_NE(b[1].get(kFiberIn, kChecksum), 0u) << "seven bits are wrong";
    }
    b[0].send({{kCloseEvery, kEveryHub, 0}});
    b[0].run(1000000);
  }
  Boards good({.nodes = 2});
  good[0].send({{kTestOpenRetry, 0, 1}}, letters(900));
  good[0].run(1000000);
  EXPECT_TRUE(good[1].input() == letters(900));
  EXPECT_EQ(good[1].get(kFiberIn, kChecksum), 0u);
  EXPECT_EQ(good[0].get(kFiberOut, kControl), 0u) << "it has left";
  good[1].arm(100);
  good[0].send({{kTestOpenRetry, 0, 1}}, letters(101));
  good[0].run(1000000);
  EXPECT_TRUE(good[1].get(kFiberIn, kControl) & kFailed) << "longer than its memory";
  // The channel has no such memory.
  good[0].card->write32(dma(kFiberOut, kAddress), kDataRam + kDataBytes - 8);
  good[0].card->write32(dma(kFiberOut, kControl), kStart | kPacket);
  EXPECT_TRUE(good[0].get(kFiberOut, kControl) & kFailed);
}

// --- the HUB ---------------------------------------------------------------------------------

TEST(NicNectar, ACircuitTakes700NsAndThen350) {
  Boards b({.nodes = 2});
  const auto time_of = [&](std::vector<Step> commands, bool closes) {
    b[1].arm();
    const uint64_t before = b.fabric->engine().now_ns();
    b[0].send(std::move(commands), letters(100), closes);
    while (b[1].input() == "-") b[0].run(10);
    return b.fabric->engine().now_ns() - before;
  };
  const uint64_t opened = time_of({{kOpenRetry, 0, 1}}, false);
  const uint64_t passed = time_of({}, true);
  // The second one leaves with a command more, the one that closes.
  EXPECT_NEAR(static_cast<double>(opened + 3 * 80 - passed), 700 - 350, 20);
  b[1].arm();
  b[0].send({}, "nobody has a connection");
  b[0].run(1000000);
  EXPECT_EQ(b[1].input(), "-") << "close all took it down";
}

TEST(NicNectar, OneOutputHasOneInput) {
  Boards b({.nodes = 3});
  b[0].send({{kOpenRetry, 0, 2}});
  b[0].run(10000);
  b[1].send({{kOpenRetry, 0, 2}}, "waits");
  b[1].run(1000000);
  EXPECT_EQ(b[2].input(), "-");
  b[0].send({}, "first");
  b[0].run(100000);
  EXPECT_EQ(b[2].input(), "first");
  b[2].arm();
  b[0].run(100000);
  EXPECT_EQ(b[2].input(), "waits");
  // Without retry it is not tried again.
  b[2].arm();
  b[0].send({{kOpenRetry, 0, 2}});
  b[0].run(10000);
  b[1].send({{kOpen, 0, 2}});
  b[1].run(10000);
  b[1].send({}, "goes nowhere");
  b[0].run(10000);
  b[0].send({{kCloseEvery, kEveryHub, 0}});
  b[0].run(1000000);
  EXPECT_EQ(b[2].input(), "-");
  // A lock, and its end by whoever closes the output.
  b[0].send({{kLock, 0, 2}});
  b[0].run(10000);
  b[1].send({{kOpenRetry, 0, 2}}, "waits for the lock");
  b[1].run(1000000);
  EXPECT_EQ(b[2].input(), "-");
  b[0].send({{kClose, 0, 2}});
  b[0].run(1000000);
  EXPECT_EQ(b[2].input(), "waits for the lock");
}

// A ready bit turns 0 with the start of a packet, and 1 when the next queue has passed it on.
TEST(NicNectar, AReadyBitKeepsTheNextPacketBack) {
  Boards b({.nodes = 3});
  b[1].send({{kOpenRetry, 0, 2}});
  b[1].run(10000);
  EXPECT_EQ(b[0].card->read32(kReady), 1u);
  b[0].send({{kTestOpenRetry, 0, 2}}, "one");
  b[0].run(100000);
  EXPECT_EQ(b[0].card->read32(kReady), 0u) << "it waits in the HUB";
  b[0].send({{kTestOpenRetry, 0, 2}}, "two");
  b[0].run(100000);
  EXPECT_EQ(b[0].get(kFiberOut, kControl), kBusy) << "and this one on the board";
  b[1].send({{kCloseEvery, kEveryHub, 0}});
  b[1].run(8000);
  EXPECT_EQ(b[2].input(), "one");
  b[2].arm();
  b[1].run(100000);
  EXPECT_EQ(b[2].input(), "two");
  EXPECT_EQ(b[0].card->read32(kReady), 1u);
}

TEST(NicNectar, NoPacketIsLongerThanAQueue) {
  Boards b({.nodes = 2});
  b[0].send({{kTestOpenRetry, 0, 1}}, letters(1100));
  b[0].run(1000000);
  EXPECT_EQ(b[1].input(), "-");
  EXPECT_EQ(b.fabric->crossbar(0).dropped(), 1u);
  b[0].send({{kOpenRetry, 0, 1}}, letters(5000));
  b[0].run(1000000);
  EXPECT_TRUE(b[1].input() == letters(5000)) << "but what is on a circuit is";
}

// Figure 7 of the report: one packet, two receivers, by packets and by circuits, over two HUBs.
TEST(NicNectar, OneTransmissionReachesAllMembers) {
  for (const Opcode opcode : {kTestOpenRetry, kOpenRetry}) {
    Boards b({.nodes = 6, .topology = "pair:1"});
    const uint64_t before = b.fabric->link(0, false).counts().packets;
    const std::string data = letters(opcode == kOpenRetry ? 3000 : 900);
    b[0].send({{opcode, 0, 1}, {opcode, 0, 3}, {opcode, 1, 0}, {opcode, 1, 2}}, data);
    b[0].run(3000000);
    for (const size_t node : {1, 3, 5}) EXPECT_TRUE(b[node].input() == data) << node;
    for (const size_t node : {2, 4}) EXPECT_EQ(b[node].input(), "-") << node;
    EXPECT_EQ(b.fabric->link(0, false).counts().packets - before, 1u + 0u);
  }
}

// --- the firmware ----------------------------------------------------------------------------

TEST(NicNectar, AGroupIsReachedByOnePacketOrOneCircuit) {
  CardEnds ends("nectar", {.nodes = 6, .topology = "pair:1"});
  const std::byte name[4] = {std::byte{1}};
  std::vector<PeerId> groups(6);
  for (size_t i = 0; i < 6; i++)
    ASSERT_EQ(ends[i].driver->join(std::span(name), &groups[i]), Status::ok);
  for (const size_t size : {size_t{100}, size_t{4000}}) {
    const uint64_t before = ends.fabric->link(0, false).counts().bytes;
    ends.send(0, groups[0], "head", letters(size));
    ends.run(8000);
    for (size_t i = 1; i < 6; i++) {
      ASSERT_FALSE(ends[i].sink.packets.empty()) << i;
      EXPECT_TRUE(ends[i].sink.packets.back().bytes == "head" + letters(size)) << i;
    }
    EXPECT_LT(ends.fabric->link(0, false).counts().bytes - before, size + 200) << "once";
  }
  EXPECT_TRUE(reports(*ends.fabric, 0, "; 0 sent again"));
}

TEST(NicNectar, AMemberThatHasLostItGetsItAgain) {
  CardEnds ends("nectar", {.nodes = 4, .faults = "ber=3e-5/cable=2"});
  const std::byte name[4] = {std::byte{1}};
  std::vector<PeerId> groups(4);
  for (size_t i = 0; i < 4; i++)
    ASSERT_EQ(ends[i].driver->join(std::span(name), &groups[i]), Status::ok);
  const PeerId to_2 = ends[0].connect(ends[2]);
  for (int i = 0; i < 40; i++)
    ends.send(0, i % 3 ? groups[0] : to_2, std::to_string(1000 + i), letters(700));
  ends.run(200000);
  ASSERT_EQ(ends[2].sink.packets.size(), 40u);
  for (size_t i = 0; i < 40; i++)
    EXPECT_EQ(ends[2].sink.packets[i].bytes.substr(0, 4), std::to_string(1000 + i));
  EXPECT_EQ(ends[1].sink.packets.size(), 26u) << "and others have it once";
  EXPECT_FALSE(reports(*ends.fabric, 0, "; 0 sent again"));
  EXPECT_FALSE(reports(*ends.fabric, 2, "in, 0 bad")) << "the checksum has found it";
}

// The commands of the circuit are lost on one of the two cables between the HUBs. The board asks
// for the status of both, closes all, and opens another one.
TEST(NicNectar, ACircuitWithoutReplyGoesAnotherWay) {
  CardEnds ends("nectar", {.nodes = 2, .topology = "pair:2"});
  const PeerId to = ends[0].connect(ends[1]);
  ends.send(0, to, "short");
  ends.run(1000);
  const auto packets = [&](size_t cable) {
    return ends.fabric->link(cable, false).counts().packets;
  };
  const size_t bad = packets(2) > 0 ? 2 : 3, other = 5 - bad;
  const uint64_t before = packets(other);
  ends.fabric->link(bad, false).add_fault({.fault = nic::Fault::drop, .rate = 1});
  std::string text;
  Trace trace(TraceFormat::text, [&](std::string_view part) { text += part; });
  ends.fabric->engine().trace = &trace;
  ends.send(0, to, "head", letters(4000));
  ends.run(30000);
  ends.fabric->engine().trace = nullptr;
  size_t at = 0;
  for (const char* const item : {"6", "12", "3", "6"}) {  // bytes
    at = text.find(std::string("cable0a    packet ") + item + " bytes", at);
    ASSERT_NE(at, text.npos) << item << '\n' << text;
    at++;
  }
  ASSERT_EQ(ends[1].sink.packets.size(), 2u);
  EXPECT_TRUE(ends[1].sink.packets[1].bytes == "head" + letters(4000));
  EXPECT_GT(packets(other), before);
  EXPECT_FALSE(reports(*ends.fabric, 0, " 0 ways given up")) << ends.fabric->model(0).report();
  EXPECT_TRUE(ends[0].sink.downs.empty()) << "nobody is cut off";
}

// The commands name the HUBs that the outputs lead to, also where several ways are as good.
TEST(NicNectar, FramesCrossAFatTree) {
  CardEnds ends("nectar", {.nodes = 20, .topology = "fattree"});
  for (size_t i = 1; i < 20; i++)
    ends.send(0, ends[0].connect(ends[i]), "head", letters(i % 2 ? 100 : 3000));
  ends.run(20000);
  for (size_t i = 1; i < 20; i++) {
    ASSERT_EQ(ends[i].sink.packets.size(), 1u) << i;
    EXPECT_TRUE(ends[i].sink.packets[0].bytes == "head" + letters(i % 2 ? 100 : 3000)) << i;
  }
  EXPECT_TRUE(reports(*ends.fabric, 0, "; 0 sent again, 0 without a mailbox, 0 ways given up"))
      << ends.fabric->model(0).report();
}

// Another board has left a connection to the receiver behind, whose HUB has lost the end of it.
TEST(NicNectar, ABusyOutputIsFreedAgain) {
  auto fabric = test::make_cards("nectar", {.nodes = 3});
  Board stray(*fabric, 2);
  stray.send({{kOpenRetry, 0, 1}});
  stray.run(10000);
  const auto open = [&](uint32_t node) {
    return std::make_unique<test::End>(
        [&](const DriverEnv& env) { return test::open_card("nectar", *fabric, node, env); });
  };
  const auto a = open(0), b = open(1);
  for (const size_t size : {size_t{100}, size_t{4000}}) {
    stray.send({{kOpenRetry, 0, 1}});
    stray.run(10000);
    b->sink.packets.clear();
    ASSERT_TRUE(a->send(a->connect(*b), "head", letters(size)));
    for (int i = 0; i < 50000; i++) {
      fabric->engine().run_to(fabric->engine().now_ns() + 1000);
      a->driver->poll(0, 64);
      b->driver->poll(0, 64);
    }
    ASSERT_EQ(b->sink.packets.size(), 1u) << size << fabric->model(0).report();
  }
  EXPECT_FALSE(reports(*fabric, 0, " 0 connections closed")) << fabric->model(0).report();
}

// The signal that a queue has room is lost, between a HUB and a board or between two HUBs.
TEST(NicNectar, ALostReadyBitIsSetAgain) {
  for (const auto& [cable, back] : {std::pair{1, false}, {2, true}, {0, true}}) {
    CardEnds ends("nectar", {.nodes = 2, .topology = "pair:1"});
    const PeerId to = ends[0].connect(ends[1]);
    Link& link = ends.fabric->link(static_cast<size_t>(cable), back);
    link.add_fault({.fault = nic::Fault::drop, .nth = link.counts().packets + 1});
    for (int i = 0; i < 5; i++) ends.send(0, to, std::to_string(i), letters(500));
    ends.run(60000);
    ASSERT_EQ(ends[1].sink.packets.size(), 5u) << cable << ends.fabric->model(0).report();
    for (size_t i = 0; i < 5; i++)
      EXPECT_EQ(ends[1].sink.packets[i].bytes, std::to_string(i) + letters(500));
    EXPECT_EQ(link.counts().lost, 1u);
    if (cable != 0) {
      EXPECT_FALSE(reports(*ends.fabric, 0, " 0 ready bits set")) << ends.fabric->model(0).report();
    }
  }
}

TEST(NicNectar, DatagramsWithoutAMailboxAreLost) {
  CardEnds ends("nectar/datagram", {.nodes = 2});
  const PeerId to = ends[0].connect(ends[1]);
  ends.run(200);
  std::unique_ptr<test::End> sleeper = std::move(ends.ends[1]);
  for (int i = 0; i < 40; i++) ends.send(0, to, "frame");
  ends.run(5000);
  ends.ends[1] = std::move(sleeper);
  ends.run(1000);
  EXPECT_EQ(ends[1].sink.packets.size(), size_t{kReceiveSlots});
  EXPECT_TRUE(reports(*ends.fabric, 1, " 9 without a mailbox")) << ends.fabric->model(1).report();
}

TEST(NicNectar, ReliableKeepsWhatHasNoMailbox) {
  CardEnds ends("nectar", {.nodes = 3});
  const PeerId to_1 = ends[0].connect(ends[1]), to_2 = ends[0].connect(ends[2]);
  std::unique_ptr<test::End> sleeper = std::move(ends.ends[1]);
  size_t sent = 0;
  for (int i = 0; i < 60; i++) {
    sent += ends[0].send(to_1, "to a sleeper");
    ends.run(100);
  }
  EXPECT_LE(sent, kReceiveSlots + kSendSlots) << "no back-pressure";
  ends.ends[1] = std::move(sleeper);
  ends.run(60000);
  EXPECT_EQ(ends[1].sink.packets.size(), sent);
  ends.send(0, to_2, "through");
  ends.run(5000);
  EXPECT_EQ(ends[2].sink.packets.size(), 1u);
}

// Boards and HUBs go on, whatever a driver stores, and a driver that boots its board finds it as it
// should be.
TEST(NicNectar, ChecksWhatItsDriverWrites) {
  for (const uint64_t protocol : {kNoProtocol, kReliableProtocol, kDatagramProtocol}) {
    auto fabric = test::make_cards("nectar", {.nodes = 2});
    Board a(*fabric, 0), b(*fabric, 1);
    Control out;
    if (protocol) {
      EXPECT_EQ(a.card->control({kBoot, {protocol}}, &out), Status::ok);
    }
    Random random(protocol);
    for (int i = 0; i < 4000; i++) {
      Board& board = random.chance(500000) ? a : b;
      const auto value =
          static_cast<uint32_t>(random.chance(500000) ? random.next() : random.between(0, 5000));
      const auto at = static_cast<uint32_t>(random.between(0, 15)) * 4;
      if (random.chance(300000)) {
        board.card->write32(
            kRegisters + at,
            at % 16 ? value : kDataRam + static_cast<uint32_t>(random.between(0, 999)));
      } else if (random.chance(300000)) {
        std::vector<Step> commands;
        for (uint64_t k = random.between(1, 4); k > 0; k--)
          commands.push_back({static_cast<Opcode>(random.between(1, 9)),
                              static_cast<uint32_t>(random.between(0, 1)),
                              static_cast<uint32_t>(random.between(0, 3))});
        board.send(commands, letters(random.between(0, 2000)), random.chance(500000));
      } else {
        const Entry c{static_cast<uint32_t>(random.between(0, 3)),
                      static_cast<uint32_t>(random.between(0, 70)),
                      static_cast<uint32_t>(random.between(0, 9000)),
                      static_cast<uint32_t>(random.chance(500000) ? random.next() : 0x10001)};
        const auto entry = static_cast<uint32_t>(random.between(0, kCommands - 1));
        board.card->write(kDataRam + offsetof(Shared, command) + entry * sizeof(c), &c, sizeof(c));
        board.card->write32(kDataRam + offsetof(Shared, commands), static_cast<uint32_t>(i));
      }
      fabric->engine().run_to(fabric->engine().now_ns() + random.between(0, 3000));
    }
    a.card.reset();
    b.card.reset();
    fabric->engine().run_to(fabric->engine().now_ns() + 50000000);
    test::End c([&](const DriverEnv& env) { return test::open_card("nectar", *fabric, 0, env); });
    const PeerId self = c.connect(c);
    ASSERT_TRUE(c.send(self, "sane"));
    for (int i = 0; i < 30000 && c.sink.packets.empty(); i++) {
      fabric->engine().run_to(fabric->engine().now_ns() + 1000);
      c.driver->poll(fabric->engine().now_ns(), 64);
    }
    ASSERT_EQ(c.sink.packets.size(), 1u) << protocol;
    EXPECT_EQ(c.sink.packets[0].bytes, "sane");
  }
}

TEST(NicNectar, TheDriverRefusesOtherCards) { test::expect_other_cards_refused(open_nectar); }

}  // namespace
}  // namespace torii::nic::nectar
