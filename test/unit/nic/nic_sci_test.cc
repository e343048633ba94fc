// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The PCI-SCI card, register by register: window, tables, descriptors, tags, and the ring's rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/base/random.h"
#include "drivers/sci/sci.h"
#include "nic/fabric.h"
#include "nic/sci/regs.h"
#include "nic_cards.h"

namespace torii::nic::sci {
namespace {

std::unique_ptr<Fabric> make_sci(uint32_t nodes, const char* topology = "star",
                                 const char* faults = "") {
  FabricOptions options;
  options.nodes = nodes;
  options.topology = topology;
  options.faults = faults;
  return test::make_cards("sci", options);
}

// A process that uses the card by hand. Others may read and write its lent memory up to kHidden;
// descriptors and completions are behind.
constexpr uint32_t kHidden = 8 << 20, kQueueAt = kHidden, kDescriptorsAt = kHidden + 4096;

struct Bridge {
  Bridge(Fabric& f, uint32_t node, Personality personality = kCombined) : fabric(f) {
    std::string why;
    card = fabric.open(node, &why);
    EXPECT_TRUE(card) << why;
    context = endpoint_of(card->info().name) % kContexts;
    if (personality == kDolphin) return;
    EXPECT_EQ(call(kExport, {0, kHidden / kPageBytes, bus(0), kReadable | kWritable}), Status::ok);
    EXPECT_EQ(call(kExport, {kHidden / kPageBytes, 256, bus(kHidden), 0}), Status::ok);
    EXPECT_EQ(call(kQueue, {up(kQueueAt), 64}), Status::ok);
  }
  Status call(uint32_t number, std::array<uint64_t, 6> words) {
    Control ignored;
    return card->control({number, words}, &ignored);
  }
  uint64_t bus(uint32_t offset) const { return card->info().shared_address + offset; }
  uint32_t up(uint32_t offset) const { return upstream_at(context, offset); }
  std::byte* memory(uint32_t offset) const { return card->shared().data() + offset; }
  // From that page of the window on, the other one's memory from its start.
  Status import(uint32_t page, const Bridge& other, uint32_t pages = 64) {
    return call(kImport, {page, pages, other.card->info().node, other.up(0)});
  }
  uint32_t window(uint32_t page, uint32_t offset) const {
    return context * kWindowBytes + page * kWindowPageBytes + offset;
  }
  void store(uint32_t page, uint32_t offset, const std::string& text) {
    card->write(kWindow + page * kWindowPageBytes + offset, text.data(), text.size());
  }
  // Returns the number of the descriptor.
  uint32_t post(Operation operation, uint64_t remote, uint64_t local, uint32_t bytes,
                uint32_t vi = 0) {
    Descriptor d{};
    d.segments = 2;
    d.control = operation;
    d.length = d.bytes = bytes;
    d.remote = remote;
    d.local = local;
    return post(d, vi);
  }
  uint32_t post(const Descriptor& d, uint32_t vi = 0) {
    std::memcpy(memory(kDescriptorsAt + posted * 64), &d, sizeof(d));
    card->write32(doorbell_at(vi), up(kDescriptorsAt + posted * 64));
    return posted++;
  }
  Descriptor descriptor(uint32_t i) const {
    Descriptor d;
    std::memcpy(&d, memory(kDescriptorsAt + i * 64), sizeof(d));
    return d;
  }
  uint32_t status(uint32_t i) const { return descriptor(i).status; }
  Completion completion(uint32_t i) const {
    Completion out;
    std::memcpy(&out, memory(kQueueAt + i % 64 * 16), sizeof(out));
    return out;
  }
  uint32_t ended() const {
    uint32_t count = 0;
    for (uint32_t i = 0; i < posted; i++) count += status(i) != 0;
    return count;
  }
  std::string text(uint32_t offset, size_t bytes) const {
    return {reinterpret_cast<const char*>(memory(offset)), bytes};
  }
  void fill(uint32_t offset, const std::string& text) const {
    std::memcpy(memory(offset), text.data(), text.size());
  }
  void run(uint64_t ns = 300000) { fabric.engine().run_to(fabric.engine().now_ns() + ns); }
  uint64_t packets() const { return fabric.link(card->info().node, false).counts().packets; }

  Fabric& fabric;
  std::unique_ptr<Card> card;
  uint32_t context = 0, posted = 0;
};

std::string text_of(size_t bytes, uint64_t seed = 1) {
  Random random(seed);
  std::string out(bytes, ' ');
  for (char& c : out) c = static_cast<char>('a' + random.between(0, 25));
  return out;
}

bool says(Model& model, const char* what) { return model.report().find(what) != std::string::npos; }

// --- the window ------------------------------------------------------------------------------

TEST(NicSci, StoresGoThroughBothTables) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(3, b), Status::ok);
  const std::string text = text_of(200);
  a.store(3, 40, text);
  a.run();
  EXPECT_EQ(b.text(40, 200), text);
  EXPECT_EQ(b.text(240, 4), std::string(4, '\0'));
  // Lines of 64 bytes; each response has an echo.
  EXPECT_EQ(a.packets(), 2u * 4);
  EXPECT_EQ(b.packets(), 2u * 4);
  EXPECT_EQ(fabric->link(0, false).counts().bytes, 200u + 8 * 16);
  EXPECT_EQ(a.card->read32(kWindow + 3 * kWindowPageBytes), ~0u);
  EXPECT_EQ(a.card->read32(kId), kIdValue);
}

TEST(NicSci, StoresWithoutAPageAreRefused) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(0, b), Status::ok);
  a.card->write32(kMask, kCauseRefused);
  a.store(700, 0, "here");  // not imported
  EXPECT_EQ(a.card->read32(kCause), uint32_t{kCauseRefused});
  EXPECT_EQ(a.packets(), 0u);
  ASSERT_EQ(b.call(kExport, {1, 1, b.bus(kPageBytes), kReadable}), Status::ok);
  ASSERT_EQ(b.call(kExport, {2, 1, 0, 0}), Status::ok);
  a.store(0, kPageBytes, "only");
  a.store(0, 2 * kPageBytes, "gone");
  a.run();
  EXPECT_EQ(b.text(kPageBytes, 4), std::string(4, '\0')) << "only to be read";
  EXPECT_EQ(b.text(2 * kPageBytes, 4), std::string(4, '\0'));
  EXPECT_EQ(a.card->read32(kCause), uint32_t{kCauseRefused});
  EXPECT_EQ(fabric->bus(0).counts().interrupts, 3u);
  EXPECT_TRUE(says(fabric->model(1), " 2 refused")) << fabric->model(1).report();
  EXPECT_EQ(a.call(kImport, {0, 1, 7, 0}), Status::unreachable);
  EXPECT_EQ(a.call(kImport, {0, 1, 1, 4096}), Status::invalid) << "a page of the window has 16 kB";
  EXPECT_EQ(a.call(kImport, {kWindowPages - 1, 2, 1, 0}), Status::invalid);
  EXPECT_EQ(a.call(kExport, {kPages - 1, 2, 0, 0}), Status::invalid);
  EXPECT_EQ(a.call(99, {}), Status::unsupported);
}

TEST(NicSci, PagesThatNotifyInterrupt) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(0, b), Status::ok);
  ASSERT_EQ(b.call(kExport, {1, 1, b.bus(kPageBytes), kWritable | kNotifies}), Status::ok);
  b.card->write32(kMask, kCauseStored);
  a.store(0, 0, "data");
  a.run();
  EXPECT_EQ(fabric->bus(1).counts().interrupts, 0u);
  a.store(0, kPageBytes, "flag");
  a.run();
  EXPECT_EQ(fabric->bus(1).counts().interrupts, 1u);
  EXPECT_EQ(b.card->read32(kCause), uint32_t{kCauseStored});
}

// A card with one buffer answers `busy`, so stores overtake each other; the flag does not.
TEST(NicSci, ABarrierKeepsTheFlagBack) {
  const auto fabric = make_sci(3);
  Bridge a(*fabric, 0), b(*fabric, 1), other(*fabric, 2);
  ASSERT_EQ(a.import(0, b), Status::ok);
  ASSERT_EQ(other.import(0, b), Status::ok);
  ASSERT_EQ(b.call(kBuffers, {1, 1}), Status::ok);
  const std::string text = text_of(1024);
  other.post(kRdmaWrite, other.window(0, 1 << 16), other.up(0), 1 << 16);
  a.store(0, 0, text);
  a.card->write32(kBarrier, 0);
  a.store(0, 4096, "flag");
  for (int i = 0; i < 100000 && b.text(4096, 4) != "flag"; i++) fabric->engine().step();
  EXPECT_EQ(b.text(4096, 4), "flag");
  EXPECT_EQ(b.text(0, text.size()), text);
  EXPECT_FALSE(says(fabric->model(1), " 0 busy")) << fabric->model(1).report();
}

// --- descriptors -----------------------------------------------------------------------------

TEST(NicSci, DescriptorsWriteAndRead) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(5, b), Status::ok);
  a.card->write32(kMask, kCauseDone);
  const std::string text = text_of(20001);
  a.fill(123, text);
  const uint32_t put = a.post(kRdmaWrite, a.window(5, 77777), a.up(123), 20001);
  a.run(3000000);
  ASSERT_EQ(a.status(put), kDone);
  EXPECT_EQ(b.text(77777, text.size()), text);
  EXPECT_EQ(b.text(77777 + text.size(), 1), std::string(1, '\0'));
  EXPECT_EQ(a.descriptor(put).length, 20001u);
  EXPECT_EQ(a.completion(0).descriptor, a.up(kDescriptorsAt));
  EXPECT_EQ(a.completion(0).status, kDone);
  EXPECT_EQ(a.completion(0).number, 1u);
  EXPECT_EQ(a.card->read32(kCause), uint32_t{kCauseDone});
  const uint32_t get = a.post(kRdmaRead, a.window(5, 77777), a.up((1 << 20) + 1), 20001, 2);
  a.run(3000000);
  ASSERT_EQ(a.status(get), kDone);
  EXPECT_EQ(a.text((1 << 20) + 1, text.size()), text);
  EXPECT_EQ(a.completion(1).vi, 2u);
  EXPECT_EQ(a.completion(1).number, 2u);
  const uint32_t nothing = a.post(kRdmaWrite, a.window(5, 0), a.up(0), 0);
  a.run();
  EXPECT_EQ(a.status(nothing), kDone);
  EXPECT_EQ(fabric->bus(0).counts().interrupts, 3u);
}

// Nothing leaves the card.
TEST(NicSci, TagsAreCheckedInBothTables) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), other(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(0, b), Status::ok);
  ASSERT_EQ(other.import(0, b), Status::ok);
  other.fill(0, "secret");
  a.fill(0, "public");
  const uint32_t wrong[] = {
      a.post(kRdmaWrite, a.window(0, 0), other.up(0), 6),       // memory of another process
      a.post(kRdmaRead, a.window(0, 0), other.up(0), 6),        //
      a.post(kRdmaWrite, other.window(0, 0), a.up(0), 6),       // its window
      a.post(kRdmaWrite, a.window(500, 0), a.up(0), 6),         // not imported
      a.post(kRdmaWrite, a.window(0, 0), a.up(11 << 20), 6),    // not exported
      a.post(kRdmaWrite, a.window(0, 0), ~uint64_t{0} - 2, 6),  // nowhere
      a.post(kRdmaWrite, ~uint64_t{0} - 2, a.up(0), 6),
      a.post(kRdmaWrite, a.window(63, kWindowPageBytes - 4), a.up(0), 6),  // the end is outside
      a.post(kRdmaWrite, a.window(0, 0), a.up((9 << 20) - 3), 6),
  };
  a.run();
  for (const uint32_t i : wrong) EXPECT_EQ(a.status(i), kProtectionError) << i;
  EXPECT_EQ(a.packets(), 0u);
  EXPECT_EQ(b.text(0, 6), std::string(6, '\0'));
  EXPECT_EQ(other.text(0, 6), "secret");
  // A descriptor in memory of another process: only the completion tells.
  other.post(kRdmaWrite, other.window(0, 0), other.up(0), 6, 1);
  other.run();
  ASSERT_EQ(b.text(0, 6), "secret");
  a.card->write32(doorbell_at(0), other.up(kDescriptorsAt));
  a.run();
  EXPECT_EQ(a.completion(9).status, kProtectionError);
  EXPECT_EQ(other.status(0), kDone);
  const uint32_t good = a.post(kRdmaWrite, a.window(0, 0), a.up(0), 6);
  a.run();
  EXPECT_EQ(a.status(good), kDone) << "the VI goes on";
  EXPECT_EQ(b.text(0, 6), "public");
}

TEST(NicSci, TheTargetChecksItsTable) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), b(*fabric, 1), late(*fabric, 1);
  ASSERT_EQ(a.import(0, b), Status::ok);
  ASSERT_EQ(a.import(100, late), Status::ok);
  ASSERT_EQ(a.call(kImport, {200, 1, 1, 1u << 31}), Status::ok) << "no memory, but an address";
  ASSERT_EQ(b.call(kExport, {0, 1, b.bus(0), kReadable}), Status::ok);
  ASSERT_EQ(b.call(kExport, {1, 1, b.bus(kPageBytes), kWritable}), Status::ok);
  ASSERT_EQ(b.call(kExport, {2, 1, 0, 0}), Status::ok);
  b.fill(0, text_of(3 * kPageBytes));
  a.fill(0, "xxxxxx");
  fabric->kill(late.card->info().name);
  const uint32_t wrong[] = {
      a.post(kRdmaWrite, a.window(0, 0), a.up(0), 6),
      a.post(kRdmaRead, a.window(0, kPageBytes), a.up(0), 6),
      a.post(kRdmaWrite, a.window(0, 2 * kPageBytes), a.up(0), 6),
      a.post(kRdmaRead, a.window(0, 2 * kPageBytes), a.up(0), 6),
      a.post(kRdmaWrite, a.window(0, 0), a.up(0), 3 * 64),
      a.post(kRdmaWrite, a.window(100, 0), a.up(0), 6),
      a.post(kRdmaRead, a.window(200, 0), a.up(0), 6),
  };
  a.run();
  for (const uint32_t i : wrong) EXPECT_EQ(a.status(i), kRdmaProtectionError) << i;
  EXPECT_EQ(b.text(0, 3 * kPageBytes), text_of(3 * kPageBytes));
  EXPECT_EQ(a.text(0, 6), "xxxxxx");
  const uint32_t good[] = {a.post(kRdmaRead, a.window(0, 0), a.up(4096), 6),
                           a.post(kRdmaWrite, a.window(0, kPageBytes), a.up(0), 6)};
  a.run();
  for (const uint32_t i : good) EXPECT_EQ(a.status(i), kDone);
  EXPECT_EQ(a.text(4096, 6), text_of(6));
  EXPECT_EQ(b.text(kPageBytes, 6), "xxxxxx");
}

TEST(NicSci, DescriptorsAreChecked) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(0, b), Status::ok);
  Descriptor good{};
  good.segments = 2;
  good.control = kRdmaWrite;
  good.length = good.bytes = 8;
  good.remote = a.window(0, 0);
  good.local = a.up(0);
  const auto with = [&](auto change) {
    Descriptor d = good;
    change(d);
    return a.post(d);
  };
  const uint32_t formats[] = {
      with([](Descriptor& d) { d.segments = 1; }), with([](Descriptor& d) { d.control = 0; }),
      with([](Descriptor& d) { d.control = 3; }), with([](Descriptor& d) { d.control |= 4; })};
  const uint32_t lengths[] = {with([](Descriptor& d) { d.length = 9; }),
                              with([](Descriptor& d) { d.length = d.bytes = kTransferMax + 1; })};
  a.card->write32(doorbell_at(0), a.up(kDescriptorsAt + 32));
  a.run();
  for (const uint32_t i : formats) EXPECT_EQ(a.status(i), kFormatError);
  for (const uint32_t i : lengths) EXPECT_EQ(a.status(i), kLengthError);
  EXPECT_EQ(a.completion(6).status, kProtectionError) << "not aligned";
  EXPECT_EQ(a.packets(), 0u);
  for (uint32_t i = 0; i < 2 * kPostedMax; i++) with([](Descriptor&) {});
  a.run(5000000);
  EXPECT_EQ(a.ended(), 6 + kPostedMax) << "there are no more than wait at a time";
  EXPECT_TRUE(says(fabric->model(0), " 135 bad descriptors")) << fabric->model(0).report();
}

// --- the ring --------------------------------------------------------------------------------

// Each card has one buffer for its requests and one for those of others. All write to and read from
// all, by descriptors and by stores, at once.
void all_at_once(const char* topology, const char* faults, uint32_t nodes, uint32_t bytes) {
  const auto fabric = make_sci(nodes, topology, faults);
  std::vector<std::unique_ptr<Bridge>> all;
  for (uint32_t i = 0; i < nodes; i++) {
    all.push_back(std::make_unique<Bridge>(*fabric, i));
    ASSERT_EQ(all[i]->call(kBuffers, {1, 1}), Status::ok);
  }
  // What node i writes to j comes to the same place as what it reads from there.
  const auto place = [&](uint32_t i, uint32_t part) { return part * (1 << 20) + i * 8192; };
  for (uint32_t i = 0; i < nodes; i++) {
    for (uint32_t j = 0; j < nodes; j++) {
      ASSERT_EQ(all[i]->import(100 * j, *all[j], 100), Status::ok);
      all[i]->fill(place(j, 0), text_of(bytes, 100 * i + j));
      all[i]->post(kRdmaWrite, all[i]->window(100 * j, 8192 * i + 500000), all[i]->up(place(j, 0)),
                   bytes);
      all[i]->post(kRdmaRead, all[i]->window(100 * j, place(i, 0)), all[i]->up(place(j, 2)), bytes,
                   1);
      all[i]->store(100 * j, 300000 + 64 * i, text_of(64, 100 * i + j));
    }
  }
  for (int rounds = 0; rounds < 2000; rounds++) {
    if (std::ranges::all_of(all, [&](const auto& b) { return b->ended() == 2 * nodes; })) break;
    all[0]->run(20000);
  }
  for (uint32_t i = 0; i < nodes; i++) {
    ASSERT_EQ(all[i]->ended(), 2 * nodes) << i << ": " << fabric->model(i).report();
    for (uint32_t d = 0; d < 2 * nodes; d++) EXPECT_EQ(all[i]->status(d), kDone);
    for (uint32_t j = 0; j < nodes; j++) {
      EXPECT_EQ(all[j]->text(8192 * i + 500000, bytes), text_of(bytes, 100 * i + j));
      EXPECT_EQ(all[i]->text(place(j, 2), bytes), text_of(bytes, 100 * j + i));
      EXPECT_EQ(all[j]->text(300000 + 64 * i, 64), text_of(64, 100 * i + j));
    }
    EXPECT_FALSE(says(fabric->model(i), " 0 busy")) << fabric->model(i).report();
  }
}

TEST(NicSci, AllReadAndWriteAtOnceWithSingleBuffers) { all_at_once("ring:3", "", 6, 1500); }

TEST(NicSci, AllReadAndWriteAtOnceOverBadLinks) {
  all_at_once("ring:2", "ber=3e-6,drop=1e-3,fail#7,stall#20/for=100us", 4, 2000);
}

// Five writers and one buffer: none is served much later than the others.
TEST(NicSci, WhoWasBusyIsServedNext) {
  constexpr uint32_t kWriters = 5;
  const auto fabric = make_sci(kWriters + 1, "ring:3");
  Bridge target(*fabric, 0);
  ASSERT_EQ(target.call(kBuffers, {1, 1}), Status::ok);
  std::vector<std::unique_ptr<Bridge>> writers;
  for (uint32_t i = 1; i <= kWriters; i++) {
    writers.push_back(std::make_unique<Bridge>(*fabric, i));
    ASSERT_EQ(writers.back()->import(0, target), Status::ok);
    writers.back()->post(kRdmaWrite, writers.back()->window(0, i * 65536), writers.back()->up(0),
                         8192);
  }
  std::vector<uint64_t> ends(kWriters);
  for (uint64_t us = 1; us < 50000 && std::ranges::count(ends, 0u) > 0; us += 10) {
    target.run(10000);
    for (uint32_t i = 0; i < kWriters; i++)
      if (ends[i] == 0 && writers[i]->ended()) ends[i] = us;
  }
  const auto [first, last] = std::ranges::minmax(ends);
  EXPECT_GT(first, 0u);
  EXPECT_LT(last, first + first / 3);
}

// A value that grows never falls, though packets and echoes are lost and come again.
TEST(NicSci, NoRequestIsDoneTwice) {
  const auto fabric = make_sci(2, "star", "drop=5e-2,seed=5");
  Bridge a(*fabric, 0), b(*fabric, 1);
  ASSERT_EQ(a.import(0, b), Status::ok);
  for (uint32_t i = 1; i <= 500; i++) {
    a.card->write(kWindow, &i, sizeof(i));
    a.card->write32(kBarrier, 0);
  }
  uint32_t last = 0;
  while (fabric->engine().next_ns() != ~uint64_t{0}) {
    fabric->engine().step();
    uint32_t now;
    std::memcpy(&now, b.memory(0), sizeof(now));
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(last, 500u);
  EXPECT_TRUE(says(fabric->model(1), " 500 in")) << fabric->model(1).report();
  EXPECT_FALSE(says(fabric->model(0), " 0 sent again")) << fabric->model(0).report();
}

// Without an echo a request comes again soon; with one its response has much longer.
TEST(NicSci, AnEchoGivesTheResponseTime) {
  for (const auto& [stall, again] : {std::pair{"0us", 0}, {"900us", 0}, {"1500us", 1}}) {
    const auto fabric = make_sci(2, "star", (std::string("stall#1/node=1/for=") + stall).c_str());
    Bridge a(*fabric, 0), b(*fabric, 1);
    ASSERT_EQ(a.import(0, b), Status::ok);
    a.store(0, 0, "slow");
    a.run(2000000);
    EXPECT_EQ(b.text(0, 4), "slow");
    const std::string sent_again = ", " + std::to_string(again) + " sent again";
    EXPECT_TRUE(says(fabric->model(0), sent_again.c_str())) << stall << fabric->model(0).report();
    EXPECT_TRUE(says(fabric->model(1), ", 1 in")) << "done once: " << fabric->model(1).report();
  }
  for (const char* const lost : {"drop#1/cable=0", "drop#1/cable=1"}) {  // the request, its echo
    const auto fabric =
        make_sci(2, "star", (std::string(lost) + ",stall#1/node=1/for=200us").c_str());
    Bridge a(*fabric, 0), b(*fabric, 1);
    ASSERT_EQ(a.import(0, b), Status::ok);
    a.store(0, 0, "slow");
    a.run(49000);
    EXPECT_TRUE(says(fabric->model(0), " 0 sent again")) << fabric->model(0).report();
    a.run(4000);
    EXPECT_TRUE(says(fabric->model(0), " 1 sent again")) << fabric->model(0).report();
    a.run();
    EXPECT_EQ(b.text(0, 4), "slow");
    EXPECT_TRUE(says(fabric->model(0), " 1 sent again")) << fabric->model(0).report();
  }
}

TEST(NicSci, ABrokenRingPutsTheViInErrorState) {
  const auto fabric = make_sci(3);
  Bridge a(*fabric, 0), b(*fabric, 1), c(*fabric, 2);
  ASSERT_EQ(a.import(0, b), Status::ok);
  ASSERT_EQ(a.import(64, c), Status::ok);
  for (const bool back : {false, true}) fabric->link(1, back).cut();
  const uint32_t lost = a.post(kRdmaWrite, a.window(0, 0), a.up(0), 1000);
  const uint32_t behind = a.post(kRdmaWrite, a.window(64, 0), a.up(0), 1000);
  const uint32_t beside = a.post(kRdmaWrite, a.window(64, 0), a.up(0), 1000, 1);
  a.store(0, 0, "lost");
  a.run(5000000);
  EXPECT_EQ(a.status(lost), kTransportError);
  EXPECT_EQ(a.status(behind), kFlushed);
  EXPECT_EQ(a.status(beside), kDone) << "another VI";
  EXPECT_EQ(a.card->read32(kCause), kCauseRefused | kCauseDone);
  const uint32_t still = a.post(kRdmaWrite, a.window(64, 0), a.up(0), 1000);
  a.run();
  EXPECT_EQ(a.status(still), kFlushed);
  ASSERT_EQ(a.call(kReset, {0}), Status::ok);
  const uint32_t again = a.post(kRdmaWrite, a.window(64, 0), a.up(0), 1000);
  a.run();
  EXPECT_EQ(a.status(again), kDone);
  EXPECT_EQ(a.call(kReset, {kVis}), Status::invalid);
  // The one without a cable hears of it as well.
  ASSERT_EQ(b.import(0, a), Status::ok);
  const uint32_t out = b.post(kRdmaRead, b.window(0, 0), b.up(0), 1000);
  b.run(5000000);
  EXPECT_EQ(b.status(out), kTransportError);
}

TEST(NicSci, ChecksWhatItsDriverWrites) {
  const auto fabric = make_sci(2);
  auto a = std::make_unique<Bridge>(*fabric, 0), b = std::make_unique<Bridge>(*fabric, 0);
  Bridge other(*fabric, 1);
  ASSERT_EQ(a->import(0, other), Status::ok);
  Random random(1);
  const auto number = [&]() -> uint64_t {
    return random.chance(500000) ? random.next() : random.between(0, 70);
  };
  for (int i = 0; i < 6000; i++) {
    Bridge& bridge = random.chance(500000) ? *a : *b;
    const auto vi = static_cast<uint32_t>(random.between(0, kVis - 1));
    const auto value = static_cast<uint32_t>(number());
    const auto word = static_cast<uint32_t>(random.between(0, kHidden / 64)) * 64;
    if (random.chance(200000)) {
      bridge.card->write32(static_cast<uint32_t>(random.between(0, 20)) * 4, value);
    } else if (random.chance(300000)) {
      bridge.card->write32(doorbell_at(vi), random.chance(500000) ? bridge.up(word) : value);
    } else if (random.chance(300000)) {
      bridge.store(static_cast<uint32_t>(random.between(0, 90)), value % 4000 * 4, text_of(96));
    } else if (random.chance(300000)) {
      Descriptor d;
      std::ranges::generate_n(reinterpret_cast<uint32_t*>(&d), 16, number);
      d.segments = 2;
      d.control = value % 4;
      d.length = d.bytes;
      std::memcpy(bridge.memory(word), &d, sizeof(d));
      bridge.card->write32(doorbell_at(vi), bridge.up(word));
    } else {
      static_cast<void>(bridge.call(static_cast<uint32_t>(random.between(0, 9)),
                                    {number(), number(), number(), number(), number(), number()}));
    }
    fabric->engine().run_to(fabric->engine().now_ns() + random.between(0, 3000));
  }
  fabric->kill(a->card->info().name);
  fabric->kill(b->card->info().name);
  other.run(5000000);
  Bridge next(*fabric, 0);
  ASSERT_EQ(next.call(kBuffers, {kBuffersMax, kBuffersMax}), Status::ok);
  ASSERT_EQ(next.call(kConfigure, {kCombined}), Status::ok);
  ASSERT_EQ(other.import(0, next), Status::ok);
  other.fill(0, "sane");
  const uint32_t put = other.post(kRdmaWrite, other.window(0, 0), other.up(0), 4);
  other.run();
  EXPECT_EQ(other.status(put), kDone);
  EXPECT_EQ(next.text(0, 4), "sane");
}

// --- the other personality -------------------------------------------------------------------

TEST(NicSci, ADolphinBridgeExportsBlocksOfOneWindow) {
  const auto fabric = make_sci(2);
  Bridge a(*fabric, 0, kDolphin), b(*fabric, 1, kDolphin);
  for (Bridge* bridge : {&a, &b}) {
    ASSERT_EQ(bridge->call(kConfigure, {kDolphin}), Status::ok);
    constexpr uint32_t kBlock = kBlockBytes / kPageBytes;
    EXPECT_EQ(bridge->call(kExport, {0, 1, bridge->bus(0), kWritable}), Status::invalid);
    EXPECT_EQ(bridge->call(kExport, {1, kBlock, bridge->bus(0), kWritable}), Status::invalid);
    EXPECT_EQ(bridge->call(kExport, {0, kBlock, bridge->bus(4096), kWritable}), Status::invalid);
    EXPECT_EQ(bridge->call(kExport, {0, kBlock, 0x40000000, kWritable}), Status::invalid)
        << "memory of the process";
    ASSERT_EQ(bridge->call(kExport, {0, kSharedBytes / kPageBytes, bridge->bus(0), kWritable}),
              Status::ok);
    ASSERT_EQ(bridge->call(kQueue, {bridge->up(kQueueAt), 64}), Status::ok);
  }
  ASSERT_EQ(a.import(0, b), Status::ok);
  Bridge other(*fabric, 0, kDolphin);
  EXPECT_EQ(other.call(kConfigure, {kCombined}), Status::denied);
  EXPECT_EQ(other.call(kConfigure, {kDolphin}), Status::ok);
  a.fill(0, text_of(1000));
  a.post(kRdmaWrite, a.window(0, 0), a.up(0), 1000);
  a.run();
  EXPECT_EQ(a.packets(), 0u) << "no process starts a transfer";
  EXPECT_EQ(a.call(kTransfer,
                   {0, a.up(kDescriptorsAt), a.window(0, 5), upstream_at(1, 0), 1000, kRdmaWrite}),
            Status::denied);
  EXPECT_EQ(a.call(kTransfer, {0, a.up(kDescriptorsAt), kWindowBytes, a.up(0), 1000, kRdmaWrite}),
            Status::denied);
  ASSERT_EQ(a.call(kTransfer, {0, a.up(kDescriptorsAt), a.window(0, 5), a.up(0), 1000, kRdmaWrite}),
            Status::ok);
  a.run();
  EXPECT_EQ(b.text(5, 1000), text_of(1000));
  EXPECT_EQ(a.completion(0).status, kDone);
  a.store(0, 4096, "word");
  a.run();
  EXPECT_EQ(b.text(4096, 4), "word");
}

TEST(NicSci, TheDriverRefusesOtherCards) {
  test::expect_other_cards_refused(open_sci);
  test::expect_other_cards_refused(open_sci_dolphin);
}

}  // namespace
}  // namespace torii::nic::sci
