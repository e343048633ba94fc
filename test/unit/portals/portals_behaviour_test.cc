// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Behaviour between the calls: updates and posts, polling and waiting, event handlers,
// flow control, death of a process, closing with operations under way.
#include <algorithm>

#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

class PortalsBehaviour : public PortalsPair {
 protected:
  std::vector<std::byte> source = pattern(4000);
  std::vector<std::byte> memory = std::vector<std::byte>(16000);
  ptl_handle_md_t out(ptl_size_t bytes) {
    return bind(a, make_md(source.data(), bytes, 0, kInf, eq_a));
  }
};

// --- self ---------------------------------------------------------------------------------------

// Conformance checklist 18: a process is a target of its own (over every driver).
TEST_P(PortalsBehaviour, Item18SendsToSelf) {
  make_target(a, make_md(memory.data(), 8000, PTL_MD_OP_PUT | PTL_MD_OP_GET, kInf, eq_a));
  ASSERT_EQ(put(out(4000), a, 1, PTL_ACK_REQ), PTL_OK);
  std::string kinds = at_a();
  for (const char* kind : {"SEND_START", "SEND_END", "PUT_START", "PUT_END", "ACK"})
    EXPECT_NE(kinds.find(kind), std::string::npos) << kind << " in " << kinds;
  EXPECT_EQ(events_a.size(), 5u);
  const auto back = bind(a, make_md(memory.data() + 8000, 4000, 0, kInf, eq_a));
  ASSERT_EQ(PtlMDUnlink(back), PTL_OK);
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), 4000), 0);
}

// --- PtlMDUpdate --------------------------------------------------------------------------------

TEST_P(PortalsBehaviour, UpdateReturnsOldValuesAndRearms) {
  ptl_md_t first = make_md(memory.data(), 100, PTL_MD_OP_PUT, 3, eq_b);
  const Target t = make_target(b, first);
  const auto md = out(60);
  put(md, b);
  at_b();
  ptl_md_t old{}, fresh = make_md(memory.data() + 1000, 200, PTL_MD_OP_PUT, 1, eq_b);
  fresh.user_ptr = this;
  ASSERT_EQ(PtlMDUpdate(t.md, &old, &fresh, eq_b), PTL_OK);
  EXPECT_EQ(old.start, memory.data());
  EXPECT_EQ(old.length, 100u);
  EXPECT_EQ(old.threshold, 2);
  put(md, b);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].offset, 0u) << "the local offset begins again";
  EXPECT_EQ(events_b[1].md.user_ptr, this);
  put(md, b);
  ASSERT_EQ(at_b(), "") << "exhausted";
  ASSERT_EQ(PtlMDUpdate(t.md, nullptr, &fresh, PTL_EQ_NONE), PTL_OK);
  put(md, b);
  ASSERT_EQ(at_b(), "PUT_START PUT_END") << "armed again";
  fresh.threshold = 0;
  ASSERT_EQ(PtlMDUpdate(t.md, nullptr, &fresh, PTL_EQ_NONE), PTL_OK);
  put(md, b);
  ASSERT_EQ(at_b(), "");
}

// One structure may be both; a refused update still returns the old values.
TEST_P(PortalsBehaviour, UpdateInPlaceAndRefused) {
  const Target t = make_target(b, make_md(memory.data(), 100, PTL_MD_OP_PUT, 3, eq_b));
  ptl_md_t both = make_md(memory.data() + 1, 99, PTL_MD_OP_PUT, 7, eq_b);
  ASSERT_EQ(PtlMDUpdate(t.md, &both, &both, eq_b), PTL_OK);
  EXPECT_EQ(both.length, 100u);
  ptl_md_t now{};
  ASSERT_EQ(PtlMDUpdate(t.md, &now, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(now.length, 99u);
  EXPECT_EQ(now.threshold, 7);
  put(out(10), b);
  world.settle();
  now = {};
  EXPECT_EQ(PtlMDUpdate(t.md, &now, &both, eq_b), PTL_MD_NO_UPDATE);
  EXPECT_EQ(now.length, 99u);
  EXPECT_EQ(now.threshold, 6);
}

TEST_P(PortalsBehaviour, UpdateReadsPieces) {
  ptl_md_iovec_t list[2] = {{memory.data(), 10}, {memory.data() + 100, 20}}, room[3] = {};
  const auto md = bind(a, make_md(list, 2, PTL_MD_IOVEC, kInf, eq_a));
  ptl_md_t old = make_md(room, 3, PTL_MD_IOVEC, 0, PTL_EQ_NONE);
  ASSERT_EQ(PtlMDUpdate(md, &old, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(old.length, 2u);
  EXPECT_EQ(room[1].iov_base, memory.data() + 100);
  EXPECT_EQ(room[1].iov_len, 20u);
  old = make_md(room, 1, PTL_MD_IOVEC, 0, PTL_EQ_NONE);
  room[0] = {};
  ASSERT_EQ(PtlMDUpdate(md, &old, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(room[0].iov_len, 0u) << "too small an array is left alone";
  EXPECT_EQ(old.length, 2u);
}

// Without a test queue the update happens at once; the operation under way keeps its memory.
TEST_P(PortalsBehaviour, UnconditionalUpdateDuringAnOperation) {
  ptl_md_iovec_t list[2] = {{memory.data(), 2000}, {memory.data() + 3000, 2000}};
  const Target t =
      make_target(b, make_md(list, 2, PTL_MD_OP_PUT | PTL_MD_IOVEC, 1, eq_b), PTL_UNLINK);
  put(out(4000), b);
  while (b.status(PTL_SR_RECV_COUNT) == 0) world.step();
  ptl_md_t fresh = make_md(memory.data() + 8000, 4000, PTL_MD_OP_PUT, 5, eq_b);
  const int rc = PtlMDUpdate(t.md, nullptr, &fresh, PTL_EQ_NONE);
  const std::string kinds = at_b();
  if (rc == PTL_OK) {  // else the operation was over, and the descriptor with it
    EXPECT_EQ(kinds, "PUT_START PUT_END");
    EXPECT_EQ(PtlMDUnlink(t.md), PTL_OK);
  } else {
    EXPECT_EQ(rc, PTL_MD_INVALID);
    EXPECT_EQ(kinds, "PUT_START PUT_END UNLINK");
  }
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), 2000), 0);
  EXPECT_EQ(std::memcmp(memory.data() + 3000, source.data() + 2000, 2000), 0);
}

// --- PtlMEMDPost --------------------------------------------------------------------------------

TEST_P(PortalsBehaviour, PostIsAllOrNothing) {
  const Target overflow = make_target(b, make_md(memory.data(), 1000, PTL_MD_OP_PUT, kInf, eq_b));
  const ptl_handle_eq_t queue = make_eq(b);
  const ptl_md_t receive = make_md(memory.data() + 8000, 100, PTL_MD_OP_PUT, 1, queue);
  ptl_handle_me_t me = 0;
  ptl_handle_md_t md = 0;
  auto post = [&] {
    return PtlMEMDPost(b.handle, overflow.me, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_BEFORE, receive,
                       PTL_UNLINK, &me, &md, eq_b);
  };
  const auto from = out(10);
  put(from, b);
  world.settle();
  EXPECT_EQ(post(), PTL_MD_NO_UPDATE);
  EXPECT_EQ(b.status(PTL_SR_MES_CUR), 1u);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  ASSERT_EQ(post(), PTL_OK);
  put(from, b);
  ASSERT_EQ(at_b(), "");
  const auto events = drain(queue);
  EXPECT_EQ(kinds(events), "PUT_START PUT_END UNLINK");
  EXPECT_EQ(events[0].md_handle, md);
}

// A request that came before the post was made can never slip in between test and post: progress
// happens only when the test has failed.
TEST_P(PortalsBehaviour, PostSeesWhatIsUnderWay) {
  const Target overflow = make_target(b, make_md(memory.data(), 8000, PTL_MD_OP_PUT, kInf, eq_b));
  const ptl_md_t receive = make_md(memory.data() + 8000, 4000, PTL_MD_OP_PUT, 1, make_eq(b));
  ptl_handle_me_t me;
  put(out(4000), b);
  while (b.status(PTL_SR_RECV_COUNT) == 0) world.step();
  drain(eq_b);
  int rounds = 0;
  while (PtlMEMDPost(b.handle, overflow.me, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_BEFORE, receive,
                     PTL_UNLINK, &me, nullptr, eq_b) == PTL_MD_NO_UPDATE) {
    drain(eq_b);
    world.step();
    ASSERT_LT(++rounds, 1000);
  }
  ASSERT_EQ(at_b(), "") << "posted before the END";
}

// --- polling ------------------------------------------------------------------------------------

TEST_P(PortalsBehaviour, PollServesAllQueuesInTurn) {
  ptl_handle_eq_t queues[3] = {make_eq(b), make_eq(b), make_eq(b)};
  for (unsigned i = 0; i < 3; ++i)
    make_target(b, make_md(memory.data(), 1000, PTL_MD_OP_PUT, kInf, queues[i]), PTL_RETAIN, i + 1);
  const auto md = out(8);
  for (unsigned i = 0; i < 12; ++i) put(md, b, i % 3 + 1);
  world.settle();
  unsigned count[3] = {};
  ptl_event_t event;
  int which = -1;
  for (int i = 0; i < 9; ++i) {
    ASSERT_EQ(PtlEQPoll(queues, 3, 0, &event, &which), PTL_OK);
    ++count[which];
    EXPECT_EQ(event.match_bits, ptl_match_bits_t(which + 1));
  }
  for (unsigned n : count) EXPECT_EQ(n, 3u) << "no queue starves";
}

TEST_P(PortalsBehaviour, PollWaitsForTheTimeAndWaitForTheEvent) {
  ptl_event_t event;
  int which;
  const uint64_t before = world.fabric().now_ns();
  EXPECT_EQ(PtlEQPoll(&eq_b, 1, 3, &event, &which), PTL_EQ_EMPTY);
  EXPECT_GE(world.fabric().now_ns() - before, 3000000u);
  EXPECT_LE(world.fabric().now_ns() - before, 4000000u);
  make_target(b, make_md(memory.data(), 8000, PTL_MD_OP_PUT, kInf, eq_b));
  put(out(4000), b);
  EXPECT_EQ(PtlEQWait(eq_b, &event), PTL_OK);
  EXPECT_EQ(event.type, PTL_EVENT_PUT_START);
  EXPECT_EQ(PtlEQWait(eq_b, &event), PTL_OK);
  EXPECT_EQ(event.type, PTL_EVENT_PUT_END);
}

TEST_P(PortalsBehaviour, PeekLeavesTheEvent) {
  ptl_event_t event;
  EXPECT_EQ(PtlEQPeek(eq_b, &event), PTL_EQ_EMPTY);
  make_target(b, make_md(memory.data(), 100, PTL_MD_OP_PUT, kInf, eq_b));
  put(out(8), b);
  world.settle();
  EXPECT_EQ(PtlEQPeek(eq_b, &event), PTL_OK);
  EXPECT_EQ(event.type, PTL_EVENT_PUT_START);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
}

// Events of a queue that is gone vanish; the operation does not.
TEST_P(PortalsBehaviour, QueueFreedUnderWay) {
  const ptl_handle_eq_t queue = make_eq(b);
  make_target(b, make_md(memory.data(), 4000, PTL_MD_OP_PUT, 1, queue), PTL_UNLINK);
  put(out(4000), b);
  while (b.status(PTL_SR_RECV_COUNT) == 0) world.step();
  EXPECT_EQ(PtlEQFree(queue), PTL_OK);
  ptl_event_t event;
  EXPECT_EQ(PtlEQGet(queue, &event), PTL_EQ_INVALID);
  const ptl_handle_eq_t next = make_eq(b);  // takes its place
  world.settle();
  EXPECT_EQ(kinds(drain(next)), "");
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), 4000), 0);
  EXPECT_EQ(b.status(PTL_SR_MES_CUR), 0u);
}

// --- handlers -----------------------------------------------------------------------------------

struct HandlerState {
  std::string seen;
  ptl_handle_md_t answer = PTL_INVALID_HANDLE;
  ptl_process_id_t to{};
  int depth = 0;
} g_handler;

void handler(ptl_event_t* event) {
  EXPECT_EQ(g_handler.depth++, 0) << "a handler does not run inside itself";
  g_handler.seen += kinds({*event}) + ' ';
  if (event->type == PTL_EVENT_PUT_END && event->hdr_data < 5) {
    EXPECT_EQ(PtlPut(g_handler.answer, PTL_NO_ACK_REQ, g_handler.to, kPortal, 0, 1, 0,
                     event->hdr_data + 1),
              PTL_OK);
  }
  --g_handler.depth;
}

TEST_P(PortalsBehaviour, HandlerSeesEveryEventOnceAndMayCall) {
  g_handler = {};
  ptl_handle_eq_t queue;
  ASSERT_EQ(PtlEQAlloc(b.handle, 1, handler, &queue), PTL_OK);
  make_target(b, make_md(memory.data(), 4000, PTL_MD_OP_PUT, kInf, queue), PTL_RETAIN, 1);
  const auto echo =
      make_target(a, make_md(memory.data() + 8000, 4000, PTL_MD_OP_PUT, kInf, eq_a), PTL_RETAIN, 2);
  (void)echo;
  g_handler.answer =
      bind(b, make_md(source.data(), 16, PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE,
                      kInf, PTL_EQ_NONE));
  g_handler.to = b.id();  // a chain of puts to itself, each from inside the handler
  put(out(16), b, 1, PTL_NO_ACK_REQ, 0, 3);
  for (int i = 0; i < 200; ++i) {
    world.step();
    EXPECT_EQ(PtlProgress(b.handle, 0), PTL_OK);
  }
  EXPECT_EQ(g_handler.seen, "PUT_START PUT_END PUT_START PUT_END PUT_START PUT_END ");
  ptl_event_t event;
  EXPECT_EQ(PtlEQGet(queue, &event), PTL_EQ_EMPTY) << "the handler took them";
}

TEST_P(PortalsBehaviour, QueueWithHandlerLosesNothing) {
  g_handler = {};
  ptl_handle_eq_t queue;
  ASSERT_EQ(PtlEQAlloc(b.handle, 0, handler, &queue), PTL_OK);
  EXPECT_NE(queue, PTL_EQ_NONE);
  make_target(b, make_md(memory.data(), 4000, PTL_MD_OP_PUT, kInf, queue));
  const auto md = bind(a, make_md(source.data(), 8, 0, kInf, PTL_EQ_NONE));
  for (int i = 0; i < 300; ++i) put(md, b, 1, PTL_NO_ACK_REQ, 0, 9);
  world.settle();  // the handler has not run yet: only calls run it
  EXPECT_EQ(PtlProgress(b.handle, 0), PTL_OK);
  EXPECT_EQ(std::count(g_handler.seen.begin(), g_handler.seen.end(), ' '), 600);
  EXPECT_EQ(b.status(PTL_SR_EVENTS_LOST), 0u);
}

// --- flow control -------------------------------------------------------------------------------

TEST_P(PortalsBehaviour, HeldPutsAreMatchedInTheOrderOfArrival) {
  ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 1), PTL_OK);
  const auto md = out(4000);
  for (unsigned i = 0; i < 6; ++i)  // bits 1 and 2 in turn, small and large
    ASSERT_EQ(
        PtlPutRegion(md, 0, i % 3 ? 8 : 2000, PTL_NO_ACK_REQ, b.id(), kPortal, 0, i % 2 + 1, 0, i),
        PTL_OK);
  ASSERT_EQ(at_b(), "");
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 0u);
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), 6u);
  // An entry for bits 2 takes those, in order; a later put does not overtake them.
  std::vector<ptl_hdr_data_t> order;
  auto receive = [&](ptl_match_bits_t bits, ptl_match_bits_t ignore) {
    make_target(b, make_md(memory.data(), 4000, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, 1, eq_b),
                PTL_UNLINK, bits, ignore);
    ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
    if (events_b.size() < 2) return;
    order.push_back(events_b[1].hdr_data);
    EXPECT_EQ(std::memcmp(memory.data(), source.data(), events_b[1].mlength), 0);
  };
  receive(2, 0);
  ASSERT_EQ(PtlPutRegion(md, 0, 8, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 2, 0, 6), PTL_OK);
  world.settle();
  receive(2, 0);
  receive(0, ~0ull);
  receive(1, 0);
  receive(2, 0);
  receive(2, 0);
  receive(0, ~0ull);
  EXPECT_EQ(order, (std::vector<ptl_hdr_data_t>{1, 3, 0, 2, 5, 6, 4}));
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), 0u);
}

TEST_P(PortalsBehaviour, HeldPutsFindUpdatedAndPostedEntries) {
  ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 1), PTL_OK);
  const Target t = make_target(b, make_md(memory.data(), 100, PTL_MD_OP_PUT, 0, eq_b));
  const auto md = out(50);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ, 0, ptl_hdr_data_t(i)), PTL_OK);
  ASSERT_EQ(PtlPutRegion(md, 0, 10, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 9), PTL_OK);
  world.settle();
  ptl_md_t armed = make_md(memory.data(), 110, PTL_MD_OP_PUT, kInf, eq_b);
  ASSERT_EQ(PtlMDUpdate(t.md, nullptr, &armed, eq_b), PTL_OK);
  // Two of 50 bytes fit, then only the one of 10.
  at_b();
  std::vector<ptl_hdr_data_t> order;
  for (const ptl_event_t& e : events_b)
    if (e.type == PTL_EVENT_PUT_START) order.push_back(e.hdr_data);
  EXPECT_EQ(order, (std::vector<ptl_hdr_data_t>{0, 1, 9}));
  ptl_handle_me_t me;
  const ptl_md_t posted = make_md(memory.data() + 1000, 50, PTL_MD_OP_PUT, 1, eq_b);
  ASSERT_EQ(PtlMEMDPost(b.handle, t.me, kAnyone, 1, 0, PTL_UNLINK, PTL_INS_AFTER, posted,
                        PTL_UNLINK, &me, nullptr, eq_b),
            PTL_OK);
  ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
  EXPECT_EQ(events_b[0].hdr_data, 2u);
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), 1u);
  const std::string sends = at_a();
  size_t acks = 0;
  for (const ptl_event_t& e : events_a) acks += e.type == PTL_EVENT_ACK;
  EXPECT_EQ(acks, 3u) << sends;
  ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 0), PTL_OK);
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 1u);
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), 0u);
  put(md, b, 7);
  world.settle();
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 2u);
}

// Many more bytes than the window: nothing is dropped, and what is buffered stays within it.
TEST_P(PortalsBehaviour, HeldPutsAreBoundedInMemory) {
  constexpr unsigned kPuts = 2000;
  ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 1), PTL_OK);
  const auto md = bind(a, make_md(source.data(), 1000, 0, kInf, PTL_EQ_NONE));
  for (unsigned i = 0; i < kPuts; ++i) ASSERT_EQ(put(md, b, 1, PTL_NO_ACK_REQ, 0, i), PTL_OK);
  world.settle();
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), kPuts);
  EXPECT_LE(b.counters.unexpected_bytes, GetParam().eager_window);
  const ptl_handle_eq_t queue = make_eq(b, 4 * kPuts);
  std::vector<std::byte> to(kPuts * 1000);
  make_target(b, make_md(to.data(), to.size(), PTL_MD_OP_PUT, kInf, queue));
  world.settle();
  ptl_hdr_data_t next = 0;
  unsigned ends = 0;
  for (const ptl_event_t& e : drain(queue)) {
    if (e.type == PTL_EVENT_PUT_START) {
      EXPECT_EQ(e.hdr_data, next++);
    }
    ends += e.type == PTL_EVENT_PUT_END && e.ni_fail_type == PTL_NI_OK;
  }
  EXPECT_EQ(ends, kPuts);
  for (unsigned i = 0; i < kPuts; ++i)
    ASSERT_EQ(std::memcmp(&to[i * 1000], source.data(), 1000), 0) << i;
}

// --- closing ------------------------------------------------------------------------------------

TEST_P(PortalsBehaviour, ClosingWithOperationsUnderWayIsSafe) {
  ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal + 1, 1), PTL_OK);
  ptl_md_iovec_t list[2] = {{memory.data(), 2000}, {memory.data() + 3000, 2000}};
  make_target(
      b, make_md(list, 2, PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_IOVEC | PTL_MD_MANAGE_REMOTE, kInf,
                 eq_b));
  const auto md = out(4000);
  for (int i = 0; i < 5; ++i) {
    put(md, b, 1, PTL_ACK_REQ);
    PtlGet(md, b.id(), kPortal, 0, 1, 0);
    PtlPut(md, PTL_ACK_REQ, b.id(), kPortal + 1, 0, 1, 0, 0);
  }
  while (b.status(PTL_SR_RECV_COUNT) == 0) world.step();
  EXPECT_EQ(PtlNIFini(a.handle), PTL_OK);
  if (!world.one_process()) {
    EXPECT_EQ(PtlNIFini(b.handle), PTL_OK);
  }
  world.settle();
  EXPECT_EQ(PtlMDUnlink(md), PTL_MD_INVALID);
}

INSTANTIATE_TEST_SUITE_P(Networks, PortalsBehaviour, testing::ValuesIn(all_networks()),
                         network_name);

// --- death --------------------------------------------------------------------------------------

TEST(PortalsDeath, OperationsOnADeadProcessEndWithAReason) {
  World world({.name = "pull", .flags = kGet, .eager_limit = 1}, 2);
  Node &a = world.node(0), &b = world.node(1);
  std::vector<std::byte> memory(8000);
  const ptl_handle_eq_t eq = make_eq(a), eq_b = make_eq(b);
  const auto md = bind(a, make_md(memory.data(), 4000, 0, kInf, eq));
  const auto get_md = bind(a, make_md(memory.data() + 4000, 4000, 0, kInf, eq));
  make_target(b, make_md(memory.data(), 10, PTL_MD_OP_PUT, kInf, eq_b));
  PtlPutRegion(md, 0, 1, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 0);
  world.settle();
  EXPECT_EQ(kinds(drain(eq)), "SEND_START SEND_END");
  ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
  ASSERT_EQ(PtlGet(get_md, b.id(), kPortal, 0, 1, 0), PTL_OK);
  world.kill(1);
  world.settle();
  EXPECT_EQ(kinds(drain(eq)), "SEND_START SEND_END! REPLY_START REPLY_END!");
  // And those begun afterwards.
  ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
  ASSERT_EQ(PtlGet(get_md, b.id(), kPortal, 0, 1, 0), PTL_OK);
  ASSERT_EQ(
      PtlGetPut(get_md, bind(a, make_md(memory.data(), 8, 0, 1, eq)), b.id(), kPortal, 0, 1, 0, 0),
      PTL_OK);
  const auto events = drain(eq);
  EXPECT_EQ(
      kinds(events),
      "SEND_START SEND_END! REPLY_START REPLY_END! SEND_START SEND_END! REPLY_START REPLY_END!");
  EXPECT_EQ(events[1].ni_fail_type, PTL_NI_PEER_DEAD);
  EXPECT_EQ(PtlMDUnlink(md), PTL_OK);
  EXPECT_EQ(PtlMDUnlink(get_md), PTL_OK);
}

TEST(PortalsDeath, AckThatCannotComeAnyMore) {
  World world(kEager, 2);
  Node &a = world.node(0), &b = world.node(1);
  char bytes[8] = {};
  const ptl_handle_eq_t eq = make_eq(a);
  const auto md = bind(a, make_md(bytes, 8, 0, kInf, eq));
  ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
  EXPECT_EQ(kinds(drain(eq)), "SEND_START SEND_END");
  world.kill(1);
  world.settle();
  EXPECT_EQ(kinds(drain(eq)), "ACK!");
}

// Held puts: what is here stays, what was only announced goes.
TEST(PortalsDeath, HeldPutsOfADeadProcess) {
  World world({.name = "mixed", .flags = kGet, .eager_limit = 100}, 2);
  Node &a = world.node(0), &b = world.node(1);
  auto source = pattern(4000);
  std::vector<std::byte> memory(8000);
  const ptl_handle_eq_t eq = make_eq(b);
  ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 1), PTL_OK);
  const auto md = bind(a, make_md(source.data(), 4000, 0, kInf, PTL_EQ_NONE));
  put(md, b, 1, PTL_NO_ACK_REQ, 0, 1);
  PtlPutRegion(md, 0, 50, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 2);
  world.settle();
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), 2u);
  world.kill(0);
  world.settle();
  EXPECT_EQ(b.status(PTL_SR_HELD_CUR), 1u);
  make_target(b, make_md(memory.data(), 8000, PTL_MD_OP_PUT, kInf, eq));
  const auto events = drain(eq);
  EXPECT_EQ(kinds(events), "PUT_START PUT_END");
  EXPECT_EQ(events[1].hdr_data, 2u);
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), 50), 0);
}

TEST(PortalsDeath, TransferUnderWayFailsAtTheTarget) {
  World world({.name = "pull",
               .flags = kGet,
               .eager_limit = 1,
               .pending_rma = true,
               .latency_max_ns = 100000},
              2);
  Node &a = world.node(0), &b = world.node(1);
  std::vector<std::byte> source(100000), memory(100000);
  const ptl_handle_eq_t eq = make_eq(b);
  make_target(b, make_md(memory.data(), memory.size(), PTL_MD_OP_PUT, 1, eq), PTL_UNLINK);
  put(bind(a, make_md(source.data(), source.size(), 0, kInf, PTL_EQ_NONE)), b);
  while (b.status(PTL_SR_RECV_COUNT) == 0) world.step();
  world.kill(0);
  for (int i = 0; i < 1000; ++i) world.step();
  EXPECT_EQ(kinds(drain(eq)), "PUT_START PUT_END! UNLINK");
}

}  // namespace
}  // namespace torii
