// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The optional functions: remote memory, memory for the user, groups, sleeping; and that what is
// not declared answers `unsupported`.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "conformance/kit.h"
#include "core/base/random.h"

namespace torii::kit {
namespace {
// Rule 8.
void undeclared_functions_answer_unsupported(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  char memory[64] = {};
  const iovec piece{memory, 8};
  const Rma rma{to, 0, 0, &piece, 1, 8, 1};
  const char* undeclared = "rule 8: not declared, but does not answer unsupported";
  if (!a.has(kPut)) {
    EXPECT_EQ(a.driver().put(rma), Status::unsupported) << undeclared;
  }
  if (!a.has(kGet)) {
    EXPECT_EQ(a.driver().get(rma), Status::unsupported) << undeclared;
  }
  if (!(a.caps().flags & (kPut | kGet))) {
    Region region;
    uint32_t remote;
    EXPECT_EQ(a.driver().reg(memory, 64, kRemoteRead, &region), Status::unsupported) << undeclared;
    EXPECT_EQ(a.driver().import(to, region.key, &remote), Status::unsupported) << undeclared;
  }
  if (!a.has(kGuard)) {
    Region region;
    EXPECT_NE(a.driver().reg(memory, 64, kRemoteRead | kGuarded, &region), Status::ok);
    EXPECT_EQ(a.driver().mapped_memory(), nullptr) << undeclared;
  }
  if (!a.has(kMulticast)) {
    PeerId group;
    const std::byte name[4] = {};
    EXPECT_EQ(a.driver().join(name, &group), Status::unsupported) << undeclared;
  }
  if (!a.has(kWait)) {
    int fd;
    EXPECT_EQ(a.driver().arm(&fd), Status::unsupported) << undeclared;
  }
}

// --- remote memory --------------------------------------------------------------------------

// Memory of b that a has imported.
struct Remote {
  Remote(Bed& bed_in, size_t size, uint32_t access)
      : bed(bed_in), a(bed.node()), b(bed.node()), to(a.connect(b)), memory(pattern(7, size)) {
    bed.send(a, to, "hello");
    bed.settle();
    EXPECT_EQ(b.driver().reg(memory.data(), size, access, &region), Status::ok);
    EXPECT_EQ(region.base, memory.data());
    EXPECT_EQ(region.bytes, size);
    const Status status = import(key());
    EXPECT_EQ(status, Status::ok) << "import: " << status_text(status);
  }
  ~Remote() {
    if (imported) a.driver().drop(handle);
    if (region.base) b.driver().dereg(region);
  }

  std::vector<std::byte> key() const {
    const auto bytes = std::span(region.key).first(b.caps().key_bytes);
    return {bytes.begin(), bytes.end()};
  }
  Status import(std::span<const std::byte> bytes) {
    if (std::exchange(imported, false)) a.driver().drop(handle);
    const Status status = a.driver().import(to, bytes, &handle);
    imported = status == Status::ok;
    return status;
  }
  // Runs one transfer to its end.
  Status move(bool write, uint64_t offset, std::span<const iovec> pieces, uint64_t bytes) {
    Rma rma{to, handle, offset, pieces.data(), static_cast<uint32_t>(pieces.size()), bytes, 0};
    Status status = a.move(write, rma);  // without a cookie; then once more
    rma.cookie = a.new_cookie();
    EXPECT_TRUE(bed.run([&] {
      status = a.move(write, rma);
      return status != Status::again;
    })) << "never anything but `again`";
    if (status != Status::pending) return status;
    EXPECT_TRUE(bed.run([&] { return !a.pending.count(rma.cookie); })) << "rule 6: never done";
    return a.dones[rma.cookie];
  }
  Status move(bool write, uint64_t offset, std::string& local) {
    const iovec piece{local.data(), local.size()};
    return move(write, offset, {&piece, 1}, local.size());
  }

  Bed& bed;
  Node& a;
  Node& b;
  PeerId to;
  std::string memory;
  Region region;
  uint32_t handle = 0;
  bool imported = false;
};

constexpr size_t kRemoteBytes = (1 << 20) + 77;

void remote_transfers(Bed& bed, bool write) {
  Remote r(bed, kRemoteBytes, write ? kRemoteWrite : kRemoteRead);
  std::string probe(8, 'p');
  if (r.move(write, 0, probe) == Status::denied) GTEST_SKIP() << "the system denies it here";
  Random random(bed.rig.seed);
  const DriverCaps caps = r.a.caps();
  for (const size_t size : {1ul, 7ul, 64ul, 4096ul, 4097ul, 100000ul, 1ul << 20, 0ul}) {
    if (size > caps.remote_max) continue;
    const size_t offset = random.between(0, kRemoteBytes - size);
    const std::string before = r.memory;
    std::string local = pattern(size, size);
    std::vector<iovec> pieces;
    const uint32_t count = static_cast<uint32_t>(random.between(1, std::min(caps.pieces_max, 5u)));
    for (size_t done = 0, i = 0; i < count; i++) {
      const size_t n = i + 1 == count ? size - done : (size - done) / 2;
      pieces.push_back({local.data() + done, n});
      done += n;
    }
    const Status status = r.move(write, offset, pieces, size);
    ASSERT_EQ(status, Status::ok) << status_text(status) << ", " << size << " bytes";
    if (write) {
      EXPECT_EQ(local, pattern(size, size)) << "put changed the source";
      std::string expected = before;
      expected.replace(offset, size, local);
      ASSERT_TRUE(r.memory == expected) << "put of " << size << " bytes at " << offset;
    } else {
      ASSERT_TRUE(r.memory == before) << "get changed the source";
      ASSERT_TRUE(local == before.substr(offset, size)) << "get of " << size << " at " << offset;
    }
  }
}

void put_writes(Bed& bed) { remote_transfers(bed, true); }
void get_reads(Bed& bed) { remote_transfers(bed, false); }

// Rule 9 for offsets, lengths, rights and keys: an error, and nothing is moved.
void bad_remote_access(Bed& bed, bool write) {
  Remote r(bed, 4096, write ? kRemoteWrite : kRemoteRead);
  const std::string before = r.memory;
  std::string local = pattern(3, 64);
  if (r.move(write, 0, local) == Status::denied) GTEST_SKIP() << "the system denies it here";
  r.memory = before;
  const auto fails = [&](const char* what, bool as_write, uint64_t offset) {
    local = pattern(3, 64);
    EXPECT_NE(r.move(as_write, offset, local), Status::ok) << "rule 9: " << what;
    EXPECT_TRUE(r.memory == before) << what << ": remote memory was written";
    EXPECT_TRUE(local == pattern(3, 64)) << what << ": local memory was written";
  };
  fails("end beyond the region", write, 4096 - 63);
  fails("start beyond the region", write, 4097);
  fails("offset that overflows", write, ~uint64_t{0} - 8);
  if (r.a.has(kPut | kGet)) fails("against the rights of the region", !write, 0);
  const auto key = r.key();
  const auto key_fails = [&](const char* what, std::span<const std::byte> bytes) {
    if (r.import(bytes) == Status::ok) fails(what, write, 0);
  };
  std::vector<std::byte> longer(key);
  longer.push_back(std::byte{0});
  EXPECT_NE(r.import({}), Status::ok) << "rule 9: an empty key";
  EXPECT_NE(r.import(std::span(key).first(key.size() - 1)), Status::ok) << "rule 9: a short key";
  EXPECT_NE(r.import(longer), Status::ok) << "rule 9: a long key";
  key_fails("a key of ones", std::vector<std::byte>(key.size(), std::byte{0xff}));
  key_fails("a key of zeros", std::vector<std::byte>(key.size(), std::byte{0}));
  for (size_t i = 0; r.bed.rig.sealed && i < 8 * key.size(); i++)
    EXPECT_EQ(r.import(flipped(key, i)), Status::invalid) << "rule 9: a changed key, bit " << i;
  ASSERT_EQ(r.import(key), Status::ok);
  EXPECT_EQ(r.move(write, 4096 - 64, local), Status::ok) << "a good access after bad ones";
}

void bad_puts(Bed& bed) { bad_remote_access(bed, true); }
void bad_gets(Bed& bed) { bad_remote_access(bed, false); }

// A driver that needs registration knows when it has ended, and recognizes any key not its own.
void keys_end_with_registration(Bed& bed) {
  if (!(bed.node().caps().flags & (kPut | kGet))) return;
  const bool write = bed.node().has(kPut);
  Remote r(bed, 4096, kRemoteRead | kRemoteWrite);
  std::string local = pattern(3, 64);
  const auto key = r.key();
  for (size_t i = 0; i < 8 * key.size(); i++) {
    if (r.import(flipped(key, i)) != Status::ok) continue;
    EXPECT_NE(r.move(write, 0, local), Status::ok) << "a forged key, bit " << i;
  }
  ASSERT_EQ(r.import(key), Status::ok);
  ASSERT_EQ(r.move(write, 0, local), Status::ok);
  r.b.driver().dereg(r.region);
  r.region = Region{};
  EXPECT_NE(r.move(write, 0, local), Status::ok)
      << "kNeedsReg: the key works after dereg(); is registration needed at all?";
}

// --- memory for the user --------------------------------------------------------------------

struct Allocated {
  char* base;
  std::string content;
};

bool holds(const Allocated& a) {
  return std::memcmp(a.base, a.content.data(), a.content.size()) == 0;
}

// Memory from alloc() is the user's, in full, until dealloc(), and longer than the driver lives.
void allocated_memory_is_the_users(Bed& bed) {
  Node& node = bed.node();
  const PeerId to = node.connect(bed.node());
  std::vector<Allocated> all;
  for (const size_t size : {1ul, 64ul, 4096ul, 4097ul, 100000ul, (3ul << 20) + 1}) {
    for (const size_t alignment : {1ul, 64ul, 4096ul}) {
      void* base = nullptr;
      const Status status = node.driver().alloc(size, alignment, &base);
      if (status == Status::unsupported) GTEST_SKIP() << "the driver gives no memory";
      ASSERT_EQ(status, Status::ok) << size << " bytes: " << status_text(status);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(base) % alignment, 0u) << "not aligned";
      all.push_back({static_cast<char*>(base), pattern(all.size(), size)});
      std::memcpy(base, all.back().content.data(), size);
    }
  }
  void* none = nullptr;
  EXPECT_NE(node.driver().alloc(uint64_t{1} << 60, 64, &none), Status::ok)
      << "more memory than there are addresses";
  for (const Allocated& a : all) ASSERT_TRUE(holds(a)) << "allocations overlap";
  for (size_t i = 0; i < all.size(); i++)
    if (i % 2) node.driver().dealloc(all[i].base);
  for (size_t i = 0; i < all.size(); i += 2)
    ASSERT_TRUE(holds(all[i])) << "dealloc() changed other memory";
  void* again = nullptr;
  ASSERT_EQ(node.driver().alloc(5000, 64, &again), Status::ok) << "after dealloc()";
  std::memset(again, 1, 5000);
  for (size_t i = 0; i < all.size(); i += 2) ASSERT_TRUE(holds(all[i])) << "memory given twice";
  const std::string other(100, 'o');
  const Advice* const advice = node.driver().advice();
  EXPECT_FALSE(advice && advice->near(to, other.data())) << "near() takes other memory for its own";
  EXPECT_FALSE(advice && advice->near(to, nullptr));
  node.close();
  for (size_t i = 0; i < all.size(); i += 2) {
    EXPECT_TRUE(holds(all[i])) << "closing changed memory of the user";
    all[i].base[0] = 1;
  }
}

// Remote access to such memory, and to a part of it, until it is given back.
void allocated_memory_is_reached(Bed& bed, bool write) {
  constexpr size_t kBytes = 300000, kFirst = 4097, kPart = 200001;
  Remote r(bed, 4096, write ? kRemoteWrite : kRemoteRead);
  std::string local(8, 'p');
  if (r.move(write, 0, local) == Status::denied) GTEST_SKIP() << "the system denies it here";
  r.b.driver().dereg(r.region);
  void* memory = nullptr;
  const Status status = r.b.driver().alloc(kBytes, 64, &memory);
  if (status == Status::unsupported) GTEST_SKIP() << "the driver gives no memory";
  ASSERT_EQ(status, Status::ok);
  char* const base = static_cast<char*>(memory);
  std::memset(base, '.', kBytes);
  const std::string content = pattern(9, kPart);
  if (!write) std::memcpy(base + kFirst, content.data(), kPart);
  const uint32_t access = write ? kRemoteWrite : kRemoteRead;
  ASSERT_EQ(r.b.driver().reg(base + kFirst, kPart, access, &r.region), Status::ok);
  ASSERT_EQ(r.import(r.key()), Status::ok);
  local = write ? content : std::string(kPart, '-');
  for (size_t at = 0; at < kPart;) {  // in parts of different lengths
    const size_t n = std::min<size_t>(kPart - at, at ? 2 * at + 1 : 1);
    const iovec piece{local.data() + at, n};
    ASSERT_EQ(r.move(write, at, {&piece, 1}, n), Status::ok) << n << " bytes at " << at;
    at += n;
  }
  EXPECT_TRUE(local == content);
  EXPECT_TRUE(std::memcmp(base + kFirst, content.data(), kPart) == 0);
  EXPECT_EQ(base[kFirst - 1], '.');
  EXPECT_EQ(base[kFirst + kPart], '.');
  std::string more(1, 'm');
  EXPECT_NE(r.move(write, kPart, more), Status::ok) << "rule 9: beyond the region";
  const auto old_key = r.key();
  r.b.driver().dereg(r.region);
  r.b.driver().dealloc(memory);
  EXPECT_NE(r.move(write, 0, more), Status::ok) << "a key of memory that was given back";
  void* next = nullptr;
  ASSERT_EQ(r.b.driver().alloc(kBytes, 64, &next), Status::ok);
  std::memset(next, '.', kBytes);
  if (r.import(old_key) == Status::ok) {
    EXPECT_NE(r.move(write, 0, more), Status::ok) << "a key of what was there before";
  }
  EXPECT_EQ(more, "m");
  for (size_t i = 0; i < kBytes; i++) ASSERT_EQ(static_cast<char*>(next)[i], '.') << i;
  r.b.driver().dealloc(next);
}

void allocated_memory_is_read(Bed& bed) { allocated_memory_is_reached(bed, false); }
void allocated_memory_is_written(Bed& bed) { allocated_memory_is_reached(bed, true); }

// --- guarded keys ---------------------------------------------------------------------------

constexpr uint64_t kLabel = 0x0123456789abcdef;

// A guarded region of b's memory that a has imported; of alloc()ed memory where there is any.
struct GuardedRemote : Remote {
  GuardedRemote(Bed& bed_in, uint32_t access) : Remote(bed_in, 64, kRemoteRead) {
    b.driver().dereg(region);
    void* base = nullptr;
    if (b.driver().alloc(kGuardedBytes, 64, &base) != Status::ok) {
      base = bed.keep(std::string(kGuardedBytes, '.')).data();
    } else {
      allocated = base;
      std::memset(base, '.', kGuardedBytes);
    }
    at = static_cast<char*>(base);
    region.label = kLabel;
    const Status status = b.driver().reg(base, kGuardedBytes, access | kGuarded, &region);
    EXPECT_EQ(status, Status::ok) << "reg: " << status_text(status);
    EXPECT_EQ(region.label, kLabel);
    EXPECT_EQ(import(key()), Status::ok);
  }
  Status reach(Reach* out) {
    MappedMemory* const mapped = a.driver().mapped_memory();
    return mapped ? mapped->reach(handle, out) : Status::unsupported;
  }
  ~GuardedRemote() {
    if (region.base) b.driver().dereg(region);
    region = Region{};
    if (allocated) b.driver().dealloc(allocated);
  }
  static constexpr size_t kGuardedBytes = 8192;
  char* at = nullptr;
  void* allocated = nullptr;
};

void guarded_keys_say_what_their_owner_says(Bed& bed) {
  for (const uint32_t access : {uint32_t{kRemoteRead}, uint32_t{kRemoteWrite},
                                kRemoteRead | kRemoteWrite | kRemoteUpdate}) {
    GuardedRemote r(bed, access);
    Reach reach;
    ASSERT_EQ(r.reach(&reach), Status::ok);
    EXPECT_EQ(reach.bytes, r.kGuardedBytes);
    EXPECT_EQ(reach.access, access);
    EXPECT_EQ(reach.label, kLabel) << "kGuard: the owner's label";
    if (!reach.at) continue;
    ASSERT_NE(reach.guard, nullptr) << "kGuard: mapped memory without a guard";
    EXPECT_EQ(reach.guard->load(), reach.valid);
    r.at[5] = 'a';
    EXPECT_EQ(static_cast<char>(reach.at[5]), 'a') << "kGuard: other memory is mapped";
    reach.at[r.kGuardedBytes - 1] = std::byte{'z'};
    EXPECT_EQ(r.at[r.kGuardedBytes - 1], 'z');
    r.b.driver().dereg(r.region);
    EXPECT_NE(reach.guard->load(), reach.valid) << "kGuard: the guard outlives dereg()";
  }
}

// A guarded key ends with its region, whoever has imported it, and says nothing by itself.
void guarded_keys_end_with_their_region(Bed& bed) {
  const bool write = bed.node().has(kPut);
  GuardedRemote r(bed, kRemoteRead | kRemoteWrite);
  std::string local = pattern(3, 64);
  const Status first = r.move(write, 0, local);
  if (first == Status::denied) GTEST_SKIP() << "the system denies it here";
  ASSERT_EQ(first, Status::ok);
  const auto key = r.key();
  for (size_t i = 0; i < 8 * key.size(); i++) {
    Reach reach;
    if (r.import(flipped(key, i)) != Status::ok || r.reach(&reach) != Status::ok) continue;
    EXPECT_EQ(reach.bytes, r.kGuardedBytes) << "kGuard: the key is believed, bit " << i;
    EXPECT_EQ(reach.access, kRemoteRead | kRemoteWrite) << "kGuard: the key is believed, bit " << i;
  }
  ASSERT_EQ(r.import(key), Status::ok);
  ASSERT_EQ(r.move(write, r.kGuardedBytes - 64, local), Status::ok);
  EXPECT_NE(r.move(write, r.kGuardedBytes - 63, local), Status::ok) << "rule 9: out of bounds";
  r.b.driver().dereg(r.region);
  EXPECT_NE(r.move(write, 0, local), Status::ok) << "kGuard: the key works after dereg()";
  std::string other(4096, 'o');
  Region next;
  next.label = 1;
  ASSERT_EQ(r.b.driver().reg(other.data(), 4096, kRemoteRead | kRemoteWrite | kGuarded, &next),
            Status::ok);
  EXPECT_NE(r.move(write, 0, local), Status::ok) << "kGuard: the key opens the next region";
  Reach reach;
  if (r.import(key) == Status::ok) {
    EXPECT_NE(r.reach(&reach), Status::ok) << "kGuard: a key of what is gone";
  }
  EXPECT_EQ(other, std::string(4096, 'o'));
  r.b.driver().dereg(next);
}

// --- groups ---------------------------------------------------------------------------------

std::vector<std::byte> group_name(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

void groups_reach_their_members(Bed& bed) {
  Node* nodes[4] = {&bed.node(), &bed.node(), &bed.node(), &bed.node()};
  Node& a = *nodes[0];
  PeerId group[3];
  for (int i = 0; i < 3; i++)
    ASSERT_EQ(nodes[i]->driver().join(group_name("sixteen bytes ok"), &group[i]), Status::ok);
  PeerId other;
  ASSERT_EQ(nodes[3]->driver().join(group_name("x"), &other), Status::ok);
  bed.settle();
  const std::string& body = bed.keep(pattern(5, body_max(a.caps(), 8)));
  const uint64_t cookie = a.new_cookie();
  bed.send(a, group[0], "12345678", body, cookie);
  ASSERT_TRUE(bed.run([&] { return a.pending.empty(); })) << "rule 6: a group's cookie";
  bed.settle();
  EXPECT_EQ(a.frames.size(), 0u) << "a frame to a group came back to its sender";
  EXPECT_EQ(nodes[3]->frames.size(), 0u) << "a frame reached another group";
  for (int i = 1; i < 3; i++) {
    ASSERT_EQ(nodes[i]->frames.size(), 1u) << "member " << i;
    EXPECT_EQ(nodes[i]->frames[0].bytes, "12345678" + body);
    const PeerId from = nodes[i]->frames[0].from;
    EXPECT_TRUE(from == kNoPeer || from == nodes[i]->connect(a)) << from;
  }
  nodes[2]->driver().leave(group[2]);
  bed.settle();
  bed.send(*nodes[1], group[1], "again");
  bed.settle();
  EXPECT_EQ(a.frames.size(), 1u);
  EXPECT_EQ(nodes[1]->frames.size(), 1u);
  EXPECT_EQ(nodes[2]->frames.size(), 1u) << "leave() had no effect";
}

// Rule 4 for frames to a group and frames to one of its members: one order, one sender.
void groups_keep_the_order(Bed& bed) {
  constexpr unsigned kFrames = 300;
  Node* nodes[3] = {&bed.node(), &bed.node(), &bed.node()};
  Node& a = *nodes[0];
  PeerId group[3], to[3];
  for (int i = 0; i < 3; i++) {
    ASSERT_EQ(nodes[i]->driver().join(group_name("order"), &group[i]), Status::ok);
    if (i == 0) continue;
    to[i] = a.connect(*nodes[i]);
    bed.send(a, to[i], "hello");
  }
  bed.settle();
  Random random(bed.rig.seed);
  std::vector<std::string> expected[3];
  for (unsigned number = 0; number < kFrames; number++) {
    const uint64_t target = random.between(0, 3);  // 1, 2: a member; else the group
    const bool all = target == 0 || target == 3;
    const std::string frame = (all ? "g" : "m") + std::to_string(number);
    bed.send(a, all ? group[0] : to[target], frame);
    for (const uint64_t i : {1, 2})
      if (all || target == i) expected[i].push_back(frame);
  }
  bed.settle();
  for (int i = 1; i < 3; i++) {
    const PeerId from = nodes[i]->connect(a);
    ASSERT_EQ(nodes[i]->frames.size(), 1 + expected[i].size()) << "member " << i;
    for (size_t k = 0; k < expected[i].size(); k++) {
      const Node::Frame& frame = nodes[i]->frames[k + 1];
      ASSERT_EQ(frame.bytes, expected[i][k]) << "rule 4: member " << i << ", frame " << k;
      ASSERT_EQ(frame.from, from) << "a frame to a group names its sender like any other";
    }
  }
}

// The same without kReliable: what is sent often enough arrives, unchanged, and only at members.
void groups_reach_their_members_in_the_end(Bed& bed) {
  Node* nodes[4] = {&bed.node(), &bed.node(), &bed.node(), &bed.node()};
  Node& a = *nodes[0];
  PeerId group[3], other;
  for (int i = 0; i < 3; i++)
    ASSERT_EQ(nodes[i]->driver().join(group_name("sixteen bytes ok"), &group[i]), Status::ok);
  ASSERT_EQ(nodes[3]->driver().join(group_name("x"), &other), Status::ok);
  const PeerId to = nodes[1]->connect(a);
  ASSERT_TRUE(bed.run([&] {
    nodes[1]->send(to, "hello");
    return !a.frames.empty();
  }));
  bed.settle();
  a.frames.clear();
  const std::string& body = bed.keep(pattern(5, body_max(a.caps(), 8)));
  const auto reaches = [&](Node& from, PeerId target, std::vector<Node*> members) {
    return bed.run([&] {
      from.send(target, "g2345678", body, from.new_cookie());
      return std::all_of(members.begin(), members.end(),
                         [](Node* n) { return !n->frames.empty(); });
    });
  };
  EXPECT_TRUE(reaches(a, group[0], {nodes[1], nodes[2]})) << "a member hears nothing";
  EXPECT_TRUE(bed.run([&] { return a.pending.empty(); })) << "rule 6: a group's cookie";
  bed.settle();
  EXPECT_TRUE(a.frames.empty()) << "a frame to a group came back to its sender";
  EXPECT_TRUE(nodes[3]->frames.empty()) << "a frame reached another group";
  for (int i = 1; i < 3; i++) {
    for (const Node::Frame& frame : nodes[i]->frames) {
      if (a.has(kReliable)) {
        EXPECT_EQ(frame.bytes, "g2345678" + body) << "a frame arrived changed";
      }
      EXPECT_TRUE(frame.from == kNoPeer || frame.from == nodes[i]->connect(a)) << frame.from;
    }
  }
  EXPECT_EQ(nodes[1]->frames[0].from, to) << "the sender is known, but not named";
  nodes[2]->driver().leave(group[2]);
  bed.settle();
  for (Node* node : nodes) node->frames.clear();
  EXPECT_TRUE(reaches(*nodes[1], group[1], {&a}));
  bed.settle();
  EXPECT_TRUE(nodes[2]->frames.empty()) << "leave() had no effect";
}

void bad_group_names(Bed& bed) {
  Node& a = bed.node();
  PeerId group;
  EXPECT_NE(a.driver().join({}, &group), Status::ok) << "an empty name";
  EXPECT_NE(a.driver().join(group_name("seventeen bytes !"), &group), Status::ok) << "17 bytes";
  EXPECT_EQ(a.driver().join(group_name("1"), &group), Status::ok);
  a.driver().leave(group);
}

// --- sleeping -------------------------------------------------------------------------------

bool readable(int fd, int ms) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, ms) == 1;
}

// Goes to sleep: polls until there is nothing left to do. -1 if that never happens.
int fall_asleep(Bed& bed, Node& node) {
  int fd = -1;
  for (int i = 0; i < 20000; i++) {
    const Status status = node.driver().arm(&fd);
    if (status == Status::ok) return fd;
    if (status != Status::again) {
      ADD_FAILURE() << "arm: " << status_text(status);
      return -1;
    }
    bed.settle();
  }
  ADD_FAILURE() << "arm() finds work for ever";
  return -1;
}

void sleepers_are_woken(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  bed.send(a, to, "hello");
  bed.settle();
  for (int round = 0; round < 5; round++) {
    const size_t before = b.frames.size();
    if (&a != &b && fall_asleep(bed, a) < 0) return;  // nothing of a's is under way any more
    const int fd = fall_asleep(bed, b);
    ASSERT_GE(fd, 0);
    EXPECT_FALSE(readable(fd, 0)) << "round " << round << ": wakes without work";
    bool taken = false;
    for (int i = 0; i < 1000 && !taken; i++) {
      taken = a.send(to, "wake up");
      if (&a != &b) a.poll(bed.now_ns += 20000);
    }
    ASSERT_TRUE(taken);
    for (int i = 0; i < 5000 && &a != &b && !readable(fd, 0); i++) a.poll(bed.now_ns += 20000);
    ASSERT_TRUE(readable(fd, 2000)) << "kWait: a frame does not wake the sleeper";
    int ignored;
    EXPECT_EQ(b.driver().arm(&ignored), Status::again) << "arm() overlooks work that is waiting";
    ASSERT_TRUE(bed.run([&] { return b.frames.size() > before; }));
  }
}

constexpr Case kOptionalTable[] = {
    {"undeclared_functions_answer_unsupported", "rule 8", 0, false,
     undeclared_functions_answer_unsupported},
    {"put_writes", "kPut", kPut, false, put_writes},
    {"get_reads", "kGet", kGet, false, get_reads},
    {"bad_puts", "rule 9: keys and bounds", kPut, false, bad_puts},
    {"bad_gets", "rule 9: keys and bounds", kGet, false, bad_gets},
    {"keys_end_with_registration", "kNeedsReg", kNeedsReg, false, keys_end_with_registration},
    {"allocated_memory_is_the_users", "alloc", 0, false, allocated_memory_is_the_users},
    {"allocated_memory_is_read", "alloc", kGet, false, allocated_memory_is_read},
    {"allocated_memory_is_written", "alloc", kPut, false, allocated_memory_is_written},
    {"guarded_keys_say_what_their_owner_says", "kGuard", kGuard, false,
     guarded_keys_say_what_their_owner_says},
    {"guarded_keys_end_with_their_region", "kGuard", kGuard, false,
     guarded_keys_end_with_their_region},
    {"groups_reach_their_members", "kMulticast", kMulticast | kReliable, true,
     groups_reach_their_members},
    {"groups_reach_their_members_in_the_end", "kMulticast without kReliable", kMulticast, true,
     groups_reach_their_members_in_the_end},
    {"groups_keep_the_order", "rule 4: groups", kMulticast | kSure, true, groups_keep_the_order},
    {"bad_group_names", "rule 9: names of groups", kMulticast, false, bad_group_names},
    {"sleepers_are_woken", "kWait", kWait | kSure, false, sleepers_are_woken},
};

}  // namespace

const std::span<const Case> kOptionalCases = kOptionalTable;

}  // namespace torii::kit
