// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Registration that costs much: kNeedsReg and RegisteredMemory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "conformance/kit.h"

namespace torii::kit {
namespace {

constexpr size_t kPages = 1 << 16;

// Anonymous pages, which can be given to other memory.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes), base_(map(nullptr, 0)) {}
  Pages(const Pages&) = delete;
  ~Pages() { munmap(base_, bytes_); }
  char* at(size_t offset) const { return static_cast<char*>(base_) + offset; }
  // Other memory, full of zeros.
  void replace(const Rig& rig) {
    map(base_, MAP_FIXED);
    if (rig.remap) rig.remap(base_, bytes_);
  }

 private:
  void* map(void* at, int flags) const {
    void* const base =
        mmap(at, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    EXPECT_NE(base, MAP_FAILED);
    return base;
  }
  size_t bytes_;
  void* base_;
};

void registration_makes_sense(Bed& bed) {
  Node& a = bed.node();
  const RegisteredMemory* const memory = a.driver().registered_memory();
  if (!memory) return;
  EXPECT_TRUE(a.has(kNeedsReg)) << "registered_memory() without kNeedsReg";
  EXPECT_GE(memory->once_min, 1u);
  char local[64] = {};
  Region region;
  const Status status = a.driver().reg(local, sizeof(local), kLocal, &region);
  if (!memory->local) {
    EXPECT_EQ(status, Status::unsupported) << "registers for itself what it does not need";
    if (status == Status::ok) a.driver().dereg(region);
    return;
  }
  EXPECT_TRUE(a.has(kReliable)) << "the link sends from memory of its own";
  ASSERT_EQ(status, Status::ok) << "RegisteredMemory::local: " << status_text(status);
  EXPECT_EQ(region.base, local);
  EXPECT_EQ(region.bytes, sizeof(local));
  EXPECT_TRUE(region.access & kLocal);
  a.driver().dereg(region);
}

// Registers until there is no room, or often enough.
void registrations_without_room_are_refused(Bed& bed) {
  Node& a = bed.node();
  const RegisteredMemory* const memory = a.driver().registered_memory();
  const uint32_t access = memory && memory->local ? kLocal : kRemoteRead;
  const Pages pages(kPages);
  std::vector<Region> regions;
  Status status = Status::ok;
  while (regions.size() < 300 && status == Status::ok) {
    Region region;
    status = a.driver().reg(pages.at(regions.size() * 64), 64, access, &region);
    if (status == Status::ok) regions.push_back(region);
  }
  ASSERT_FALSE(regions.empty()) << "no room for any registration: " << status_text(status);
  if (status != Status::ok) {
    EXPECT_EQ(status, Status::no_memory) << "no room, but the core does not learn it";
    Region again;
    a.driver().dereg(regions.back());
    EXPECT_EQ(a.driver().reg(pages.at(0), 64, access, &again), Status::ok) << "no room for ever";
    regions.back() = again;
  }
  for (Region& region : regions) a.driver().dereg(region);
}

// A peer's memory, reached from pages of a's that are registered for each transfer.
struct Reached {
  explicit Reached(Bed& bed_in)
      : bed(bed_in), a(bed.node()), b(bed.node()), to(a.connect(b)), pages(kPages) {
    bed.send(a, to, "hello");
    bed.settle();
    remote = pattern(3, kPages);
    EXPECT_EQ(b.driver().reg(remote.data(), kPages, kRemoteRead | kRemoteWrite, &region),
              Status::ok);
    const auto key = std::span(region.key).first(b.caps().key_bytes);
    EXPECT_EQ(a.driver().import(to, key, &handle), Status::ok);
  }
  ~Reached() {
    a.driver().drop(handle);
    b.driver().dereg(region);
  }
  // All of it, from or to the pages; what was registered for it is not any more.
  Status move(bool write) {
    const iovec piece{pages.at(0), kPages};
    Rma rma{to, handle, 0, &piece, 1, kPages, a.new_cookie()};
    Status status = Status::again;
    EXPECT_TRUE(bed.run([&] { return (status = a.move(write, rma)) != Status::again; }));
    if (status != Status::pending) return status;
    EXPECT_TRUE(bed.run([&] { return !a.pending.count(rma.cookie); })) << "rule 6: never done";
    return a.dones[rma.cookie];
  }

  Bed& bed;
  Node& a;
  Node& b;
  PeerId to;
  Pages pages;
  std::string remote;
  Region region;
  uint32_t handle = 0;
};

// Memory is reached as it is when it is registered, whatever was there before.
void memory_registered_again_is_reached(Bed& bed, bool write) {
  Reached r(bed);
  for (uint64_t round = 1; round <= 3; round++) {
    const std::string content = pattern(round, kPages);
    if (write) {
      std::memcpy(r.pages.at(0), content.data(), kPages);
    } else {
      r.remote = content;
    }
    const Status status = r.move(write);
    ASSERT_EQ(status, Status::ok) << status_text(status);
    ASSERT_TRUE(std::memcmp(r.pages.at(0), content.data(), kPages) == 0 && r.remote == content)
        << "round " << round << ": other memory was reached";
    r.pages.replace(bed.rig);
  }
}
void memory_registered_again_is_read(Bed& bed) { memory_registered_again_is_reached(bed, true); }
void memory_registered_again_is_written(Bed& bed) {
  memory_registered_again_is_reached(bed, false);
}

// After dereg() nobody writes to memory any more, neither a peer nor the own card.
void memory_is_left_alone_after_dereg(Bed& bed) {
  Reached r(bed);
  ASSERT_EQ(r.move(false), Status::ok);
  const std::string mine = pattern(8, kPages);
  std::memcpy(r.pages.at(0), mine.data(), kPages);
  bed.settle();
  EXPECT_TRUE(std::memcmp(r.pages.at(0), mine.data(), kPages) == 0) << "written by the own card";
  if (!r.a.has(kPut)) return;
  const iovec piece{r.pages.at(0), kPages};
  const Rma rma{r.to, r.handle, 0, &piece, 1, kPages, r.a.new_cookie()};
  EXPECT_TRUE(bed.run([&] { return r.a.move(true, rma) != Status::again; }));
  r.b.driver().dereg(r.region);
  const std::string theirs = pattern(9, kPages);
  r.remote = theirs;
  bed.settle();
  EXPECT_TRUE(r.remote == theirs) << "written by a peer";
  EXPECT_EQ(r.b.driver().reg(r.remote.data(), kPages, kRemoteRead, &r.region), Status::ok);
}

void changed_mappings_are_told(Bed& bed) {
  Node& a = bed.node();
  RegisteredMemory* const memory = a.driver().registered_memory();
  if (!memory || !memory->tells_changes) return;
  const uint32_t access = memory->local ? kLocal : kRemoteRead;
  Pages changed(kPages), same(kPages);
  Region regions[2];
  ASSERT_EQ(a.driver().reg(changed.at(100), 5000, access, &regions[0]), Status::ok);
  ASSERT_EQ(a.driver().reg(same.at(100), 5000, access, &regions[1]), Status::ok);
  bed.settle();
  EXPECT_TRUE(memory->current(regions[0])) << "nothing has changed";
  changed.replace(bed.rig);
  EXPECT_FALSE(memory->current(regions[0])) << "there is other memory";
  EXPECT_TRUE(memory->current(regions[1])) << "elsewhere";
  for (Region& region : regions) a.driver().dereg(region);
}

constexpr Case kRegisteredTable[] = {
    {"registration_makes_sense", "RegisteredMemory", 0, false, registration_makes_sense},
    {"registrations_without_room_are_refused", "kNeedsReg", kNeedsReg, false,
     registrations_without_room_are_refused},
    {"memory_registered_again_is_read", "kNeedsReg", kNeedsReg | kPut, false,
     memory_registered_again_is_read},
    {"memory_registered_again_is_written", "kNeedsReg", kNeedsReg | kGet, false,
     memory_registered_again_is_written},
    {"memory_is_left_alone_after_dereg", "kNeedsReg", kNeedsReg | kGet, false,
     memory_is_left_alone_after_dereg},
    {"changed_mappings_are_told", "RegisteredMemory::tells_changes", kNeedsReg, false,
     changed_mappings_are_told},
};

}  // namespace

const std::span<const Case> kRegisteredCases = kRegisteredTable;

}  // namespace torii::kit
