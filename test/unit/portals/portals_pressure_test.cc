// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Requests that are refused while the sender is still at work, because its driver has no room.
#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

constexpr size_t kBytes = 7000;  // several frames, all sent eagerly

Network crowded() { return {.name = "crowded", .again_ppm = 600000}; }

// The answer to a message comes after its last frame, whatever becomes of it.
TEST(PortalsUnderPressure, ADroppedMessageOfSeveralFramesIsAnsweredOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(crowded(), 2, seed);
    Node &a = world.node(0), &b = world.node(1);
    const ptl_handle_eq_t eq = make_eq(a);
    std::vector<std::byte> source = pattern(kBytes);
    const ptl_handle_md_t md = bind(a, make_md(source.data(), kBytes, 0, PTL_MD_THRESH_INF, eq));
    ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
    world.settle();
    EXPECT_EQ(kinds(drain(eq)), "SEND_START SEND_END");
    EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 1u);
    ASSERT_EQ(a.protocol.ops().used(), 0u) << "seed " << seed;
    ASSERT_EQ(b.protocol.ops().used(), 0u) << "seed " << seed;
    ASSERT_EQ(a.counters.bad_frames, 0u) << "seed " << seed;
  }
}

TEST(PortalsUnderPressure, AHeldMessageMayBeDiscardedBeforeItsLastFrame) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(crowded(), 2, seed);
    Node &a = world.node(0), &b = world.node(1);
    const ptl_handle_eq_t eq = make_eq(a);
    std::vector<std::byte> source = pattern(kBytes);
    const ptl_handle_md_t md = bind(a, make_md(source.data(), kBytes, 0, PTL_MD_THRESH_INF, eq));
    ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 1), PTL_OK);
    ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
    while (b.status(PTL_SR_HELD_CUR) == 0) world.step();
    ASSERT_EQ(PtlPTFlowControl(b.handle, kPortal, 0), PTL_OK);
    world.settle();
    EXPECT_EQ(kinds(drain(eq)), "SEND_START SEND_END");
    ASSERT_EQ(a.protocol.ops().used(), 0u) << "seed " << seed;
    ASSERT_EQ(b.protocol.ops().used(), 0u) << "seed " << seed;
    ASSERT_EQ(a.counters.bad_frames, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace torii
