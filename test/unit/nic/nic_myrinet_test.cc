// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Myrinet's card, register by register, and what its driver makes of its control programs.
#include <unistd.h>

#include <cstring>

#include "core/base/random.h"
#include "nic/myrinet/regs.h"
#include "nic_cards.h"

namespace torii::nic::myrinet {
namespace {

using test::CardEnds;

std::unique_ptr<Fabric> myrinet_fabric(uint32_t nodes) {
  return test::make_cards("myrinet", {.nodes = nodes});
}

// A process that uses the card by hand.
struct Board {
  Board(Fabric& f, uint32_t node, Program program = kNoProgram) : fabric(f) {
    std::string why;
    card = fabric.open(node, &why);
    EXPECT_TRUE(card) << why;
    Control out;
    if (program != kNoProgram) {
      EXPECT_EQ(card->control({kLoad, {program}}, &out), Status::ok);
      card->write32(kControl, kResetOff);
      EXPECT_EQ(card->read32(offsetof(Shared, magic)), kMagic);
    }
  }
  bool is(uint32_t bits) { return card->read32(kIsr) & bits; }
  void run(uint64_t ns = 100000) { fabric.engine().run_to(fabric.engine().now_ns() + ns); }
  std::string sram(uint32_t at, size_t bytes) {
    std::string out(bytes, ' ');
    card->read(at, out.data(), bytes);
    return out;
  }
  void move(uint64_t address, uint32_t at, uint32_t bytes, bool to_host) {
    card->write32(kEar, static_cast<uint32_t>(address));
    card->write32(kLar, at);
    card->write32(kDmaDir, !to_host);
    card->write32(kDmaCtr, bytes);
  }
  // A packet with that output at the first switch.
  void send(uint8_t output, const std::string& bytes) {
    const std::string packet = std::string(1, static_cast<char>(output)) + bytes + "...";
    card->write(kSlots, packet.data(), packet.size() / 4 * 4);
    card->write32(kSmp, kSlots);
    card->write32(kSmlt, kSlots + 1 + static_cast<uint32_t>(bytes.size()));
    run();
  }
  bool reports(const std::string& what) const {
    return fabric.model(card->info().node).report().find(what) != std::string::npos;
  }

  Fabric& fabric;
  std::unique_ptr<Card> card;
};

std::string letters(size_t bytes) {
  std::string out(bytes, ' ');
  for (size_t i = 0; i < bytes; i++) out[i] = static_cast<char>('a' + i % 26);
  return out;
}

TEST(NicMyrinet, DmaMovesMemoryBothWays) {
  const auto fabric = myrinet_fabric(1);
  Board a(*fabric, 0);
  const uint64_t shared = a.card->info().shared_address;
  const std::string data = letters(4000);
  std::memcpy(a.card->shared().data() + 100, data.data(), data.size());
  EXPECT_TRUE(a.is(kDmaInt)) << "no transfer is under way";
  a.move(shared + 100, kSlots, 4000, false);
  EXPECT_TRUE(a.is(kDmaInt)) << "a load of the ISR waits, on a host whose time stands still";
  EXPECT_EQ(a.card->read32(kDmaSts), 0u);
  EXPECT_EQ(a.sram(kSlots, 4000), data);
  a.move(shared + 10000, kSlots + 400, 1000, true);
  a.run();
  EXPECT_TRUE(a.is(kDmaInt));
  EXPECT_EQ(std::memcmp(a.card->shared().data() + 10000, data.data() + 400, 1000), 0);
  EXPECT_EQ(a.card->shared()[11000], std::byte{0});
  for (const auto& [address, at, bytes] :
       {std::tuple<uint64_t, uint32_t, uint32_t>{shared, kSramBytes - 4, 8},
        {shared, ~0u, 8},
        {shared, 0, ~0u},
        {0x30000000, 0, 8}}) {
    a.move(address, at, bytes, true);
    a.run();
    EXPECT_TRUE(a.is(kDmaInt));
    EXPECT_EQ(a.card->read32(kDmaSts), 1u) << address << ' ' << at << ' ' << bytes;
  }
}

TEST(NicMyrinet, TimersCountHalfMicroseconds) {
  const auto fabric = myrinet_fabric(1);
  Board a(*fabric, 0);
  const uint32_t before = a.card->read32(kRtc);
  a.card->write32(kIt, 20);
  a.run(9900);
  EXPECT_FALSE(a.is(kTimeInt));
  a.run(200);
  EXPECT_TRUE(a.is(kTimeInt));
  EXPECT_EQ(a.card->read32(kRtc) - before, 20u);
  a.card->write32(kIsr, kTimeInt);
  EXPECT_FALSE(a.is(kTimeInt)) << "the host clears what it writes";
  EXPECT_TRUE(a.is(kDmaInt));
}

TEST(NicMyrinet, APacketFollowsItsRoute) {
  const auto fabric = myrinet_fabric(3);
  Board a(*fabric, 0), b(*fabric, 1, kRaw), c(*fabric, 2, kRaw);
  a.send(2, "to the third");
  EXPECT_TRUE(a.is(kSendInt)) << "it has left";
  EXPECT_TRUE(c.reports(" 1 in,"));
  EXPECT_TRUE(b.reports(" 0 in,"));
  // Each switch takes its byte away: what is left is the packet, behind it the CRC word.
  EXPECT_EQ(c.sram(kSlots + 0x4000, 12), "to the third");
  EXPECT_EQ(c.sram(kSlots + 0x4000 + 12, 4), std::string(4, '\0')) << "its CRC was right";
  for (const uint8_t output : {7, 8, 62, 63, 200}) a.send(output, "nowhere");
  EXPECT_EQ(fabric->crossbar(0).dropped(), 5u);
  a.send(1, "to the second");
  EXPECT_TRUE(b.reports(" 1 in,")) << "others' way is not barred";
  EXPECT_TRUE(b.reports("1 bad")) << "and is no frame of a control program's";
}

TEST(NicMyrinet, APacketThatIsNotLetInIsLostInTime) {
  const auto fabric = myrinet_fabric(2);
  Board a(*fabric, 0), b(*fabric, 1, kBulldog);  // which has no slot yet
  b.card->write32(kTimeout, 50);
  a.send(1, "waits");
  b.run();
  EXPECT_FALSE(b.is(kNresInt)) << "nobody has asked for it";
  b.card->write32(kMyrinet, kCrcEnable | kNresEnable);
  a.send(1, "waits behind it");
  EXPECT_FALSE(b.is(kNresInt)) << "the first one is still there";
  b.card->write32(kRmp, kSlots);
  b.card->write32(kRml, kSlots + 100);
  EXPECT_EQ(b.sram(kSlots, 4), "wait");
  a.send(1, "is lost");
  b.run();
  EXPECT_TRUE(b.is(kNresInt)) << b.fabric.model(1).report();
}

TEST(NicMyrinet, OneProcessACard) {
  const auto fabric = myrinet_fabric(2);
  std::string why;
  const auto first = fabric->open(0, &why);
  ASSERT_TRUE(first) << why;
  EXPECT_FALSE(fabric->open(0, &why));
  EXPECT_NE(why.find("in use"), why.npos) << why;
  EXPECT_NE(why.find("close another process"), why.npos) << why;
  EXPECT_TRUE(fabric->open(1, &why)) << why;
}

TEST(NicMyrinet, ChecksWhatItsDriverWrites) {
  for (const Program program : {kBulldog, kRaw}) {
    const auto fabric = myrinet_fabric(2);
    Board a(*fabric, 0, program), b(*fabric, 1, program);
    Random random(program);
    for (int i = 0; i < 4000; i++) {
      Board& board = random.chance(500000) ? a : b;
      const auto value =
          static_cast<uint32_t>(random.chance(500000) ? random.next() : random.between(0, 90000));
      if (random.chance(300000)) {
        board.card->write32(kLanai + static_cast<uint32_t>(random.between(0, 40)) * 4, value);
      } else if (random.chance(500000)) {
        const Command c{static_cast<uint32_t>(random.between(0, 2)),
                        static_cast<uint32_t>(random.between(0, 14)),
                        static_cast<uint32_t>(random.between(0, 40000)),
                        static_cast<Name>(random.chance(500000) ? random.next() : 0x10001), value};
        const auto at = static_cast<uint32_t>(random.between(0, kCommands - 1));
        board.card->write(offsetof(Shared, command) + at * sizeof(c), &c, sizeof(c));
        board.card->write32(offsetof(Shared, commands), static_cast<uint32_t>(i));
      } else {
        const Route route{static_cast<Name>(value),
                          {static_cast<uint8_t>(random.between(0, 40)),
                           {static_cast<uint8_t>(random.between(0, 3))}}};
        board.card->write(offsetof(Shared, route) + random.between(0, 1) * sizeof(route), &route,
                          sizeof(route));
      }
      fabric->engine().run_to(fabric->engine().now_ns() + random.between(0, 3000));
    }
    // A driver that resets its card finds it as it should be.
    a.card.reset();
    b.card.reset();
    a.run(20000000);
    test::End c([&](const DriverEnv& env) {
      return test::open_card(program == kRaw ? "myrinet/raw" : "myrinet", *fabric, 0, env);
    });
    const PeerId self = c.connect(c);
    ASSERT_TRUE(c.send(self, "sane"));
    for (int i = 0; i < 1000 && c.sink.packets.empty(); i++) {
      fabric->engine().run_to(fabric->engine().now_ns() + 1000);
      c.driver->poll(fabric->engine().now_ns(), 64);
    }
    ASSERT_EQ(c.sink.packets.size(), 1u) << program;
    EXPECT_EQ(c.sink.packets[0].bytes, "sane");
  }
}

// --- the driver ------------------------------------------------------------------------------

TEST(NicMyrinet, BulldogSendsAgainWhatTheNetworkSpoils) {
  CardEnds ends("myrinet", {.nodes = 2, .faults = "ber=1e-5"});
  const PeerId to = ends[0].connect(ends[1]);
  const std::string body = letters(3000);
  for (int i = 0; i < 100; i++) {
    ends.send(0, to, std::to_string(1000 + i), body, static_cast<uint64_t>(i + 1));
  }
  ends.run(5000);
  ASSERT_EQ(ends[1].sink.packets.size(), 100u);
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(ends[1].sink.packets[static_cast<size_t>(i)].bytes, std::to_string(1000 + i) + body);
  EXPECT_EQ(ends[0].sink.dones.size(), 100u);
  EXPECT_EQ(ends.fabric->model(0).report().find("; 0 sent again"), std::string::npos);
}

// A receiver that does not poll holds nobody up but its own senders.
TEST(NicMyrinet, BulldogKeepsWhatHasNoPlace) {
  CardEnds ends("myrinet", {.nodes = 3});
  const PeerId to_1 = ends[0].connect(ends[1]), to_2 = ends[2].connect(ends[0]);
  std::unique_ptr<test::End> sleeper = std::move(ends.ends[1]);
  size_t sent = 0;
  for (int i = 0; i < 200; i++) {
    sent += ends[0].send(to_1, "to a sleeper");
    ends.run(10);
  }
  EXPECT_GE(sent, kReceiveSlots - 1u);
  EXPECT_LE(sent, kReceiveSlots + kSendSlots) << "no back-pressure";
  EXPECT_EQ(ends.fabric->model(1).report().find("again, 0 without"), std::string::npos);
  ends.send(2, to_2, "through");
  ends.run(100);
  EXPECT_EQ(ends[0].sink.packets.size(), 1u);
  ends.ends[1] = std::move(sleeper);
  ends.run(3000);
  EXPECT_EQ(ends[1].sink.packets.size(), sent);
}

TEST(NicMyrinet, RawLosesWhatHasNoBuffer) {
  CardEnds ends("myrinet/raw", {.nodes = 2});
  const PeerId to = ends[0].connect(ends[1]);
  ends.run(100);
  std::unique_ptr<test::End> sleeper = std::move(ends.ends[1]);
  for (int i = 0; i < 40; i++) ends.send(0, to, "frame");
  ends.run(1000);
  ends.ends[1] = std::move(sleeper);
  ends.run(1000);
  EXPECT_EQ(ends[1].sink.packets.size(), size_t{kRawSlots});
  EXPECT_NE(ends.fabric->model(1).report().find("; 16 without a buffer, 0 bad"), std::string::npos)
      << ends.fabric->model(1).report();
}

// BullFrog: bodies of more than 512 bytes are moved by the card, from the user's memory to the
// SRAM and from there to the user's memory.
TEST(NicMyrinet, LongBodiesMoveByDma) {
  CardEnds ends("myrinet", {.nodes = 2});
  std::string taken;
  struct Taker final : Sink {
    void packet(PeerId, std::span<const std::byte> frame) override {
      frames++;
      driver->take(out->data(), frame.data() + 4, frame.size() - 4);
    }
    void done(uint64_t, Status) override {}
    void peer_down(PeerId, Status) override {}
    Driver* driver = nullptr;
    std::string* out = nullptr;
    int frames = 0;
  } taker;
  Counters counters{};
  DriverEnv env;
  env.sink = &taker;
  env.counters = &counters;
  ends.ends[1] = nullptr;
  ends.run(100);
  const auto driver = test::open_card("myrinet", *ends.fabric, 1, env);
  taker.driver = driver.get();
  taker.out = &taken;
  std::byte address[64];
  driver->address(address);
  PeerId target = kNoPeer;
  std::string why;
  ASSERT_EQ(ends[0].driver->connect(std::span(address).first(driver->caps().address_bytes), &target,
                                    &why),
            Status::ok)
      << why;
  const auto transfers = [&](uint32_t node) { return ends.fabric->bus(node).counts().transfers; };
  for (const size_t size : {size_t{512}, size_t{513}, size_t{4000}}) {
    const uint64_t before[2] = {transfers(0), transfers(1)};
    const std::string body = letters(size);
    taken.assign(size, '.');
    ends.send(0, target, "head", body, size);
    for (int i = 0; i < 500; i++) {
      ends.run(1);
      driver->poll(ends.fabric->engine().now_ns(), 64);
    }
    EXPECT_EQ(taken, body);
    for (const uint32_t node : {0u, 1u})
      EXPECT_EQ(transfers(node) - before[node], size > 512 ? 1u : 0u) << size << " at " << node;
  }
  EXPECT_EQ(taker.frames, 3);
  EXPECT_EQ(counters.taken_bytes, 513u + 4000u);
}

// A card that is kept from the memory of its process.
class FarCard final : public Card {
 public:
  explicit FarCard(std::unique_ptr<Card> card) : card_(std::move(card)) {}
  const CardInfo& info() const override { return card_->info(); }
  Liveness liveness() const override { return card_->liveness(); }
  void write32(uint32_t at, uint32_t value) override { card_->write32(at, value); }
  void write(uint32_t at, const void* from, size_t n) override { card_->write(at, from, n); }
  uint32_t read32(uint32_t at) override { return card_->read32(at); }
  void read(uint32_t at, void* to, size_t n) override { card_->read(at, to, n); }
  Status map(void*, size_t, uint32_t, uint64_t*) override { return Status::no_memory; }
  void unmap(uint64_t) override { ADD_FAILURE() << "nothing is mapped"; }
  std::span<std::byte> shared() override { return card_->shared(); }
  Status control(const Control& in, Control* out) override { return card_->control(in, out); }
  void post(const Control& in) override { card_->post(in); }
  int interrupt() override { return card_->interrupt(); }

 private:
  const std::unique_ptr<Card> card_;
};

TEST(NicMyrinet, WhereTheCardReadsNoMemoryBodiesAreCopied) {
  CardEnds ends("myrinet", {.nodes = 2});
  ends.ends[0] = nullptr;
  ends.run(100);
  ends.ends[0] = std::make_unique<test::End>([&](const DriverEnv& env) {
    std::string why;
    return open_myrinet(std::make_unique<FarCard>(ends.fabric->open(0, &why)), env, &why);
  });
  const DriverCaps& caps = ends[0].driver->caps();
  EXPECT_EQ(caps.lend_min, 0u);
  EXPECT_EQ(caps.flags & kDelivers, 0u);
  const PeerId to = ends[0].connect(ends[1]), back = ends[1].connect(ends[0]);
  for (const size_t size : {size_t{512}, size_t{513}, size_t{4001}, caps.mtu - size_t{4}}) {
    std::string body = letters(size);
    ends.send(0, to, "head", body, size);
    ends.send(1, back, "back", body, size);
    ends.run(5000);
    ASSERT_FALSE(ends[1].sink.packets.empty()) << size;
    EXPECT_EQ(ends[1].sink.packets.back().bytes, "head" + body);
    EXPECT_EQ(ends[0].sink.packets.back().bytes, "back" + body);
    EXPECT_EQ(ends[0].sink.dones.back().cookie, size);
  }
  EXPECT_EQ(ends.fabric->bus(0).counts().transfers, 0u);
}

TEST(NicMyrinet, TheDriverRefusesOtherCards) { test::expect_other_cards_refused(open_myrinet); }

}  // namespace
}  // namespace torii::nic::myrinet
