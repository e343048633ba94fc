// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Bad arguments to every function of portals3.h.
#include <climits>
#include <functional>

#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

// Values that are no handle of any kind, or one of another kind, or of another interface's number.
class PortalsArguments : public testing::Test {
 protected:
  PortalsArguments() : world(kEager, 2), a(world.node(0)), b(world.node(1)) {
    eq = make_eq(a);
    md = bind(a, make_md(buffer, sizeof(buffer), 0, kInf, eq));
    t = make_target(a, make_md(buffer, sizeof(buffer), PTL_MD_OP_PUT, kInf, eq));
    other_eq = make_eq(b);
    other_md = bind(b, make_md(buffer, sizeof(buffer), 0, kInf, other_eq));
  }
  // Every function that takes a handle must refuse all of these.
  std::vector<ptl_handle_any_t> bad(ptl_handle_any_t good) {
    std::vector<ptl_handle_any_t> list{PTL_INVALID_HANDLE,
                                       PTL_EQ_NONE,
                                       PTL_HANDLE_NONE,
                                       0,
                                       1,
                                       0x7fffffffffffffff,
                                       good ^ 1,
                                       good + (9999ull << 32),
                                       good ^ (1ull << 52),
                                       good ^ (1ull << 60),
                                       good ^ (1ull << 63)};
    for (ptl_handle_any_t other : {a.handle, eq, md, t.me})
      if (handle_kind(other) != handle_kind(good)) list.push_back(other);
    return list;
  }
  void expect_refused(ptl_handle_any_t good, int code,
                      const std::function<int(ptl_handle_any_t)>& call) {
    for (ptl_handle_any_t handle : bad(good))
      EXPECT_EQ(call(handle), code) << std::hex << "handle 0x" << handle;
  }

  World world;
  Node& a;
  Node& b;
  char buffer[100] = {};
  ptl_handle_eq_t eq, other_eq;
  ptl_handle_md_t md, other_md;
  Target t;
  ptl_handle_any_t out = 0;
};

TEST_F(PortalsArguments, InterfaceQueries) {
  ptl_sr_value_t value;
  ptl_process_id_t id;
  unsigned long distance;
  ptl_uid_t number;
  unsigned rank, size;
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlNIStatus(h, 0, &value); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlNIDist(h, b.id(), &distance); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlGetUid(h, &number); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlGetJid(h, &number); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlGetId(h, &id); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlNIFini(h); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) {
    return h == PTL_INVALID_HANDLE ? PTL_NI_INVALID : PtlSetRank(h, 0, 1);  // names the next one
  });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlGetRank(h, &rank, &size); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlGetRankId(h, 0, &id); });
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlTblDump(h, 0); });
  EXPECT_EQ(PtlNIStatus(a.handle, PTL_SR_DROP_COUNT, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlNIStatus(a.handle, 12, &value), PTL_SR_INDEX_INVALID);
  EXPECT_EQ(PtlNIStatus(a.handle, 63, &value), PTL_SR_INDEX_INVALID);
  EXPECT_EQ(PtlNIStatus(a.handle, ~0u, &value), PTL_SR_INDEX_INVALID);
  const ptl_sr_index_t counters = PTL_SR_COUNTERS + ptl_sr_index_t(kCounterCount);
  EXPECT_EQ(PtlNIStatus(a.handle, counters - 1, &value), PTL_OK);
  EXPECT_EQ(PtlNIStatus(a.handle, counters, &value), PTL_SR_INDEX_INVALID);
  EXPECT_EQ(PtlNIDist(a.handle, b.id(), nullptr), PTL_SEGV);
  EXPECT_EQ(PtlNIDist(a.handle, {7, 7}, &distance), PTL_PROCESS_INVALID);
  EXPECT_EQ(PtlNIDist(a.handle, kAnyone, &distance), PTL_PROCESS_INVALID);
  EXPECT_EQ(PtlGetUid(a.handle, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlGetJid(a.handle, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlGetId(a.handle, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlGetRank(a.handle, nullptr, &size), PTL_SEGV);
  EXPECT_EQ(PtlGetRank(a.handle, &rank, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlGetRankId(a.handle, 0, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlGetRankId(a.handle, 2, &id), PTL_FAIL);
  EXPECT_EQ(PtlSetRank(a.handle, 3, 3), PTL_FAIL);
  EXPECT_EQ(PtlTblDump(a.handle, -1), PTL_PT_INDEX_INVALID);
  EXPECT_EQ(PtlTblDump(a.handle, 64), PTL_PT_INDEX_INVALID);
}

TEST_F(PortalsArguments, AnyHandle) {
  for (ptl_handle_any_t good : {a.handle, eq, md, t.me, t.md}) {
    EXPECT_EQ(PtlNIHandle(good, &out), PTL_OK);
    EXPECT_EQ(out, a.handle);
    EXPECT_EQ(PtlNIHandle(good, nullptr), PTL_SEGV);
    EXPECT_EQ(PtlProgress(good, 0), PTL_OK);
    for (ptl_handle_any_t h : std::vector<ptl_handle_any_t>{
             PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_HANDLE_NONE, good ^ 1, good ^ (1ull << 52), 0}) {
      EXPECT_EQ(PtlNIHandle(h, &out), PTL_HANDLE_INVALID);
      EXPECT_EQ(PtlProgress(h, 0), PTL_HANDLE_INVALID);
    }
  }
}

TEST_F(PortalsArguments, MatchEntries) {
  ptl_pt_index_t pt = 0;
  auto attach = [&](auto h, ptl_pt_index_t index, ptl_handle_me_t* me) {
    return PtlMEAttach(h, index, kAnyone, 0, 0, PTL_RETAIN, PTL_INS_AFTER, me);
  };
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return attach(h, 0, &out); });
  EXPECT_EQ(attach(a.handle, 64, &out), PTL_PT_INDEX_INVALID);
  EXPECT_EQ(attach(a.handle, PTL_PT_INDEX_ANY, &out), PTL_PT_INDEX_INVALID);
  EXPECT_EQ(attach(a.handle, 63, nullptr), PTL_SEGV);
  EXPECT_EQ(attach(a.handle, 63, &out), PTL_OK);
  auto any = [&](auto h, ptl_pt_index_t* index, ptl_handle_me_t* me) {
    return PtlMEAttachAny(h, index, kAnyone, 0, 0, PTL_RETAIN, me);
  };
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return any(h, &pt, &out); });
  EXPECT_EQ(any(a.handle, nullptr, &out), PTL_SEGV);
  EXPECT_EQ(any(a.handle, &pt, nullptr), PTL_SEGV);
  EXPECT_EQ(any(a.handle, &pt, &out), PTL_OK);
  EXPECT_EQ(pt, 62u);  // 63 is taken
  for (int i = 0; i < 61; ++i) EXPECT_EQ(any(a.handle, &pt, &out), PTL_OK);
  EXPECT_EQ(any(a.handle, &pt, &out), PTL_PT_FULL);
  auto insert = [&](auto h, ptl_handle_me_t* me) {
    return PtlMEInsert(h, kAnyone, 0, 0, PTL_RETAIN, PTL_INS_AFTER, me);
  };
  expect_refused(t.me, PTL_ME_INVALID, [&](auto h) { return insert(h, &out); });
  EXPECT_EQ(insert(t.me, nullptr), PTL_SEGV);
  expect_refused(t.me, PTL_ME_INVALID, [&](auto h) { return PtlMEUnlink(h); });
  expect_refused(t.me, PTL_ME_INVALID, [&](auto h) { return PtlMEDump(h); });
}

TEST_F(PortalsArguments, Limits) {
  ASSERT_EQ(PtlNIFini(b.handle), PTL_OK);
  ptl_ni_limits_t asked{};
  asked.max_mes = 3;
  asked.max_mds = 2;
  asked.max_eqs = 1;
  asked.max_me_list = 2;
  asked.max_pt_index = 5;
  asked.max_ac_index = 1;
  asked.max_md_iovecs = 2;
  asked.max_getput_md = 8;
  b.handle = register_ni(b.portals, &asked);
  ptl_handle_me_t me[4];
  auto attach = [&](ptl_pt_index_t index, ptl_handle_me_t* out_me) {
    return PtlMEAttach(b.handle, index, kAnyone, 0, 0, PTL_RETAIN, PTL_INS_AFTER, out_me);
  };
  EXPECT_EQ(attach(6, &me[0]), PTL_PT_INDEX_INVALID);
  EXPECT_EQ(attach(5, &me[0]), PTL_OK);
  EXPECT_EQ(attach(5, &me[1]), PTL_OK);
  EXPECT_EQ(attach(5, &me[2]), PTL_ME_LIST_TOO_LONG);
  EXPECT_EQ(PtlMEInsert(me[0], kAnyone, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, &me[2]),
            PTL_ME_LIST_TOO_LONG);
  EXPECT_EQ(attach(4, &me[2]), PTL_OK);
  EXPECT_EQ(attach(4, &me[3]), PTL_NO_SPACE);
  EXPECT_EQ(PtlMEInsert(me[2], kAnyone, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, &me[3]), PTL_NO_SPACE);
  const ptl_md_t plain = make_md(buffer, 9, 0, kInf, PTL_EQ_NONE);
  ptl_handle_md_t long_md, short_md, third;
  EXPECT_EQ(PtlMDBind(b.handle, plain, PTL_RETAIN, &long_md), PTL_OK);
  EXPECT_EQ(PtlMDBind(b.handle, make_md(buffer, 8, 0, kInf, PTL_EQ_NONE), PTL_RETAIN, &short_md),
            PTL_OK);
  EXPECT_EQ(PtlMDBind(b.handle, plain, PTL_RETAIN, &third), PTL_NO_SPACE);
  EXPECT_EQ(PtlMDAttach(me[0], plain, PTL_RETAIN, &third), PTL_NO_SPACE);
  EXPECT_EQ(PtlGetPut(short_md, long_md, a.id(), 0, 0, 0, 0, 0), PTL_MD_ILLEGAL);
  EXPECT_EQ(PtlGetPut(long_md, short_md, a.id(), 0, 0, 0, 0, 0), PTL_OK);
  ptl_handle_eq_t queue;
  EXPECT_EQ(PtlEQAlloc(b.handle, 1, nullptr, &queue), PTL_OK);
  EXPECT_EQ(PtlEQAlloc(b.handle, 1, nullptr, &queue), PTL_NO_SPACE);
  EXPECT_EQ(PtlACEntry(b.handle, 1, kAnyone, 0, 0, PTL_PT_INDEX_ANY), PTL_OK);
  EXPECT_EQ(PtlACEntry(b.handle, 2, kAnyone, 0, 0, PTL_PT_INDEX_ANY), PTL_AC_INDEX_INVALID);
  ptl_md_iovec_t pieces[3] = {{buffer, 1}, {buffer, 1}, {buffer, 1}};
  EXPECT_EQ(PtlMDUnlink(short_md), PTL_OK);
  EXPECT_EQ(
      PtlMDBind(b.handle, make_md(pieces, 3, PTL_MD_IOVEC, kInf, PTL_EQ_NONE), PTL_RETAIN, &third),
      PTL_MD_ILLEGAL);
  EXPECT_EQ(
      PtlMDBind(b.handle, make_md(pieces, 2, PTL_MD_IOVEC, kInf, PTL_EQ_NONE), PTL_RETAIN, &third),
      PTL_OK);
}

TEST_F(PortalsArguments, Descriptors) {
  const ptl_md_t good = make_md(buffer, 10, 0, kInf, eq);
  expect_refused(a.handle, PTL_NI_INVALID,
                 [&](auto h) { return PtlMDBind(h, good, PTL_RETAIN, &out); });
  EXPECT_EQ(PtlMDBind(a.handle, good, PTL_RETAIN, nullptr), PTL_SEGV);
  expect_refused(t.me, PTL_ME_INVALID,
                 [&](auto h) { return PtlMDAttach(h, good, PTL_RETAIN, &out); });
  EXPECT_EQ(PtlMDAttach(t.me, good, PTL_RETAIN, &out), PTL_ME_IN_USE);
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return PtlMDUnlink(h); });

  ptl_md_iovec_t null_piece{nullptr, 1}, wrap[2] = {{buffer, 1}, {buffer, ~0ull - 1}};
  ptl_md_iovec_t wraps_around{buffer, ~0ull};
  std::vector<ptl_md_t> illegal{
      make_md(nullptr, 1, 0, kInf, eq),
      make_md(buffer, ~0ull, 0, kInf, eq),
      make_md(buffer, 10, 0, -2, eq),
      make_md(buffer, 10, 0, INT_MIN, eq),
      make_md(buffer, 10, 0x200, kInf, eq),
      make_md(buffer, 10, 0x80000000u, kInf, eq),
      make_md(nullptr, 1, PTL_MD_IOVEC, kInf, eq),
      make_md(&null_piece, 1, PTL_MD_IOVEC, kInf, eq),
      make_md(wrap, 2, PTL_MD_IOVEC, kInf, eq),
      make_md(&wraps_around, 1, PTL_MD_IOVEC, kInf, eq),
      make_md(buffer, ~0ull, PTL_MD_IOVEC, kInf, eq),
      make_md(buffer, 10, 0, kInf, other_eq),
  };
  ptl_handle_me_t me;
  ASSERT_EQ(PtlMEAttach(a.handle, 1, kAnyone, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &me), PTL_OK);
  for (size_t i = 0; i < illegal.size(); ++i) {
    EXPECT_EQ(PtlMDBind(a.handle, illegal[i], PTL_RETAIN, &out), PTL_MD_ILLEGAL) << i;
    EXPECT_EQ(PtlMDAttach(me, illegal[i], PTL_RETAIN, &out), PTL_MD_ILLEGAL) << i;
    EXPECT_EQ(PtlMDUpdate(md, nullptr, &illegal[i], PTL_EQ_NONE), PTL_MD_ILLEGAL) << i;
    EXPECT_EQ(PtlMEMDPost(a.handle, me, kAnyone, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, illegal[i],
                          PTL_RETAIN, &out, nullptr, PTL_EQ_NONE),
              PTL_MD_ILLEGAL)
        << i;
  }
  for (ptl_handle_eq_t h :
       std::vector<ptl_handle_eq_t>{PTL_INVALID_HANDLE, PTL_HANDLE_NONE, md, t.me, eq + 1}) {
    const ptl_md_t wrong_queue = make_md(buffer, 10, 0, kInf, h);
    ptl_md_t update = wrong_queue;
    EXPECT_EQ(PtlMDBind(a.handle, wrong_queue, PTL_RETAIN, &out), PTL_EQ_INVALID);
    EXPECT_EQ(PtlMDAttach(me, wrong_queue, PTL_RETAIN, &out), PTL_EQ_INVALID);
    EXPECT_EQ(PtlMDUpdate(md, nullptr, &update, PTL_EQ_NONE), PTL_EQ_INVALID);
  }
  EXPECT_EQ(a.status(PTL_SR_MDS_CUR), 2u) << "failures leave nothing behind";
  EXPECT_EQ(a.status(PTL_SR_MES_CUR), 2u);
  EXPECT_EQ(PtlMDAttach(me, good, PTL_RETAIN, nullptr), PTL_OK) << "the handle may be null";
}

TEST_F(PortalsArguments, Update) {
  ptl_md_t value = make_md(buffer, 10, 0, kInf, eq);
  expect_refused(md, PTL_MD_INVALID,
                 [&](auto h) { return PtlMDUpdate(h, nullptr, &value, PTL_EQ_NONE); });
  for (ptl_handle_eq_t h : std::vector<ptl_handle_eq_t>{PTL_INVALID_HANDLE, PTL_HANDLE_NONE, md,
                                                        t.me, eq + 1, other_eq})
    EXPECT_EQ(PtlMDUpdate(md, nullptr, &value, h), PTL_EQ_INVALID);
  EXPECT_EQ(PtlMDUpdate(md, nullptr, nullptr, PTL_INVALID_HANDLE), PTL_OK) << "nothing to do";
}

TEST_F(PortalsArguments, Post) {
  const ptl_md_t good = make_md(buffer, 10, 0, kInf, eq);
  auto post = [&](ptl_handle_ni_t ni, ptl_handle_me_t base, ptl_handle_me_t* me,
                  ptl_handle_eq_t test) {
    return PtlMEMDPost(ni, base, kAnyone, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, good, PTL_RETAIN, me,
                       nullptr, test);
  };
  expect_refused(a.handle, PTL_NI_INVALID,
                 [&](auto h) { return post(h, t.me, &out, PTL_EQ_NONE); });
  expect_refused(t.me, PTL_ME_INVALID,
                 [&](auto h) { return post(a.handle, h, &out, PTL_EQ_NONE); });
  EXPECT_EQ(post(b.handle, t.me, &out, PTL_EQ_NONE), PTL_ME_INVALID) << "of another interface";
  EXPECT_EQ(post(a.handle, t.me, nullptr, PTL_EQ_NONE), PTL_SEGV);
  EXPECT_EQ(post(a.handle, t.me, &out, other_eq), PTL_EQ_INVALID);
  EXPECT_EQ(post(a.handle, t.me, &out, PTL_INVALID_HANDLE), PTL_EQ_INVALID);
}

TEST_F(PortalsArguments, EventQueues) {
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlEQAlloc(h, 1, nullptr, &out); });
  EXPECT_EQ(PtlEQAlloc(a.handle, 1, nullptr, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlEQAlloc(a.handle, ~0ull, nullptr, &out), PTL_NO_SPACE);
  EXPECT_EQ(PtlEQAlloc(a.handle, 1ull << 40, nullptr, &out), PTL_NO_SPACE);
  EXPECT_EQ(PtlEQAlloc(a.handle, 0, nullptr, &out), PTL_OK);
  EXPECT_EQ(out, PTL_EQ_NONE);
  ptl_event_t event;
  int which = -1;
  expect_refused(eq, PTL_EQ_INVALID, [&](auto h) { return PtlEQFree(h); });
  expect_refused(eq, PTL_EQ_INVALID, [&](auto h) { return PtlEQGet(h, &event); });
  expect_refused(eq, PTL_EQ_INVALID, [&](auto h) { return PtlEQWait(h, &event); });
  expect_refused(eq, PTL_EQ_INVALID, [&](auto h) { return PtlEQPeek(h, &event); });
  EXPECT_EQ(PtlEQGet(eq, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlEQWait(eq, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlEQPeek(eq, nullptr), PTL_SEGV);
  ptl_handle_eq_t list[3] = {eq, make_eq(a), eq};
  EXPECT_EQ(PtlEQPoll(nullptr, 1, 0, &event, &which), PTL_SEGV);
  EXPECT_EQ(PtlEQPoll(list, 1, 0, nullptr, &which), PTL_SEGV);
  EXPECT_EQ(PtlEQPoll(list, 1, 0, &event, nullptr), PTL_SEGV);
  EXPECT_EQ(PtlEQPoll(list, 0, 0, &event, &which), PTL_EQ_INVALID);
  EXPECT_EQ(PtlEQPoll(list, -1, 0, &event, &which), PTL_EQ_INVALID);
  EXPECT_EQ(PtlEQPoll(list, 3, 0, &event, &which), PTL_EQ_EMPTY);
  for (ptl_handle_eq_t h :
       std::vector<ptl_handle_eq_t>{PTL_INVALID_HANDLE, PTL_EQ_NONE, md, a.handle, other_eq}) {
    for (int at : {1, 2}) {
      ptl_handle_eq_t with_bad[3] = {eq, list[1], eq};
      with_bad[at] = h;
      EXPECT_EQ(PtlEQPoll(with_bad, 3, PTL_TIME_FOREVER, &event, &which), PTL_EQ_INVALID);
      EXPECT_EQ(which, at);
    }
  }
}

TEST_F(PortalsArguments, AccessControlAndFlowControl) {
  expect_refused(a.handle, PTL_NI_INVALID,
                 [&](auto h) { return PtlACEntry(h, 0, kAnyone, 0, 0, PTL_PT_INDEX_ANY); });
  EXPECT_EQ(PtlACEntry(a.handle, 63, kAnyone, 0, 0, 63), PTL_OK);
  EXPECT_EQ(PtlACEntry(a.handle, 64, kAnyone, 0, 0, 0), PTL_AC_INDEX_INVALID);
  EXPECT_EQ(PtlACEntry(a.handle, ~0u, kAnyone, 0, 0, 0), PTL_AC_INDEX_INVALID);
  EXPECT_EQ(PtlACEntry(a.handle, 0, kAnyone, 0, 0, 64), PTL_PT_INDEX_INVALID);
  expect_refused(a.handle, PTL_NI_INVALID, [&](auto h) { return PtlPTFlowControl(h, 0, 1); });
  EXPECT_EQ(PtlPTFlowControl(a.handle, 64, 1), PTL_PT_INDEX_INVALID);
  EXPECT_EQ(PtlPTFlowControl(a.handle, ~0u, 1), PTL_PT_INDEX_INVALID);
}

TEST_F(PortalsArguments, DataMovement) {
  const ptl_process_id_t to = b.id();
  auto region = [&](ptl_handle_md_t h, ptl_size_t offset, ptl_size_t length) {
    return PtlPutRegion(h, offset, length, PTL_NO_ACK_REQ, to, 0, 0, 0, 0, 0);
  };
  auto get_region = [&](ptl_handle_md_t h, ptl_size_t offset, ptl_size_t length) {
    return PtlGetRegion(h, offset, length, to, 0, 0, 0, 0);
  };
  auto swap = [&](ptl_handle_md_t get, ptl_handle_md_t put, ptl_process_id_t who) {
    return PtlGetPut(get, put, who, 0, 0, 0, 0, 0);
  };
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return put(h, b); });
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return region(h, 0, 1); });
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return PtlGet(h, to, 0, 0, 0, 0); });
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return get_region(h, 0, 1); });
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return swap(h, md, to); });
  expect_refused(md, PTL_MD_INVALID, [&](auto h) { return swap(md, h, to); });
  EXPECT_EQ(swap(md, other_md, to), PTL_MD_INVALID) << "descriptors of two interfaces";
  struct {
    ptl_size_t offset, length;
  } outside[] = {{0, 101}, {101, 0}, {100, 1}, {1, ~0ull}, {~0ull, 1}, {~0ull, ~0ull}, {50, 51}};
  for (auto& r : outside) {
    EXPECT_EQ(region(md, r.offset, r.length), PTL_MD_ILLEGAL) << r.offset << " " << r.length;
    EXPECT_EQ(get_region(md, r.offset, r.length), PTL_MD_ILLEGAL) << r.offset << " " << r.length;
  }
  EXPECT_EQ(region(md, 100, 0), PTL_OK);
  for (ptl_process_id_t who : {kAnyone, ptl_process_id_t{0, PTL_PID_ANY},
                               ptl_process_id_t{PTL_NID_ANY, 1}, ptl_process_id_t{9, 9}}) {
    EXPECT_EQ(PtlPut(md, PTL_NO_ACK_REQ, who, 0, 0, 0, 0, 0), PTL_PROCESS_INVALID);
    EXPECT_EQ(PtlGet(md, who, 0, 0, 0, 0), PTL_PROCESS_INVALID);
    EXPECT_EQ(PtlPutRegion(md, 0, 1, PTL_NO_ACK_REQ, who, 0, 0, 0, 0, 0), PTL_PROCESS_INVALID);
    EXPECT_EQ(PtlGetRegion(md, 0, 1, who, 0, 0, 0, 0), PTL_PROCESS_INVALID);
    EXPECT_EQ(swap(md, md, who), PTL_PROCESS_INVALID);
  }
  world.settle();
  ptl_md_t now{};
  ASSERT_EQ(PtlMDUpdate(md, &now, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(kinds(drain(eq)), "SEND_START SEND_END") << "refused calls leave no trace";
}

TEST_F(PortalsArguments, Texts) {
  EXPECT_STREQ(PtlErrorStr(PTL_OK), "PTL_OK");
  EXPECT_STREQ(PtlErrorStr(PTL_SR_INDEX_INVALID), "PTL_SR_INDEX_INVALID");
  EXPECT_STREQ(PtlErrorStr(PTL_MD_NO_UPDATE), "PTL_MD_NO_UPDATE");
  EXPECT_STREQ(PtlErrorStr(PTL_UNKNOWN_ERROR), "PTL_UNKNOWN_ERROR");
  EXPECT_STREQ(PtlErrorStr(PTL_UNKNOWN_ERROR + 1), "unknown return code");
  EXPECT_STREQ(ptl_err_str[PTL_PT_FULL], "PTL_PT_FULL");
  EXPECT_STREQ(PtlEventKindStr(PTL_EVENT_UNLINK), "PTL_EVENT_UNLINK");
  EXPECT_STREQ(PtlEventKindStr(ptl_event_kind_t(PTL_EVENT_UNLINK + 1)), "unknown event kind");
  EXPECT_STREQ(PtlEventKindStr(PTL_EVENT_REPLY_END), "PTL_EVENT_REPLY_END");
  EXPECT_STREQ(PtlNIFailStr(a.handle, PTL_NI_PEER_DEAD), "PTL_NI_PEER_DEAD");
  EXPECT_STREQ(PtlNIFailStr(a.handle, 77), "unknown failure type");
}

TEST_F(PortalsArguments, IdentityAndDistance) {
  ptl_process_id_t id;
  ptl_uid_t uid;
  unsigned long distance;
  unsigned rank, size;
  ASSERT_EQ(PtlGetId(b.handle, &id), PTL_OK);
  EXPECT_EQ(id.nid, 0u);
  EXPECT_EQ(id.pid, 2u);
  ASSERT_EQ(PtlGetUid(b.handle, &uid), PTL_OK);
  EXPECT_EQ(uid, 1000u);
  ASSERT_EQ(PtlNIDist(a.handle, a.id(), &distance), PTL_OK);
  EXPECT_EQ(distance, 0u);
  ASSERT_EQ(PtlNIDist(a.handle, b.id(), &distance), PTL_OK);
  EXPECT_EQ(distance, 1u);
  World three(kEager, 3);
  ASSERT_EQ(PtlNIDist(three.node(0).handle, three.node(2).id(), &distance), PTL_OK);
  EXPECT_EQ(distance, 2u);
  ASSERT_EQ(PtlGetRank(b.handle, &rank, &size), PTL_OK);
  EXPECT_EQ(rank, 1u);
  EXPECT_EQ(size, 2u);
  ASSERT_EQ(PtlSetRank(b.handle, 3, 4), PTL_OK);
  ASSERT_EQ(PtlGetRank(b.handle, &rank, &size), PTL_OK);
  EXPECT_EQ(rank, 3u);
  EXPECT_EQ(size, 4u);
  ASSERT_EQ(PtlSetRank(b.handle, ~0u, ~0u), PTL_OK);
  ASSERT_EQ(PtlGetRank(b.handle, &rank, &size), PTL_OK);
  EXPECT_EQ(rank, 1u);
  ASSERT_EQ(PtlGetRankId(a.handle, 1, &id), PTL_OK);
  EXPECT_EQ(id.pid, 2u);
}

TEST_F(PortalsArguments, Dumps) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(PtlTblDump(a.handle, kPortal), PTL_OK);
  EXPECT_EQ(PtlMEDump(t.me), PTL_OK);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("portal 4: 1 entries"), std::string::npos) << text;
  EXPECT_NE(text.find("active retain descriptor: 100 bytes"), std::string::npos) << text;
}

TEST_F(PortalsArguments, DebugMask) {
  EXPECT_EQ(PtlNIDebug(a.handle, PTL_DBG_DROP), 0u);
  testing::internal::CaptureStderr();
  put(other_md, a, 99);
  world.settle();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("portal 4 dropped a request of 100 bytes"), std::string::npos) << text;
  EXPECT_EQ(PtlNIDebug(a.handle, 0), PTL_DBG_DROP);
}

}  // namespace
}  // namespace torii
