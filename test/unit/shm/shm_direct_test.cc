// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Memory that peers map: the arena and its keys, honest and forged, and what becomes of both when
// memory is given back, or its owner dies or forks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <map>
#include <new>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/random.h"
#include "drivers/shm/arena.h"
#include "sanitized.h"
#include "unit/shm/shm_kit.h"

namespace torii {
namespace {

using shm::Arena;
using shm::ArenaHeader;
using shm::ArenaKey;
using ArenaPointer = std::unique_ptr<shm::Arena>;
using shm::kPage;
using test::bytes_of;
using test::Child;
using test::connect_to;
using test::End;
using test::open_shm_end;
using test::parse;
using test::poll_until;

// The wire form of a key, for forgers.
struct WireKey {
  uint64_t base;
  uint64_t bytes;
  uint32_t access;
  uint32_t owner;
  ArenaKey arena;
};

WireKey wire_key(const Region& region) {
  WireKey key;
  std::memcpy(&key, region.key.data(), sizeof(key));
  return key;
}

std::span<const std::byte> as_bytes(const WireKey& key) {
  return std::as_bytes(std::span(&key, 1));
}

std::string pattern(uint64_t bytes, int seed = 1) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>(i * 7 % 251 + seed);
  return text;
}

constexpr uint32_t kBoth = kRemoteRead | kRemoteWrite;

char* allocate(End& end, uint64_t bytes, uint64_t alignment = 64) {
  void* base = nullptr;
  EXPECT_EQ(end.driver->alloc(bytes, alignment, &base), Status::ok);
  return static_cast<char*>(base);
}

// One transfer of a whole string, to its end.
Status transfer(End& end, bool write, PeerId peer, uint32_t remote, uint64_t offset,
                std::string& local) {
  const iovec piece{local.data(), local.size()};
  const Rma rma{peer, remote, offset, &piece, 1, local.size(), 7};
  const Status status = write ? end.driver->put(rma) : end.driver->get(rma);
  if (status != Status::pending) return status;
  const size_t before = end.sink.dones.size();
  EXPECT_TRUE(poll_until(end, [&] { return end.sink.dones.size() > before; }));
  return end.sink.dones.back().status;
}

class ShmDirect : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(owner.driver && user.driver);
    if (!(owner.driver->caps().flags & kGet)) GTEST_SKIP() << "no cross-memory attach here";
    set_log_level(LogLevel::error);
    peer = connect_to(user, owner.address());
    ASSERT_NE(peer, kNoPeer);
    base = allocate(owner, kBytes);
    content = pattern(kBytes);
    std::memcpy(base, content.data(), kBytes);
    ASSERT_EQ(owner.driver->reg(base, kBytes, kBoth, &region), Status::ok);
    key = wire_key(region);
    ASSERT_NE(key.arena.serial, 0u) << "the key does not name the allocation";
  }
  Status import(const WireKey& wire) { return user.driver->import(peer, as_bytes(wire), &remote); }
  Status get(uint64_t offset, std::string& local) {
    return transfer(user, false, peer, remote, offset, local);
  }
  Status put(uint64_t offset, std::string& local) {
    return transfer(user, true, peer, remote, offset, local);
  }
  uint64_t direct() const { return user.counters.direct_bytes; }

  static constexpr uint64_t kBytes = (1 << 20) + 77;
  End owner{open_shm_end};
  End user{open_shm_end};
  PeerId peer = kNoPeer;
  char* base = nullptr;
  std::string content;
  Region region;
  WireKey key{};
  uint32_t remote = 0;
};

TEST_F(ShmDirect, GetAndPutCopyDirectly) {
  ASSERT_EQ(import(key), Status::ok);
  std::string local(5000, '.');
  ASSERT_EQ(get(1234, local), Status::ok);
  EXPECT_EQ(local, content.substr(1234, 5000));
  EXPECT_EQ(direct(), 5000u);
  local = pattern(70000, 9);
  ASSERT_EQ(put(4097, local), Status::ok);
  EXPECT_EQ(std::string(base, kBytes), content.replace(4097, 70000, local));
  EXPECT_EQ(direct(), 75000u);
  std::string all(kBytes, '.');
  ASSERT_EQ(get(0, all), Status::ok);
  EXPECT_EQ(all, content);
  EXPECT_EQ(direct(), 75000u + kBytes);
  EXPECT_EQ(user.counters.bad_keys, 0u);
}

TEST_F(ShmDirect, OrdinaryMemoryHasAnOrdinaryKey) {
  std::string memory = pattern(100000);
  Region ordinary;
  ASSERT_EQ(owner.driver->reg(memory.data(), memory.size(), kBoth, &ordinary), Status::ok);
  EXPECT_EQ(wire_key(ordinary).arena.serial, 0u);
  // Memory that reaches beyond an allocation is none of it.
  Region beyond;
  ASSERT_EQ(owner.driver->reg(base, kBytes + 2 * kPage, kBoth, &beyond), Status::ok);
  EXPECT_EQ(wire_key(beyond).arena.serial, 0u);
  ASSERT_EQ(owner.driver->reg(base + kBytes, 1 << 30, kBoth, &beyond), Status::ok);
  EXPECT_EQ(wire_key(beyond).arena.serial, 0u);
  const PeerId to = connect_to(owner, user.address());
  EXPECT_FALSE(owner.driver->advice()->near(to, memory.data()));
  EXPECT_TRUE(owner.driver->advice()->near(to, base + kBytes - 1));
  EXPECT_FALSE(user.driver->advice()->near(peer, base)) << "another driver's memory";
}

TEST_F(ShmDirect, ForgedKeysAreRefusedAndCounted) {
  const auto refused = [&](const char* what, auto change) {
    WireKey forged = key;
    change(forged);
    const uint64_t before = user.counters.bad_keys;
    EXPECT_EQ(import(forged), Status::invalid) << what;
    EXPECT_EQ(user.counters.bad_keys, before + 1) << what;
  };
  const uint64_t arena_end = 1ull << 45;  // behind any arena
  ASSERT_EQ(import(key), Status::ok);
  refused("owner", [](WireKey& k) { k.owner++; });
  refused("fd", [](WireKey& k) { k.arena.fd++; });
  refused("serial", [](WireKey& k) { k.arena.serial++; });
  refused("old serial", [](WireKey& k) { k.arena.serial = ~uint64_t{0}; });
  refused("slot", [](WireKey& k) { k.arena.slot++; });
  refused("last slot", [](WireKey& k) { k.arena.slot = shm::kArenaSlots; });
  refused("large slot", [](WireKey& k) { k.arena.slot = ~0u; });
  refused("before the allocation", [](WireKey& k) { k.base -= kPage; });
  refused("the head", [&](WireKey& k) { k.base -= shm::kArenaHead; });
  refused("before the arena", [&](WireKey& k) { k.base -= arena_end; });
  refused("behind the arena", [&](WireKey& k) { k.base += arena_end; });
  refused("nowhere", [](WireKey& k) { k.base = 0; });
  refused("too long", [](WireKey& k) { k.bytes += 2 * kPage; });
  refused("longer than the arena", [&](WireKey& k) { k.bytes = arena_end; });
  refused("round the end", [](WireKey& k) { k.bytes = ~uint64_t{0} - k.base; });
  refused("round and round", [](WireKey& k) { k.bytes = ~uint64_t{0}; });
}

// Keys that name a file that is no arena: the memory is reached in other ways.
TEST_F(ShmDirect, FilesThatAreNoArenasAreNotMapped) {
  const uint64_t bytes = 1 << 20;
  const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const int sealed = make_sealed(bytes).get();  // closed again
  const Descriptor other = make_sealed(bytes);
  const Descriptor tiny = make_sealed(kPage);
  int ends[2];
  ASSERT_EQ(ftruncate(unsealed, static_cast<off_t>(bytes)), 0);
  ASSERT_EQ(pipe(ends), 0);
  const auto segment = static_cast<int>(parse(owner.address()).fd);
  // As the owner's arena, but it could be cut off.
  const Descriptor copy(memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::string head(shm::kArenaHead, '\0');
  const auto arena = static_cast<int>(key.arena.fd);
  struct stat about;
  ASSERT_EQ(fstat(arena, &about), 0);
  ASSERT_EQ(pread(arena, head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  ASSERT_EQ(pwrite(copy.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  ASSERT_EQ(ftruncate(copy.get(), about.st_size), 0);
  // Another driver's arena.
  Region others;
  ASSERT_EQ(user.driver->reg(allocate(user, kBytes), kBytes, kBoth, &others), Status::ok);
  const auto foreign = static_cast<int>(wire_key(others).arena.fd);
  for (const int fd :
       {unsealed, sealed, other.get(), tiny.get(), ends[0], segment, copy.get(), foreign, -1}) {
    End stranger(open_shm_end);
    peer = connect_to(stranger, owner.address());
    WireKey forged = key;
    forged.arena.fd = static_cast<uint32_t>(fd);
    ASSERT_EQ(stranger.driver->import(peer, as_bytes(forged), &remote), Status::ok) << fd;
    std::string local(1000, '.');
    EXPECT_EQ(transfer(stranger, false, peer, remote, 5, local), Status::ok) << fd;
    EXPECT_EQ(local, content.substr(5, 1000));
    EXPECT_EQ(stranger.counters.direct_bytes, 0u) << fd;
  }
  close(unsealed);
  close(ends[0]);
  close(ends[1]);
}

// The owner writes nonsense into what peers read of its arena.
TEST_F(ShmDirect, ALyingArenaLeadsNowhere) {
  ASSERT_EQ(import(key), Status::ok);
  void* const at = mmap(nullptr, shm::kArenaHead, PROT_READ | PROT_WRITE, MAP_SHARED,
                        static_cast<int>(key.arena.fd), 0);
  ASSERT_NE(at, MAP_FAILED);
  auto& header = *static_cast<ArenaHeader*>(at);
  const uint64_t arena = header.bytes, self_base = header.self_base;
  shm::ArenaSlot& slot = header.slots[key.arena.slot];
  slot.base.store(0);
  slot.bytes.store(~uint64_t{0});
  header.bytes = ~uint64_t{0};
  header.self_base = 0;
  for (const uint64_t offset : {arena, arena - 10, ~uint64_t{0} - self_base - 100, uint64_t{0}}) {
    WireKey forged = key;
    forged.base = self_base + offset;
    forged.bytes = 100;
    EXPECT_EQ(import(forged), Status::invalid) << offset;
  }
  slot.base.store(~uint64_t{0});
  EXPECT_EQ(import(key), Status::invalid);
  slot.base.store(self_base);
  slot.bytes.store(0);
  EXPECT_EQ(import(key), Status::invalid);
  // Whoever comes now does not believe the header.
  End late(open_shm_end);
  const PeerId to = connect_to(late, owner.address());
  EXPECT_EQ(late.driver->import(to, as_bytes(key), &remote), Status::ok);
  std::string local(1000, '.');
  EXPECT_EQ(transfer(late, false, to, remote, 0, local), Status::ok);
  EXPECT_EQ(late.counters.direct_bytes, 0u);
  header.self_base = self_base;
  munmap(at, shm::kArenaHead);
}

TEST_F(ShmDirect, AKeyEndsWithItsMemory) {
  ASSERT_EQ(import(key), Status::ok);
  std::string local(100, '.');
  ASSERT_EQ(get(0, local), Status::ok);
  owner.driver->dereg(region);
  owner.driver->dealloc(base);
  local.assign(100, '.');
  EXPECT_EQ(get(0, local), Status::invalid);
  EXPECT_EQ(put(0, local), Status::invalid);
  EXPECT_EQ(user.counters.bad_keys, 2u);
  EXPECT_EQ(local, std::string(100, '.'));
  char* const next = allocate(owner, kBytes);
  ASSERT_EQ(next, base) << "the test wants the same place again";
  std::memset(next, 'n', kBytes);
  EXPECT_EQ(put(0, local), Status::invalid);
  EXPECT_EQ(import(key), Status::invalid);
  EXPECT_EQ(next[0], 'n');
}

TEST_F(ShmDirect, MemoryThatIsGivenBackHasNoPages) {
  struct stat about;
  const auto pages = [&] {
    EXPECT_EQ(fstat(static_cast<int>(key.arena.fd), &about), 0);
    return static_cast<uint64_t>(about.st_blocks) * 512 / kPage;
  };
  ASSERT_EQ(import(key), Status::ok);
  std::string local(kBytes, '.');
  ASSERT_EQ(get(0, local), Status::ok);
  EXPECT_GE(pages(), kBytes / kPage);
  owner.driver->dealloc(base);
  EXPECT_LT(pages(), 200u);
}

// More memory than is mapped at first.
TEST_F(ShmDirect, MoreIsMappedWhenItIsUsed) {
  constexpr uint64_t kEach = (48 << 20) + 5, kCount = 30;
  struct Block {
    char* base;
    uint32_t remote;
  };
  std::vector<Block> blocks;
  for (uint64_t i = 0; i < kCount; i++) {
    Block block{allocate(owner, kEach), 0};
    if (!owner.driver->advice()->near(connect_to(owner, user.address()), block.base))
      GTEST_SKIP() << "the machine is too small";
    for (const uint64_t at : {uint64_t{0}, kEach / 2, kEach - 8})
      std::memcpy(block.base + at, &i, sizeof(i));
    Region whole;
    ASSERT_EQ(owner.driver->reg(block.base, kEach, kRemoteRead, &whole), Status::ok);
    ASSERT_EQ(user.driver->import(peer, as_bytes(wire_key(whole)), &block.remote), Status::ok);
    blocks.push_back(block);
  }
  for (int round = 0; round < 2; round++) {
    for (uint64_t i = 0; i < kCount; i++) {
      for (const uint64_t at : {uint64_t{0}, kEach / 2, kEach - 8}) {
        std::string local(8, '.');
        ASSERT_EQ(transfer(user, false, peer, blocks[i].remote, at, local), Status::ok);
        ASSERT_EQ(std::memcmp(local.data(), &i, sizeof(i)), 0) << "block " << i << " at " << at;
      }
    }
  }
  EXPECT_EQ(direct(), 2 * kCount * 3 * 8);
  for (const Block& block : blocks) owner.driver->dealloc(block.base);
}

// Memory is used while its driver closes and afterwards.
TEST_F(ShmDirect, MemoryOutlivesItsDriver) {
  owner.driver.reset();
  EXPECT_EQ(std::string(base, kBytes), content);
  base[kBytes - 1] = 'x';
  EXPECT_EQ(base[kBytes - 1], 'x');
}

TEST_F(ShmDirect, AForkedChildHasMemoryOfItsOwn) {
  char* const second = allocate(owner, 3 * kPage);
  std::memset(second, 's', 3 * kPage);
  owner.driver->dealloc(allocate(owner, kPage));  // a slot that was used
  Child child([&](Child& self) {
    const bool seen = std::string(base, kBytes) == content && second[5000] == 's';
    std::memset(base, 'c', kBytes);
    second[0] = 'c';
    self.wait_gate();
    void* more = nullptr;
    const bool refused = owner.driver->alloc(kPage, 1, &more) == Status::unsupported;
    owner.driver->dealloc(second);
    return seen && refused && base[100] == 'c' && second[0] == 'c' ? 0 : 1;
  });
  child.open_gate();
  EXPECT_EQ(child.finish(), 0);
  EXPECT_EQ(std::string(base, kBytes), content);
  EXPECT_EQ(second[0], 's');
  ASSERT_EQ(import(key), Status::ok);
  std::string local(100, '.');
  EXPECT_EQ(get(0, local), Status::ok);
  EXPECT_EQ(local, content.substr(0, 100));
}

TEST_F(ShmDirect, ManyAllocationsUntilTheTableIsFull) {
  std::vector<void*> all;
  void* one = nullptr;
  while (owner.driver->alloc(1, 1, &one) == Status::ok) {
    all.push_back(one);
    ASSERT_LT(all.size(), size_t{shm::kArenaSlots});
  }
  EXPECT_EQ(all.size(), shm::kArenaSlots - 1);
  owner.driver->dealloc(all.back());
  EXPECT_EQ(owner.driver->alloc(1, 1, &all.back()), Status::ok);
  for (void* each : all) owner.driver->dealloc(each);
}

// --- the arena by itself -----------------------------------------------------------------------

TEST(ShmArena, KeepsTrackOfItsRanges) {
  std::string why;
  ArenaPointer arena = Arena::make({{1, 2}}, &why);
  ASSERT_TRUE(arena) << why;
  Random random(3);
  std::map<char*, std::string> live;
  for (int step = 0; step < 3000; step++) {
    if (!live.empty() && random.chance(480000)) {
      auto it = live.begin();
      std::advance(it, static_cast<long>(random.between(0, live.size() - 1)));
      ASSERT_EQ(std::memcmp(it->first, it->second.data(), it->second.size()), 0) << step;
      EXPECT_NE(arena->key(it->first, it->second.size()).serial, 0u);
      arena->dealloc(it->first);
      EXPECT_EQ(arena->key(it->first, 1).serial, 0u);
      live.erase(it);
      continue;
    }
    const uint64_t bytes =
        random.chance(100000) ? random.between(1, 5 << 20) : random.between(1, 5 * kPage);
    const uint64_t alignment = uint64_t{1} << random.between(0, 21);
    auto* const at = static_cast<char*>(arena->alloc(bytes, alignment));
    ASSERT_TRUE(at);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % alignment, 0u);
    ASSERT_EQ(at[0], 0);
    ASSERT_EQ(at[bytes - 1], 0);
    const std::string content = pattern(std::min<uint64_t>(bytes, 2 * kPage), step);
    std::memcpy(at, content.data(), content.size() < bytes ? content.size() : bytes);
    ASSERT_TRUE(live.emplace(at, content).second);
  }
  for (const auto& [at, content] : live) arena->dealloc(at);
  EXPECT_TRUE(arena->empty());
}

TEST(ShmArena, AsksForWhatThereIs) {
  std::string why;
  ArenaPointer arena = Arena::make({{1, 2}}, &why);
  ASSERT_TRUE(arena) << why;
  EXPECT_EQ(arena->alloc(0, 1), nullptr);
  EXPECT_EQ(arena->alloc(uint64_t{1} << 60, 1), nullptr);
  EXPECT_EQ(arena->alloc(~uint64_t{0}, 1), nullptr);
  EXPECT_EQ(arena->alloc(100, uint64_t{1} << 30), nullptr);
}

// In an arena of 200 MiB of which 1 is taken; larger ones pass as well.
bool ranges_grow_together(Arena& arena) {
  constexpr uint64_t kPart = 40 << 20;
  for (const auto& order : {std::array{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}}) {
    void* parts[4];
    for (void*& part : parts)
      if (!(part = arena.alloc(kPart, 1))) return false;
    for (const int i : order) arena.dealloc(parts[i]);
    void* const all = arena.alloc(4 * kPart, 1);
    if (!all) return false;
    arena.dealloc(all);
  }
  return true;
}

// Limits on addresses and on the length of files make a smaller arena, or none.
TEST(ShmArena, LimitsAreKept) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers need more addresses than that";
  const auto with = [](int what, rlim_t most) {
    Child child([&](Child&) {
      const rlimit limit{most, most};
      if (setrlimit(static_cast<__rlimit_resource_t>(what), &limit) != 0) return 1;
      std::string why;
      const ArenaPointer arena = Arena::make({{1, 2}}, &why);
      if (!arena) return why.empty() ? 2 : 10;
      char* const at = static_cast<char*>(arena->alloc(1 << 20, 1));
      if (!at || arena->alloc(most, 1)) return 3;
      std::memset(at, 1, 1 << 20);
      return ranges_grow_together(*arena) ? 0 : 4;
    });
    return child.finish();
  };
  uint64_t used = 0;  // pages of addresses
  FILE* const statm = fopen("/proc/self/statm", "r");
  ASSERT_TRUE(statm && fscanf(statm, "%lu", &used) == 1);
  fclose(statm);
  used *= kPage;
  EXPECT_EQ(with(RLIMIT_AS, used + (2ull << 30)), 0);
  EXPECT_EQ(with(RLIMIT_FSIZE, 200 << 20), 0);
  EXPECT_EQ(with(RLIMIT_FSIZE, 1 << 20), 10);
  EXPECT_EQ(with(RLIMIT_AS, used + (40 << 20)), 10);
}

// --- two processes -----------------------------------------------------------------------------

struct Meeting {
  shm::Address owner;
  Region region;
  std::atomic<bool> ready;
  std::atomic<bool> stop;
};

// Memory that parent and child have in common.
class Common {
 public:
  Common() {
    void* at =
        mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    value_ = new (at) Meeting{};
  }
  ~Common() { munmap(value_, sizeof(Meeting)); }
  Meeting* operator->() const { return value_; }

 private:
  Meeting* value_;
};

constexpr uint64_t kShared = 2 << 20;

// In the child: offers memory and polls until it is told to stop.
int offer(const Common& meeting) {
  End end(open_shm_end);
  void* base = nullptr;
  if (end.driver->alloc(kShared, 64, &base) != Status::ok) return 1;
  const std::string content = pattern(kShared);
  std::memcpy(base, content.data(), kShared);
  if (end.driver->reg(base, kShared, kBoth, &meeting->region) != Status::ok) return 2;
  meeting->owner = parse(end.address());
  meeting->ready = true;
  while (!meeting->stop) {
    end.driver->poll(1, 64);
    sched_yield();
  }
  end.driver->poll(1, 64);
  const bool written = static_cast<char*>(base)[kShared - 1] == 'w';
  return end.counters.bad_frames ? 3 : written ? 0 : 4;
}

class ShmDirectOfTwo : public ::testing::Test {
 protected:
  void SetUp() override {
    End probe(open_shm_end);
    ASSERT_TRUE(probe.driver);
    if (!(probe.driver->caps().flags & kGet)) GTEST_SKIP() << "no cross-memory attach here";
    set_log_level(LogLevel::error);
  }
  void attach() {
    while (!meeting->ready) sched_yield();
    peer = connect_to(user, bytes_of(meeting->owner));
    ASSERT_NE(peer, kNoPeer);
    ASSERT_EQ(user.driver->import(peer, as_bytes(wire_key(meeting->region)), &remote), Status::ok);
  }

  Common meeting;
  End user{open_shm_end};
  PeerId peer = kNoPeer;
  uint32_t remote = 0;
};

// Into ordinary memory and into mapped memory, where the owner may write a part.
TEST_F(ShmDirectOfTwo, EverythingArrives) {
  Child owner([&](Child&) { return offer(meeting); });
  ASSERT_NO_FATAL_FAILURE(attach());
  const std::string content = pattern(kShared);
  const std::string dots(kShared, '.');
  char* const mine = allocate(user, kShared);
  for (int round = 0; round < 100; round++) {
    for (const uint64_t bytes : {uint64_t{100}, uint64_t{70000}, uint64_t{200001}, kShared}) {
      std::string local(bytes, '.');
      ASSERT_EQ(transfer(user, false, peer, remote, kShared - bytes, local), Status::ok);
      ASSERT_TRUE(local == content.substr(kShared - bytes)) << bytes;
      std::memset(mine, '.', kShared);
      const iovec piece{mine, bytes};
      const size_t before = user.sink.dones.size();
      const Status status = user.driver->get({peer, remote, 0, &piece, 1, bytes, 9});
      ASSERT_TRUE(status == Status::ok || status == Status::pending) << status_text(status);
      if (status == Status::pending) {
        ASSERT_TRUE(poll_until(user, [&] { return user.sink.dones.size() > before; }));
        ASSERT_EQ(user.sink.dones.back().status, Status::ok);
      }
      ASSERT_EQ(std::memcmp(mine, content.data(), bytes), 0) << bytes;
      ASSERT_EQ(std::memcmp(mine + bytes, dots.data(), kShared - bytes), 0) << bytes;
    }
  }
  std::string w = "w";
  EXPECT_EQ(transfer(user, true, peer, remote, kShared - 1, w), Status::ok);
  meeting->stop = true;
  EXPECT_EQ(owner.finish(), 0);
  EXPECT_EQ(user.counters.bad_keys, 0u);
  user.driver->dealloc(mine);
}

TEST_F(ShmDirectOfTwo, ADeadOwnersMemoryIsLeftAlone) {
  Child owner([&](Child&) { return offer(meeting); });
  ASSERT_NO_FATAL_FAILURE(attach());
  std::string local(100, '.');
  ASSERT_EQ(transfer(user, false, peer, remote, 0, local), Status::ok);
  owner.kill_now();
  EXPECT_EQ(owner.finish(), 128 + SIGKILL);
  // Nobody has looked yet: what is mapped is still there.
  EXPECT_EQ(transfer(user, false, peer, remote, 100, local), Status::ok);
  EXPECT_EQ(local, pattern(kShared).substr(100, 100));
  ASSERT_TRUE(poll_until(user, [&] { return !user.sink.downs.empty(); }));
  EXPECT_EQ(user.sink.downs[0].status, Status::peer_dead);
  EXPECT_EQ(transfer(user, false, peer, remote, 0, local), Status::peer_dead);
  EXPECT_EQ(user.driver->import(peer, as_bytes(wire_key(meeting->region)), &remote),
            Status::peer_dead);
}

// A key of a process that died before anything of it was mapped.
TEST_F(ShmDirectOfTwo, TheArenaOfADeadProcessIsNotOpened) {
  Child owner([&](Child&) { return offer(meeting); });
  while (!meeting->ready) sched_yield();
  peer = connect_to(user, bytes_of(meeting->owner));
  ASSERT_NE(peer, kNoPeer);
  owner.kill_now();
  EXPECT_EQ(owner.finish(), 128 + SIGKILL);
  std::string local(100, '.');
  const Status status = user.driver->import(peer, as_bytes(wire_key(meeting->region)), &remote);
  if (status == Status::ok) {
    EXPECT_EQ(transfer(user, false, peer, remote, 0, local), Status::peer_dead);
  }
  EXPECT_EQ(local, std::string(100, '.'));
}

}  // namespace
}  // namespace torii
