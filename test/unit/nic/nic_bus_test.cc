// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The bus, its DMA channels, and the translation of addresses on a card.
#include <gtest/gtest.h>

#include <cstring>

#include "nic/bus.h"
#include "nic/mmu.h"

namespace torii::nic {
namespace {

// 64 KiB at address 0x1000, of which the last page is only read.
struct Memory final : nic::HostMemory {
  static constexpr uint64_t kAt = 0x1000, kReadOnly = 0x10000;
  Status move(bool write, uint64_t address, std::span<std::byte> here) override {
    accesses++;
    const uint64_t end = write ? kReadOnly : kAt + bytes.size();
    if (address < kAt || address + here.size() > end) return Status::denied;
    std::byte* const there = &bytes[address - kAt];
    std::memcpy(write ? there : here.data(), write ? here.data() : there, here.size());
    return Status::ok;
  }
  void interrupt(unsigned context) override { interrupts.push_back(context); }
  bool is_far(uint64_t) override { return far; }

  bool far = false;
  unsigned accesses = 0;
  std::vector<std::byte> bytes = std::vector<std::byte>(0x10000);
  std::vector<unsigned> interrupts;
};

// 1 byte/ns to the card, 2 to the host; 100 ns before each burst of 512.
constexpr nic::BusOptions kOptions{.write_ns = 60,
                                   .read_ns = 400,
                                   .read_busy_ns = 100,
                                   .burst_rate = 1e8,
                                   .dma_read_rate = 1e9,
                                   .dma_write_rate = 2e9,
                                   .dma_setup_ns = 100,
                                   .dma_burst = 512};

struct Slot {
  void run() {
    while (engine.next_ns() != ~uint64_t{0}) engine.step();
  }
  // Reads; notes when and how it ended.
  void read(unsigned channel, uint64_t address, size_t bytes, unsigned tries = 1) {
    const auto done = [this](Status status, std::span<const std::byte> data) {
      ends.push_back(engine.now_ns());
      statuses.push_back(status);
      got.assign(data.begin(), data.end());
    };
    bus.dma_read(channel, address, bytes, done, tries);
  }

  nic::Engine engine{1};
  Memory memory;
  Bus bus{engine, kOptions, memory, "bus0"};
  std::vector<uint64_t> ends;
  std::vector<Status> statuses;
  std::vector<std::byte> got;
};

TEST(NicBus, ATransferIsItsBurstsAndItsBytes) {
  Slot slot;
  for (size_t i = 0; i < 5000; i++) slot.memory.bytes[i] = static_cast<std::byte>(i * 7);
  slot.read(slot.bus.add_channel(), Memory::kAt, 5000);
  slot.run();
  ASSERT_EQ(slot.statuses, std::vector{Status::ok});
  EXPECT_EQ(slot.ends[0], 10 * 100u + 5000);
  EXPECT_TRUE(std::equal(slot.got.begin(), slot.got.end(), slot.memory.bytes.begin()));
  uint64_t end = 0;
  slot.bus.dma_write(0, Memory::kAt + 6000, slot.got, [&](Status status) {
    EXPECT_EQ(status, Status::ok);
    end = slot.engine.now_ns();
  });
  slot.run();
  EXPECT_EQ(end - slot.ends[0], 10 * 100u + 2500);
  EXPECT_EQ(std::memcmp(&slot.memory.bytes[6000], slot.got.data(), 5000), 0);
  EXPECT_EQ(slot.bus.counts().read_bytes, 5000u);
  EXPECT_EQ(slot.bus.counts().written_bytes, 5000u);
  EXPECT_EQ(slot.bus.counts().busy_ns, 2000u + 7500);
}

TEST(NicBus, ChannelsTakeTurnsAndKeepTheirOrder) {
  Slot slot;
  const unsigned a = slot.bus.add_channel(), b = slot.bus.add_channel();
  slot.read(a, Memory::kAt, 1024);
  slot.read(a, Memory::kAt, 512);
  slot.read(b, Memory::kAt, 1024);
  slot.run();
  // Bursts: a b a b a.
  EXPECT_EQ(slot.ends, (std::vector<uint64_t>{3 * 612, 4 * 612, 5 * 612}));
}

TEST(NicBus, UnmappedAndForbiddenMemoryFails) {
  Slot slot;
  const unsigned channel = slot.bus.add_channel();
  slot.read(channel, 0, 64);
  slot.read(channel, Memory::kAt + 0xffc0, 65);
  slot.read(channel, Memory::kAt + 0xffc0, 64);
  slot.run();
  EXPECT_EQ(slot.statuses, (std::vector{Status::denied, Status::denied, Status::ok}));
  Status written = Status::ok;
  // Begins where it may, ends where it may not.
  slot.bus.dma_write(channel, Memory::kReadOnly - 512, std::vector<std::byte>(1024),
                     [&](Status status) { written = status; });
  slot.run();
  EXPECT_EQ(written, Status::denied);
  EXPECT_EQ(slot.bus.counts().failed, 3u);
}

TEST(NicBus, FewAccessesMoveFarMemory) {
  Slot near, far;
  far.memory.far = true;
  for (Slot* const slot : {&near, &far}) {
    for (size_t i = 0; i < 2000; i++) slot->memory.bytes[i] = static_cast<std::byte>(i * 7);
    const unsigned reader = slot->bus.add_channel(), writer = slot->bus.add_channel();
    for (const uint64_t at : {0, 64, 128, 192, 1000, 1064})
      slot->read(reader, Memory::kAt + at, 64);
    slot->run();
    EXPECT_EQ(std::memcmp(slot->got.data(), &slot->memory.bytes[1064], 64), 0);
    // The end of the row is read only.
    for (const uint64_t at : {128, 64, 0})
      slot->bus.dma_write(writer, Memory::kReadOnly - at, std::vector<std::byte>(64, std::byte{1}),
                          [slot](Status status) {
                            slot->ends.push_back(slot->engine.now_ns());
                            slot->statuses.push_back(status);
                          });
    slot->run();
    EXPECT_EQ(slot->memory.bytes[Memory::kReadOnly - Memory::kAt - 1], std::byte{1});
  }
  EXPECT_EQ(near.ends, far.ends) << "each in its time";
  EXPECT_EQ(near.statuses, far.statuses);
  EXPECT_EQ(far.statuses.back(), Status::denied);
  EXPECT_EQ(near.memory.accesses, 6u + 3);
  // Of the reads two rows; all writes at once, the first one, the other two, and each of them.
  EXPECT_EQ(far.memory.accesses, 2u + 5);
}

TEST(NicBus, FaultsByCount) {
  Slot slot;
  const unsigned channel = slot.bus.add_channel();
  slot.bus.add_fault({.fault = Fault::stall, .nth = 1, .for_ns = 5000});
  slot.bus.add_fault({.fault = Fault::fail, .nth = 2});
  slot.bus.add_fault({.fault = Fault::lose_irq, .nth = 2});
  slot.bus.add_fault({.fault = Fault::lose_irq, .nth = 4, .and_later = true});
  for (int i = 0; i < 3; i++) slot.read(channel, Memory::kAt, 100);
  slot.run();
  EXPECT_EQ(slot.statuses, (std::vector{Status::ok, Status::io_error, Status::ok}));
  EXPECT_EQ(slot.ends, (std::vector<uint64_t>{5200, 5400, 5600}));
  for (int i = 0; i < 5; i++) slot.bus.interrupt(static_cast<unsigned>(i));
  EXPECT_EQ(slot.memory.interrupts, (std::vector{0u, 2u}));
  EXPECT_EQ(slot.bus.counts().lost_interrupts, 3u);
}

TEST(NicBus, ATransferThatFailsIsTriedAgainBeforeTheNext) {
  Slot slot;
  const unsigned channel = slot.bus.add_channel();
  for (const uint64_t nth : {1u, 3u, 5u, 6u})
    slot.bus.add_fault({.fault = Fault::fail, .nth = nth});
  slot.memory.bytes[0] = std::byte{7};
  slot.read(channel, Memory::kAt, 100, 3);  // 1, 3 and 4
  slot.read(channel, Memory::kAt, 100);     // 2
  slot.run();
  EXPECT_EQ(slot.statuses, (std::vector{Status::ok, Status::ok}));
  EXPECT_EQ(slot.ends, (std::vector<uint64_t>{600, 800}));
  EXPECT_EQ(slot.got[0], std::byte{7});
  slot.read(channel, Memory::kAt, 100, 2);  // 5 and 6
  slot.run();
  slot.read(channel, 0, 100, 2);  // 7: it would be denied again
  slot.run();
  EXPECT_EQ(slot.statuses[2], Status::io_error);
  EXPECT_EQ(slot.statuses[3], Status::denied);
  EXPECT_EQ(slot.bus.counts().transfers, 7u);
  EXPECT_EQ(slot.bus.counts().failed, 5u);
}

TEST(NicBus, TheHostsAccessesWaitForTheBus) {
  Slot slot;
  slot.read(slot.bus.add_channel(), Memory::kAt, 512);
  EXPECT_EQ(slot.bus.occupy(0, slot.bus.store_ns(4), "store"), 612u + 60);
  EXPECT_EQ(slot.bus.store_ns(132), 60u + 1280);
  slot.read(0, Memory::kAt, 100);
  slot.run();
  EXPECT_EQ(slot.ends, (std::vector<uint64_t>{612, 672 + 200}));
  EXPECT_EQ(slot.bus.load(10000, 12), 10000u + 1200);
  EXPECT_EQ(slot.bus.occupy(0, 10, "store"), 10000u + 3 * 100 + 10) << "others have the rest of it";
}

TEST(NicMmu, FindsWhatIsMappedAndNothingElse) {
  Mmu mmu(2, 16, 4096);
  ASSERT_EQ(mmu.set(1, 3, {.address = 0x7000, .rights = nic::kCardWrites}), Status::ok);
  EXPECT_EQ(mmu.set(2, 0, {}), Status::invalid);
  EXPECT_EQ(mmu.set(0, 16, {}), Status::invalid);
  const uint64_t at = 3 * 4096 + 100;
  uint64_t address = 0;
  ASSERT_TRUE(mmu.find(1, at, nic::kCardWrites, &address));
  EXPECT_EQ(address, 0x7000u + 100);
  EXPECT_FALSE(mmu.find(2, at, nic::kCardWrites, &address)) << "there is no such slot";
  EXPECT_FALSE(mmu.find(0, at, nic::kCardWrites, &address)) << "another slot";
  EXPECT_FALSE(mmu.find(1, 4 * 4096, nic::kCardWrites, &address)) << "a page that is not mapped";
  EXPECT_FALSE(mmu.find(1, 4 * 4096, 0, &address));
  EXPECT_FALSE(mmu.find(1, ~uint64_t{0}, nic::kCardWrites, &address));
  EXPECT_FALSE(mmu.find(1, at, nic::kCardReads, &address)) << "a right that it has not";
  EXPECT_EQ(mmu.in_page(at, 10000), 4096u - 100);
  EXPECT_EQ(mmu.in_page(at, 50), 50u);
  mmu.clear(1);
  EXPECT_FALSE(mmu.find(1, at, nic::kCardWrites, &address));
}

}  // namespace
}  // namespace torii::nic
