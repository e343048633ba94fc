// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Puts and gets that the process whose memory it is carries out: when it looks, when it does not,
// when it looks too late, when it is never there, and when it dies.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "unit/shm/shm_ask_kit.h"

namespace torii::test {
namespace {

TEST_F(ShmAsk, TheOwnerPutsAndGets) {
  uint64_t cookie = 0;
  for (const uint64_t bytes : {1, 7, 8, 24, 25, 56, 200, 4096, 8191, 8192, 8193, 16384, 65536}) {
    std::vector<std::byte> back(bytes + 1);
    ASSERT_EQ(put(bytes % 5, bytes % 3, bytes, ++cookie), Status::pending) << bytes;
    EXPECT_FALSE(equal(bytes % 5, bytes % 3, bytes) && bytes > 8) << "nobody has looked yet";
    ASSERT_TRUE(together(cookie));
    EXPECT_EQ(status_of(cookie), Status::ok);
    EXPECT_TRUE(equal(bytes % 5, bytes % 3, bytes)) << bytes;
    EXPECT_EQ(claim().applied.load(), claim().seen.load());
    ASSERT_EQ(get(bytes % 5, back.data(), bytes, ++cookie), Status::pending) << bytes;
    ASSERT_TRUE(together(cookie));
    EXPECT_EQ(status_of(cookie), Status::ok);
    EXPECT_EQ(std::memcmp(back.data(), local.data() + bytes % 3, bytes), 0) << bytes;
    EXPECT_EQ(back[bytes], std::byte{}) << "written behind the end";
    EXPECT_EQ(claim().cancelled.load(), 0u);
  }
  EXPECT_EQ(user.counters.helped_accesses, cookie);
}

// Without a poll; what else has come is left for that.
TEST_F(ShmAsk, WhoLooksSeesTheEnd) {
  user.driver->advice()->look(peer);  // nothing is under way
  const PeerId back = connect_to(owner, user.address());
  ASSERT_NE(back, kNoPeer);
  test::send_surely(owner, back, "first");  // whose ring is found by a poll
  ASSERT_TRUE(test::poll_until(user, [&] { return !user.sink.packets.empty(); }));
  user.sink.packets.clear();
  uint64_t cookie = 0;
  for (const uint64_t bytes : {1, 8, 40, 41, 4096, 8192}) {
    std::vector<std::byte> got(bytes + 1);
    ASSERT_EQ(put(3, 5, bytes, ++cookie), Status::pending);
    user.driver->advice()->look(peer);
    EXPECT_FALSE(done(cookie)) << "the owner has not looked";
    while (!equal(3, 5, bytes)) owner.driver->poll(1, 64);
    user.driver->advice()->look(peer);
    EXPECT_EQ(status_of(cookie), Status::ok) << bytes;
    ASSERT_EQ(get(3, got.data(), bytes, ++cookie), Status::pending);
    owner.driver->poll(1, 64);
    user.driver->advice()->look(peer);
    EXPECT_EQ(status_of(cookie), Status::ok) << bytes;
    EXPECT_EQ(std::memcmp(got.data(), local.data() + 5, bytes), 0);
    EXPECT_EQ(got[bytes], std::byte{});
  }
  std::vector<std::byte> got(8);
  test::send_surely(owner, back, "hello");
  ASSERT_EQ(get(3, got.data(), 8, ++cookie), Status::pending);
  owner.driver->poll(1, 64);
  user.driver->advice()->look(peer);
  EXPECT_TRUE(user.sink.packets.empty());
  EXPECT_FALSE(done(cookie)) << "it comes behind another frame";
  ASSERT_TRUE(together(cookie));
  ASSERT_EQ(user.sink.packets.size(), 1u);
  EXPECT_EQ(user.sink.packets.front().bytes, "hello");
  EXPECT_EQ(claim().cancelled.load(), 0u);
  EXPECT_EQ(user.counters.helped_accesses, cookie);
}

// A process that looks in vain loses its patience no later than one that polls.
TEST_F(ShmAsk, LooksInVainEnd) {
  ASSERT_EQ(put(0, 0, 8, 1), Status::pending);
  unsigned looks = 0;
  for (; !done(1) && looks < kLooks; looks++) {
    user.driver->advice()->look(peer);
    user.driver->poll(1, 64);
  }
  EXPECT_EQ(status_of(1), Status::ok);
  EXPECT_LT(looks, 50u);
  EXPECT_TRUE(equal(0, 0, 8));
}

class ShmAskFew : public ShmAsk {
 protected:
  static void SetUpTestSuite() { set_points("1000"); }
};

// A caller that gives no cookie wants no help: `again`, unless the owner is not asked anyhow.
TEST_F(ShmAskFew, WithoutACookieNothingFollows) {
  std::vector<std::byte> back(1001);
  EXPECT_EQ(put(0, 0, 1000, 0), Status::again) << "it is short";
  EXPECT_EQ(get(0, back.data(), 1000, 0), Status::again);
  EXPECT_EQ(put(0, 5, 1001, 0), Status::ok) << "it is the first";
  EXPECT_TRUE(equal(0, 5, 1001));
  EXPECT_EQ(get(1001, back.data(), 1001, 0), Status::again);
  EXPECT_EQ(put(1001, 0, 1001, 0), Status::again);
  for (int i = 0; i < 64; i++) owner.driver->poll(1, 64);
  EXPECT_EQ(memory[1002], std::byte{}) << "it was asked all the same";
  EXPECT_EQ(claim().seen.load(), 0u);
  ASSERT_EQ(put(0, 0, 1001, 1), Status::pending);
  ASSERT_TRUE(alone(1)) << "absent from now on";
  EXPECT_EQ(put(0, 7, 1001, 0), Status::ok);
  EXPECT_EQ(get(0, back.data(), 1001, 0), Status::ok);
  EXPECT_EQ(std::memcmp(back.data(), local.data() + 7, 1001), 0);
}

// A user with several the last time has several again, until there was one.
TEST_F(ShmAskFew, TheFirstOfSeveralIsAskedForTheNextTime) {
  EXPECT_EQ(put(0, 0, 1001, 0), Status::ok);
  user.driver->poll(1, 64);
  EXPECT_EQ(put(0, 0, 1001, 0), Status::ok) << "there was one";
  EXPECT_EQ(put(1001, 0, 1001, 1), Status::pending);
  ASSERT_TRUE(together(1));
  EXPECT_EQ(put(0, 0, 1001, 0), Status::again) << "there were two";
  EXPECT_EQ(put(0, 0, 1001, 2), Status::pending);
  ASSERT_TRUE(together(2));
  EXPECT_EQ(put(0, 0, 1001, 0), Status::ok) << "there was one, told twice";
}

TEST_F(ShmAskFew, OneThatIsAloneAndLongIsNotAskedFor) {
  for (int round = 0; round < 3; round++) {
    EXPECT_EQ(put(0, 0, 1001, 1), Status::ok);
    EXPECT_EQ(put(1001, 1001, 1001, 2), Status::pending) << "it follows on another one";
    EXPECT_EQ(get(0, local.data() + 5000, 1000, 3), Status::pending) << "it is short";
    while (status_of(2) == Status::pending || status_of(3) == Status::pending) {
      owner.driver->poll(1, 64);
      user.driver->poll(1, 64);
    }
    EXPECT_EQ(std::memcmp(memory.data(), local.data(), 2002), 0);
    EXPECT_EQ(get(0, local.data() + 5000, 1001, 4), Status::pending) << "there were several";
    ASSERT_TRUE(together(4));
    user.driver->poll(1, 64);
    EXPECT_EQ(get(0, local.data() + 5000, 1001, 5), Status::ok);
    user.driver->poll(1, 64);
    user.sink.dones.clear();
  }
}

// Longer than the ring: goes on as the owner takes.
TEST_F(ShmAsk, LongPutsFlow) {
  ASSERT_EQ(put(3, 0, kBytes - 3, 1), Status::pending);
  EXPECT_FALSE(equal(3, 0, kBytes - 3));
  ASSERT_TRUE(together(1));
  EXPECT_TRUE(equal(3, 0, kBytes - 3));
  EXPECT_EQ(claim().cancelled.load(), 0u);
}

TEST_F(ShmAsk, LongGetsFlow) {
  std::vector<std::byte> got(kBytes);
  std::memcpy(memory.data(), local.data(), kBytes);
  ASSERT_EQ(get(0, got.data(), kBytes, 1), Status::pending);
  ASSERT_TRUE(together(1));
  EXPECT_EQ(std::memcmp(got.data(), local.data(), kBytes), 0);
  EXPECT_EQ(claim().cancelled.load(), 0u);
}

void set_ring(const char* bytes) {
  std::string why;
  ASSERT_EQ(param_set("shm_ring", bytes, "test", &why), Status::ok) << why;
}

class ShmAskLongRings : public ShmAsk {
 protected:
  static void SetUpTestSuite() {
    set_points("1g");
    set_ring("512k");
  }
  static void TearDownTestSuite() {
    set_points("0");
    set_ring("0");
  }

  // Frames that bring a put and a get of 64 KiB, alone and beside a short one.
  void count(uint64_t alone, uint64_t beside) {
    constexpr uint64_t kLong = 64 << 10;
    std::vector<std::byte> got(kLong);
    std::memcpy(memory.data() + kLong, local.data(), kLong);
    uint64_t cookie = 0, before = 0;
    for (const uint64_t others : {0, 1}) {
      for (const bool write : {true, false}) {
        if (others) {
          ASSERT_EQ(put(0, 0, 8, ++cookie), Status::pending);
        }
        ++cookie;
        ASSERT_EQ(write ? put(0, 0, kLong, cookie) : get(kLong, got.data(), kLong, cookie),
                  Status::pending);
        ASSERT_TRUE(together(cookie));
        EXPECT_EQ(claim().seen.load() - before, (others ? beside : alone) + others)
            << (write ? "put" : "get") << " beside " << others;
        before = claim().seen.load();
      }
    }
    EXPECT_TRUE(equal(0, 0, kLong));
    EXPECT_EQ(std::memcmp(got.data(), local.data(), kLong), 0);
  }
};

class ShmAskShortRings : public ShmAskLongRings {
 protected:
  static void SetUpTestSuite() {
    set_points("1g");
    set_ring("64k");
  }
};

TEST_F(ShmAskLongRings, FramesAreLongBesideOthers) { count(8, 2); }
TEST_F(ShmAskShortRings, NoFrameIsLong) { count(8, 8); }
TEST_F(ShmAskLongRings, ManyAtATime) { many_at_a_time(); }
TEST_F(ShmAskShortRings, ManyAtATime) { many_at_a_time(); }

// Bytes that have come are not read once more, and the rest is not all read by one poll.
TEST_F(ShmAsk, AnOwnerThatStopsOnTheWayOfGets) {
  std::vector<std::byte> got(2 * kBytes);
  std::memcpy(memory.data(), local.data(), kBytes);
  ASSERT_EQ(get(0, got.data(), kBytes, 1), Status::pending);
  ASSERT_EQ(get(0, got.data() + kBytes, kBytes, 2), Status::pending);
  owner.driver->poll(1, 3);
  for (int i = 0; i < 3; i++) user.driver->poll(1, 1);
  ASSERT_EQ(std::memcmp(got.data(), local.data(), 100), 0);
  got[0] = ~local[0];
  ASSERT_TRUE(alone(1));
  EXPECT_EQ(status_of(2), Status::pending);
  ASSERT_TRUE(alone(2));
  EXPECT_EQ(got[0], ~local[0]) << "it was read again";
  got[0] = local[0];
  EXPECT_EQ(std::memcmp(got.data(), local.data(), kBytes), 0);
  EXPECT_EQ(std::memcmp(got.data() + kBytes, local.data(), kBytes), 0);
}

// The ring does not hold the answers to all gets: each that is taken lets the owner go on, also
// when the user polls for one event at a time and never finds its ring empty.
TEST_F(ShmAsk, TheOwnerOfManyGetsDoesNotWaitForTheLast) {
  constexpr unsigned kGets = 40;
  constexpr uint64_t kEach = 64 << 10;
  std::vector<std::byte> got(kGets * kEach);
  std::memcpy(memory.data(), local.data(), got.size());
  ASSERT_EQ(get(0, got.data(), 64, 100), Status::pending);
  ASSERT_TRUE(together(100));
  for (unsigned i = 0; i < kGets; i++)
    ASSERT_EQ(get(i * kEach, got.data() + i * kEach, kEach, i + 1), Status::pending);
  for (unsigned i = 0; i < kLooks; i++) owner.driver->poll(1, 64);
  const uint64_t first = claim().seen;
  ASSERT_FALSE(done(kGets));
  for (unsigned i = 0; i < 4; i++) EXPECT_EQ(user.driver->poll(1, 1), 1u);
  owner.driver->poll(1, 64);
  EXPECT_GT(claim().seen, first);
  ASSERT_TRUE(together(kGets));
  EXPECT_EQ(std::memcmp(got.data(), local.data(), got.size()), 0);
}

// An owner that computes is not waited for; what it finds later it leaves alone.
TEST_F(ShmAsk, AnAbsentOwnerIsDoneWithout) {
  std::vector<std::byte> back(100);
  ASSERT_EQ(put(0, 0, 100, 1), Status::pending);
  ASSERT_EQ(get(0, back.data(), 100, 2), Status::pending);
  ASSERT_EQ(put(1000, 0, 500000, 3), Status::pending);
  ASSERT_TRUE(alone(1) && alone(2) && alone(3));
  EXPECT_EQ(status_of(1), Status::ok);
  EXPECT_EQ(status_of(2), Status::ok);
  EXPECT_EQ(status_of(3), Status::ok);
  EXPECT_TRUE(equal(0, 0, 100) && equal(1000, 0, 500000));
  EXPECT_EQ(std::memcmp(back.data(), local.data(), 100), 0);
  EXPECT_EQ(put(0, 1, 100, 4), Status::ok) << "it is asked again before it looked";
  EXPECT_TRUE(equal(0, 1, 100));
  for (int i = 0; i < 64; i++) owner.driver->poll(1, 64);
  EXPECT_TRUE(equal(0, 1, 100)) << "a put that was cancelled came late";
  EXPECT_EQ(claim().applied.load(), 0u);
  ASSERT_EQ(put(0, 2, 100, 5), Status::pending) << "it has looked";
  ASSERT_TRUE(together(5));
  EXPECT_TRUE(equal(0, 2, 100));
  EXPECT_EQ(user.counters.helped_accesses, 1u);
}

TEST_F(ShmAsk, AtomicOperations) {
  uint64_t old[5] = {}, cookie = 0, word;
  std::fill(memory.begin(), memory.end(), std::byte{0xff});
  for (const uint8_t width : {uint8_t{4}, uint8_t{8}}) {
    ASSERT_EQ(add(16, width, 3, old, ++cookie), Status::pending);
    ASSERT_TRUE(together(cookie));
    EXPECT_EQ(status_of(cookie), Status::ok);
    std::memcpy(&word, memory.data() + 16, 8);
    EXPECT_EQ(word, width == 4 ? 0xffffffff00000002 : 0xffffffff00000005);
    EXPECT_EQ(old[0], width == 4 ? 0xffffffff : 0xffffffff00000002);
    EXPECT_EQ(memory[15], std::byte{0xff});
    EXPECT_EQ(memory[24], std::byte{0xff});
  }
  // Between puts and gets, and as many as there are places for what they answer.
  std::fill(memory.begin(), memory.end(), std::byte{});
  for (int round = 0; round < 10; round++) {
    ASSERT_EQ(put(8, 0, 100, ++cookie), Status::pending);
    for (uint64_t i = 0; i < 4; i++) ASSERT_EQ(add(0, 8, 1, old + i, ++cookie), Status::pending);
    EXPECT_EQ(add(0, 8, 1, old + 4, 1000), Status::unsupported) << "there is no place left";
    ASSERT_TRUE(together(cookie));
    for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(old[i], uint64_t(round) * 4 + i);
  }
  EXPECT_EQ(add(4, 8, 1, old, 1000), Status::unsupported) << "not aligned";
  EXPECT_EQ(add(kBytes - 4, 8, 1, old, 1000), Status::invalid) << "out of bounds";
  EXPECT_EQ(user.counters.helped_accesses, cookie);
}

// An owner that is looking has answered before the call returns, and each is carried out once,
// whether it was over then or later.
TEST_F(ShmAsk, AtomicOperationsThatAreOverInTheirCall) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  std::atomic<bool> enough = false;
  std::thread looking([&] {
    while (!enough) owner.driver->poll(1, 64);
  });
  const auto begin = std::chrono::steady_clock::now();
  uint64_t tried = 0, over = 0, old = 0;
  bool right = true;
  while (over < 100 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
    Status status = add(0, 8, 1, &old, 1);
    over += status == Status::ok;
    if (status == Status::pending) {
      while (!done(1)) user.driver->poll(1, 64);
      status = status_of(1);
      user.sink.dones.clear();
    }
    if (status != Status::ok) continue;  // it was off its processor
    right = right && old == tried;
    ++tried;
  }
  enough = true;
  looking.join();
  EXPECT_TRUE(right);
  EXPECT_GT(over, 0u);
  uint64_t word;
  std::memcpy(&word, memory.data(), sizeof(word));
  EXPECT_EQ(word, tried);
}

// One that was carried out has its answer, also if the owner went away meanwhile; one that was not
// never is.
TEST_F(ShmAsk, AtomicOperationsOfAnOwnerThatStops) {
  uint64_t old[3] = {77, 77, 77}, word = 5;
  std::memcpy(memory.data(), &word, sizeof(word));
  ASSERT_EQ(put(8, 0, 8, 1), Status::pending);
  ASSERT_EQ(add(0, 8, 1, old, 2), Status::pending);
  owner.driver->poll(1, 2);
  ASSERT_EQ(add(0, 8, 10, old + 1, 3), Status::pending);
  ASSERT_TRUE(alone(3));
  EXPECT_EQ(status_of(1), Status::ok);
  EXPECT_EQ(status_of(2), Status::ok);
  EXPECT_EQ(status_of(3), Status::unsupported) << "it was cancelled";
  EXPECT_EQ(old[0], 5u);
  EXPECT_EQ(old[1], 77u);
  EXPECT_EQ(add(0, 8, 10, old + 2, 4), Status::unsupported) << "it has not looked since";
  for (int i = 0; i < 64; i++) owner.driver->poll(1, 64);
  std::memcpy(&word, memory.data(), sizeof(word));
  EXPECT_EQ(word, 6u) << "what was cancelled came late";
}

TEST_F(ShmAsk, AtomicOperationsThatTheExportDoesNotGive) {
  uint64_t old = 77;
  ASSERT_EQ(add(0, 8, 1, &old, 1), Status::pending);
  owner.driver->dereg(region);
  ASSERT_TRUE(together(1));
  EXPECT_EQ(status_of(1), Status::invalid);
  EXPECT_EQ(old, 77u);
  EXPECT_EQ(memory[0], std::byte{});
  EXPECT_EQ(owner.counters.bad_keys, 1u);
  Region readable;
  ASSERT_EQ(owner.driver->reg(memory.data(), kBytes, kRemoteRead | kGuarded, &readable),
            Status::ok);
  ASSERT_EQ(user.driver->import(peer, std::span(readable.key).first(owner.driver->caps().key_bytes),
                                &remote),
            Status::ok);
  EXPECT_EQ(add(0, 8, 1, &old, 2), Status::invalid);
}

// It has carried out a part when it goes away.
TEST_F(ShmAsk, AnOwnerThatStopsOnTheWay) {
  for (unsigned looks = 1; looks < 4; looks++) {
    std::fill(memory.begin(), memory.end(), std::byte{});
    ASSERT_EQ(put(0, looks, 300000, looks), Status::pending);
    owner.driver->poll(1, looks);
    ASSERT_GT(claim().applied.load(), 0u);
    ASSERT_TRUE(alone(looks));
    EXPECT_TRUE(equal(0, looks, 300000));
    for (int i = 0; i < 64; i++) owner.driver->poll(1, 64);
    uint64_t cookie = 200;  // for a while it is not asked
    while (put(0, looks, 8, cookie) == Status::ok) ASSERT_LT(++cookie, 2000u);
    for (unsigned i = 0; i < kLooks; i++) {
      owner.driver->poll(1, 64);
      user.driver->poll(1, 64);
    }
  }
}

// An export that ends while a put is on its way: refused, and both know it.
TEST_F(ShmAsk, AnExportThatEnds) {
  std::vector<std::byte> back(64);
  ASSERT_EQ(put(0, 0, 64, 1), Status::pending);
  ASSERT_EQ(get(0, back.data(), 64, 2), Status::pending);
  owner.driver->dereg(region);
  ASSERT_TRUE(together(1) && together(2));
  EXPECT_EQ(status_of(1), Status::invalid);
  EXPECT_EQ(status_of(2), Status::invalid);
  EXPECT_EQ(memory[0], std::byte{});
  EXPECT_EQ(memory[1], std::byte{});
  EXPECT_EQ(owner.counters.bad_keys, 2u);
  EXPECT_EQ(put(0, 0, 64, 3), Status::invalid) << "before anything is asked";
}

TEST_F(ShmAsk, ManyAtATime) { many_at_a_time(); }

// An owner of so many bytes that looks and does not look as it likes, until its second word says
// that it is enough.
int look_at_times(const std::vector<std::byte>& user, size_t bytes, uint64_t seed) {
  End other(open_shm_end);
  if (!other.driver) return 1;
  std::vector<uint64_t> theirs(bytes / sizeof(uint64_t));
  Region r;
  if (other.driver->reg(theirs.data(), bytes, kAll, &r) != Status::ok) return 2;
  const PeerId to = connect_to(other, user);
  if (to == kNoPeer) return 3;
  std::string text(reinterpret_cast<const char*>(r.key.data()), other.driver->caps().key_bytes);
  test::send_surely(other, to, text);
  Random random(seed);
  for (uint64_t i = 0; other.sink.downs.empty(); i++) {
    other.driver->poll(i * 1000, 64);
    if (random.chance(500)) usleep(100);
    if (theirs[1] == ~uint64_t{0}) return 0;
  }
  return 4;
}

// Another process, that looks and does not look as it likes: each put is done by one of the two.
TEST_F(ShmAsk, RacesOfWithdrawals) {
  Child child([&](Child&) { return look_at_times(user.address(), 8192, 5); });
  ASSERT_NO_FATAL_FAILURE(import_what_comes());
  uint64_t asked = 0;
  for (uint64_t i = 1; i < 60000; i++) {
    uint64_t value = i, back = 0;
    const iovec put_piece{&value, 8}, get_piece{&back, 8};
    Status status = user.driver->put({peer, remote, 0, &put_piece, 1, 8, 2 * i, false});
    asked += status == Status::pending;
    if (status == Status::pending) {
      ASSERT_TRUE(test::poll_until(user, [&] { return done(2 * i); })) << i;
      status = status_of(2 * i);
    }
    ASSERT_EQ(status, Status::ok) << i;
    status = user.driver->get({peer, remote, 0, &get_piece, 1, 8, 2 * i + 1, false});
    if (status == Status::pending) {
      ASSERT_TRUE(test::poll_until(user, [&] { return done(2 * i + 1); })) << i;
      status = status_of(2 * i + 1);
    }
    ASSERT_EQ(status, Status::ok) << i;
    ASSERT_EQ(back, i) << "a put was lost, or one that was cancelled came late";
    user.sink.dones.clear();
  }
  EXPECT_GT(asked, 10u);
  uint64_t end = ~uint64_t{0};
  const iovec piece{&end, 8};
  std::ignore = user.driver->put({peer, remote, 8, &piece, 1, 8, 1, false});
  EXPECT_EQ(child.finish(), 0);
}

// The owner dies with asks in its ring.
TEST_F(ShmAsk, ADeadOwner) {
  Child child([&](Child& self) {
    End other(open_shm_end);
    static char theirs[100];
    Region r;
    if (!other.driver || other.driver->reg(theirs, 100, kAll, &r) != Status::ok) return 1;
    const PeerId to = connect_to(other, user.address());
    std::string text(reinterpret_cast<const char*>(r.key.data()), other.driver->caps().key_bytes);
    test::send_surely(other, to, text);
    self.wait_gate();
    return 0;
  });
  ASSERT_NO_FATAL_FAILURE(import_what_comes());
  ASSERT_EQ(put(0, 0, 50, 1), Status::pending);
  child.kill_now();
  child.finish();
  ASSERT_TRUE(test::poll_until(user, [&] { return done(1); }));
  EXPECT_EQ(status_of(1), Status::peer_dead);
  ASSERT_TRUE(test::poll_until(user, [&] { return !user.sink.downs.empty(); }));
}

}  // namespace
}  // namespace torii::test
