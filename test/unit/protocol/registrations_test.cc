// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Registrations that cost much: which are kept and until when, and what becomes of messages where
// there is no room for them. The driver in the test traps if it is given memory that is not, or no
// longer, registered.
#include "core/protocol/registrations.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/memory/allocations.h"
#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

struct DeafSink final : Sink {
  void packet(PeerId, std::span<const std::byte>) override {}
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}
};

constexpr uint64_t kKept = 4096;

class RegistrationsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    registrations_.add_driver(driver_);
    for (auto& memory : memory_) memory.resize(kKept);
  }
  char* own(size_t i) {
    registrations_.own(memory_[i].data(), kKept);
    return memory_[i].data();
  }
  Registration* get(void* base, uint64_t bytes = kKept, uint32_t access = kLocal) {
    return registrations_.get(driver_, base, bytes, access);
  }
  // One operation from begin to end.
  bool use(void* base) {
    Registration* const r = get(base);
    if (r) registrations_.put(r, true);
    return r != nullptr;
  }

  DeafSink sink_;
  FakeDriver driver_{&sink_, kPut | kGet | kNeedsReg};
  Counters counters_;
  Registrations registrations_{counters_};
  std::vector<char> memory_[Registrations::kKeptMost + 1];
};

TEST_F(RegistrationsTest, ThoseOfHandedOutMemoryAreKeptUntilItIsGivenBack) {
  char* const memory = own(0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(use(memory));
  EXPECT_EQ(counters_.registrations_made, 1u);
  EXPECT_EQ(counters_.registrations_reused, 4u);
  EXPECT_EQ(driver_.registered(), 1u);
  registrations_.disown(memory);
  EXPECT_EQ(driver_.registered(), 0u);
  EXPECT_TRUE(use(memory)) << "the address may be another program's part's now";
  EXPECT_EQ(driver_.registered(), 0u);
  EXPECT_EQ(counters_.registrations_made, 2u);
}

TEST_F(RegistrationsTest, ThoseOfOtherMemoryLastForOneOperation) {
  EXPECT_TRUE(use(memory_[0].data()));
  EXPECT_EQ(driver_.registered(), 0u);
  registrations_.own(memory_[1].data(), kKept / 2);
  EXPECT_TRUE(use(memory_[1].data())) << "half of it is the user's own";
  EXPECT_EQ(driver_.registered(), 0u);
}

TEST_F(RegistrationsTest, WhereTheDriverTellsOfOtherMemoryAllAreKept) {
  driver_.want_local_memory_registered(1, true);
  char* const memory = memory_[0].data();
  EXPECT_TRUE(use(memory) && use(memory));
  EXPECT_EQ(counters_.registrations_reused, 1u);
  driver_.remap(memory);
  EXPECT_FALSE(registrations_.keeps(driver_, memory, kKept, kLocal));
  EXPECT_EQ(driver_.registered(), 0u) << "it is of no use any more";
  EXPECT_TRUE(use(memory));
  EXPECT_EQ(counters_.registrations_made, 2u);
  EXPECT_TRUE(registrations_.keeps(driver_, memory, kKept, kLocal));
  driver_.remap(memory);  // and it becomes memory that the core hands out
  own(0);
  EXPECT_TRUE(use(memory));
  EXPECT_EQ(counters_.registrations_made, 3u);
}

TEST_F(RegistrationsTest, OneServesSeveralAtATimeAndParts) {
  char* const memory = own(0);
  Registration* const first = get(memory, kKept, kRemoteRead);
  EXPECT_EQ(get(memory, kKept, kRemoteRead), first) << "exported twice";
  EXPECT_EQ(get(memory, 100, kRemoteRead), first);
  EXPECT_EQ(first->users, 3u);
  Registration* const other = get(memory + 1, 100, kRemoteRead);
  EXPECT_NE(other, first) << "a key names the first byte";
  Registration* const writable = get(memory, kKept, kRemoteWrite);
  EXPECT_NE(writable, first) << "another right";
  Registration* const local = get(memory, kKept, kLocal);
  EXPECT_EQ(get(memory + 1000, 100, kLocal), local);
  EXPECT_NE(get(memory + 1000, kKept - 999, kLocal), local) << "a byte more than there is";
  EXPECT_EQ(driver_.registered(), 5u);
  registrations_.put(first, true);
  registrations_.put(first, true);
  registrations_.put(first, true);
  EXPECT_EQ(driver_.registered(), 5u);
}

TEST_F(RegistrationsTest, ShortAllocationsAreRegisteredWholeForTheOwnCard) {
  char* const memory = own(0);
  Registration* const r = get(memory + 100, 50);
  EXPECT_EQ(r->region.base, memory);
  EXPECT_EQ(r->region.bytes, kKept);
  EXPECT_EQ(get(memory, 100), r);
  EXPECT_EQ(get(memory + 100, 50, kRemoteRead)->region.bytes, 50u) << "peers get no more than that";
  std::vector<char> large(Registrations::kWholeMost + 1);
  registrations_.own(large.data(), large.size());
  EXPECT_EQ(get(large.data() + 100, 50)->region.bytes, 50u);
}

TEST_F(RegistrationsTest, ThoseUsedLongestAgoMakeRoom) {
  driver_.regions_most = 2;
  char *const a = own(0), *const b = own(1), *const c = own(2);
  EXPECT_TRUE(use(a) && use(b) && use(a) && use(c));
  EXPECT_EQ(counters_.registrations_evicted, 1u);
  EXPECT_EQ(counters_.registrations_made, 3u);
  EXPECT_TRUE(use(a)) << "it was used after the other";
  EXPECT_EQ(counters_.registrations_made, 3u);
  Region region;  // as of an export
  EXPECT_EQ(registrations_.reg(driver_, b, kKept, kRemoteRead, &region), Status::ok);
  EXPECT_EQ(counters_.registrations_evicted, 2u);
}

TEST_F(RegistrationsTest, WithoutRoomThereAreFewerAtATime) {
  driver_.regions_most = 2;
  Registration* const a = get(own(0));
  Registration* const b = get(memory_[1].data());
  EXPECT_EQ(get(memory_[2].data()), nullptr);
  EXPECT_EQ(get(memory_[2].data()), nullptr);
  EXPECT_EQ(counters_.registrations_refused, 1u) << "asked again though nothing was given back";
  registrations_.put(a, true);
  Registration* const c = get(memory_[2].data());
  EXPECT_NE(c, nullptr) << "a kept one that nobody uses goes";
  registrations_.put(b, true);
  registrations_.put(c, true);
  EXPECT_EQ(driver_.registered(), 0u);
  driver_.regions_most = 0;
  EXPECT_FALSE(use(memory_[0].data()));
  driver_.regions_most = 1;
  EXPECT_TRUE(use(memory_[0].data())) << "with none in use it is always asked";
}

TEST_F(RegistrationsTest, NoMoreAreKeptThanTheTableHolds) {
  for (size_t i = 0; i <= Registrations::kKeptMost; ++i) EXPECT_TRUE(use(own(i)));
  EXPECT_EQ(driver_.registered(), Registrations::kKeptMost);
  EXPECT_EQ(counters_.registrations_evicted, 1u);
  registrations_.clear();
  EXPECT_EQ(driver_.registered(), 0u);
}

TEST_F(RegistrationsTest, AFailedOperationEndsItsRegistration) {
  Registration* const a = get(own(0), kKept, kRemoteWrite);
  EXPECT_EQ(get(memory_[0].data(), kKept, kRemoteWrite), a);
  registrations_.put(a, false);
  EXPECT_EQ(driver_.registered(), 1u) << "the other one uses it";
  Registration* const next = get(memory_[0].data(), kKept, kRemoteWrite);
  EXPECT_NE(next, a) << "its key is known to a peer that failed";
  registrations_.put(a, true);
  EXPECT_EQ(driver_.registered(), 1u);
  registrations_.put(next, true);
}

TEST_F(RegistrationsTest, MemoryGivenBackInUseEndsWithItsUser) {
  Registration* const a = get(own(0));
  registrations_.disown(memory_[0].data());
  EXPECT_EQ(driver_.registered(), 1u);
  Registration* const again = get(own(0));
  EXPECT_NE(again, a) << "the address was handed out again";
  registrations_.put(a, true);
  EXPECT_EQ(driver_.registered(), 1u);
  registrations_.put(again, true);
  EXPECT_EQ(driver_.registered(), 1u);
}

// The pages of both are one until somebody writes: then the card may know the other's.
TEST_F(RegistrationsTest, NoneAreKeptAcrossAFork) {
  char *const a = own(0), *const b = own(1);
  Registration* const used = get(b);
  EXPECT_TRUE(use(a));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(use(a));
  EXPECT_EQ(counters_.registrations_made, 3u);
  Registration* const again = get(b);
  EXPECT_NE(again, used);
  registrations_.put(used, true);
  registrations_.put(again, true);
  EXPECT_EQ(driver_.registered(), 2u);
}

TEST_F(RegistrationsTest, FollowTheMemoryOfTheUser) {
  std::vector<std::unique_ptr<Driver>> none;
  Allocations allocations(none, registrations_, counters_);
  void* memory[2] = {};
  for (void*& m : memory) {
    ASSERT_EQ(allocations.alloc(kKept, 0, &m), Status::ok);
    EXPECT_TRUE(use(m));
  }
  EXPECT_EQ(driver_.registered(), 2u);
  EXPECT_TRUE(allocations.free(memory[0]));
  EXPECT_EQ(driver_.registered(), 1u);
  allocations.retire(memory[1]);
  EXPECT_EQ(driver_.registered(), 0u) << "peers may not reach what was given back";
  allocations.release(memory[1]);
}

// --- messages ---------------------------------------------------------------------------------

constexpr uint64_t kWorthOnce = 70000, kOnce = 64 << 10, kTooShort = 40000;

class RegisteredMessages : public ProtocolFrames {
 protected:
  void open(uint32_t flags) {
    ProtocolFrames::open(flags | kNeedsReg,
                         [](FakeDriver& d) { d.want_local_memory_registered(kOnce, false); });
    driver_->sent.clear();
    driver_->remote = Status::pending;
  }
  size_t longest_body(size_t head) const {
    size_t longest = 0;
    for (const auto& frame : driver_->sent) longest = std::max(longest, frame.bytes.size() - head);
    return longest;
  }
  std::string key() const { return std::string(FakeDriver::kKeyBytes, 'k'); }
};

TEST_F(RegisteredMessages, ASourceIsExportedIfItPays) {
  open(kGet);
  EXPECT_EQ(put(kTooShort, false), Status::pending);
  EXPECT_TRUE(sent(wire::Kind::put_announce).key.empty()) << "too short for one operation";
  EXPECT_EQ(put(kWorthOnce, false), Status::pending);
  EXPECT_FALSE(sent(wire::Kind::put_announce).key.empty());
  protocol_->registrations().own(source_.data(), source_.size());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(put(kTooShort, false), Status::pending);
    const wire::Frame frame = sent(wire::Kind::put_announce);
    EXPECT_FALSE(frame.key.empty()) << "it will be kept";
    arrive(control(wire::Kind::finish, frame.request.op, kTooShort));
  }
  EXPECT_EQ(counters_.registrations_made, 2u);
  EXPECT_EQ(counters_.registrations_reused, 2u);
}

TEST_F(RegisteredMessages, ADestinationIsRegisteredWhileItIsRead) {
  open(kGet);
  arrive(announcement(kWorthOnce, key()));
  EXPECT_EQ(driver_->accesses, 2u);
  EXPECT_EQ(driver_->registered(), 1u);
  give_back();
  EXPECT_EQ(driver_->registered(), 1u) << "half of it is still to come";
  give_back();
  EXPECT_EQ(sent(wire::Kind::finish).control.length, kWorthOnce);
  EXPECT_EQ(driver_->registered(), 0u);
  arrive(announcement(kTooShort, key()));
  EXPECT_EQ(driver_->accesses, 2u) << "too short to be registered for one operation";
  EXPECT_EQ(sent(wire::Kind::stream).control.length, kTooShort);
}

TEST_F(RegisteredMessages, WithoutRoomFewerAreReadAtATimeAndAtLastNone) {
  open(kGet);
  driver_->regions_most = 1;
  arrive(announcement(kWorthOnce, key()));
  arrive(announcement(kWorthOnce, key()));
  EXPECT_EQ(driver_->accesses, 2u);
  give_back();
  protocol_->progress(++now_ns_);
  EXPECT_EQ(driver_->accesses, 2u);
  give_back();
  protocol_->progress(++now_ns_);
  EXPECT_EQ(driver_->accesses, 4u) << "the second has its turn";
  driver_->regions_most = 0;
  arrive(announcement(kWorthOnce, key()));
  give_back();
  give_back();
  protocol_->progress(++now_ns_);
  EXPECT_EQ(driver_->accesses, 4u);
  EXPECT_EQ(sent(wire::Kind::stream).control.length, kWorthOnce) << "frames bring it";
  EXPECT_FALSE(peer_->remote_denied) << "there will be room again";
  EXPECT_EQ(driver_->registered(), 0u);
}

// An acknowledgement may depend on a receive that the application posts after its own is complete.
TEST_F(RegisteredMessages, NobodyWaitsForARegistrationOfOneThatWaitsForItsTarget) {
  open(kGet);
  driver_->regions_most = 1;
  protocol_->registrations().own(source_.data(), source_.size());
  EXPECT_EQ(put(20000, true), Status::pending);
  EXPECT_EQ(driver_->registered(), 1u);
  arrive(announcement(kWorthOnce, key()));
  EXPECT_EQ(driver_->accesses, 0u);
  while (driver_->lent()) give_back();
  EXPECT_EQ(driver_->accesses, 2u) << "the first one has left, but is not acknowledged";
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 20000},
                           {OpEvent::received, Status::ok, kWorthOnce}}));
}

// A card without remote access, which sends from registered memory.
TEST_F(RegisteredMessages, FramesAreSentFromRegisteredMemoryOrCopied) {
  open(0);
  EXPECT_EQ(put(20000, false), Status::ok) << "it was copied";
  EXPECT_LE(longest_body(sizeof(wire::Request)), 256u);
  EXPECT_EQ(driver_->registered(), 0u);
  driver_->sent.clear();
  protocol_->registrations().own(source_.data(), source_.size());
  EXPECT_EQ(put(20000, false), Status::pending);
  EXPECT_GT(longest_body(sizeof(wire::Control)), 4000u);
  EXPECT_EQ(driver_->registered(), 1u);
  while (driver_->lent()) give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 20000}}));
  EXPECT_EQ(driver_->registered(), 1u) << "it is kept";
  notes_.clear();
  for (const size_t room : {1, 0}) {
    driver_->regions_most = room;
    if (room == 0) protocol_->registrations().clear();
    driver_->sent.clear();
    EXPECT_EQ(put(kWorthOnce, false), Status::pending);
    const uint64_t op = sent(wire::Kind::put_announce).request.op;
    driver_->sent.clear();
    arrive(control(wire::Kind::stream, op, kWorthOnce, Status::ok, 5));
    while (driver_->lent()) give_back();
    for (int i = 0; i < 300; ++i) protocol_->progress(++now_ns_);
    EXPECT_EQ(longest_body(sizeof(wire::Control)) > 256, room > 0);
    arrive(control(wire::Kind::finish, op, kWorthOnce));
    EXPECT_EQ(driver_->registered(), room);
  }
  EXPECT_EQ(notes_, Notes(2, {OpEvent::sent, Status::ok, kWorthOnce}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(RegisteredMessages, AccessesToExportsHaveTheirOwnMemoryRegistered) {
  open(kGet | kPut);
  Notes notes;
  uint32_t remote = 0;
  const std::string key = this->key();
  ASSERT_EQ(driver_->import(kPeer, std::as_bytes(std::span(key)), &remote), Status::ok);
  const auto access = [&](uint64_t bytes, bool reading) {
    return access_any(*protocol_, *peer_, remote, source_.data(), bytes, reading, &notes);
  };
  for (const bool reading : {true, false}) {
    EXPECT_EQ(access(256, reading), Status::pending) << "the driver copies it";
    EXPECT_EQ(driver_->registered(), 0u);
    EXPECT_EQ(access(257, reading), Status::denied) << "frames are cheaper";
    EXPECT_EQ(access(kWorthOnce, reading), Status::pending);
    EXPECT_EQ(driver_->registered(), 1u);
    while (driver_->lent()) give_back();
    EXPECT_EQ(driver_->registered(), 0u);
  }
  protocol_->registrations().own(source_.data(), source_.size());
  EXPECT_EQ(access(257, true), Status::pending);
  EXPECT_EQ(access(257, true), Status::pending);
  while (driver_->lent()) give_back();
  EXPECT_EQ(counters_.registrations_reused, 1u);
  EXPECT_EQ(notes.size(), 6u);
  driver_->drop(remote);
}

}  // namespace
}  // namespace torii
