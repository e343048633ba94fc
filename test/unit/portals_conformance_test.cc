// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The conformance checklist of Portals 3.3: one group of tests for each item; the comments cite
// the rule of the standard. Run over every way in which bytes can move.
#include <algorithm>
#include <random>

#include "unit/portals_kit.h"

namespace torii {
namespace {

constexpr int kInf = PTL_MD_THRESH_INF;

class PortalsConformance : public PortalsPair {
 protected:
  std::vector<std::byte> source = pattern(4000);
  std::vector<std::byte> memory = std::vector<std::byte>(16000);

  ptl_handle_md_t out(ptl_size_t bytes, int threshold = kInf, ptl_unlink_t unlink = PTL_RETAIN) {
    return bind(a, make_md(source.data(), bytes, 0, threshold, eq_a), unlink);
  }
  // A target of `bytes` bytes at `slot` * 1000 of the memory.
  Target target(unsigned slot, ptl_size_t bytes, unsigned options, int threshold = kInf,
                ptl_unlink_t unlink = PTL_RETAIN) {
    return make_target(b, make_md(memory.data() + slot * 1000, bytes, options, threshold, eq_b),
                       unlink);
  }
  // The descriptor that got the last put or get; -1: it was dropped.
  int hit(const std::vector<Target>& targets) {
    at_b();
    drain(eq_a);
    for (const ptl_event_t& e : events_b)
      for (size_t i = 0; i < targets.size(); ++i)
        if (e.md_handle == targets[i].md) return int(i);
    return -1;
  }
};

// --- 1: the first entry that matches and accepts wins ----------------------------------------

// Portals 3.3, address translation: entries are tried from the head; one without descriptor, with
// an inactive one, one that forbids the operation, or without room is passed over.
TEST_P(PortalsConformance, Item01FirstMatchWinsAndUnfitEntriesArePassedOver) {
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

TEST_P(PortalsConformance, Item01MatchBitsIgnoreBitsAndSource) {
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
TEST_P(PortalsConformance, Item01LongListsKeepTheOrder) {
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

TEST_P(PortalsConformance, Item02TruncationToRoomAndToNothing) {
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

TEST_P(PortalsConformance, Item03OffsetAtTheEndAcceptsNothingBehindItRejects) {
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

// --- 4: threshold arithmetic ----------------------------------------------------------------

// Portals 3.3: a put uses one operation, its ACK another; START and END are one.
TEST_P(PortalsConformance, Item04PutAndAckUseTwoOperations) {
  target(0, 1000, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE);
  const auto md = out(10, 3);
  EXPECT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
  at_a();
  EXPECT_EQ(put(md, b), PTL_OK);
  EXPECT_EQ(put(md, b), PTL_MD_INVALID) << "inactive descriptors begin nothing";
  EXPECT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_MD_INVALID);
  EXPECT_EQ(PtlGetPut(md, md, b.id(), kPortal, 0, 1, 0, 0), PTL_MD_INVALID);
}

// An acknowledgement is delivered even if the put used the last operation.
TEST_P(PortalsConformance, Item04AckReachesAnExhaustedDescriptor) {
  target(0, 1000, PTL_MD_OP_PUT);
  out(10, 1);
  const auto md = out(10, 1);
  put(md, b, 1, PTL_ACK_REQ);
  const std::string kinds = at_a();
  EXPECT_NE(kinds.find("ACK"), std::string::npos) << kinds;
  EXPECT_EQ(put(md, b), PTL_MD_INVALID);
}

// Portals 3.3: a get uses nothing when it is begun, its reply one.
TEST_P(PortalsConformance, Item04GetUsesOneOperationAtItsReply) {
  target(0, 1000, PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE);
  const auto md = out(10, 2);
  EXPECT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_OK);
  at_a();
  ptl_md_t now{};
  ASSERT_EQ(PtlMDUpdate(md, &now, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(now.threshold, 1);
  EXPECT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_OK);
  at_a();
  EXPECT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_MD_INVALID);
}

TEST_P(PortalsConformance, Item04GetPutUsesOneOperationOfEachDescriptor) {
  target(0, 1000, PTL_MD_OP_GET | PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, 1);
  const auto put_md = out(10, 1);
  const auto get_md = bind(a, make_md(memory.data() + 5000, 10, 0, 1, eq_a));
  EXPECT_EQ(PtlGetPut(get_md, put_md, b.id(), kPortal, 0, 1, 0, 0), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END REPLY_START REPLY_END");
  EXPECT_EQ(put(put_md, b), PTL_MD_INVALID);
  EXPECT_EQ(put(get_md, b), PTL_MD_INVALID);
  ASSERT_EQ(at_b(), "GETPUT_START GETPUT_END");
  const auto more = out(10);
  put(more, b);
  ASSERT_EQ(at_b(), "") << "the target's one operation is used";
}

// One descriptor as source of a put and, attached, as target of the get that answers it (the long
// protocol of MPI implementations): SEND and GET use up its two operations.
TEST_P(PortalsConformance, Item04OneDescriptorInTwoRoles) {
  ptl_handle_me_t me;
  ptl_handle_md_t md;
  ASSERT_EQ(PtlMEAttach(a.handle, 7, kAnyone, 0xc00c1e, 0, PTL_UNLINK, PTL_INS_AFTER, &me), PTL_OK);
  ASSERT_EQ(PtlMDAttach(me, make_md(source.data(), 500, PTL_MD_OP_GET, 2, eq_a), PTL_UNLINK, &md),
            PTL_OK);
  target(0, 0, PTL_MD_OP_PUT | PTL_MD_TRUNCATE);
  ASSERT_EQ(put(md, b, 1, PTL_NO_ACK_REQ, 0, 0xc00c1e), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END");
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  const auto sink = bind(b, make_md(memory.data() + 2000, 500, 0, 1, eq_b), PTL_UNLINK);
  ASSERT_EQ(PtlGet(sink, a.id(), 7, 0, events_b[1].hdr_data, 0), PTL_OK);
  ASSERT_EQ(at_a(), "GET_START GET_END UNLINK");
  ASSERT_EQ(at_b(), "REPLY_START REPLY_END UNLINK");
  EXPECT_EQ(std::memcmp(memory.data() + 2000, source.data(), 500), 0);
  EXPECT_EQ(PtlMEUnlink(me), PTL_ME_INVALID);
}

// --- 5: MAX_SIZE --------------------------------------------------------------------------------

// Portals 3.3: inactive when strictly less than max_size remains after an operation.
TEST_P(PortalsConformance, Item05MaxSizeBoundary) {
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

TEST_P(PortalsConformance, Item05MaxSizeOfNothingStaysActive) {
  make_target(b,
              make_md(nullptr, 0, PTL_MD_OP_PUT | PTL_MD_MAX_SIZE | PTL_MD_TRUNCATE, kInf, eq_b));
  const auto md = out(100);
  for (int i = 0; i < 3; ++i) {
    put(md, b);
    ASSERT_EQ(at_b(), "PUT_START PUT_END");
  }
}

TEST_P(PortalsConformance, Item05MaxSizeDoesNotCountForRemoteOffsets) {
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

// --- 6: UNLINK once, after the last END -------------------------------------------------------

TEST_P(PortalsConformance, Item06UnlinkComesOnceAfterAllOperationsUnderWay) {
  const Target t = target(0, 12000, PTL_MD_OP_PUT, 3, PTL_UNLINK);
  const auto md = out(4000);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(put(md, b), PTL_OK);
  const std::string kinds = at_b();
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 'U') - 6, 1) << kinds;  // PUT has one
  EXPECT_EQ(events_b.size(), 7u);
  EXPECT_EQ(events_b.back().type, PTL_EVENT_UNLINK);
  EXPECT_EQ(PtlMDUnlink(t.md), PTL_MD_INVALID);
  EXPECT_EQ(PtlMEUnlink(t.me), PTL_ME_INVALID);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(std::memcmp(memory.data() + i * 4000, source.data(), 4000), 0);
}

TEST_P(PortalsConformance, Item06ExplicitUnlinkHasNoEvent) {
  const Target t = target(0, 100, PTL_MD_OP_PUT, kInf, PTL_UNLINK);
  EXPECT_EQ(PtlMDUnlink(t.md), PTL_OK);
  EXPECT_EQ(PtlMEUnlink(t.me), PTL_ME_INVALID) << "an UNLINK entry goes with its descriptor";
  const Target u = target(0, 100, PTL_MD_OP_PUT, kInf, PTL_UNLINK);
  EXPECT_EQ(PtlMEUnlink(u.me), PTL_OK);
  EXPECT_EQ(PtlMDUnlink(u.md), PTL_MD_INVALID);
  ASSERT_EQ(at_b(), "");
}

TEST_P(PortalsConformance, Item06ThresholdZeroDoesNotUnlink) {
  const Target t = target(0, 100, PTL_MD_OP_PUT, 0, PTL_UNLINK);
  put(out(10), b);
  ASSERT_EQ(at_b(), "");
  EXPECT_EQ(PtlMEUnlink(t.me), PTL_OK);
}

// --- 7: RETAIN entries ----------------------------------------------------------------------

TEST_P(PortalsConformance, Item07RetainEntryTakesAnotherDescriptor) {
  Target t;
  ASSERT_EQ(PtlMEAttach(b.handle, kPortal, kAnyone, 1, 0, PTL_RETAIN, PTL_INS_AFTER, &t.me),
            PTL_OK);
  const auto descriptor = make_md(memory.data(), 100, PTL_MD_OP_PUT, 1, eq_b);
  const auto md = out(10);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(PtlMDAttach(t.me, descriptor, PTL_UNLINK, &t.md), PTL_OK);
    EXPECT_EQ(PtlMDAttach(t.me, descriptor, PTL_UNLINK, nullptr), PTL_ME_IN_USE);
    put(md, b);
    ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
    put(md, b);
    ASSERT_EQ(at_b(), "") << "an empty entry is passed over";
  }
}

// The entry takes a RETAIN descriptor along: nothing is left behind.
TEST_P(PortalsConformance, Item07EntryTakesRetainDescriptorAlong) {
  const Target t = target(0, 100, PTL_MD_OP_PUT);
  EXPECT_EQ(PtlMEUnlink(t.me), PTL_OK);
  EXPECT_EQ(PtlMDUnlink(t.md), PTL_MD_INVALID);
  EXPECT_EQ(b.status(PTL_SR_MDS_CUR), 0u);
}

// --- 8: access control ------------------------------------------------------------------------

TEST_P(PortalsConformance, Item08AccessControlComparesFiveFields) {
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

TEST_P(PortalsConformance, Item09EveryCauseOfADropCountsOne) {
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

TEST_P(PortalsConformance, Item09RequestsToAClosedInterfaceAreDropped) {
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

// --- 10: MDUpdate and operations between START and END ------------------------------------------

TEST_P(PortalsConformance, Item10UpdateFailsUntilEveryEventHasBeenTaken) {
  const Target t = target(0, 8000, PTL_MD_OP_PUT);
  ptl_md_t fresh = make_md(memory.data(), 8000, PTL_MD_OP_PUT, kInf, eq_b);
  put(out(4000), b);
  // Whether the START is here, the END is here, or both are still to come: not empty.
  for (int rounds = 0;; ++rounds) {
    ASSERT_LT(rounds, 1000);
    world.step();
    if (PtlMDUpdate(t.md, nullptr, &fresh, eq_b) == PTL_MD_NO_UPDATE) break;
    ASSERT_EQ(b.status(PTL_SR_RECV_COUNT), 0u) << "updated after the match";
  }
  ptl_event_t event;
  ASSERT_EQ(PtlEQGet(eq_b, &event), PTL_OK);
  EXPECT_EQ(event.type, PTL_EVENT_PUT_START);
  // The queue may look empty now, but END is promised.
  EXPECT_EQ(PtlMDUpdate(t.md, nullptr, &fresh, eq_b), PTL_MD_NO_UPDATE);
  int rounds = 0;
  while (PtlEQGet(eq_b, &event) == PTL_EQ_EMPTY) {
    EXPECT_EQ(PtlMDUpdate(t.md, nullptr, &fresh, eq_b), PTL_MD_NO_UPDATE);
    world.step();
    ASSERT_LT(++rounds, 1000);
  }
  EXPECT_EQ(event.type, PTL_EVENT_PUT_END);
  EXPECT_EQ(PtlMDUpdate(t.md, nullptr, &fresh, eq_b), PTL_OK);
}

// The queue that is tested need not be the descriptor's.
TEST_P(PortalsConformance, Item10UpdateArmsAReceiveIfTheUnexpectedQueueIsEmpty) {
  const ptl_handle_eq_t unexpected = make_eq(b);
  const Target receive = target(0, 1000, PTL_MD_OP_PUT, 0, PTL_UNLINK);
  const Target overflow =
      make_target(b, make_md(memory.data() + 8000, 1000, PTL_MD_OP_PUT, kInf, unexpected));
  ptl_md_t armed = make_md(memory.data(), 1000, PTL_MD_OP_PUT, 1, eq_b);
  const auto md = out(100);
  put(md, b);
  world.settle();
  EXPECT_EQ(PtlMDUpdate(receive.md, nullptr, &armed, unexpected), PTL_MD_NO_UPDATE);
  EXPECT_EQ(kinds(drain(unexpected)), "PUT_START PUT_END");
  EXPECT_EQ(PtlMDUpdate(receive.md, nullptr, &armed, unexpected), PTL_OK);
  put(md, b);
  ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
  EXPECT_EQ(events_b[0].md_handle, receive.md);
  EXPECT_NE(events_b[0].md_handle, overflow.md);
}

// An operation between START and END on the queue counts, whichever descriptor it uses.
TEST_P(PortalsConformance, Item10UpdateWaitsForTheEndOfAnotherDescriptorsOperation) {
  const ptl_handle_eq_t unexpected = make_eq(b);
  const Target receive = target(0, 1000, PTL_MD_OP_PUT, 0, PTL_UNLINK);
  make_target(b, make_md(memory.data() + 8000, 8000, PTL_MD_OP_PUT, kInf, unexpected));
  ptl_md_t armed = make_md(memory.data(), 1000, PTL_MD_OP_PUT, 1, eq_b);
  put(out(4000), b);
  ptl_event_t event;
  for (int rounds = 0; PtlEQGet(unexpected, &event) == PTL_EQ_EMPTY; ++rounds) {
    ASSERT_LT(rounds, 1000);
    world.step();
  }
  ASSERT_EQ(event.type, PTL_EVENT_PUT_START);
  bool ended = false;
  for (int rounds = 0; !ended; ++rounds) {
    ASSERT_LT(rounds, 1000);
    ASSERT_EQ(PtlMDUpdate(receive.md, nullptr, &armed, unexpected), PTL_MD_NO_UPDATE);
    ended = PtlEQGet(unexpected, &event) == PTL_OK;
    world.step();
  }
  EXPECT_EQ(event.type, PTL_EVENT_PUT_END);
  EXPECT_EQ(PtlMDUpdate(receive.md, nullptr, &armed, unexpected), PTL_OK);
}

// --- 11: order --------------------------------------------------------------------------------

// Portals 3.3: the order of START events at the target is that of the calls, for small and large
// messages mixed, whatever way their bytes take.
TEST_P(PortalsConformance, Item11StartsComeInTheOrderOfTheCalls) {
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

// --- 12: event queue overflow -----------------------------------------------------------------

TEST_P(PortalsConformance, Item12OverflowIsSaidOnceAndLosesNoData) {
  const ptl_handle_eq_t small = make_eq(b, 4);
  std::vector<std::byte> to(10 * 8);
  make_target(b, make_md(to.data(), to.size(), PTL_MD_OP_PUT, kInf, small));
  const auto md = out(8);
  for (int i = 0; i < 10; ++i) put(md, b);
  world.settle();
  ptl_event_t event;
  EXPECT_EQ(PtlEQGet(small, &event), PTL_EQ_DROPPED);
  EXPECT_EQ(event.type, PTL_EVENT_PUT_START) << "the event is valid";
  EXPECT_EQ(event.mlength, 8u);
  const auto rest = drain(small);
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(std::count_if(rest.begin(), rest.end(),
                          [](const ptl_event_t& e) { return e.type == PTL_EVENT_PUT_END; }),
            2);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(std::memcmp(&to[size_t(i) * 8], source.data(), 8), 0);
  EXPECT_EQ(b.status(PTL_SR_EVENTS_LOST), 16u);
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 0u);
  // And then it works as before.
  make_target(b, make_md(to.data(), to.size(), PTL_MD_OP_PUT, kInf, small), PTL_RETAIN, 2);
  put(md, b, 2);
  world.settle();
  EXPECT_EQ(kinds(drain(small)), "PUT_START PUT_END");
}

// The END of an operation that had its START is never lost.
TEST_P(PortalsConformance, Item12EndAndUnlinkHaveReservedPlaces) {
  const ptl_handle_eq_t small = make_eq(b, 4);
  const auto large = make_md(memory.data(), 4000, PTL_MD_OP_PUT, 1, small);
  make_target(b, large, PTL_UNLINK);
  make_target(b, make_md(memory.data() + 8000, 8000, PTL_MD_OP_PUT, kInf, small));
  const auto md = out(4000);
  put(md, b);
  for (int i = 0; i < 10; ++i) PtlPutRegion(md, 0, 1, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 0);
  world.settle();
  ptl_event_t event;
  std::string all;
  while (PtlEQGet(small, &event) != PTL_EQ_EMPTY) all += kinds({event}) + ' ';
  EXPECT_EQ(all, "PUT_START PUT_END UNLINK ");
}

// --- 13: generations ---------------------------------------------------------------------------

TEST_P(PortalsConformance, Item13LateAcknowledgementAfterUnlinkIsHarmless) {
  target(0, 10, PTL_MD_OP_PUT);
  const auto md = out(10);
  ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
  int rc;
  while ((rc = PtlMDUnlink(md)) == PTL_MD_IN_USE) world.step();
  ASSERT_EQ(rc, PTL_OK);
  const auto reused = out(10);  // takes the same slot
  EXPECT_NE(reused, md);
  const std::string kinds = at_a();
  // The ack may have come before the unlink, but never to the descriptor that took the place.
  for (const ptl_event_t& e : events_a) EXPECT_NE(e.md_handle, reused);
  EXPECT_TRUE(kinds == "SEND_START SEND_END" || kinds.find("ACK") != std::string::npos);
  ptl_md_t now{};
  ASSERT_EQ(PtlMDUpdate(reused, &now, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(PtlMDUpdate(md, &now, nullptr, PTL_EQ_NONE), PTL_MD_INVALID);
}

// While a reply may still write into the memory the descriptor cannot be unlinked.
TEST_P(PortalsConformance, Item13GetKeepsItsDescriptorUntilTheReply) {
  target(0, 4000, PTL_MD_OP_GET);
  const auto md = bind(a, make_md(memory.data() + 8000, 4000, 0, kInf, eq_a));
  ASSERT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_OK);
  int refused = 0;
  while (PtlMDUnlink(md) == PTL_MD_IN_USE) {
    ++refused;
    world.step();
    ASSERT_LT(refused, 1000);
  }
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END") << "unlinked before the reply";
}

TEST_P(PortalsConformance, Item13HandlesOfThePastAreRecognised) {
  std::vector<ptl_handle_any_t> past;
  for (int i = 0; i < 1000; ++i) {
    const Target t = target(0, 10, PTL_MD_OP_PUT);
    ASSERT_EQ(PtlMEUnlink(t.me), PTL_OK);
    past.push_back(t.me);
    past.push_back(t.md);
  }
  const Target alive = target(0, 10, PTL_MD_OP_PUT);
  for (ptl_handle_any_t handle : past) {
    EXPECT_NE(handle, alive.me);
    EXPECT_NE(handle, alive.md);
    EXPECT_EQ(PtlMEUnlink(handle), PTL_ME_INVALID);
    EXPECT_EQ(PtlMDUnlink(handle), PTL_MD_INVALID);
  }
}

// --- 14: nothing, at null ---------------------------------------------------------------------

TEST_P(PortalsConformance, Item14ZeroLengthAndNullStart) {
  make_target(b, make_md(nullptr, 0, PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_TRUNCATE, kInf, eq_b));
  const auto nothing = bind(a, make_md(nullptr, 0, 0, kInf, eq_a));
  const auto pieces = bind(a, make_md(nullptr, 0, PTL_MD_IOVEC, kInf, eq_a));
  for (auto md : {nothing, pieces, out(100)}) {
    ASSERT_EQ(put(md, b), PTL_OK);
    ASSERT_EQ(at_b(), "PUT_START PUT_END");
    EXPECT_EQ(events_b[1].mlength, 0u);
    ASSERT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_OK);
    ASSERT_EQ(at_b(), "GET_START GET_END");
    EXPECT_EQ(events_b[1].mlength, 0u);
  }
}

// --- 15: iovec ---------------------------------------------------------------------------------

TEST_P(PortalsConformance, Item15PiecesOnBothSidesWithArbitrarySplits) {
  std::mt19937 random(42);
  auto split = [&](std::byte* base, size_t bytes) {
    std::vector<ptl_md_iovec_t> list;
    for (size_t at = 0; at < bytes;) {
      const size_t n = random() % 4 == 0 ? 0 : std::min<size_t>(1 + random() % 700, bytes - at);
      list.push_back({n ? base + at : nullptr, n});
      at += n;
    }
    return list;
  };
  for (int round = 0; round < 20; ++round) {
    const size_t bytes = 1 + random() % 3000;
    std::vector<std::byte> from = pattern(bytes, unsigned(round)), to(bytes + 500), back(bytes);
    auto from_list = split(from.data(), bytes), to_list = split(to.data(), to.size()),
         back_list = split(back.data(), bytes);
    ptl_md_t target_md =
        make_md(to_list.data(), to_list.size(),
                PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_IOVEC, kInf, eq_b);
    const Target t = make_target(b, target_md);
    const auto put_md =
        bind(a, make_md(from_list.data(), from_list.size(), PTL_MD_IOVEC, kInf, eq_a));
    const auto get_md =
        bind(a, make_md(back_list.data(), back_list.size(), PTL_MD_IOVEC, kInf, eq_a));
    // The lists were copied: the library does not look at them again.
    std::fill(to_list.begin(), to_list.end(), ptl_md_iovec_t{nullptr, 1});
    std::fill(from_list.begin(), from_list.end(), ptl_md_iovec_t{nullptr, 1});
    std::fill(back_list.begin(), back_list.end(), ptl_md_iovec_t{nullptr, 1});
    const size_t offset = random() % 500, first = random() % bytes;
    ASSERT_EQ(PtlPutRegion(put_md, first, bytes - first, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1,
                           offset, 0),
              PTL_OK);
    ASSERT_EQ(at_b(), "PUT_START PUT_END");
    ASSERT_EQ(std::memcmp(to.data() + offset, from.data() + first, bytes - first), 0);
    ASSERT_EQ(PtlGetRegion(get_md, first, bytes - first, b.id(), kPortal, 0, 1, offset), PTL_OK);
    ASSERT_EQ(at_b(), "GET_START GET_END");
    ASSERT_EQ(std::memcmp(back.data() + first, from.data() + first, bytes - first), 0);
    at_a();
    ASSERT_EQ(PtlMDUnlink(put_md), PTL_OK);
    ASSERT_EQ(PtlMDUnlink(get_md), PTL_OK);
    ASSERT_EQ(PtlMEUnlink(t.me), PTL_OK);
  }
}

// --- 17: insertion ----------------------------------------------------------------------------

TEST_P(PortalsConformance, Item17InsertBeforeAndAfterAtTheEndsOfTheList) {
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

// --- 20: getput is atomic ---------------------------------------------------------------------

// Processes swap tokens with one word; no token may be lost or doubled.
TEST_P(PortalsConformance, Item20GetPutIsAtomicUnderContention) {
  World many(GetParam(), 5);
  uint64_t word = 1000;
  ptl_handle_eq_t eq = make_eq(many.node(0), 4096);
  make_target(many.node(0),
              make_md(&word, 8, PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, kInf, eq));
  constexpr unsigned kRounds = 40;
  struct Player {
    uint64_t token, fetched;
    ptl_handle_eq_t eq;
    ptl_handle_md_t give, take;
  };
  std::vector<Player> players(4);
  for (unsigned p = 0; p < 4; ++p) {
    Player& x = players[p];
    Node& node = many.node(p + 1);
    x.token = p + 1;
    x.eq = make_eq(node);
    x.give = bind(node, make_md(&x.token, 8, PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE,
                                kInf, x.eq));
    x.take = bind(node, make_md(&x.fetched, 8, 0, kInf, x.eq));
  }
  for (unsigned round = 0; round < kRounds; ++round) {
    for (Player& x : players)
      ASSERT_EQ(PtlGetPut(x.take, x.give, many.node(0).id(), kPortal, 0, 1, 0, 0), PTL_OK);
    many.settle();
    for (Player& x : players) {
      ASSERT_EQ(kinds(drain(x.eq)), "REPLY_START REPLY_END");
      x.token = x.fetched;
    }
  }
  std::vector<uint64_t> tokens{word};
  for (const Player& x : players) tokens.push_back(x.token);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(tokens, (std::vector<uint64_t>{1, 2, 3, 4, 1000}));
}

INSTANTIATE_TEST_SUITE_P(Networks, PortalsConformance, testing::ValuesIn(all_networks()),
                         network_name);

}  // namespace
}  // namespace torii
