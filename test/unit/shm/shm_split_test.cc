// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Gets that both processes work at: the other one joins in, does not, lies, or dies on the way.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/random.h"
#include "drivers/shm/ring.h"
#include "drivers/shm/segment.h"
#include "sanitized.h"
#include "unit/shm/shm_kit.h"

namespace torii {
namespace {

using shm::kPage;
using shm::Split;
using shm::SplitRequest;
using test::Child;
using test::connect_to;
using test::End;
using test::open_shm_end;
using test::parse;
using test::poll_until;

constexpr uint64_t kBytes = (2 << 20) + 17;
constexpr uint32_t kPages = kBytes / kPage + 1;
constexpr uint64_t kGuard = 64;     // bytes behind the memory that is read into
constexpr int kAttemptsMax = 2000;  // to meet another process in the middle of a get
constexpr uint64_t kSplitMin = 64 << 10;

std::string pattern(uint64_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>(i * 7 % 251);
  return text;
}

bool holds_only(const std::string& text, char c) {
  return text.find_first_not_of(c) == std::string::npos;
}

// Memory that parent and child have in common.
template <typename T>
class Common {
 public:
  Common() {
    void* at = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    value_ = new (at) T{};
  }
  ~Common() { munmap(value_, sizeof(T)); }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

// The reading end, and the Splits of its segment.
struct Reader {
  bool attach(const shm::Address& owner, const Region& region) {
    peer = connect_to(end, test::bytes_of(owner));
    std::string why;
    const shm::Address address = parse(end.address());
    const auto key = std::span(region.key).first(end.driver->caps().key_bytes);
    return peer != kNoPeer && end.driver->import(peer, key, &remote) == Status::ok &&
           shm::open_segment(address, address, &segment, &why) == Status::ok;
  }
  Status get(uint64_t offset, char* to, uint64_t bytes, uint64_t cookie) {
    const iovec piece{to, bytes};
    return end.driver->get({peer, remote, offset, &piece, 1, bytes, cookie});
  }
  Split& split(uint32_t number) const { return segment.header().splits[number]; }

  End end{open_shm_end};
  PeerId peer = kNoPeer;
  uint32_t remote = 0;
  shm::Segment segment;
};

// Reader and owner in this process. The owner polls when the test says so, so that its part in a
// get happens later, or is played by the test.
struct Pair {
  Pair() {
    EXPECT_EQ(owner.driver->reg(memory.data(), kBytes, kRemoteRead, &region), Status::ok);
    const shm::Address address = parse(owner.address());
    EXPECT_TRUE(reader.attach(address, region));
    shm::Segment segment;
    std::string why;
    EXPECT_EQ(shm::open_segment(address, address, &segment, &why), Status::ok) << why;
    EXPECT_TRUE(segment.map_ring(0, &ring));
    lines = static_cast<uint32_t>(segment.ring_bytes / shm::kLine);
    send("first");
    EXPECT_TRUE(poll_until(owner, [&] { return owner.sink.packets.size() == 1; }));
  }
  void send(const std::string& text) {
    EXPECT_TRUE(reader.end.send(reader.peer, text));
    position++;
  }
  // A get that the reader does alone; its request lies in the owner's ring.
  void get_alone() {
    EXPECT_EQ(reader.get(0, local.data(), kBytes, 7), Status::ok);
    EXPECT_EQ(local, memory + std::string(kGuard, '.'));
    EXPECT_EQ(static_cast<uint32_t>(split().taken.load()), kPages);
    position++;
  }
  // The same, and all pages from `first` on are to be had again: as if the owner had been faster.
  void get_again(uint32_t first = 0) {
    get_alone();
    local.assign(local.size(), '.');
    split().taken.store((split().taken >> 32 << 32) + first);
  }
  std::byte* line() const {
    return ring.base() + size_t{(position - 1) & (lines - 1)} * shm::kLine;
  }
  SplitRequest& request() const {
    return *reinterpret_cast<SplitRequest*>(line() + sizeof(uint64_t));
  }
  void set_length(uint32_t length) const {
    shm::control_at(line(), 0).store(shm::control_word(shm::kKindSplit, length, position - 1));
  }
  Split& split() const { return reader.split(0); }

  std::string memory = pattern(kBytes);
  std::string local = std::string(kBytes + kGuard, '.');
  Region region;
  End owner{open_shm_end};
  Reader reader;
  Mapping ring;  // of the reader, in the owner's segment
  uint32_t lines = 0;
  uint32_t position = shm::kFirstPosition;  // where the reader's next frame goes
};

class ShmSplit : public ::testing::Test {
 protected:
  void SetUp() override {
    End probe(open_shm_end);
    ASSERT_TRUE(probe.driver);
    if (!(probe.driver->caps().flags & kGet)) GTEST_SKIP() << "no cross-memory attach here";
    set_log_level(LogLevel::error);
  }
};

// --- the process whose memory it is ------------------------------------------------------------

TEST_F(ShmSplit, AnOwnerThatPollsLaterWritesNothing) {
  Pair p;
  p.get_alone();
  EXPECT_TRUE(p.reader.end.sink.dones.empty());
  p.local.assign(p.local.size(), '.');
  EXPECT_EQ(p.owner.driver->poll(1, 64), 1u) << "the request was not there";
  EXPECT_TRUE(holds_only(p.local, '.'));
  EXPECT_EQ(p.split().written.load(), 0u);
  p.reader.end.driver->poll(1, 64);
  EXPECT_TRUE(p.reader.end.sink.dones.empty());
}

TEST_F(ShmSplit, AGetWhileFramesOfAnotherPeerAreHandedUp) {
  Pair p;
  End other(open_shm_end);
  Status got = Status::again;
  p.reader.end.sink.on_packet = [&](PeerId, const std::string&) {
    got = p.reader.get(0, p.local.data(), kBytes, 7);  // its owner has never sent: no ring of it
  };
  ASSERT_TRUE(other.send(connect_to(other, p.reader.end.address()), "now"));
  ASSERT_TRUE(poll_until(p.reader.end, [&] { return got == Status::ok; }));
  EXPECT_EQ(p.local, p.memory + std::string(kGuard, '.'));
}

TEST_F(ShmSplit, TheOwnerWritesThePagesThatAreLeft) {
  Pair p;
  for (const uint32_t first : {0u, 1u, 100u, kPages - 1, kPages}) {
    p.get_again(first);
    p.owner.driver->poll(1, 64);
    EXPECT_EQ(p.split().written.load(), kPages - first);
    EXPECT_EQ(p.split().refused.load(), 0u);
    const uint64_t kept = std::min<uint64_t>(first * kPage, kBytes);
    EXPECT_TRUE(holds_only(p.local.substr(0, kept), '.')) << first;
    EXPECT_EQ(p.local.substr(kept), p.memory.substr(kept) + std::string(kGuard, '.')) << first;
    p.local.assign(p.local.size(), '.');
  }
}

TEST_F(ShmSplit, PagesThatCannotBeWrittenAreGivenBack) {
  Pair p;
  void* wall = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(wall, MAP_FAILED);
  p.get_again(5);
  p.request().destination = reinterpret_cast<uintptr_t>(wall);
  p.owner.driver->poll(1, 64);
  EXPECT_GT(p.split().written.load(), 0u);
  EXPECT_EQ(p.split().refused.load(), 1u);
  p.send("second");
  EXPECT_TRUE(poll_until(p.owner, [&] { return p.owner.sink.packets.size() == 2; }));
  munmap(wall, kBytes);
}

TEST_F(ShmSplit, MemoryThatIsNotExportedIsNotWritten) {
  Pair p;
  size_t frames = 1;
  const auto ignored = [&](const char* what, auto change) {
    p.get_again();
    change(p.request());
    const uint64_t taken = p.split().taken;
    p.send(what);
    frames++;
    ASSERT_TRUE(poll_until(p.owner, [&] { return p.owner.sink.packets.size() == frames; })) << what;
    EXPECT_TRUE(holds_only(p.local, '.')) << what;
    EXPECT_EQ(p.split().taken.load(), taken) << what;
    EXPECT_EQ(p.split().written.load(), 0u) << what;
  };
  ignored("begins before", [](SplitRequest& r) { r.source--; });
  ignored("ends behind", [](SplitRequest& r) { r.source++; });
  ignored("is too long", [](SplitRequest& r) { r.bytes++; });
  ignored("goes round", [](SplitRequest& r) { r.source = ~uint64_t{0} - 100; });
  ignored("is elsewhere", [](SplitRequest& r) { r.source = 0; });
  ignored("was another get", [](SplitRequest& r) { r.serial++; });
  ignored("is given back", [&](SplitRequest&) { p.owner.driver->dereg(p.region); });
  EXPECT_TRUE(p.owner.sink.downs.empty());
  EXPECT_EQ(p.owner.counters.bad_frames, 0u);
}

TEST_F(ShmSplit, ARequestThatMakesNoSenseCutsItsSenderOff) {
  const auto cut_off = [](const char* what, auto change) {
    Pair p;
    p.get_again();
    change(p);
    p.send("no more of it");
    ASSERT_TRUE(poll_until(p.owner, [&] { return !p.owner.sink.downs.empty(); })) << what;
    EXPECT_EQ(p.owner.sink.downs.size(), 1u) << what;
    EXPECT_EQ(p.owner.sink.downs[0].status, Status::peer_dead) << what;
    EXPECT_EQ(p.owner.sink.packets.size(), 1u) << what;
    EXPECT_EQ(p.owner.counters.bad_frames, 1u) << what;
    EXPECT_TRUE(holds_only(p.local, '.')) << what;
    EXPECT_EQ(p.split().written.load(), 0u) << what;
  };
  cut_off("number", [](Pair& p) { p.request().split = shm::kSplits; });
  cut_off("large number", [](Pair& p) { p.request().split = ~0u; });
  cut_off("no bytes", [](Pair& p) { p.request().bytes = 0; });
  cut_off("bytes", [](Pair& p) { p.request().bytes = p.owner.driver->caps().remote_max + 1; });
  cut_off("all bytes", [](Pair& p) { p.request().bytes = ~uint64_t{0}; });
  cut_off("no length", [](Pair& p) { p.set_length(0); });
  cut_off("short", [](Pair& p) { p.set_length(sizeof(SplitRequest) - 1); });
  cut_off("long", [](Pair& p) { p.set_length(sizeof(SplitRequest) + 1); });
  cut_off("very long", [](Pair& p) { p.set_length(0xffff); });
}

// Whoever is refused a frame because requests fill the ring hears when they are gone.
TEST_F(ShmSplit, TheEndOfRequestsWakesTheSleeper) {
  std::string why;
  ASSERT_EQ(param_set("shm_ring", "32k", "test", &why), Status::ok) << why;
  Pair p;
  ASSERT_EQ(param_set("shm_ring", "0", "test", &why), Status::ok) << why;
  End& reader = p.reader.end;
  for (uint32_t i = 0; i < 2 * p.lines; i++)
    ASSERT_EQ(p.reader.get(0, p.local.data(), kSplitMin, 1), Status::ok);
  ASSERT_FALSE(reader.send(p.reader.peer, "x"));
  int fd = -1;
  ASSERT_EQ(reader.driver->arm(&fd), Status::ok);
  EXPECT_FALSE(test::readable(fd, 0));
  for (uint32_t i = 0; i < p.lines; i++) p.owner.driver->poll(1, 64);
  EXPECT_TRUE(test::readable(fd, 0));
  EXPECT_TRUE(reader.send(p.reader.peer, "x"));
}

// A get below that is asked to be shared if those before it came one at a time; when it was in
// vain, the next ones are not.
TEST_F(ShmSplit, AShortOneIsSharedIfItIsAlone) {
  std::string why;
  const std::pair<const char*, const char*> set[] = {{"shm_split_min", "32k"},
                                                     {"shm_ask_alone_most", "64"}};
  for (const auto& [name, value] : set)
    ASSERT_EQ(param_set(name, value, "test", &why), Status::ok) << why;
  Pair p;
  for (const auto& [name, value] : set) ASSERT_EQ(param_set(name, "0", "test", &why), Status::ok);
  const auto shared = [&](bool alone) {
    const uint64_t before = p.split().taken;
    EXPECT_EQ(p.reader.get(0, p.local.data(), kSplitMin / 2, 1), Status::ok);
    if (alone) p.reader.end.driver->poll(1, 64);
    return p.split().taken.load() >> 32 != before >> 32;
  };
  for (int round = 0; round < 3; round++)
    for (const bool expected : {false, false, false, true}) EXPECT_EQ(shared(true), expected);
  for (int i = 0; i < 10; i++) EXPECT_FALSE(shared(false));
  p.get_alone();
  EXPECT_EQ(p.local.substr(0, kSplitMin / 2), p.memory.substr(0, kSplitMin / 2));
}

// --- the process that reads --------------------------------------------------------------------

// Takes all pages that are left of the next get of that Split and keeps them: their number.
uint32_t steal(Split& split, uint32_t pages, const std::atomic<bool>& stop) {
  const uint64_t before = split.taken.load() >> 32;
  while (!stop.load()) {
    uint64_t seen = split.taken.load();
    const auto next = static_cast<uint32_t>(seen);
    if (seen >> 32 == before || next >= pages) continue;
    if (split.taken.compare_exchange_strong(seen, seen + (pages - next))) return pages - next;
  }
  return 0;
}

struct Theft {
  std::atomic<bool> ready;
  std::atomic<bool> stop;
  std::atomic<uint32_t> pages;
};

// A get of which another process took the last pages; their number, or 0 if it never came to that.
uint32_t get_robbed(Pair& p, uint64_t cookie) {
  Common<Theft> theft;
  Child thief([&](Child&) {
    while (!theft->stop) {
      theft->ready = true;
      theft->pages = steal(p.split(), kPages, theft->stop);
      if (theft->pages) return 0;
    }
    return 0;
  });
  while (!theft->ready) sched_yield();
  Status status = Status::ok;
  for (int i = 0; i < kAttemptsMax && status == Status::ok; i++)
    status = p.reader.get(0, p.local.data(), kBytes, cookie);
  theft->stop = true;
  thief.finish();
  EXPECT_EQ(status, theft->pages ? Status::pending : Status::ok);
  return theft->pages;
}

TEST_F(ShmSplit, RefusedPagesAreReadAfterAll) {
  Pair p;
  const uint32_t pages = get_robbed(p, 9);
  if (!pages) GTEST_SKIP() << "no other process ran in the middle of a get";
  test::Recorder& sink = p.reader.end.sink;
  for (int i = 0; i < 10; i++) p.reader.end.driver->poll(1, 64);
  EXPECT_TRUE(sink.dones.empty());
  std::fill(p.local.begin() + (kPages - pages) * kPage, p.local.begin() + kBytes, '-');
  p.split().refused.store(1);
  p.split().written.store(pages);
  for (int i = 0; i < 10; i++) p.reader.end.driver->poll(1, 64);
  ASSERT_EQ(sink.dones.size(), 1u);
  EXPECT_EQ(sink.dones[0].cookie, 9u);
  EXPECT_EQ(sink.dones[0].status, Status::ok);
  EXPECT_EQ(p.local, p.memory + std::string(kGuard, '.'));
}

TEST_F(ShmSplit, PagesThatCannotBeCutTheirWriterOff) {
  const auto cut_off = [](const char* what, auto change) {
    Pair p;
    const uint32_t pages = get_robbed(p, 9);
    if (!pages) GTEST_SKIP() << "no other process ran in the middle of a get";
    p.split().written.store(pages);
    change(p.split(), pages);
    End& reader = p.reader.end;
    ASSERT_TRUE(poll_until(reader, [&] { return !reader.sink.downs.empty(); })) << what;
    ASSERT_EQ(reader.sink.dones.size(), 1u) << what;
    EXPECT_EQ(reader.sink.dones[0].cookie, 9u) << what;
    EXPECT_EQ(reader.sink.dones[0].status, Status::peer_dead) << what;
    EXPECT_EQ(reader.sink.downs[0].status, Status::peer_dead) << what;
    EXPECT_EQ(reader.sink.downs[0].dones_before, 1u) << what;
    EXPECT_EQ(reader.counters.bad_frames, 1u) << what;
    EXPECT_TRUE(holds_only(p.local.substr(kBytes), '.')) << what;
  };
  cut_off("written, one more", [](Split& s, uint32_t pages) { s.written.store(pages + 1); });
  cut_off("written, all", [](Split& s, uint32_t) { s.written.store(~0u); });
}

// Hands out pages again as soon as some are taken; not for ever, so that who falls for it fails.
void turn_back(Split& split, const std::atomic<bool>& stop) {
  constexpr uint32_t kTurnsMax = 200000;
  uint64_t before = split.taken.load();
  for (uint32_t turns = 0; turns < kTurnsMax && !stop;) {
    const uint64_t seen = split.taken.load();
    if (seen == before) continue;
    before = seen >> 32 << 32;
    split.taken.store(before);
    turns++;
  }
}

TEST_F(ShmSplit, APageCounterThatRunsBackwardsHoldsNoReader) {
  Pair p;
  Common<Theft> theft;
  Child liar([&](Child&) {
    theft->ready = true;
    turn_back(p.split(), theft->stop);
    return 0;
  });
  while (!theft->ready) sched_yield();
  Status status = Status::ok;
  for (int i = 0; i < kAttemptsMax && status == Status::ok; i++)
    status = p.reader.get(0, p.local.data(), kBytes, 9);
  theft->stop = true;
  liar.finish();
  if (status == Status::ok) GTEST_SKIP() << "no other process ran in the middle of a get";
  EXPECT_EQ(status, Status::peer_dead);
  End& reader = p.reader.end;
  ASSERT_TRUE(poll_until(reader, [&] { return !reader.sink.downs.empty(); }));
  EXPECT_EQ(reader.sink.downs[0].status, Status::peer_dead);
  EXPECT_TRUE(reader.sink.dones.empty()) << "the call said it all";
  EXPECT_EQ(reader.counters.bad_frames, 1u);
}

TEST_F(ShmSplit, APageCounterThatRunsBackwardsHoldsNoOwner) {
  Pair p;
  p.get_again();
  Common<Theft> theft;
  Child liar([&](Child&) {
    theft->ready = true;
    turn_back(p.split(), theft->stop);
    return 0;
  });
  while (!theft->ready) sched_yield();
  p.owner.driver->poll(1, 64);
  theft->stop = true;
  liar.finish();
  EXPECT_LE(p.split().written.load(), kPages);
  EXPECT_GT(p.split().written.load(), 0u);
}

// --- two processes -----------------------------------------------------------------------------

struct Meeting {
  shm::Address owner;
  Region region;
  std::atomic<bool> ready;
  std::atomic<bool> answered;  // the get that pages were stolen from has returned
  std::atomic<bool> stop;
  std::atomic<uint32_t> stolen;
};

// In the child: an end with exported memory, made known to the parent.
bool offer(End& end, std::string& memory, const Common<Meeting>& meeting) {
  if (end.driver->reg(memory.data(), memory.size(), kRemoteRead, &meeting->region) != Status::ok)
    return false;
  meeting->owner = parse(end.address());
  meeting->ready = true;
  return true;
}

class ShmSplitOfTwo : public ShmSplit {
 protected:
  struct Wanted {
    uint64_t offset;
    uint64_t bytes;
  };
  // Starts all gets at once, each into memory of its own, and looks at what comes of them.
  void get_all(const std::vector<Wanted>& gets) {
    auto& dones = reader_.end.sink.dones;
    dones.clear();
    std::vector<std::string> local;
    std::vector<bool> pending;
    for (const Wanted& get : gets) local.emplace_back(get.bytes + kGuard, '.');
    for (size_t i = 0; i < gets.size(); i++) {
      const Status status = reader_.get(gets[i].offset, local[i].data(), gets[i].bytes, i + 1);
      ASSERT_TRUE(status == Status::ok || status == Status::pending) << status_text(status);
      pending.push_back(status == Status::pending);
      helped_ += pending[i];
    }
    const auto due = static_cast<size_t>(std::count(pending.begin(), pending.end(), true));
    ASSERT_TRUE(poll_until(reader_.end, [&] { return dones.size() >= due; }));
    for (int i = 0; i < 3; i++) reader_.end.driver->poll(1, 64);
    ASSERT_EQ(dones.size(), due);
    for (const auto& done : dones) {
      ASSERT_TRUE(pending[done.cookie - 1]) << "done() twice, or for a get that was finished";
      pending[done.cookie - 1] = false;
      ASSERT_EQ(done.status, Status::ok);
    }
    for (size_t i = 0; i < gets.size(); i++)
      ASSERT_EQ(local[i], memory_.substr(gets[i].offset, gets[i].bytes) + std::string(kGuard, '.'));
    for (uint32_t n = 0; n < shm::kSplits; n++) helped_ += reader_.split(n).written.load() > 0;
  }

  // So that a child that is forked now sees the reader's Splits.
  void map_own_segment() {
    const shm::Address self = parse(reader_.end.address());
    std::string why;
    ASSERT_EQ(shm::open_segment(self, self, &reader_.segment, &why), Status::ok) << why;
  }
  // Gets everything from the owner, with cookie 9, again and again until part of it was stolen.
  void get_until_pending(char* to, Status* status) {
    while (!meeting_->ready) sched_yield();
    ASSERT_TRUE(reader_.attach(meeting_->owner, meeting_->region));
    for (int i = 0; i < kAttemptsMax && *status == Status::ok; i++)
      *status = reader_.get(0, to, memory_.size(), 9);
  }

  std::string memory_ = pattern(4 << 20);
  const uint32_t pages_ = static_cast<uint32_t>(memory_.size() / kPage);
  Reader reader_;
  Common<Meeting> meeting_;
  uint64_t helped_ = 0;  // grows when the owner wrote a part
};

TEST_F(ShmSplitOfTwo, BothPollAndEverythingArrives) {
  Child owner([&](Child&) {
    End end(open_shm_end);
    if (!offer(end, memory_, meeting_)) return 1;
    while (!meeting_->stop) {
      end.driver->poll(1, 64);
      sched_yield();
    }
    return 0;
  });
  while (!meeting_->ready) sched_yield();
  ASSERT_TRUE(reader_.attach(meeting_->owner, meeting_->region));
  const uint64_t most = reader_.end.driver->caps().remote_max;
  ASSERT_EQ(most, memory_.size());
  for (const uint64_t bytes : {kSplitMin, kSplitMin + 1, uint64_t{100000}, kBytes, most})
    ASSERT_NO_FATAL_FAILURE(get_all({{0, bytes}})) << bytes;
  ASSERT_NO_FATAL_FAILURE(get_all(std::vector<Wanted>(3 * shm::kSplits, {4321, 300000})));
  Random random(5);
  for (int round = 0; round < (test::in_short() ? 100 : 300); round++) {
    std::vector<Wanted> gets(random.between(1, shm::kSplits + 4));
    for (Wanted& get : gets) {
      get.bytes = random.between(random.chance(100000) ? 1 : kSplitMin, 400000);
      get.offset = random.between(0, memory_.size() - get.bytes);
    }
    ASSERT_NO_FATAL_FAILURE(get_all(gets)) << round;
  }
  for (int i = 0; i < kAttemptsMax && helped_ == 0; i++)
    ASSERT_NO_FATAL_FAILURE(get_all({{0, most}}));
  meeting_->stop = true;
  EXPECT_EQ(owner.finish(), 0);
  EXPECT_TRUE(reader_.end.sink.downs.empty());
  EXPECT_EQ(reader_.end.counters.bad_frames, 0u);
  if (helped_ == 0) GTEST_SKIP() << "the owner never ran in the middle of a get";
}

TEST_F(ShmSplitOfTwo, ClosingWaitsForPagesOnTheWay) {
  ASSERT_NO_FATAL_FAILURE(map_own_segment());
  Child owner([&](Child&) {
    End end(open_shm_end);
    if (!offer(end, memory_, meeting_)) return 1;
    const uint32_t stolen = steal(reader_.split(0), pages_, meeting_->stop);
    while (!meeting_->answered) sched_yield();  // it reads the other pages from this process
    usleep(20000);
    meeting_->stolen = stolen;
    reader_.split(0).written.fetch_add(stolen);
    return 0;
  });
  std::string local(memory_.size(), '.');
  Status status = Status::ok;
  ASSERT_NO_FATAL_FAILURE(get_until_pending(local.data(), &status));
  meeting_->answered = true;
  reader_.end.driver.reset();
  const bool waited = meeting_->stolen != 0;
  meeting_->stop = true;
  EXPECT_EQ(owner.finish(), 0);
  if (status == Status::ok) GTEST_SKIP() << "no other process ran in the middle of a get";
  EXPECT_EQ(status, Status::pending);
  EXPECT_TRUE(waited) << "the memory was given back while another process could write to it";
}

TEST_F(ShmSplitOfTwo, AnOwnerKilledOnTheWayEndsTheGet) {
  ASSERT_NO_FATAL_FAILURE(map_own_segment());
  Child owner([&](Child&) {
    End end(open_shm_end);
    if (!offer(end, memory_, meeting_)) return 1;
    meeting_->stolen = steal(reader_.split(0), pages_, meeting_->stop);
    for (;;) pause();
  });
  std::string local(memory_.size(), '.');
  Status status = Status::ok;
  ASSERT_NO_FATAL_FAILURE(get_until_pending(local.data(), &status));
  owner.kill_now();
  EXPECT_EQ(owner.finish(), 128 + SIGKILL);
  if (status == Status::ok) GTEST_SKIP() << "no other process ran in the middle of a get";
  ASSERT_EQ(status, Status::pending);
  const auto& sink = reader_.end.sink;
  EXPECT_TRUE(sink.dones.empty());
  ASSERT_TRUE(poll_until(reader_.end, [&] { return !sink.downs.empty(); }));
  ASSERT_EQ(sink.dones.size(), 1u);
  EXPECT_EQ(sink.dones[0].cookie, 9u);
  EXPECT_EQ(sink.dones[0].status, Status::peer_dead);
  EXPECT_EQ(sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(sink.downs[0].dones_before, 1u);
  EXPECT_EQ(sink.downs.size(), 1u);
}

}  // namespace
}  // namespace torii
