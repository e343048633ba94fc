// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// QsNet's Elan and Elite, register by register, and what the driver makes of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/random.h"
#include "drivers/qsnet/qsnet.h"
#include "nic/fabric.h"
#include "nic/qsnet/regs.h"
#include "nic_cards.h"
#include "recorder.h"

namespace torii::nic::qsnet {
namespace {

std::unique_ptr<Fabric> make_qsnet(uint32_t nodes, const char* topology, const char* faults = "") {
  FabricOptions options;
  options.nodes = nodes;
  options.topology = topology;
  options.faults = faults;
  return test::make_cards("qsnet", options);
}

// Places in lent memory: where blocks are copied to, the slots of the queue, and data.
constexpr uint32_t kBlocks = 0, kSlotsAt = 64 << 10, kData = 256 << 10;
constexpr uint32_t kQueueBlock = 4096;
constexpr uint32_t kSlots = 4, kSlotBytes = 2048;

// A process that uses the card by hand.
struct User {
  User(Fabric& f, uint32_t node) : fabric(f) {
    std::string why;
    card = fabric.open(node, &why);
    EXPECT_TRUE(card) << why;
    Queue queue{};
    queue.base = kLent + kSlotsAt;
    queue.slots = kSlots;
    queue.slot_bytes = kSlotBytes;
    queue.event = 256;
    set(kQueueAt, queue);
    set(256, Event{1, kCopies | kEachTime, kQueueAt, kQueueBlock});
  }
  template <typename T>
  void set(uint32_t at, const T& value) {
    card->write(kSdram + at, &value, sizeof(value));
  }
  template <typename T>
  T shared(uint32_t at) const {
    T out;
    std::memcpy(&out, card->shared().data() + at, sizeof(out));
    return out;
  }
  Status call(uint32_t number, std::array<uint64_t, 6> words = {}, Control* out = nullptr) {
    Control ignored;
    return card->control({number, words}, out ? out : &ignored);
  }
  // The nth descriptor, whose event copies it to the nth block.
  void start(uint32_t n, Descriptor d) {
    const uint32_t at = 4096 + n * kBlockBytes, event = 512 + n * 16;
    d.source_event = event;
    d.cookie = n + 100;
    set(event, Event{1, kCopies, at, kBlocks + n * kBlockBytes});
    set(at, d);
    std::memset(card->shared().data() + kBlocks + n * kBlockBytes, 0, kBlockBytes);
    card->write32(kStartDma, at);
  }
  uint32_t status(uint32_t n) const { return shared<Descriptor>(kBlocks + n * kBlockBytes).status; }
  void run(uint64_t ns = 2000000) { fabric.engine().run_to(fabric.engine().now_ns() + ns); }
  Name name() const { return card->info().name; }
  std::string memory(uint32_t at, size_t bytes) const {
    return {reinterpret_cast<const char*>(card->shared().data()) + at, bytes};
  }
  void fill(uint32_t at, const std::string& text) {
    std::memcpy(card->shared().data() + at, text.data(), text.size());
  }
  uint32_t front() const { return shared<Queue>(kQueueBlock).front; }
  std::string frame(uint32_t number) const {
    const uint32_t at = kSlotsAt + number % kSlots * kSlotBytes;
    return memory(at + sizeof(SlotHeader), shared<SlotHeader>(at).bytes);
  }
  void read_up_to(uint32_t back) { set(kQueueAt + offsetof(Queue, back), back); }
  uint64_t packets() const { return fabric.link(card->info().node, false).counts().packets; }

  Fabric& fabric;
  std::unique_ptr<Card> card;
};

Descriptor dma(uint32_t type, uint64_t source, uint64_t dest, size_t bytes, uint32_t process) {
  Descriptor d{};
  d.type = type | 4u << kRetriesShift;
  d.bytes = static_cast<uint32_t>(bytes);
  d.source = source;
  d.dest = dest;
  d.process = process;
  return d;
}
uint64_t address_of(const void* at) { return reinterpret_cast<uintptr_t>(at); }

std::string text_of(size_t bytes) {
  std::string out(bytes, ' ');
  for (size_t i = 0; i < bytes; i++) out[i] = static_cast<char>('a' + i % 26);
  return out;
}

// A number of the report, before that word.
uint64_t counted(Fabric& fabric, uint32_t node, const std::string& what) {
  const std::string report = fabric.model(node).report();
  const size_t end = report.find(" " + what);
  EXPECT_NE(end, report.npos) << report;
  const size_t begin = report.rfind(' ', end - 1);
  return std::stoull(report.substr(begin == report.npos ? 0 : begin + 1));
}

TEST(NicQsnet, APutSetsEventsThatCopyBlocks) {
  const auto fabric = make_qsnet(2, "fattree");
  User a(*fabric, 0), b(*fabric, 1);
  const std::string data = text_of(1000);
  a.fill(kData, data);
  b.set(1024, Event{1, kCopies, kQueueAt, 8192});
  Descriptor d = dma(kDmaWrite, kLent + kData, kLent + kData + 8, 1000, b.name());
  d.dest_event = 1024;
  a.start(3, d);
  EXPECT_EQ(a.status(3), kNone);
  a.run();
  EXPECT_EQ(a.status(3), kDone);
  EXPECT_EQ(a.shared<Descriptor>(3 * kBlockBytes).cookie, 103u) << "the whole block is copied";
  EXPECT_EQ(b.memory(kData + 8, 1000), data);
  EXPECT_EQ(b.shared<Queue>(8192).slots, kSlots) << "the event there has not fired";
  EXPECT_EQ(a.packets(), 4u) << "320 bytes each";
  EXPECT_EQ(b.packets(), 4u) << "one token for each packet";
}

TEST(NicQsnet, AnEventFiresWhenItsCountIsUp) {
  const auto fabric = make_qsnet(1, "fattree");
  User a(*fabric, 0);
  a.set(1024, Event{3, kCopies, kQueueAt, 8192});
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(a.shared<Queue>(8192).slots, 0u);
    a.card->write32(kSetEvent, 1024);
    a.run();
  }
  EXPECT_EQ(a.shared<Queue>(8192).slots, kSlots);
  a.card->write32(kSdram + 1024 + offsetof(Event, count), 1);  // primed again
  EXPECT_EQ(fabric->bus(0).counts().interrupts, 0u);
  a.card->write32(kWake, 1);
  a.run();
  EXPECT_EQ(fabric->bus(0).counts().interrupts, 0u) << "there is no more than that";
  a.card->write32(kSetEvent, 1024);
  a.card->write32(kSetEvent, 1024);
  a.run();
  EXPECT_EQ(fabric->bus(0).counts().interrupts, 1u);
  a.card->write32(kWake, 1);
  EXPECT_EQ(fabric->bus(0).counts().interrupts, 2u) << "it had fired before";
}

TEST(NicQsnet, AnyMemoryOfAProcessIsReached) {
  const auto fabric = make_qsnet(2, "fattree");
  User a(*fabric, 0), b(*fabric, 1);
  const std::string data = text_of(20000);
  std::string put(20000, '.'), got(20000, '.');
  a.start(0, dma(kDmaWrite, address_of(data.data()), address_of(put.data()), 20000, b.name()));
  a.start(1, dma(kDmaRead, address_of(data.data()), address_of(got.data()), 20000, b.name()));
  a.run();
  EXPECT_EQ(a.status(0), kDone);
  EXPECT_EQ(a.status(1), kDone);
  EXPECT_TRUE(put == data);
  EXPECT_TRUE(got == data);
  // Five or six pages each, which the translation look-aside buffer then knows.
  EXPECT_GE(counted(*fabric, 0, "table walks"), 10u);
  EXPECT_LE(counted(*fabric, 0, "table walks"), 12u);
}

TEST(NicQsnet, MemoryThatIsNotThereFaults) {
  const auto fabric = make_qsnet(2, "fattree");
  User a(*fabric, 0), b(*fabric, 1);
  std::string here(5000, '.');
  const uint64_t nowhere = 4096, beyond = kLent + kSharedBytes - 100;
  for (const auto& [type, source, dest] : {std::tuple(kDmaWrite, nowhere, kLent + kData),
                                           {kDmaWrite, kLent + kData, nowhere},
                                           {kDmaWrite, beyond, kLent + kData},
                                           {kDmaWrite, kLent + kData, beyond},
                                           {kDmaRead, nowhere, address_of(here.data())},
                                           {kDmaRead, kLent + kData, nowhere},
                                           {kDmaRead, beyond, kLent + kData},
                                           {kDmaQueue, nowhere, uint64_t{0}}}) {
    a.start(0, dma(type, source, dest, 1000, b.name()));
    a.run();
    EXPECT_EQ(a.status(0), kFault) << type << " from " << source << " to " << dest;
  }
  EXPECT_EQ(here, std::string(5000, '.'));
  EXPECT_EQ(b.front(), 0u);
  a.start(0, dma(kDmaWrite, kLent + kData, kLent + kData, 10, b.name() + (1 << 16)));
  a.start(1, dma(15, kLent + kData, kLent + kData, 10, b.name()));
  a.run();
  EXPECT_EQ(a.status(0), kGone) << "a process that is not there";
  EXPECT_EQ(a.status(1), kFault) << "no operation";
  a.start(0, dma(kDmaWrite, kLent + kData, kLent + kData, 10, b.name()));
  a.run();
  EXPECT_EQ(a.status(0), kDone) << "after all of these";
}

TEST(NicQsnet, FramesComeToSlotsInTurn) {
  const auto fabric = make_qsnet(3, "fattree");
  User a(*fabric, 0), b(*fabric, 1), c(*fabric, 2);
  for (uint32_t i = 0; i < 7; i++) {
    a.fill(kData + i * 4096, text_of(300 * i) + "a" + std::to_string(i));
    a.start(i, dma(kDmaQueue, kLent + kData + i * 4096, 0, 300 * i + 2, b.name()));
  }
  a.run(5000000);
  EXPECT_EQ(b.front(), kSlots) << "there are no more slots";
  EXPECT_EQ(a.status(3), kDone);
  EXPECT_EQ(a.status(4), kNone);
  c.fill(kData, "from c");
  c.start(0, dma(kDmaWrite, kLent + kData, kLent + kData, 6, b.name()));
  c.run();
  EXPECT_EQ(c.status(0), kDone) << "a full queue holds up nothing else";
  for (uint32_t i = 0; i < kSlots; i++) {
    EXPECT_EQ(b.frame(i), text_of(300 * i) + "a" + std::to_string(i));
    EXPECT_EQ(b.shared<SlotHeader>(kSlotsAt + i * kSlotBytes).from, a.name());
  }
  b.read_up_to(kSlots);
  a.run();
  EXPECT_EQ(b.front(), 7u);
  for (uint32_t i = 4; i < 7; i++)
    EXPECT_EQ(b.frame(i), text_of(300 * i) + "a" + std::to_string(i)) << "in order";
  a.start(0, dma(kDmaQueue, kLent + kData, 0, kSlotBytes, b.name()));
  a.run();
  EXPECT_EQ(a.status(0), kFault) << "longer than a slot";
}

// The receiver's first packet is a token: the sender repeats what has arrived.
TEST(NicQsnet, ALostTokenMakesNoSecondFrame) {
  const auto fabric = make_qsnet(2, "fattree", "drop#1/cable=1,drop#4/cable=1");
  User a(*fabric, 0), b(*fabric, 1);
  for (uint32_t i = 0; i < 3; i++) {
    a.fill(kData, "frame");
    a.start(i, dma(kDmaQueue, kLent + kData, 0, 5, b.name()));
    a.run();
    EXPECT_EQ(a.status(i), kDone);
    EXPECT_EQ(b.front(), i + 1);
  }
  EXPECT_EQ(counted(*fabric, 0, "without a token"), 2u);
  EXPECT_EQ(counted(*fabric, 0, "sent again"), 2u);
}

TEST(NicQsnet, ABadPacketIsSentAgainAtOnce) {
  const auto fabric = make_qsnet(2, "fattree", "ber=1e-5");
  User a(*fabric, 0), b(*fabric, 1);
  a.fill(kData, text_of(100000));
  a.start(0, dma(kDmaWrite, kLent + kData, kLent + kData, 100000, b.name()));
  a.run(20000000);
  EXPECT_EQ(a.status(0), kDone);
  EXPECT_TRUE(b.memory(kData, 100000) == text_of(100000));
  const uint64_t again = counted(*fabric, 0, "sent again");
  EXPECT_GT(again, 8u);
  EXPECT_LT(counted(*fabric, 0, "without a token"), again / 2) << "switch and card tell of most";
}

TEST(NicQsnet, AfterItsRetriesADmaTraps) {
  const auto fabric = make_qsnet(3, "fattree", "cut#2/cable=1");
  User a(*fabric, 0), b(*fabric, 1), c(*fabric, 2);
  a.fill(kData, text_of(1000));
  a.start(0, dma(kDmaWrite, kLent + kData, kLent + kData, 1000, b.name()));
  a.run(5000000);
  EXPECT_EQ(a.status(0), kNone);
  EXPECT_EQ(a.shared<Queue>(kQueueBlock).traps, 1u);
  EXPECT_GE(counted(*fabric, 0, "sent again"), 5u) << "four retries";
  Control out;
  ASSERT_EQ(a.call(kTrapped, {}, &out), Status::ok);
  EXPECT_EQ(out.words[0], b.name());
  EXPECT_EQ(a.call(kTrapped, {}, &out), Status::again);
  EXPECT_EQ(a.call(kRoute, {b.name()}), Status::unreachable);
  a.start(1, dma(kDmaWrite, kLent + kData, kLent + kData, 1000, c.name()));
  a.run();
  EXPECT_EQ(a.status(1), kDone) << "the others do not suffer";
  ASSERT_EQ(a.call(kSweep), Status::ok);
  a.run();
  EXPECT_EQ(a.status(0), kGone);
}

TEST(NicQsnet, PacketsGoUpWhereThereIsRoom) {
  const auto fabric = make_qsnet(8, "fattree");
  User a(*fabric, 0), b(*fabric, 1), c(*fabric, 4), d(*fabric, 5);
  for (uint32_t i = 0; i < 8; i++) {
    a.start(i, dma(kDmaWrite, kLent + kData, kLent + kData, 100000, c.name()));
    b.start(i, dma(kDmaWrite, kLent + kData, kLent + kData, 100000, d.name()));
  }
  a.run(20000000);
  EXPECT_EQ(a.status(7), kDone);
  uint64_t all = 0;
  for (size_t up = 0; up < 4; up++) {  // two cables for each switch above
    const uint64_t packets = fabric->link(8 + 2 * up, false).counts().packets;
    EXPECT_GT(packets, 300u) << up;
    all += packets;
  }
  EXPECT_GE(all, 2 * 8 * 313u);
}

// Packets of the higher priority overtake those that wait at a switch.
TEST(NicQsnet, UrgentPacketsPassOthers) {
  double took[2];
  for (const bool is_urgent : {false, true}) {
    const auto fabric = make_qsnet(4, "fattree");
    User target(*fabric, 0), a(*fabric, 1), b(*fabric, 2), c(*fabric, 3);
    for (User* const user : {&a, &b})
      for (uint32_t i = 0; i < 4; i++)
        user->start(i, dma(kDmaWrite, kLent + kData, kLent + kData, 100000, target.name()));
    a.run(20000);
    Descriptor d = dma(kDmaWrite, kLent + kData, kLent + kData, 8000, target.name());
    if (is_urgent) d.type |= kUrgent;
    const uint64_t begin = fabric->engine().now_ns();
    c.start(0, d);
    while (c.status(0) == kNone && fabric->engine().now_ns() < begin + 10000000)
      fabric->engine().step();
    EXPECT_EQ(c.status(0), kDone);
    EXPECT_EQ(a.status(3), kNone) << "the others are still there";
    took[is_urgent] = static_cast<double>(fabric->engine().now_ns() - begin);
  }
  EXPECT_LT(took[true], 0.7 * took[false]);
}

TEST(NicQsnet, ABroadcastIsDoneWhenAllMembersHaveIt) {
  const auto fabric = make_qsnet(8, "fattree");
  std::vector<std::unique_ptr<User>> all;
  Control out;
  for (uint32_t i = 0; i < 8; i++) {
    all.push_back(std::make_unique<User>(*fabric, i));
    if (i == 3) continue;  // has not joined
    ASSERT_EQ(all[i]->call(kJoin, {0x6f72, 0, 2}, &out), Status::ok);
  }
  User& root = *all[0];
  root.fill(kData, text_of(1000));
  Descriptor d = dma(kDmaBroadcast, kLent + kData, 0, 1000, 1 | 7u << 16);
  d.group = static_cast<uint32_t>(out.words[0]);
  const uint64_t before = root.packets();
  for (uint32_t i = 0; i < kSlots; i++) root.start(i, d);
  root.run();
  EXPECT_EQ(root.status(kSlots - 1), kDone);
  EXPECT_EQ(root.packets() - before, kSlots * 4) << "it has left more than once";
  EXPECT_EQ(fabric->link(0, true).counts().packets, kSlots * 4) << "one token for each packet";
  for (uint32_t i = 0; i < 8; i++) {
    EXPECT_EQ(all[i]->front(), i == 0 || i == 3 ? 0 : kSlots) << i;
    if (i == 0) continue;
    EXPECT_EQ(fabric->link(i, true).counts().packets, kSlots * 4) << i;
  }
  // Now one of them has no room.
  for (uint32_t i = 1; i < 8; i++)
    if (i != 5) all[i]->read_up_to(kSlots);
  root.start(4, d);
  root.run();
  EXPECT_EQ(root.status(4), kNone);
  all[5]->read_up_to(kSlots);
  root.run();
  EXPECT_EQ(root.status(4), kDone);
  for (const uint32_t i : {1, 2, 4, 5, 6, 7}) EXPECT_EQ(all[i]->front(), kSlots + 1) << i;
}

// As nodes do, each process of a node takes a broadcast once, whether the others have room or not.
TEST(NicQsnet, ProcessesOfANodeTakeABroadcastByThemselves) {
  const auto fabric = make_qsnet(2, "fattree");
  User root(*fabric, 0), b(*fabric, 1), c(*fabric, 1);
  Control out;
  for (User* const user : {&root, &b, &c})
    ASSERT_EQ(user->call(kJoin, {0x6f72, 0, 2}, &out), Status::ok);
  Descriptor d = dma(kDmaBroadcast, kLent + kData, 0, 1000, 0 | 1u << 16);
  d.group = static_cast<uint32_t>(out.words[0]);
  for (uint32_t i = 0; i <= kSlots; i++) {
    root.fill(kData, std::to_string(i) + text_of(999));
    root.start(i, d);
    root.run();
    if (i == kSlots - 1) b.read_up_to(kSlots);
  }
  EXPECT_EQ(root.status(kSlots - 1), kDone);
  EXPECT_EQ(root.status(kSlots), kNone) << "one of them has no room";
  EXPECT_EQ(b.frame(kSlots - 1), "3" + text_of(999));
  c.read_up_to(kSlots);
  root.run();
  EXPECT_EQ(root.status(kSlots), kDone);
  for (const User* const user : {&b, &c}) {
    EXPECT_EQ(user->front(), kSlots + 1);
    EXPECT_EQ(user->frame(kSlots), "4" + text_of(999));
  }
}

TEST(NicQsnet, ATestIsDoneWhenTheEventsOfAllHaveFired) {
  const auto fabric = make_qsnet(6, "fattree");
  std::vector<std::unique_ptr<User>> all;
  Control out;
  for (uint32_t i = 0; i < 6; i++) {
    all.push_back(std::make_unique<User>(*fabric, i));
    all[i]->set(1024, Event{1, 0, 0, 0});
    ASSERT_EQ(all[i]->call(kJoin, {0x6f72, 0, 2}, &out), Status::ok);
  }
  Descriptor d = dma(kDmaTest, 0, 1024, 0, 0 | 5u << 16);
  d.group = static_cast<uint32_t>(out.words[0]);
  all[0]->start(0, d);
  for (uint32_t i = 1; i < 6; i++) {
    all[0]->run();
    EXPECT_EQ(all[0]->status(0), kNone) << i;
    all[i]->card->write32(kSetEvent, 1024);
  }
  all[0]->run();
  EXPECT_EQ(all[0]->status(0), kDone);
}

// Bytes a microsecond that so many processes write to the same memory of one.
double write_rate(uint32_t writers) {
  constexpr size_t kBytes = 128 << 10;
  const auto fabric = make_qsnet(20, "fattree");
  User target(*fabric, 0);
  std::vector<std::unique_ptr<User>> all;
  for (uint32_t i = 1; i <= writers; i++) {
    all.push_back(std::make_unique<User>(*fabric, i));
    all.back()->start(0, dma(kDmaWrite, kLent + kData, kLent + kData, kBytes, target.name()));
  }
  const uint64_t begin = fabric->engine().now_ns();
  const auto is_over = [](const auto& user) { return user->status(0) == kDone; };
  while (!std::ranges::all_of(all, is_over) && fabric->engine().now_ns() < begin + 100000000)
    fabric->engine().step();
  EXPECT_TRUE(std::ranges::all_of(all, is_over));
  return static_cast<double>(kBytes * writers) * 1e3 /
         static_cast<double>(fabric->engine().now_ns() - begin);
}

TEST(NicQsnet, AHotSpotKeepsItsRate) {
  const double one = write_rate(1);
  EXPECT_GT(one, 250);
  for (const uint32_t writers : {2u, 4u, 16u})
    EXPECT_NEAR(write_rate(writers) / one, 1, 0.05) << writers << " writers beside " << one;
}

// A process that ends in the middle of a frame leaves no slot that stays open.
TEST(NicQsnet, AFrameWhoseSenderDiesBecomesVoid) {
  for (uint64_t after_ns = 500; after_ns < 9000; after_ns += 500) {
    const auto fabric = make_qsnet(3, "fattree");
    User a(*fabric, 0), b(*fabric, 1), c(*fabric, 2);
    a.start(0, dma(kDmaQueue, kLent + kData, 0, 2000, b.name()));
    a.run(after_ns);
    fabric->kill(a.name());
    c.fill(kData, "from c");
    c.start(0, dma(kDmaQueue, kLent + kData, 0, 6, b.name()));
    c.run();
    ASSERT_EQ(c.status(0), kDone);
    ASSERT_EQ(b.call(kSweep), Status::ok);
    b.run();
    const uint32_t front = b.front();
    ASSERT_GE(front, 1u) << after_ns;
    EXPECT_EQ(b.frame(front - 1), "from c") << after_ns;
    if (front == 1) continue;
    const auto header = b.shared<SlotHeader>(kSlotsAt);
    EXPECT_TRUE(header.from == kNobody || header.bytes == 2000) << after_ns;
  }
}

TEST(NicQsnet, ChecksWhatItsDriverWrites) {
  const auto fabric = make_qsnet(2, "fattree");
  User a(*fabric, 0), b(*fabric, 0), other(*fabric, 1);
  Random random(1);
  for (int i = 0; i < 4000; i++) {
    User& user = random.chance(500000) ? a : b;
    const auto value =
        static_cast<uint32_t>(random.chance(500000) ? random.next() : random.between(0, 130) * 64);
    if (random.chance(300000)) {
      user.card->write32(static_cast<uint32_t>(random.between(0, 5)) * 4, value);
    } else if (random.chance(700000)) {
      Descriptor d =
          dma(static_cast<uint32_t>(random.between(0, 7)), random.next() >> 1,
              random.chance(500000) ? kLent + value : random.next(), random.between(0, 5000),
              random.chance(700000) ? other.name() : random.next() & 0xffff);
      if (random.chance(700000)) d.source = kLent + kData;
      user.start(static_cast<uint32_t>(random.between(0, 60)), d);
    } else if (random.chance(500000)) {
      user.set(static_cast<uint32_t>(random.between(0, kSdramBytes / 4 - 1)) * 4, value);
    } else {
      static_cast<void>(user.call(static_cast<uint32_t>(random.between(0, 8)),
                                  {random.between(0, 3), random.next(), value, 0, 0, 0}));
    }
    fabric->engine().run_to(fabric->engine().now_ns() + random.between(0, 3000));
  }
  fabric->kill(a.name());
  fabric->kill(b.name());
  other.run(10000000);
  ASSERT_EQ(other.call(kSweep), Status::ok);
  User next(*fabric, 0);
  next.fill(kData, "sane");
  other.set(kQueueAt, Queue{kLent + kSlotsAt, kSlots, kSlotBytes, 256, other.front(), {}, 0, 0});
  other.set(256, Event{1, kCopies | kEachTime, kQueueAt, kQueueBlock});
  next.start(0, dma(kDmaWrite, kLent + kData, kLent + kData, 4, other.name()));
  next.run();
  EXPECT_EQ(next.status(0), kDone);
  EXPECT_EQ(other.memory(kData, 4), "sane");
}

// --- the driver ------------------------------------------------------------------------------

Rma put_to(test::End& from, test::End& to, const Region& region, const iovec* piece) {
  Rma rma;
  rma.peer = from.connect(to);
  const auto key = std::span(region.key).first(from.driver->caps().key_bytes);
  EXPECT_EQ(from.driver->import(rma.peer, key, &rma.remote), Status::ok);
  rma.pieces = piece;
  rma.piece_count = 1;
  rma.bytes = piece->iov_len;
  rma.cookie = 1;
  return rma;
}

// The only route is cut while it is busy; the driver loads the one around the ring.
TEST(NicQsnet, ACutRouteLosesNothing) {
  test::CardEnds ends("qsnet", {.nodes = 4, .topology = "ring:4", .faults = "cut#700/cable=4"});
  const std::string data = text_of(1 << 20);
  std::string memory(data.size(), '.');
  Region region;
  ASSERT_EQ(ends[1].driver->reg(memory.data(), memory.size(), kRemoteWrite, &region), Status::ok);
  const iovec piece{const_cast<char*>(data.data()), data.size()};
  const Rma rma = put_to(ends[0], ends[1], region, &piece);
  ASSERT_EQ(ends[0].driver->put(rma), Status::pending);
  for (uint32_t i = 0; i < 300; i++) ends.send(0, rma.peer, std::to_string(i), text_of(1500));
  ends.run(20000);
  ASSERT_EQ(ends[0].sink.dones.size(), 1u);
  EXPECT_EQ(ends[0].sink.dones[0].status, Status::ok);
  EXPECT_TRUE(memory == data);
  ASSERT_EQ(ends[1].sink.packets.size(), 300u);
  for (uint32_t i = 0; i < 300; i++)
    EXPECT_EQ(ends[1].sink.packets[i].bytes, std::to_string(i) + text_of(1500));
  EXPECT_TRUE(ends.fabric->link(4, false).down());
  EXPECT_GE(counted(*ends.fabric, 0, "traps"), 1u);
  EXPECT_TRUE(ends[0].sink.downs.empty());
}

TEST(NicQsnet, AFrameToAGroupLeavesTheSenderOnce) {
  test::CardEnds ends("qsnet", {.nodes = 16, .topology = "fattree", .faults = "ber=1e-6"});
  const std::byte name[4] = {};
  std::vector<PeerId> groups(16);
  for (uint32_t i = 0; i < 16; i++) {
    if (i % 3 == 1) continue;
    ASSERT_EQ(ends[i].driver->join(name, &groups[i]), Status::ok);
  }
  const uint64_t before = ends.fabric->link(0, false).counts().packets;
  for (uint32_t i = 0; i < 50; i++) ends.send(0, groups[0], std::to_string(i), text_of(1900));
  ends.run(3000);
  for (uint32_t i = 0; i < 16; i++)
    EXPECT_EQ(ends[i].sink.packets.size(), i == 0 || i % 3 == 1 ? 0u : 50u) << i;
  const uint64_t again = counted(*ends.fabric, 0, "sent again");
  // 1902 bytes are six packets.
  EXPECT_EQ(ends.fabric->link(0, false).counts().packets - before, 50 * 6 + again);
}

TEST(NicQsnet, TheDriverRefusesOtherCards) { test::expect_other_cards_refused(open_qsnet); }

}  // namespace
}  // namespace torii::nic::qsnet
