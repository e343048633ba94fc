// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Atomic operations on words of a peer's memory.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "conformance/kit.h"

namespace torii::kit {
namespace {

constexpr uint64_t kWords = 512;

// A guarded region of b's memory, which a has imported.
struct Words {
  Words(Bed& bed_in, uint32_t access)
      : bed(bed_in), a(bed.node()), b(bed.node()), to(a.connect(b)) {
    bed.send(a, to, "hello");
    bed.settle();
    EXPECT_EQ(b.driver().reg(words, sizeof(words), access | kGuarded, &region), Status::ok);
    const auto key = std::span(region.key).first(b.caps().key_bytes);
    EXPECT_EQ(a.driver().import(to, key, &handle), Status::ok);
  }
  ~Words() {
    a.driver().drop(handle);
    if (region.base) b.driver().dereg(region);
  }
  // Runs one to its end.
  Status run(RemoteAtomic atomic) {
    atomic.peer = to;
    atomic.remote = handle;
    atomic.cookie = a.new_cookie();
    const Status status = a.atomic(atomic);
    if (status != Status::pending) return status;
    EXPECT_TRUE(bed.run([&] { return !a.pending.count(atomic.cookie); })) << "rule 6: never done";
    return a.dones[atomic.cookie];
  }
  // Until it is taken: whoever declares them must not refuse them for ever.
  Status surely(const RemoteAtomic& atomic) {
    Status status = Status::unsupported;
    for (int i = 0; i < 1000 && (status == Status::unsupported || status == Status::again); i++) {
      status = run(atomic);
      bed.settle();
    }
    return status;
  }

  Bed& bed;
  Node& a;
  Node& b;
  PeerId to;
  alignas(8) uint64_t words[kWords] = {};
  Region region;
  uint32_t handle = 0;
};

void undeclared_atomics_answer_unsupported(Bed& bed) {
  Node& a = bed.node();
  if (a.has(kAtomic)) return;
  RemoteAtomic atomic;
  uint64_t old;
  atomic.old = &old;
  atomic.peer = a.connect(bed.node());
  atomic.cookie = 1;
  EXPECT_EQ(a.driver().atomic(atomic), Status::unsupported)
      << "rule 8: not declared, but does not answer unsupported";
}

void atomics_change_words(Bed& bed) {
  Words w(bed, kRemoteUpdate);
  const struct {
    AtomicOp op;
    uint64_t operand, compare, after;
  } cases[] = {
      {AtomicOp::add, 0x21, 0, 0x8877665544332232},
      {AtomicOp::bit_and, 0x0ff0, 0, 0x0000000000000210},
      {AtomicOp::bit_or, 0x1000000000000001, 0, 0x9877665544332211},
      {AtomicOp::bit_xor, 0xff, 0, 0x88776655443322ee},
      {AtomicOp::swap, 5, 0, 5},
      {AtomicOp::compare_swap, 7, 0x8877665544332211, 7},
      {AtomicOp::compare_swap, 7, 1, 0x8877665544332211},
  };
  constexpr uint64_t kBefore = 0x8877665544332211;
  uint64_t at = 0;
  for (const auto& c : cases) {
    for (const uint8_t width : {uint8_t{8}, uint8_t{4}}) {
      const uint64_t mask = width == 8 ? ~uint64_t{0} : 0xffffffff;
      w.words[at] = kBefore;
      uint64_t old = 0;
      const Status status =
          w.surely({kNoPeer, 0, at * 8, c.op, width, c.operand, c.compare, &old, 0});
      ASSERT_EQ(status, Status::ok) << "kAtomic: " << status_text(status);
      EXPECT_EQ(old & mask, kBefore & mask) << "kAtomic: the value before";
      // An operation on four bytes compares four, too.
      EXPECT_EQ(w.words[at], (c.after & mask) | (kBefore & ~mask))
          << "kAtomic: operation " << static_cast<int>(c.op) << ", " << int(width) << " bytes";
      at = at * 3 + 1 < kWords ? at * 3 + 1 : 0;
    }
  }
}

// Several at a time: each is carried out once, or not at all.
void atomics_happen_once(Bed& bed) {
  Words w(bed, kRemoteUpdate);
  constexpr size_t kMany = 100;
  uint64_t old[kMany];
  std::vector<std::pair<Status, uint64_t>> begun;
  for (size_t i = 0; i < kMany; i++) {
    RemoteAtomic atomic{w.to, w.handle, 8, AtomicOp::add, 8, 1, 0, &old[i], w.a.new_cookie()};
    old[i] = ~uint64_t{0};
    begun.emplace_back(w.a.atomic(atomic), atomic.cookie);
    if (i % 3 == 2) w.b.poll(bed.now_ns);
  }
  ASSERT_TRUE(bed.run([&] { return w.a.pending.empty(); })) << "rule 6: never done";
  bed.settle();
  uint64_t done = 0;
  std::set<uint64_t> seen;
  for (size_t i = 0; i < kMany; i++) {
    const auto [status, cookie] = begun[i];
    if ((status == Status::pending ? w.a.dones[cookie] : status) != Status::ok) continue;
    ++done;
    EXPECT_TRUE(seen.insert(old[i]).second) << "kAtomic: two found " << old[i];
    EXPECT_LT(old[i], kMany);
  }
  EXPECT_EQ(w.words[1], done) << "kAtomic: not as many happened as were told";
}

void bad_atomics(Bed& bed) {
  uint64_t old = 77;
  {
    Words w(bed, kRemoteRead | kRemoteWrite);
    EXPECT_NE(w.run({kNoPeer, 0, 0, AtomicOp::add, 8, 1, 0, &old, 0}), Status::ok)
        << "rule 9: the region does not give that right";
    EXPECT_EQ(w.words[0], 0u);
  }
  Words w(bed, kRemoteUpdate);
  for (const uint64_t offset : {sizeof(w.words), sizeof(w.words) - 4, size_t{4}, ~size_t{7}})
    EXPECT_NE(w.run({kNoPeer, 0, offset, AtomicOp::add, 8, 1, 0, &old, 0}), Status::ok)
        << "rule 9: offset " << offset;
  w.b.driver().dereg(w.region);
  EXPECT_NE(w.run({kNoPeer, 0, 0, AtomicOp::add, 8, 1, 0, &old, 0}), Status::ok)
      << "kAtomic: the key works after dereg()";
  for (const uint64_t word : w.words) EXPECT_EQ(word, 0u);
  EXPECT_EQ(old, 77u);
}

constexpr Case kAtomicTable[] = {
    {"undeclared_atomics_answer_unsupported", "rule 8", 0, false,
     undeclared_atomics_answer_unsupported},
    {"atomics_change_words", "kAtomic", kAtomic, false, atomics_change_words},
    {"atomics_happen_once", "kAtomic", kAtomic, false, atomics_happen_once},
    {"bad_atomics", "rule 9: rights and bounds", kAtomic, false, bad_atomics},
};

}  // namespace

const std::span<const Case> kAtomicCases = kAtomicTable;

}  // namespace torii::kit
