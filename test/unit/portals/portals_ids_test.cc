// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Identity of processes: the ids that processes agree on, and the maps that programs set and read.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/api/process_ids.h"
#include "core/base/param.h"
#include "core/boot/boot.h"
#include "unit/portals/portals_kit.h"

using namespace torii;

namespace {

using Ids = std::vector<ptl_process_id_t>;

constexpr uint32_t kAny = PTL_PID_ANY;

// "nid.pid" of every rank, "-" for one without; also checks the way back.
std::string ids_of(const std::vector<uint32_t>& nodes, const std::vector<uint32_t>& wanted) {
  const ProcessIds ids(ProcessMap(nodes), wanted);
  std::string text;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (uint32_t r = 0; r < ids.size(); ++r) {
    text += r ? " " : "";
    if (!ids.has_ids(r)) {
      text += "-";
      continue;
    }
    text += std::to_string(ids.nid(r)) + "." + std::to_string(ids.pid(r));
    EXPECT_TRUE(seen.emplace(ids.nid(r), ids.pid(r)).second) << "two of one id: " << text;
    uint32_t back = ~0u;
    EXPECT_TRUE(ids.rank_of(ids.nid(r), ids.pid(r), &back));
    EXPECT_EQ(back, r);
  }
  return text;
}

TEST(ProcessIds, CountFromOneOnEachNode) {
  EXPECT_EQ(ids_of({0}, {kAny}), "1.1");
  EXPECT_EQ(ids_of({0, 0, 1, 0}, {kAny, kAny, kAny, kAny}), "1.1 1.2 2.1 1.3");
}

TEST(ProcessIds, APidIsHadWhereItIsFree) {
  EXPECT_EQ(ids_of({0, 1, 2}, {99, 99, 99}), "1.99 2.99 3.99");
  EXPECT_EQ(ids_of({0, 0, 1}, {0, kAny, 12345}), "1.0 1.2 2.12345");
  // Those without a wish make way.
  EXPECT_EQ(ids_of({0, 0, 0}, {kAny, kAny, 1}), "1.2 1.3 1.1");
  EXPECT_EQ(ids_of({5, 5}, {2, 1}), "6.2 6.1");
}

TEST(ProcessIds, OfTwoWhoAskForOnePidTheLowerRankHasIt) {
  EXPECT_EQ(ids_of({0, 1, 0, 0}, {7, 7, 7, kAny}), "1.7 2.7 - 1.3");
}

TEST(ProcessIds, UnknownIds) {
  const std::vector<uint32_t> wanted{kAny, kAny};
  const ProcessIds ids(ProcessMap({0, kNodeMax}), wanted);
  uint32_t rank = 0;
  EXPECT_EQ(ids.nid(1), kNodeMax + 1);
  EXPECT_NE(ids.nid(1), PTL_NID_ANY);
  for (const ptl_process_id_t id : Ids{{0, 1}, {1, 0}, {1, 2}, {2, 1}, {PTL_NID_ANY, PTL_PID_ANY}})
    EXPECT_FALSE(ids.rank_of(id.nid, id.pid, &rank)) << id.nid << "." << id.pid;
}

// --- PtlSetNIDMap and the like
// --------------------------------------------------------------------

class PortalsMaps : public testing::Test {
 protected:
  // The ids of the first `size` ranks.
  Ids ids(unsigned size) {
    Ids all(size);
    for (unsigned rank = 0; rank < size; ++rank)
      EXPECT_EQ(PtlGetRankId(a, rank, &all[rank]), PTL_OK) << rank;
    return all;
  }
  static std::string text(const Ids& ids) {
    std::string all;
    for (const ptl_process_id_t id : ids)
      all += std::to_string(id.nid) + "." + std::to_string(id.pid) + " ";
    return all;
  }

  World world{kEager, 3};
  const ptl_handle_ni_t a = world.node(0).handle;
  ptl_nid_t nids[4] = {};
  ptl_pid_t pids[4] = {};
};

TEST_F(PortalsMaps, SayWhatTheLauncherSays) {
  ASSERT_EQ(PtlGetNIDMap(a, nids, 3), PTL_OK);
  ASSERT_EQ(PtlGetPIDMap(a, pids, 3), PTL_OK);
  EXPECT_EQ((std::vector<uint32_t>{nids, nids + 3}), (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ((std::vector<uint32_t>{pids, pids + 3}), (std::vector<uint32_t>{1, 2, 1}));
}

TEST_F(PortalsMaps, AreWhatTheProgramSets) {
  const ptl_nid_t new_nids[] = {0, 8, 9};
  const ptl_pid_t new_pids[] = {1, 18, 19};
  ASSERT_EQ(PtlSetNIDMap(a, new_nids, 3), PTL_OK);
  EXPECT_EQ(text(ids(3)), "0.1 8.2 9.1 ");
  ASSERT_EQ(PtlSetPIDMap(a, new_pids, 3), PTL_OK);
  EXPECT_EQ(text(ids(3)), "0.1 8.18 9.19 ");
  ASSERT_EQ(PtlGetNIDMap(a, nids, 3), PTL_OK);
  ASSERT_EQ(PtlGetPIDMap(a, pids, 3), PTL_OK);
  EXPECT_EQ(nids[2], 9u);
  EXPECT_EQ(pids[2], 19u);
}

// A program whose group is another one than the launcher's job.
TEST_F(PortalsMaps, OfAGroupOfTheProgram) {
  const ptl_nid_t new_nids[] = {5, 0, 6, 7};
  const ptl_pid_t new_pids[] = {15, 1, 16, 17};
  ASSERT_EQ(PtlSetRank(a, 1, 4), PTL_OK);
  EXPECT_EQ(PtlGetNIDMap(a, nids, 4), PTL_FAIL) << "nobody told the ids of rank 3";
  ASSERT_EQ(PtlSetNIDMap(a, new_nids, 4), PTL_OK);
  ASSERT_EQ(PtlSetPIDMap(a, new_pids, 4), PTL_OK);
  EXPECT_EQ(text(ids(4)), "5.15 0.1 6.16 7.17 ");
  ASSERT_EQ(PtlGetPIDMap(a, pids, 4), PTL_OK);
  EXPECT_EQ(pids[3], 17u);
}

TEST_F(PortalsMaps, AreChecked) {
  const ptl_nid_t other_nid[] = {1, 0, 1};
  const ptl_pid_t other_pid[] = {2, 1, 1};
  EXPECT_EQ(PtlSetNIDMap(a, other_nid, 3), PTL_FAIL) << "this process is on node 0";
  EXPECT_EQ(PtlSetPIDMap(a, other_pid, 3), PTL_PID_INVALID) << "this process is pid 1";
  EXPECT_EQ(text(ids(3)), "0.1 0.2 1.1 ");
  for (const unsigned size : {0u, 2u, 4u, ~0u}) {
    EXPECT_EQ(PtlSetNIDMap(a, nids, size), PTL_FAIL) << size;
    EXPECT_EQ(PtlSetPIDMap(a, pids, size), PTL_FAIL) << size;
    EXPECT_EQ(PtlGetNIDMap(a, nids, size), PTL_FAIL) << size;
    EXPECT_EQ(PtlGetPIDMap(a, pids, size), PTL_FAIL) << size;
  }
  for (const ptl_handle_ni_t ni : {a, PTL_INVALID_HANDLE}) {
    EXPECT_EQ(PtlSetNIDMap(ni, nullptr, 3), PTL_SEGV);
    EXPECT_EQ(PtlSetPIDMap(ni, nullptr, 3), PTL_SEGV);
  }
  EXPECT_EQ(PtlGetNIDMap(a, nullptr, 3), PTL_SEGV);
  EXPECT_EQ(PtlGetPIDMap(a, nullptr, 3), PTL_SEGV);
  EXPECT_EQ(PtlSetNIDMap(a ^ 1, nids, 3), PTL_NI_INVALID);
  EXPECT_EQ(PtlSetPIDMap(a ^ 1, pids, 3), PTL_NI_INVALID);
  EXPECT_EQ(PtlGetNIDMap(PTL_INVALID_HANDLE, nids, 3), PTL_NI_INVALID);
  EXPECT_EQ(PtlGetPIDMap(PTL_INVALID_HANDLE, pids, 3), PTL_NI_INVALID);
}

// --- programs that expect no UNLINK events -------------------------------------------------------

TEST(PortalsUnlinkEvents, CanBeSwitchedOff) {
  World world(kEager, 2);
  Node &a = world.node(0), &b = world.node(1);
  std::string why;
  char bytes[8] = {};
  for (const char* choice : {"no", "yes"}) {
    ASSERT_EQ(param_set("portals_unlink_events", choice, "test", &why), Status::ok) << why;
    const std::string unlink = choice == std::string("yes") ? " UNLINK" : "";
    const ptl_handle_eq_t eq_a = make_eq(a, 3), eq_b = make_eq(b, 3);
    const Target target = make_target(b, make_md(bytes, 8, PTL_MD_OP_PUT, 1, eq_b), PTL_UNLINK);
    const ptl_handle_md_t source = bind(a, make_md(bytes, 8, 0, 1, eq_a), PTL_UNLINK);
    ASSERT_EQ(put(source, b), PTL_OK);
    world.settle();
    EXPECT_EQ(kinds(drain(eq_a)), "SEND_START SEND_END" + unlink);
    EXPECT_EQ(kinds(drain(eq_b)), "PUT_START PUT_END" + unlink);
    EXPECT_EQ(PtlMDUnlink(target.md), PTL_MD_INVALID) << "it has unlinked itself all the same";
    EXPECT_EQ(PtlMDUnlink(source), PTL_MD_INVALID);
  }
}

}  // namespace
