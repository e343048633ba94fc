// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Puts and gets made by one system call: those that frames ask for which arrived together, and
// several between two polls.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/hardware.h"
#include "core/base/param.h"
#include "drivers/shm/switch_points.h"
#include "unit/shm/shm_kit.h"

namespace torii {
namespace {

using shm::kGatherBytes;
using shm::kGatherLongest;
using shm::kGatherMost;
using test::bytes_of;
using test::Child;
using test::connect_to;
using test::End;
using test::open_shm_end;
using test::parse;
using test::poll_until;

constexpr uint64_t kBytes = 8 << 10;
constexpr uint64_t kLongest = kGatherLongest + 1;
constexpr unsigned kRegions = 4 * kGatherMost;

char letter(unsigned i) { return static_cast<char>('A' + i % 50); }

// The owner has so many regions, each full of a letter of its own, and tells their keys by frames.
// The reader gets what a frame names, at once.
class Gather : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(memory_, MAP_FAILED);
    ASSERT_TRUE(owner_.driver->caps().flags & kGet);
    to_owner_ = connect_to(reader_, owner_.address());
    to_reader_ = connect_to(owner_, reader_.address());
    ASSERT_NE(to_owner_, kNoPeer);
    ASSERT_NE(to_reader_, kNoPeer);
    for (unsigned i = 0; i < kRegions; i++) {
      Region region;
      std::memset(at(i), letter(i), kLongest);
      ASSERT_EQ(owner_.driver->reg(at(i), kLongest, kRemoteRead, &region), Status::ok);
      const auto key = std::span(region.key).first(reader_.driver->caps().key_bytes);
      ASSERT_EQ(reader_.driver->import(to_owner_, key, &remote_[i]), Status::ok);
    }
    say("hello");
    ASSERT_TRUE(poll_until(reader_, [&] { return reader_.sink.packets.size() == 1; }));
    reader_.sink.on_packet = [&](PeerId, const std::string& text) { on_packet(text); };
  }
  void TearDown() override { munmap(memory_, kRegions * kRoom); }

  char* at(unsigned i) { return memory_ + size_t{i} * kRoom; }
  void say(const std::string& text) { ASSERT_TRUE(owner_.send(to_reader_, text)); }
  void offer(unsigned i) { say("get " + std::to_string(i)); }
  void on_packet(const std::string& text) {
    if (text.rfind("get ", 0) != 0) return;
    const auto i = static_cast<unsigned>(std::stoul(text.substr(4)));
    local_[i].assign(bytes_, '.');
    const iovec piece{local_[i].data(), bytes_};
    answers_[i] = reader_.driver->get({to_owner_, remote_[i], 0, &piece, 1, bytes_, i + 1, true});
  }
  bool has(unsigned i) { return local_[i] == std::string(bytes_, letter(i)); }
  unsigned poll(unsigned budget) { return reader_.driver->poll(0, budget); }
  const std::vector<test::Recorder::Done>& dones() { return reader_.sink.dones; }
  uint64_t gathered() { return reader_.counters.gathered_accesses; }

  static constexpr size_t kRoom = 256 << 10;  // each region lies in pages of its own
  char* memory_ = static_cast<char*>(
      mmap(nullptr, kRegions* kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  uint64_t bytes_ = kBytes;
  End owner_{open_shm_end};
  End reader_{open_shm_end};
  PeerId to_owner_ = kNoPeer, to_reader_ = kNoPeer;
  uint32_t remote_[kRegions];
  std::map<unsigned, std::string> local_;
  std::map<unsigned, Status> answers_;
};

TEST_F(Gather, OneThatIsAloneIsMadeAtOnce) {
  offer(0);
  EXPECT_GT(poll(1), 0u);
  EXPECT_EQ(answers_[0], Status::ok);
  EXPECT_TRUE(has(0));
  EXPECT_EQ(dones().size(), 0u);
  EXPECT_EQ(gathered(), 0u);
}

// Also for who polls for one event only, and the other frames arrive in order.
TEST_F(Gather, ThoseThatArrivedTogetherAreMadeTogether) {
  for (const unsigned budget : {1u, 64u}) {
    const uint64_t before = gathered();
    reader_.sink.dones.clear();
    reader_.sink.packets.clear();
    for (unsigned i = 0; i < 5; i++) {
      offer(i);
      say("word " + std::to_string(i));
    }
    EXPECT_GT(poll(budget), 0u);
    EXPECT_EQ(gathered() - before, 5u) << budget;
    ASSERT_EQ(dones().size(), 5u);
    ASSERT_EQ(reader_.sink.packets.size(), 10u);
    for (unsigned i = 0; i < 5; i++) {
      EXPECT_EQ(answers_[i], Status::pending);
      EXPECT_EQ(dones()[i].cookie, i + 1);
      EXPECT_EQ(dones()[i].status, Status::ok);
      EXPECT_TRUE(has(i));
      EXPECT_EQ(reader_.sink.packets[2 * i + 1].bytes, "word " + std::to_string(i));
    }
    EXPECT_EQ(poll(budget), 0u);
  }
}

TEST_F(Gather, NotMoreThanFitOneCallOrItsBytes) {
  for (unsigned i = 0; i < kRegions; i++) offer(i);
  EXPECT_GT(poll(1), 0u);
  EXPECT_EQ(gathered(), kGatherMost < kGatherBytes / kBytes ? kGatherMost : kGatherBytes / kBytes);
  while (poll(1) > 0) {
  }
  EXPECT_EQ(gathered(), kRegions);
  EXPECT_EQ(dones().size(), kRegions);
  for (unsigned i = 0; i < kRegions; i++) EXPECT_TRUE(has(i)) << i;

  bytes_ = kGatherLongest;
  for (unsigned i = 0; i < 8; i++) offer(i);
  EXPECT_GT(poll(1), 0u);
  EXPECT_EQ(gathered() - kRegions, kGatherBytes / kGatherLongest);
}

// One get does not make a poll take all frames there are.
TEST_F(Gather, ManyOtherFramesDoNotKeepThePoll) {
  offer(0);
  for (int i = 0; i < 500; i++) say("word");
  reader_.sink.packets.clear();
  EXPECT_GT(poll(1), 0u);
  EXPECT_LT(reader_.sink.packets.size(), 100u);
  EXPECT_EQ(dones().size(), 1u);
  EXPECT_TRUE(has(0));
}

// A long one lets the other frames pass first.
TEST_F(Gather, ALongOneIsPutOffWhileFramesWait) {
  bytes_ = kLongest;
  offer(0);
  offer(1);
  while (poll(64) > 0) {
  }
  EXPECT_EQ(answers_[0], Status::again);
  EXPECT_EQ(answers_[1], Status::ok);
  EXPECT_FALSE(has(0));
  EXPECT_TRUE(has(1));
  EXPECT_EQ(dones().size(), 0u);
}

TEST_F(Gather, OneThatCannotBeReadFailsAlone) {
  ASSERT_EQ(munmap(at(2), kRoom), 0);
  for (unsigned i = 0; i < 5; i++) offer(i);
  while (poll(1) > 0) {
  }
  ASSERT_EQ(dones().size(), 5u);
  for (unsigned i = 0; i < 5; i++) {
    EXPECT_EQ(dones()[i].status, i == 2 ? Status::invalid : Status::ok) << i;
    EXPECT_EQ(has(i), i != 2) << i;
  }
  EXPECT_EQ(gathered(), 0u);
  EXPECT_TRUE(reader_.sink.downs.empty());
}

// A frame may ask for memory of a process that has never sent one.
TEST_F(Gather, OthersMemoryIsReadAtOnce) {
  End other(open_shm_end);
  std::string memory(kLongest, 'o'), local(kLongest, '.');
  Region region;
  uint32_t remote = 0;
  const PeerId peer = connect_to(reader_, other.address());
  ASSERT_NE(peer, kNoPeer);
  ASSERT_EQ(other.driver->reg(memory.data(), kLongest, kRemoteRead, &region), Status::ok);
  const auto key = std::span(region.key).first(reader_.driver->caps().key_bytes);
  ASSERT_EQ(reader_.driver->import(peer, key, &remote), Status::ok);
  for (const uint64_t bytes : {kBytes, kLongest}) {
    std::vector<Status> answers;
    reader_.sink.on_packet = [&](PeerId, const std::string&) {
      const iovec piece{local.data(), bytes};
      answers.push_back(reader_.driver->get({peer, remote, 0, &piece, 1, bytes, 7, true}));
    };
    say("one");
    say("two");
    while (poll(64) > 0) {
    }
    EXPECT_EQ(answers, (std::vector<Status>{Status::ok, Status::ok})) << bytes;
  }
  EXPECT_EQ(local, memory);
  EXPECT_EQ(dones().size(), 0u);
}

// Several puts or gets between two polls, of guarded memory.
class PutOff : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!shm::switch_points(params(), hardware(), false).coalesce)
      GTEST_SKIP() << "where a system call costs much the owner is asked instead";
    peer_ = connect_to(user_, owner_.address());
    ASSERT_NE(peer_, kNoPeer);
    ASSERT_EQ(owner_.driver->reg(memory_.data(), memory_.size(),
                                 kRemoteRead | kRemoteWrite | kGuarded, &region_),
              Status::ok);
    const auto key = std::span(region_.key).first(user_.driver->caps().key_bytes);
    ASSERT_EQ(user_.driver->import(peer_, key, &remote_), Status::ok);
    user_.driver->poll(1, 64);
  }
  Status put(uint64_t place, uint64_t cookie) { return access(place, cookie, true); }
  Status get(uint64_t place, uint64_t cookie) { return access(place, cookie, false); }
  Status access(uint64_t place, uint64_t cookie, bool write) {
    const iovec piece{local_.data() + place * kEach, kEach};
    const Rma rma{peer_, remote_, place * kEach, &piece, 1, kEach, cookie, false};
    return write ? user_.driver->put(rma) : user_.driver->get(rma);
  }
  // The bytes of this place in the owner's memory.
  char there(uint64_t place) const { return memory_[place * kEach]; }
  const std::vector<test::Recorder::Done>& dones() { return user_.sink.dones; }
  uint64_t together() { return user_.counters.gathered_accesses; }

  static constexpr uint64_t kEach = 2048, kPlaces = 3 * kGatherMost;
  std::string memory_ = std::string(kPlaces * kEach, 'm');
  std::string local_ = std::string(kPlaces * kEach, 'l');
  Region region_;
  End owner_{open_shm_end};
  End user_{open_shm_end};
  PeerId peer_ = kNoPeer;
  uint32_t remote_ = 0;
};

TEST_F(PutOff, TheFirstIsMadeAtOnceTheOthersTogether) {
  EXPECT_EQ(put(0, 1), Status::ok);
  for (uint64_t i = 1; i < 5; i++) EXPECT_EQ(put(i, i), Status::pending);
  EXPECT_EQ(there(0), 'l');
  EXPECT_EQ(there(1), 'm');
  EXPECT_GT(user_.driver->poll(1, 1), 0u);
  EXPECT_EQ(together(), 4u);
  ASSERT_EQ(dones().size(), 4u);
  for (uint64_t i = 1; i < 5; i++) {
    EXPECT_EQ(dones()[i - 1].cookie, i);
    EXPECT_EQ(dones()[i - 1].status, Status::ok);
    EXPECT_EQ(there(i), 'l');
  }
  EXPECT_EQ(there(5), 'm');
  EXPECT_EQ(user_.driver->poll(1, 1), 0u);
  // There were several: the first of the next ones is taken to be one of them. Then it was alone.
  EXPECT_EQ(get(5, 0), Status::again) << "it has no cookie";
  EXPECT_EQ(get(5, 9), Status::pending);
  EXPECT_GT(user_.driver->poll(1, 64), 0u);
  EXPECT_EQ(local_[5 * kEach], 'm');
  EXPECT_EQ(get(6, 0), Status::ok);
}

TEST_F(PutOff, WhenThereAreEnoughTheyAreMadeInTheCall) {
  (void)put(0, 1);
  for (uint64_t i = 1; i <= kGatherMost; i++) EXPECT_EQ(put(i, i), Status::pending);
  EXPECT_EQ(there(kGatherMost), 'l') << "so many fill a call";
  EXPECT_EQ(dones().size(), 0u) << "nothing is told outside of poll()";
  EXPECT_EQ(put(kGatherMost + 1, 40), Status::pending);
  int fd = -1;
  EXPECT_EQ(user_.driver->arm(&fd), Status::again) << "there is work";
  EXPECT_GT(user_.driver->poll(1, 64), 0u);
  EXPECT_EQ(dones().size(), kGatherMost + 1);
  EXPECT_EQ(there(kGatherMost + 1), 'l');
  EXPECT_EQ(user_.driver->arm(&fd), Status::ok);
}

TEST_F(PutOff, PutsAndGetsDoNotMix) {
  (void)put(0, 1);
  for (uint64_t i = 1; i < 7; i++) EXPECT_EQ(i % 2 ? put(i, i) : get(i, i), Status::pending);
  EXPECT_GT(user_.driver->poll(1, 64), 0u);
  EXPECT_EQ(dones().size(), 6u);
  for (uint64_t i = 1; i < 7; i++) {
    EXPECT_EQ(there(i), i % 2 ? 'l' : 'm') << i;
    EXPECT_EQ(local_[i * kEach], i % 2 ? 'l' : 'm') << i;
  }
}

// That a long get, at which both processes may work, came without a cookie first makes it no
// second.
TEST_F(PutOff, OneThatComesAgainIsStillTheFirst) {
  const iovec piece{local_.data(), local_.size()};
  Rma rma{peer_, remote_, 0, &piece, 1, local_.size(), 0, false};
  EXPECT_EQ(user_.driver->get(rma), Status::again);
  rma.cookie = 1;
  EXPECT_EQ(user_.driver->get(rma), Status::ok);
  EXPECT_EQ(local_, memory_);
  EXPECT_EQ(user_.counters.helped_accesses, 0u);
}

// Memory that its owner took back meanwhile is neither read nor written, by the one call or alone.
TEST_F(PutOff, AnEndedExportIsLeftAlone) {
  (void)put(0, 1);
  EXPECT_EQ(put(1, 1), Status::pending);
  EXPECT_EQ(put(2, 2), Status::pending);
  owner_.driver->dereg(region_);
  EXPECT_GT(user_.driver->poll(1, 64), 0u);
  ASSERT_EQ(dones().size(), 2u);
  for (const auto& done : dones()) EXPECT_EQ(done.status, Status::invalid);
  EXPECT_EQ(there(1), 'm');
  EXPECT_EQ(there(2), 'm');
}

// An owner that has ended: each is told once, and before that.
TEST_F(PutOff, TheOwnerEnds) {
  (void)put(0, 1);
  EXPECT_EQ(put(1, 1), Status::pending);
  EXPECT_EQ(put(2, 2), Status::pending);
  owner_.driver.reset();
  EXPECT_TRUE(poll_until(user_, [&] { return !user_.sink.downs.empty(); }));
  ASSERT_EQ(dones().size(), 2u);
  EXPECT_EQ(user_.sink.downs[0].dones_before, 2u);
  for (const auto& done : dones()) EXPECT_NE(done.status, Status::ok);
  EXPECT_EQ(there(1), 'm');
}

// Messages that the owner of the memory sent before it was killed ask for gets: each fails once.
TEST(GatherEnd, OfTheOwner) {
  End reader(open_shm_end);
  const std::vector<std::byte> address = reader.address();
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  Child owner([&](Child& self) {
    End end(open_shm_end);
    static char memory[kBytes];
    Region region;
    const PeerId peer = connect_to(end, address);
    if (peer == kNoPeer || end.driver->reg(memory, kBytes, kRemoteRead, &region) != Status::ok)
      return 1;
    const std::string key(reinterpret_cast<const char*>(region.key.data()),
                          end.driver->caps().key_bytes);
    if (!end.send(peer, "hello")) return 2;
    self.wait_gate();
    for (int i = 0; i < 4; i++)
      if (!end.send(peer, key)) return 2;
    if (write(pipe_fds[1], "x", 1) != 1) return 3;
    self.wait_gate();
    return 0;
  });
  ASSERT_TRUE(poll_until(reader, [&] { return reader.sink.packets.size() == 1; }));
  owner.open_gate();
  char c;
  ASSERT_EQ(read(pipe_fds[0], &c, 1), 1);
  owner.kill_now();
  owner.finish();
  std::string local[4];
  uint64_t asked = 0;
  std::vector<Status> answers;
  reader.sink.on_packet = [&](PeerId from, const std::string& key) {
    uint32_t remote = 0;
    ASSERT_EQ(reader.driver->import(from, std::as_bytes(std::span(key)), &remote), Status::ok);
    local[asked].assign(kBytes, '.');
    const iovec piece{local[asked].data(), kBytes};
    asked++;
    answers.push_back(reader.driver->get({from, remote, 0, &piece, 1, kBytes, asked}));
  };
  EXPECT_TRUE(poll_until(reader, [&] { return !reader.sink.downs.empty(); }));
  ASSERT_EQ(answers.size(), 4u);
  const auto pending =
      static_cast<size_t>(std::count(answers.begin(), answers.end(), Status::pending));
  EXPECT_GT(pending, 0u);
  EXPECT_EQ(reader.sink.downs[0].dones_before, pending);
  ASSERT_EQ(reader.sink.dones.size(), pending);
  for (const auto& done : reader.sink.dones) EXPECT_EQ(done.status, Status::peer_dead);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

}  // namespace
}  // namespace torii
