// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The conformance checklist of Portals 3.3, one group of tests for each item, over every way in
// which bytes can move; the comments cite the rule of the standard. Here: which descriptor takes a
// request, how much of it, and in what order (items 1-3, 5, 8, 9, 11, 17).
#include <algorithm>

#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

class PortalsMatching : public PortalsMemory {};

// --- 1: the first entry that matches and accepts wins ----------------------------------------

// Portals 3.3, address translation: entries are tried from the head; one without descriptor, with
// an inactive one, one that forbids the operation, or without room is passed over.
TEST_P(PortalsMatching, Item01FirstMatchWinsAndUnfitEntriesArePassedOver) {
  std::vector<Target> t;
  ptl_handle_me_t empty;
  ASSERT_EQ(PtlMEAttach(b.handle, kPortal, kAnyone, 1, 0, PTL_RETAIN, PTL_INS_AFTER, &empty),
            PTL_OK);
  t.push_back(target(0, 1000, PTL_MD_OP_PUT, 0));  // inactive from birth
  t.push_back(target(1, 1000, PTL_MD_OP_GET));     // other operation
  t.push_back(target(2, 10, PTL_MD_OP_PUT));       // no room
  t.push_back(target(3, 1000, PTL_MD_OP_PUT, 1));  // the first that fits, once
  t.push_back(target(4, 1000, PTL_MD_OP_PUT));
  const auto md = out(100);
  put(md, b);
  EXPECT_EQ(hit(t), 3);
  put(md, b);
  EXPECT_EQ(hit(t), 4) << "an exhausted descriptor is passed over";
  ASSERT_EQ(PtlGetRegion(md, 0, 50, b.id(), kPortal, 0, 1, 0), PTL_OK);
  EXPECT_EQ(hit(t), 1);
  PtlPutRegion(md, 0, 10, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 0);
  EXPECT_EQ(hit(t), 2);
  const auto swap = bind(a, make_md(source.data(), 8, 0, kInf, eq_a));
  PtlGetPut(swap, swap, b.id(), kPortal, 0, 1, 0, 0);
  EXPECT_EQ(hit(t), -1) << "a getput needs both permissions";
}

TEST_P(PortalsMatching, Item01MatchBitsIgnoreBitsAndSource) {
  const auto descriptor = make_md(memory.data(), 1000, PTL_MD_OP_PUT, kInf, eq_b);
  std::vector<Target> t;
  auto add = [&](ptl_process_id_t who, ptl_match_bits_t bits, ptl_match_bits_t ignore) {
    Target x;
    ASSERT_EQ(PtlMEAttach(b.handle, kPortal, who, bits, ignore, PTL_RETAIN, PTL_INS_AFTER, &x.me),
              PTL_OK);
    ASSERT_EQ(PtlMDAttach(x.me, descriptor, PTL_RETAIN, &x.md), PTL_OK);
    t.push_back(x);
  };
  add({a.id().nid, a.id().pid + 7}, 0, ~0ull);   // another process
  add({a.id().nid + 7, PTL_PID_ANY}, 0, ~0ull);  // another node
  add({PTL_NID_ANY, a.id().pid}, 0xf0, 0x0f);    // bits 0xf*
  add({a.id().nid, PTL_PID_ANY}, 0x12, 0);
  add(kAnyone, 0x8000000000000000, 0x1);
  const auto md = out(8);
  put(md, b, 0xf7);
  EXPECT_EQ(hit(t), 2);
  put(md, b, 0x12);
  EXPECT_EQ(hit(t), 3);
  put(md, b, 0x8000000000000001);
  EXPECT_EQ(hit(t), 4);
  put(md, b, 0x13);
  EXPECT_EQ(hit(t), -1);
}

// A list long enough for the index, with wildcards before and behind: same rule.
TEST_P(PortalsMatching, Item01LongListsKeepTheOrder) {
  std::vector<Target> t;
  const auto descriptor = make_md(memory.data(), 1000, PTL_MD_OP_PUT, 1, eq_b);
  for (unsigned i = 0; i < 60; ++i)
    t.push_back(make_target(b, descriptor, PTL_UNLINK, i % 3 ? 7 : 8, i % 5 ? 0 : ~0ull));
  const auto md = out(8);
  for (unsigned round = 0; round < 60; ++round) {
    const ptl_match_bits_t bits = round % 2 ? 7 : 8;
    int expected = -1;
    for (unsigned i = 0; i < 60 && expected < 0; ++i)
      if (t[i].md != PTL_INVALID_HANDLE && (i % 5 == 0 || bits == (i % 3 ? 7u : 8u)))
        expected = int(i);
    put(md, b, bits);
    ASSERT_EQ(hit(t), expected) << "round " << round;
    if (expected >= 0) t[size_t(expected)].md = PTL_INVALID_HANDLE;
  }
}

// --- 2: truncation ------------------------------------------------------------------------------

TEST_P(PortalsMatching, Item02TruncationToRoomAndToNothing) {
  target(0, 300, PTL_MD_OP_PUT | PTL_MD_TRUNCATE);
  const auto md = out(1000);
  put(md, b);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].rlength, 1000u);
  EXPECT_EQ(events_b[1].mlength, 300u);
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), 300), 0);
  EXPECT_EQ(memory[300], std::byte{0});
  put(md, b);  // the local offset is at the end now
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].mlength, 0u);
  EXPECT_EQ(events_b[1].offset, 300u);
}

// --- 3: the offset at the end, and behind it ------------------------------------------------

TEST_P(PortalsMatching, Item03OffsetAtTheEndAcceptsNothingBehindItRejects) {
  target(0, 100, PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_TRUNCATE);
  const auto md = out(10);
  put(md, b, 1, PTL_NO_ACK_REQ, 100);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].mlength, 0u);
  put(md, b, 1, PTL_NO_ACK_REQ, 101);
  ASSERT_EQ(at_b(), "");
  put(md, b, 1, PTL_NO_ACK_REQ, ~0ull);
  ASSERT_EQ(at_b(), "");
  PtlGet(md, b.id(), kPortal, 0, 1, 101);
  ASSERT_EQ(at_b(), "");
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 3u);
  put(md, b, 1, PTL_NO_ACK_REQ, 95);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].mlength, 5u);
}

// --- 5: MAX_SIZE --------------------------------------------------------------------------------

// Portals 3.3: inactive when strictly less than max_size remains after an operation.
TEST_P(PortalsMatching, Item05MaxSizeBoundary) {
  ptl_md_t block = make_md(memory.data(), 1000, PTL_MD_OP_PUT | PTL_MD_MAX_SIZE, kInf, eq_b);
  block.max_size = 400;
  make_target(b, block, PTL_UNLINK);
  const auto md = out(1000);
  auto send = [&](ptl_size_t bytes) {
    ASSERT_EQ(PtlPutRegion(md, 0, bytes, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 0), PTL_OK);
  };
  send(600);  // room == max_size: still active
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  send(1);
  ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
  EXPECT_EQ(events_b[1].offset, 600u);
}

TEST_P(PortalsMatching, Item05MaxSizeOfNothingStaysActive) {
  make_target(b,
              make_md(nullptr, 0, PTL_MD_OP_PUT | PTL_MD_MAX_SIZE | PTL_MD_TRUNCATE, kInf, eq_b));
  const auto md = out(100);
  for (int i = 0; i < 3; ++i) {
    put(md, b);
    ASSERT_EQ(at_b(), "PUT_START PUT_END");
  }
}

TEST_P(PortalsMatching, Item05MaxSizeDoesNotCountForRemoteOffsets) {
  ptl_md_t block = make_md(memory.data(), 1000,
                           PTL_MD_OP_PUT | PTL_MD_MAX_SIZE | PTL_MD_MANAGE_REMOTE, kInf, eq_b);
  block.max_size = 900;
  make_target(b, block, PTL_UNLINK);
  const auto md = out(500);
  for (int i = 0; i < 3; ++i) {
    put(md, b, 1, PTL_NO_ACK_REQ, 500);
    ASSERT_EQ(at_b(), "PUT_START PUT_END");
    EXPECT_EQ(events_b[1].offset, 500u);
  }
}

// --- 8: access control ------------------------------------------------------------------------

TEST_P(PortalsMatching, Item08AccessControlComparesFiveFields) {
  target(0, 10, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE);
  const auto md = out(10);
  ptl_jid_t jid;
  ASSERT_EQ(PtlGetJid(a.handle, &jid), PTL_OK);
  const ptl_process_id_t who = a.id();
  auto reaches = [&](ptl_ac_index_t index) {
    EXPECT_EQ(PtlPut(md, PTL_NO_ACK_REQ, b.id(), kPortal, index, 1, 0, 0), PTL_OK);
    return at_b() == "PUT_START PUT_END";
  };
  auto set = [&](ptl_process_id_t id, ptl_uid_t uid, ptl_jid_t job, ptl_pt_index_t pt) {
    ASSERT_EQ(PtlACEntry(b.handle, 5, id, uid, job, pt), PTL_OK);
  };
  EXPECT_TRUE(reaches(0)) << "at first every entry admits this user";
  EXPECT_TRUE(reaches(63));
  set(who, 1000, jid, kPortal);
  EXPECT_TRUE(reaches(5)) << "all five fields equal";
  set(kAnyone, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY);
  EXPECT_TRUE(reaches(5)) << "all five fields wild";
  set({who.nid + 1, who.pid}, 1000, jid, kPortal);
  EXPECT_FALSE(reaches(5));
  set({who.nid, who.pid + 1}, 1000, jid, kPortal);
  EXPECT_FALSE(reaches(5));
  set(who, 1001, jid, kPortal);
  EXPECT_FALSE(reaches(5));
  set(who, 1000, jid + 1, kPortal);
  EXPECT_FALSE(reaches(5));
  set(who, 1000, jid, kPortal + 1);
  EXPECT_FALSE(reaches(5));
  set(kAnyone, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_NONE);
  EXPECT_FALSE(reaches(5)) << "NONE admits nobody";
  EXPECT_FALSE(reaches(64)) << "first index outside the table";
  EXPECT_FALSE(reaches(~0u));
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 8u);
  EXPECT_EQ(b.status(PTL_SR_ACL_COUNT), 8u);
}

// --- 9: the drop count, by cause --------------------------------------------------------------

TEST_P(PortalsMatching, Item09EveryCauseOfADropCountsOne) {
  const auto md = out(10);
  uint64_t drops = 0;
  auto expect_drop = [&](const char* why) {
    at_b();
    EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), ++drops) << why;
    EXPECT_EQ(b.status(PTL_SR_DROP_LENGTH), drops * 10) << why;
  };
  auto send = [&](ptl_pt_index_t pt, ptl_ac_index_t ac) {
    EXPECT_EQ(PtlPut(md, PTL_ACK_REQ, b.id(), pt, ac, 1, 0, 0), PTL_OK);
  };
  send(kPortal, 0);
  expect_drop("empty list");
  send(64, 0);
  expect_drop("first index outside the portal table");
  send(256 + kPortal, 0);
  expect_drop("index that does not fit into a header");
  send(~0u, 0);
  expect_drop("largest index");
  send(kPortal, 64);
  expect_drop("first index outside the access control table");
  const Target t = target(0, 9, PTL_MD_OP_PUT);
  send(kPortal, 0);
  expect_drop("no room");
  ASSERT_EQ(PtlMEUnlink(t.me), PTL_OK);
  target(0, 10, PTL_MD_OP_GET);
  send(kPortal, 0);
  expect_drop("operation not allowed");
  ASSERT_EQ(PtlGet(md, b.id(), kPortal + 1, 0, 1, 0), PTL_OK);
  expect_drop("get without an entry");
  ASSERT_EQ(PtlGetPut(md, md, b.id(), kPortal + 1, 0, 1, 0, 0), PTL_OK);
  expect_drop("getput without an entry");
  EXPECT_EQ(b.counters.dropped, drops);
}

TEST_P(PortalsMatching, Item09RequestsToAClosedInterfaceAreDropped) {
  if (world.one_process()) GTEST_SKIP() << "the sender would be closed, too";
  target(0, 1000, PTL_MD_OP_PUT);
  const auto md = out(1000);
  ASSERT_EQ(put(md, b), PTL_OK);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  ASSERT_EQ(PtlNIFini(b.handle), PTL_OK);
  ASSERT_EQ(put(md, b), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END SEND_START SEND_END");
  EXPECT_EQ(b.counters.dropped, 1u);
}

// --- 11: order --------------------------------------------------------------------------------

// Portals 3.3: the order of START events at the target is that of the calls, for small and large
// messages mixed, whatever way their bytes take.
TEST_P(PortalsMatching, Item11StartsComeInTheOrderOfTheCalls) {
  constexpr unsigned kMessages = 24;
  const ptl_handle_eq_t queue = make_eq(b, 4 * kMessages);
  const ptl_handle_eq_t sends = make_eq(a, 4 * kMessages);
  make_target(b, make_md(memory.data(), 4000,
                         PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_TRUNCATE,
                         kInf, queue));
  const auto md = bind(a, make_md(source.data(), 4000, 0, kInf, sends));
  for (unsigned i = 0; i < kMessages; ++i)
    ASSERT_EQ(PtlPutRegion(md, 0, i % 3 ? 8 * i : 1500 + 100 * i, PTL_NO_ACK_REQ, b.id(), kPortal,
                           0, 1, 0, i),
              PTL_OK);
  world.settle();
  ptl_hdr_data_t next = 0;
  for (const ptl_event_t& e : drain(queue))
    if (e.type == PTL_EVENT_PUT_START) {
      EXPECT_EQ(e.hdr_data, next++);
    }
  EXPECT_EQ(next, kMessages);
  next = 0;
  for (const ptl_event_t& e : drain(sends))
    if (e.type == PTL_EVENT_SEND_START) {
      EXPECT_EQ(e.hdr_data, next++);
    }
  EXPECT_EQ(next, kMessages);
}

// --- 17: insertion ----------------------------------------------------------------------------

TEST_P(PortalsMatching, Item17InsertBeforeAndAfterAtTheEndsOfTheList) {
  std::vector<Target> t(5);
  const auto descriptor = make_md(memory.data(), 1000, PTL_MD_OP_PUT, 1, eq_b);
  auto arm = [&](Target& x) {
    ASSERT_EQ(PtlMDAttach(x.me, descriptor, PTL_UNLINK, &x.md), PTL_OK);
  };
  ASSERT_EQ(PtlMEAttach(b.handle, kPortal, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_AFTER, &t[2].me),
            PTL_OK);
  ASSERT_EQ(PtlMEInsert(t[2].me, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_BEFORE, &t[1].me), PTL_OK);
  ASSERT_EQ(PtlMEInsert(t[2].me, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_AFTER, &t[3].me), PTL_OK);
  ASSERT_EQ(PtlMEAttach(b.handle, kPortal, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_BEFORE, &t[0].me),
            PTL_OK);
  ASSERT_EQ(PtlMEAttach(b.handle, kPortal, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_AFTER, &t[4].me),
            PTL_OK);
  for (Target& x : t) arm(x);
  const auto md = out(8);
  for (int i = 0; i < 5; ++i) {
    put(md, b);
    EXPECT_EQ(hit(t), i);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, PortalsMatching, testing::ValuesIn(all_networks()),
                         network_name);

}  // namespace
}  // namespace torii
