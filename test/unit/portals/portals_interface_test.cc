// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Opening and closing the interface of PtlNIInit.
#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

struct Opened {
  std::unique_ptr<World> world;
  int opens = 0, closes = 0, leaves = 0;
  PidRequest request;  // the last one; its map has ended
  std::vector<ptl_pid_t> map;
} g_opened;

Status open_node(const PidRequest& request, Portals** out, std::string* why) {
  g_opened.request = request;
  g_opened.map.assign(request.map.begin(), request.map.end());
  *why = "pid taken";
  if (request.pid == 66) return Status::invalid;
  if (request.pid == 67) return Status::no_memory;
  if (request.pid == 68) return Status::unreachable;
  ++g_opened.opens;
  g_opened.world = std::make_unique<World>(kEager, 1, 1, false);
  Node& node = g_opened.world->node(0);
  EXPECT_TRUE(unregister_ni(node.handle));
  *out = &node.portals;
  return Status::ok;
}
void close_node(Portals*) {
  ++g_opened.closes;
  g_opened.world.reset();
}
void leave_job() {
  EXPECT_FALSE(g_opened.world);
  ++g_opened.leaves;
}
constexpr NiOpener kOpener{open_node, close_node, leave_job};

class PortalsInterface : public testing::Test {
 protected:
  PortalsInterface() : former(set_ni_opener(&kOpener)) { g_opened = {}; }
  ~PortalsInterface() {
    EXPECT_EQ(g_opened.opens, g_opened.closes);
    set_ni_opener(former);
  }
  static int init(ptl_pid_t pid, ptl_handle_ni_t* ni, ptl_interface_t iface = PTL_IFACE_DEFAULT) {
    return PtlNIInit(iface, pid, nullptr, nullptr, ni);
  }
  const NiOpener* former;
  int interfaces = 0;
  ptl_handle_ni_t ni = PTL_INVALID_HANDLE;
};

// Every function says so before PtlInit.
TEST_F(PortalsInterface, NothingWorksBeforeInit) {
  const ptl_handle_any_t h = PTL_INVALID_HANDLE;
  const ptl_md_t md{};
  ptl_handle_any_t out;
  ptl_event_t event;
  int which;
  unsigned number;
  unsigned long distance;
  ptl_sr_value_t value;
  ptl_process_id_t id{};
  ptl_handle_eq_t list[1] = {h};
  EXPECT_EQ(init(PTL_PID_ANY, &ni), PTL_NO_INIT);
  EXPECT_EQ(PtlNIFini(h), PTL_NO_INIT);
  EXPECT_EQ(PtlNIStatus(h, 0, &value), PTL_NO_INIT);
  EXPECT_EQ(PtlNIDist(h, id, &distance), PTL_NO_INIT);
  EXPECT_EQ(PtlNIHandle(h, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlGetUid(h, &number), PTL_NO_INIT);
  EXPECT_EQ(PtlGetId(h, &id), PTL_NO_INIT);
  EXPECT_EQ(PtlGetJid(h, &number), PTL_NO_INIT);
  EXPECT_EQ(PtlMEAttach(h, 0, id, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlMEAttachAny(h, &number, id, 0, 0, PTL_RETAIN, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlMEInsert(h, id, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlMEUnlink(h), PTL_NO_INIT);
  EXPECT_EQ(PtlMDAttach(h, md, PTL_RETAIN, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlMDBind(h, md, PTL_RETAIN, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlMDUnlink(h), PTL_NO_INIT);
  EXPECT_EQ(PtlMDUpdate(h, nullptr, nullptr, h), PTL_NO_INIT);
  EXPECT_EQ(PtlMEMDPost(h, h, id, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, PTL_RETAIN, &out, &out, h),
            PTL_NO_INIT);
  EXPECT_EQ(PtlPTFlowControl(h, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlEQAlloc(h, 1, nullptr, &out), PTL_NO_INIT);
  EXPECT_EQ(PtlEQFree(h), PTL_NO_INIT);
  EXPECT_EQ(PtlEQGet(h, &event), PTL_NO_INIT);
  EXPECT_EQ(PtlEQWait(h, &event), PTL_NO_INIT);
  EXPECT_EQ(PtlEQPoll(list, 1, 0, &event, &which), PTL_NO_INIT);
  EXPECT_EQ(PtlEQPeek(h, &event), PTL_NO_INIT);
  EXPECT_EQ(PtlACEntry(h, 0, id, 0, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlPut(h, PTL_ACK_REQ, id, 0, 0, 0, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlPutRegion(h, 0, 0, PTL_ACK_REQ, id, 0, 0, 0, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlGet(h, id, 0, 0, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlGetRegion(h, 0, 0, id, 0, 0, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlGetPut(h, h, id, 0, 0, 0, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlSetRank(h, 0, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlGetRank(h, &number, &number), PTL_NO_INIT);
  EXPECT_EQ(PtlGetRankId(h, 0, &id), PTL_NO_INIT);
  EXPECT_EQ(PtlSetNIDMap(h, &number, 1), PTL_NO_INIT);
  EXPECT_EQ(PtlSetPIDMap(h, &number, 1), PTL_NO_INIT);
  EXPECT_EQ(PtlGetNIDMap(h, &number, 1), PTL_NO_INIT);
  EXPECT_EQ(PtlGetPIDMap(h, &number, 1), PTL_NO_INIT);
  EXPECT_EQ(PtlProgress(h, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlTblDump(h, 0), PTL_NO_INIT);
  EXPECT_EQ(PtlMEDump(h), PTL_NO_INIT);
  PtlFini();  // harmless
  EXPECT_EQ(PtlInit(nullptr), PTL_SEGV);
  EXPECT_EQ(init(PTL_PID_ANY, &ni), PTL_NO_INIT);
}

// Conformance checklist 16: a second PtlNIInit gives the same handle and ignores the limits.
TEST_F(PortalsInterface, Item16InitTwice) {
  ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
  EXPECT_EQ(interfaces, 16);
  ptl_ni_limits_t asked{}, got{}, again{};
  asked.max_pt_index = 1000;
  asked.max_mes = 10;
  asked.max_ac_index = -5;
  ASSERT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, &asked, &got, &ni), PTL_OK);
  EXPECT_EQ(got.max_pt_index, 254);
  EXPECT_EQ(got.max_mes, 10);
  EXPECT_EQ(got.max_ac_index, 63);
  EXPECT_EQ(got.max_getput_md, 256);
  ptl_handle_ni_t second = PTL_INVALID_HANDLE;
  asked.max_mes = 99;
  ASSERT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, &asked, &again, &second), PTL_OK);
  EXPECT_EQ(second, ni);
  EXPECT_EQ(again.max_mes, 10);
  EXPECT_EQ(g_opened.opens, 1);
  EXPECT_EQ(PtlNIFini(ni), PTL_OK);
  ptl_uid_t uid;
  EXPECT_EQ(PtlGetUid(ni, &uid), PTL_OK) << "one PtlNIInit is left";
  EXPECT_EQ(PtlNIFini(ni), PTL_OK);
  EXPECT_EQ(PtlGetUid(ni, &uid), PTL_NI_INVALID);
  EXPECT_EQ(PtlNIFini(ni), PTL_NI_INVALID);
  // Handles of the first life mean nothing in the second.
  ptl_handle_ni_t third;
  ASSERT_EQ(init(PTL_PID_ANY, &third), PTL_OK);
  EXPECT_NE(third, ni);
  EXPECT_EQ(PtlGetUid(ni, &uid), PTL_NI_INVALID);
  PtlFini();
  EXPECT_EQ(PtlGetUid(third, &uid), PTL_NO_INIT) << "the last PtlFini closes everything";
  EXPECT_EQ(g_opened.closes, 2);
}

// Conformance checklist 19: a pid that is taken, or is not this process's.
TEST_F(PortalsInterface, Item19PidConflict) {
  ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
  EXPECT_EQ(init(66, &ni), PTL_PID_INVALID);
  EXPECT_EQ(init(67, &ni), PTL_NO_SPACE);
  EXPECT_EQ(init(68, &ni), PTL_FAIL);
  EXPECT_EQ(init(5, &ni), PTL_PID_INVALID) << "the interface came up as another process";
  EXPECT_EQ(init(1, &ni), PTL_OK);
  EXPECT_EQ(init(2, &ni), PTL_PID_INVALID);
  EXPECT_EQ(init(1, &ni), PTL_OK);
  PtlFini();
}

// Rank and map that were set before are for one PtlNIInit, whether it succeeds or not.
TEST_F(PortalsInterface, WhatWasSetBeforeGoesWithTheNextInit) {
  const ptl_pid_t map[3] = {7, 1, 9};
  const auto set = [&] {
    EXPECT_EQ(PtlSetRank(PTL_INVALID_HANDLE, 1, 3), PTL_OK);
    EXPECT_EQ(PtlSetPIDMap(PTL_INVALID_HANDLE, map, 3), PTL_OK);
  };
  ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
  set();
  EXPECT_EQ(init(68, &ni), PTL_FAIL);
  EXPECT_TRUE(g_opened.request.group.set);
  EXPECT_EQ(init(68, &ni), PTL_FAIL);
  EXPECT_FALSE(g_opened.request.group.set);
  EXPECT_TRUE(g_opened.map.empty());
  set();
  ASSERT_EQ(init(PTL_PID_ANY, &ni), PTL_OK);
  EXPECT_EQ(g_opened.request.group.rank, 1u);
  EXPECT_EQ(g_opened.request.group.size, 3u);
  EXPECT_EQ(g_opened.map, std::vector<ptl_pid_t>(map, map + 3));
  unsigned rank = 0, size = 0;
  EXPECT_EQ(PtlGetRank(ni, &rank, &size), PTL_OK);
  EXPECT_EQ(rank, 1u);
  EXPECT_EQ(size, 3u);
  PtlFini();
}

TEST_F(PortalsInterface, WrongInterface) {
  ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
  EXPECT_EQ(init(PTL_PID_ANY, &ni, 1), PTL_IFACE_INVALID);
  EXPECT_EQ(init(PTL_PID_ANY, nullptr), PTL_SEGV);
  set_ni_opener(nullptr);
  EXPECT_EQ(init(PTL_PID_ANY, &ni), PTL_IFACE_INVALID) << "no interface is built in";
  PtlFini();
}

TEST_F(PortalsInterface, InitAndFiniAreCounted) {
  ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
  ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
  ASSERT_EQ(init(PTL_PID_ANY, &ni), PTL_OK);
  PtlFini();
  ptl_uid_t uid;
  EXPECT_EQ(PtlGetUid(ni, &uid), PTL_OK);
  EXPECT_EQ(g_opened.leaves, 0);
  PtlFini();
  EXPECT_EQ(PtlGetUid(ni, &uid), PTL_NO_INIT);
  EXPECT_EQ(g_opened.leaves, 1);
}

TEST_F(PortalsInterface, SixteenInterfacesAtMost) {
  World world(kEager, 1);
  std::vector<std::unique_ptr<World>> more;
  for (int i = 1; i < 16; ++i) more.push_back(std::make_unique<World>(kEager, 1));
  Portals& last = more.back()->node(0).portals;
  EXPECT_EQ(register_ni(last), PTL_INVALID_HANDLE);
}

}  // namespace
}  // namespace torii
