// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The conformance checklist of Portals 3.3, one group of tests for each item, over every way in
// which bytes can move; the comments cite the rule of the standard. Here: the lives of descriptors,
// entries, queues and handles, and the bytes themselves (items 4, 6, 7, 10, 12-15, 20). The other
// items: portals_matching_test (1-3, 5, 8, 9, 11, 17), portals_arguments_test (16, 19),
// portals_behaviour_test (18).
#include <algorithm>
#include <random>

#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

class PortalsConformance : public PortalsMemory {};

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
