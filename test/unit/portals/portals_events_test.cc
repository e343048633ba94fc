// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The event sequences of every kind of operation, at both sides, over every way in which the bytes
// can move; the contents of the events; and the options that leave events out.
#include <algorithm>

#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

class PortalsEvents : public PortalsPair {
 protected:
  static constexpr size_t kBytes = 5000;  // more than a frame of the simulated network
  std::vector<std::byte> source = pattern(kBytes);
  std::vector<std::byte> destination = std::vector<std::byte>(kBytes);

  ptl_handle_md_t source_md(unsigned options = 0, int threshold = PTL_MD_THRESH_INF,
                            ptl_unlink_t unlink = PTL_RETAIN) {
    return bind(a, make_md(source.data(), kBytes, options, threshold, eq_a), unlink);
  }
  Target target_md(unsigned options, ptl_size_t length = kBytes, int threshold = PTL_MD_THRESH_INF,
                   ptl_unlink_t unlink = PTL_RETAIN) {
    return make_target(b, make_md(destination.data(), length, options, threshold, eq_b), unlink);
  }
};

TEST_P(PortalsEvents, PutWithoutAcknowledgement) {
  target_md(PTL_MD_OP_PUT);
  ASSERT_EQ(put(source_md(), b), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END");
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(source, destination);
}

// SEND_END and ACK come in any order.
TEST_P(PortalsEvents, PutWithAcknowledgement) {
  target_md(PTL_MD_OP_PUT);
  ASSERT_EQ(put(source_md(), b, 1, PTL_ACK_REQ), PTL_OK);
  const std::string kinds = at_a();
  EXPECT_TRUE(kinds == "SEND_START SEND_END ACK" || kinds == "SEND_START ACK SEND_END") << kinds;
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
}

TEST_P(PortalsEvents, PutTruncatedToNothingIsAcknowledgedWithNothing) {
  target_md(PTL_MD_OP_PUT | PTL_MD_TRUNCATE, 0);
  ASSERT_EQ(put(source_md(), b, 1, PTL_ACK_REQ), PTL_OK);
  EXPECT_EQ(at_a().size(), std::strlen("SEND_START SEND_END ACK"));
  for (const ptl_event_t& event : events_a) {
    if (event.type != PTL_EVENT_ACK) continue;
    EXPECT_EQ(event.mlength, 0u);
    EXPECT_EQ(event.rlength, 0u);
  }
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].mlength, 0u);
  EXPECT_EQ(events_b[1].rlength, kBytes);
}

TEST_P(PortalsEvents, AckDisableAtTheTarget) {
  target_md(PTL_MD_OP_PUT | PTL_MD_ACK_DISABLE);
  ASSERT_EQ(put(source_md(), b, 1, PTL_ACK_REQ), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END");
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
}

TEST_P(PortalsEvents, DroppedPutIsSilent) {
  const ptl_handle_md_t md = source_md();
  ASSERT_EQ(put(md, b, 99, PTL_ACK_REQ), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END");
  ASSERT_EQ(at_b(), "");
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 1u);
  EXPECT_EQ(PtlMDUnlink(md), PTL_OK);
}

TEST_P(PortalsEvents, Get) {
  const auto content = pattern(kBytes, 3);
  std::copy(content.begin(), content.end(), destination.begin());
  target_md(PTL_MD_OP_GET);
  ASSERT_EQ(PtlGet(source_md(), b.id(), kPortal, 0, 1, 0), PTL_OK);
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END");
  ASSERT_EQ(at_b(), "GET_START GET_END");
  EXPECT_EQ(source, content);
}

TEST_P(PortalsEvents, DroppedGetIsSilentAndLetsTheDescriptorGo) {
  const ptl_handle_md_t md = source_md();
  ASSERT_EQ(PtlGet(md, b.id(), kPortal, 0, 99, 0), PTL_OK);
  ASSERT_EQ(at_a(), "");
  ASSERT_EQ(at_b(), "");
  EXPECT_EQ(b.status(PTL_SR_DROP_COUNT), 1u);
  EXPECT_EQ(PtlMDUnlink(md), PTL_OK);
}

TEST_P(PortalsEvents, GetPut) {
  std::vector<std::byte> old_content = pattern(64, 5), fetched(64);
  std::memcpy(destination.data(), old_content.data(), 64);
  target_md(PTL_MD_OP_PUT | PTL_MD_OP_GET, 64);
  const ptl_handle_eq_t put_eq = make_eq(a);
  const auto put_md = bind(a, make_md(source.data(), 64, 0, 1, put_eq));
  const auto get_md = bind(a, make_md(fetched.data(), 64, 0, 1, eq_a));
  ASSERT_EQ(PtlGetPut(get_md, put_md, b.id(), kPortal, 0, 1, 0, 77), PTL_OK);
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END");
  EXPECT_EQ(kinds(drain(put_eq)), "SEND_START SEND_END");
  ASSERT_EQ(at_b(), "GETPUT_START GETPUT_END");
  EXPECT_EQ(events_b[1].hdr_data, 77u);
  EXPECT_EQ(fetched, old_content);
  EXPECT_EQ(std::memcmp(destination.data(), source.data(), 64), 0);
  EXPECT_EQ(a.status(PTL_SR_MDS_CUR), world.one_process() ? 3u : 2u);
}

TEST_P(PortalsEvents, UnlinkFollowsTheEndThatExhausted) {
  target_md(PTL_MD_OP_PUT, kBytes, 1, PTL_UNLINK);
  ASSERT_EQ(put(source_md(0, 1, PTL_UNLINK), b), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END UNLINK");
  ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
  EXPECT_EQ(events_b[0].link, events_b[1].link);
  EXPECT_EQ(events_b[0].link, events_b[2].link);
  EXPECT_EQ(events_b[2].md_handle, events_b[0].md_handle);
  EXPECT_EQ(a.status(PTL_SR_MDS_CUR), 0u);
  EXPECT_EQ(b.status(PTL_SR_MES_CUR), 0u);
}

TEST_P(PortalsEvents, UnlinkFollowsTheAckThatExhausted) {
  target_md(PTL_MD_OP_PUT);
  ASSERT_EQ(put(source_md(0, 2, PTL_UNLINK), b, 1, PTL_ACK_REQ), PTL_OK);
  const std::string kinds = at_a();
  EXPECT_TRUE(kinds == "SEND_START SEND_END ACK UNLINK" ||
              kinds == "SEND_START ACK SEND_END UNLINK")
      << kinds;
}

TEST_P(PortalsEvents, UnlinkFollowsTheReplyThatExhausted) {
  target_md(PTL_MD_OP_GET, kBytes, 1, PTL_UNLINK);
  ASSERT_EQ(PtlGet(source_md(0, 1, PTL_UNLINK), b.id(), kPortal, 0, 1, 0), PTL_OK);
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END UNLINK");
  ASSERT_EQ(at_b(), "GET_START GET_END UNLINK");
}

// Whatever the offset at the other process is.
TEST_P(PortalsEvents, OffsetsAreThoseOfTheDescriptorInTheEvent) {
  constexpr unsigned kBoth = PTL_MD_OP_PUT | PTL_MD_OP_GET;
  target_md(kBoth | PTL_MD_MANAGE_REMOTE);
  const auto md = source_md();
  const auto offsets = [&](const std::vector<ptl_event_t>& events) {
    std::string text;
    for (const ptl_event_t& e : events) text += std::to_string(e.offset) + ' ';
    return text;
  };
  ASSERT_EQ(PtlPutRegion(md, 16, 100, PTL_ACK_REQ, b.id(), kPortal, 0, 1, 40, 0), PTL_OK);
  at_b();
  EXPECT_EQ(offsets(events_b), "40 40 ");
  at_a();
  EXPECT_EQ(offsets(events_a), "16 16 16 ");
  ASSERT_EQ(put(md, b, 99, PTL_NO_ACK_REQ, 40), PTL_OK);
  at_a();
  EXPECT_EQ(offsets(events_a), "0 0 ");
  ASSERT_EQ(PtlGetRegion(md, 16, 100, b.id(), kPortal, 0, 1, 40), PTL_OK);
  at_b();
  EXPECT_EQ(offsets(events_b), "40 40 ");
  at_a();
  EXPECT_EQ(offsets(events_a), "16 16 ");
  const auto small = bind(a, make_md(source.data(), 64, 0, kInf, eq_a));
  ASSERT_EQ(PtlGetPut(small, small, b.id(), kPortal, 0, 1, 40, 7), PTL_OK);
  at_b();
  EXPECT_EQ(offsets(events_b), "40 40 ");
  ASSERT_EQ(at_a(), "SEND_START SEND_END REPLY_START REPLY_END");
  EXPECT_EQ(offsets(events_a), "0 0 0 0 ");
}

// UNLINK has the fields of the event before it, which in these cases is that of its cause.
void expect_like_the_one_before(const std::vector<ptl_event_t>& events, int threshold = 0) {
  ASSERT_GE(events.size(), 2u);
  const ptl_event_t& unlink = events.back();
  const ptl_event_t& cause = events[events.size() - 2];
  ASSERT_EQ(unlink.type, PTL_EVENT_UNLINK);
  EXPECT_EQ(unlink.initiator.nid, cause.initiator.nid);
  EXPECT_EQ(unlink.initiator.pid, cause.initiator.pid);
  EXPECT_EQ(unlink.uid, cause.uid);
  EXPECT_EQ(unlink.jid, cause.jid);
  EXPECT_EQ(unlink.pt_index, cause.pt_index);
  EXPECT_EQ(unlink.match_bits, cause.match_bits);
  EXPECT_EQ(unlink.rlength, cause.rlength);
  EXPECT_EQ(unlink.mlength, cause.mlength);
  EXPECT_EQ(unlink.offset, cause.offset);
  EXPECT_EQ(unlink.hdr_data, cause.hdr_data);
  EXPECT_EQ(unlink.link, cause.link);
  EXPECT_EQ(unlink.md_handle, cause.md_handle);
  EXPECT_EQ(unlink.md.threshold, threshold);
  EXPECT_EQ(unlink.ni_fail_type, PTL_NI_OK);
}

TEST_P(PortalsEvents, UnlinkTellsOfPutAndSend) {
  target_md(PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, kBytes, 1, PTL_UNLINK);
  ASSERT_EQ(PtlPutRegion(source_md(0, 1, PTL_UNLINK), 16, 100, PTL_NO_ACK_REQ, b.id(), kPortal, 0,
                         1, 40, 77),
            PTL_OK);
  ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
  expect_like_the_one_before(events_b);
  EXPECT_EQ(events_b[2].initiator.pid, a.id().pid);
  EXPECT_EQ(events_b[2].offset, 40u);
  EXPECT_EQ(events_b[2].hdr_data, 77u);
  ASSERT_EQ(at_a(), "SEND_START SEND_END UNLINK");
  expect_like_the_one_before(events_a);
  EXPECT_EQ(events_a[2].match_bits, 1u);
  EXPECT_EQ(events_a[2].offset, 16u);
}

// A descriptor that fills up goes by the MAX_SIZE rule; its last put is the cause.
TEST_P(PortalsEvents, UnlinkTellsOfThePutThatFilledTheDescriptor) {
  ptl_md_t md = make_md(destination.data(), 100, PTL_MD_OP_PUT | PTL_MD_MAX_SIZE, kInf, eq_b);
  md.max_size = 50;
  make_target(b, md, PTL_UNLINK, 0, ~ptl_match_bits_t{0});
  const auto from = source_md();
  const auto put_30 = [&](ptl_match_bits_t bits) {
    return PtlPutRegion(from, 0, 30, PTL_NO_ACK_REQ, b.id(), kPortal, 0, bits, 0, 0);
  };
  ASSERT_EQ(put_30(5), PTL_OK);
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  ASSERT_EQ(put_30(6), PTL_OK);
  ASSERT_EQ(at_b(), "PUT_START PUT_END UNLINK");
  expect_like_the_one_before(events_b, kInf);
  EXPECT_EQ(events_b[2].match_bits, 6u);
  EXPECT_EQ(events_b[2].offset, 30u);
}

TEST_P(PortalsEvents, UnlinkTellsOfTheAcknowledgement) {
  target_md(PTL_MD_OP_PUT | PTL_MD_TRUNCATE, 60);
  const unsigned quiet = PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;
  ASSERT_EQ(PtlPutRegion(source_md(quiet, 2, PTL_UNLINK), 16, 100, PTL_ACK_REQ, b.id(), kPortal, 0,
                         1, 0, 77),
            PTL_OK);
  ASSERT_EQ(at_a(), "ACK UNLINK");
  expect_like_the_one_before(events_a);
  EXPECT_EQ(events_a[1].initiator.pid, b.id().pid);
  EXPECT_EQ(events_a[1].mlength, 60u);
}

TEST_P(PortalsEvents, UnlinkTellsOfGetAndReply) {
  target_md(PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, kBytes, 1, PTL_UNLINK);
  ASSERT_EQ(PtlGetRegion(source_md(0, 1, PTL_UNLINK), 16, 100, b.id(), kPortal, 0, 1, 40), PTL_OK);
  ASSERT_EQ(at_b(), "GET_START GET_END UNLINK");
  expect_like_the_one_before(events_b);
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END UNLINK");
  expect_like_the_one_before(events_a);
  EXPECT_EQ(events_a[2].initiator.pid, b.id().pid);
  EXPECT_EQ(events_a[2].offset, 16u);
}

TEST_P(PortalsEvents, UnlinkTellsOfGetPut) {
  target_md(PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, kBytes, 1, PTL_UNLINK);
  const auto put_md = bind(a, make_md(source.data(), 64, 0, 1, PTL_EQ_NONE));
  const auto get_md = bind(a, make_md(source.data() + 64, 64, 0, 1, eq_a), PTL_UNLINK);
  ASSERT_EQ(PtlGetPut(get_md, put_md, b.id(), kPortal, 0, 1, 40, 77), PTL_OK);
  ASSERT_EQ(at_b(), "GETPUT_START GETPUT_END UNLINK");
  expect_like_the_one_before(events_b);
  EXPECT_EQ(events_b[2].hdr_data, 77u);
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END UNLINK");
  expect_like_the_one_before(events_a);
}

TEST_P(PortalsEvents, UnlinkByTheUserIsSilent) {
  const Target entry = target_md(PTL_MD_OP_PUT, kBytes, 1, PTL_UNLINK);
  const auto md = source_md(0, 1, PTL_UNLINK);
  EXPECT_EQ(PtlMEUnlink(entry.me), PTL_OK);
  EXPECT_EQ(PtlMDUnlink(md), PTL_OK);
  EXPECT_EQ(at_a(), "");
  EXPECT_EQ(at_b(), "");
}

TEST_P(PortalsEvents, ZeroLength) {
  make_target(b, make_md(nullptr, 0, PTL_MD_OP_PUT | PTL_MD_OP_GET, PTL_MD_THRESH_INF, eq_b));
  const auto md = bind(a, make_md(nullptr, 0, 0, PTL_MD_THRESH_INF, eq_a));
  ASSERT_EQ(put(md, b), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END");
  ASSERT_EQ(at_b(), "PUT_START PUT_END");
  EXPECT_EQ(events_b[1].rlength, 0u);
  ASSERT_EQ(PtlGet(md, b.id(), kPortal, 0, 1, 0), PTL_OK);
  ASSERT_EQ(at_a(), "REPLY_START REPLY_END");
  ASSERT_EQ(at_b(), "GET_START GET_END");
  ASSERT_EQ(PtlGetPut(md, md, b.id(), kPortal, 0, 1, 0, 0), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_START SEND_END REPLY_START REPLY_END");
  ASSERT_EQ(at_b(), "GETPUT_START GETPUT_END");
}

TEST_P(PortalsEvents, BothSidesOnOneQueue) {
  make_target(a, make_md(destination.data(), kBytes, PTL_MD_OP_PUT, 1, eq_a), PTL_UNLINK);
  ASSERT_EQ(put(source_md(), a, 1, PTL_ACK_REQ), PTL_OK);
  world.settle();
  std::map<ptl_event_kind_t, int> count;
  for (const ptl_event_t& event : drain(eq_a)) ++count[event.type];
  EXPECT_EQ(count.size(), 6u);  // SEND_*, PUT_*, ACK, UNLINK
  for (auto& [kind, n] : count) EXPECT_EQ(n, 1) << PtlEventKindStr(kind);
}

TEST_P(PortalsEvents, DisabledStartAndEndLeaveAckAndUnlink) {
  const unsigned quiet = PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;
  target_md(PTL_MD_OP_PUT | quiet, kBytes, 1, PTL_UNLINK);
  ASSERT_EQ(put(source_md(quiet, 2, PTL_UNLINK), b, 1, PTL_ACK_REQ), PTL_OK);
  ASSERT_EQ(at_a(), "ACK UNLINK");
  ASSERT_EQ(at_b(), "UNLINK");
}

TEST_P(PortalsEvents, LinkWorksWithoutStart) {
  target_md(PTL_MD_OP_PUT | PTL_MD_EVENT_START_DISABLE, kBytes, 2, PTL_UNLINK);
  const auto md = source_md(PTL_MD_EVENT_START_DISABLE);
  ASSERT_EQ(PtlPutRegion(md, 0, 10, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 0), PTL_OK);
  ASSERT_EQ(PtlPutRegion(md, 0, 10, PTL_NO_ACK_REQ, b.id(), kPortal, 0, 1, 0, 0), PTL_OK);
  ASSERT_EQ(at_a(), "SEND_END SEND_END");
  EXPECT_NE(events_a[0].link, events_a[1].link);
  ASSERT_EQ(at_b(), "PUT_END PUT_END UNLINK");
  EXPECT_NE(events_b[0].link, events_b[1].link);
  EXPECT_EQ(events_b[2].link, events_b[1].link);
}

TEST_P(PortalsEvents, NoQueueNoEventsNoAcknowledgement) {
  make_target(b, make_md(destination.data(), kBytes, PTL_MD_OP_PUT, 1, PTL_EQ_NONE), PTL_UNLINK);
  const auto md = bind(a, make_md(source.data(), kBytes, 0, 2, PTL_EQ_NONE), PTL_UNLINK);
  ASSERT_EQ(put(md, b, 1, PTL_ACK_REQ), PTL_OK);
  ASSERT_EQ(at_a(), "");
  ASSERT_EQ(at_b(), "");
  EXPECT_EQ(source, destination);
  // Without a queue the acknowledgement is not asked for, so one operation is left.
  ptl_md_t now{};
  ASSERT_EQ(PtlMDUpdate(md, &now, nullptr, PTL_EQ_NONE), PTL_OK);
  EXPECT_EQ(now.threshold, 1);
}

TEST_P(PortalsEvents, ContentsOfPutAndAcknowledgement) {
  int mark_a = 0, mark_b = 0;
  ptl_md_t from = make_md(source.data(), kBytes, 0, 10, eq_a);
  from.user_ptr = &mark_a;
  ptl_md_t to = make_md(destination.data(), 3000,
                        PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_TRUNCATE, 8, eq_b);
  to.user_ptr = &mark_b;
  const Target t = make_target(b, to, PTL_RETAIN, 0xab, 0);
  const auto md = bind(a, from);
  ASSERT_EQ(PtlPutRegion(md, 100, 2000, PTL_ACK_REQ, b.id(), kPortal, 3, 0xab, 1500, 0x1234),
            PTL_OK);
  at_b();
  ASSERT_EQ(events_b.size(), 2u);
  for (const ptl_event_t& e : events_b) {
    EXPECT_EQ(e.initiator.nid, a.id().nid);
    EXPECT_EQ(e.initiator.pid, a.id().pid);
    EXPECT_EQ(e.uid, 1000u);
    EXPECT_EQ(e.jid, 0x70000001u);
    EXPECT_EQ(e.pt_index, kPortal);
    EXPECT_EQ(e.match_bits, 0xabu);
    EXPECT_EQ(e.rlength, 2000u);
    EXPECT_EQ(e.mlength, 1500u);
    EXPECT_EQ(e.offset, 1500u);
    EXPECT_EQ(e.hdr_data, 0x1234u);
    EXPECT_EQ(e.md_handle, t.md);
    EXPECT_EQ(e.md.user_ptr, &mark_b);
    EXPECT_EQ(e.md.threshold, 7);  // as it is after the operation
    EXPECT_EQ(e.md.start, destination.data());
  }
  EXPECT_EQ(events_b[1].sequence, events_b[0].sequence + 1);
  EXPECT_EQ(std::memcmp(destination.data() + 1500, source.data() + 100, 1500), 0);
  at_a();
  ASSERT_EQ(events_a.size(), 3u);
  for (const ptl_event_t& e : events_a) {
    const Node& who = e.type == PTL_EVENT_ACK ? b : a;
    EXPECT_EQ(e.initiator.nid, who.id().nid);
    EXPECT_EQ(e.initiator.pid, who.id().pid);
    EXPECT_EQ(e.pt_index, kPortal);
    EXPECT_EQ(e.match_bits, 0xabu);
    EXPECT_EQ(e.rlength, e.type == PTL_EVENT_ACK ? 1500u : 2000u);
    EXPECT_EQ(e.mlength, e.rlength);
    EXPECT_EQ(e.offset, 100u);  // in the local descriptor
    EXPECT_EQ(e.hdr_data, 0x1234u);
    EXPECT_EQ(e.md_handle, md);
    EXPECT_EQ(e.md.user_ptr, &mark_a);
    EXPECT_EQ(e.link, events_a[0].link);
  }
}

TEST_P(PortalsEvents, ContentsOfGetAndReply) {
  const auto content = pattern(kBytes, 9);
  destination = content;
  make_target(b, make_md(destination.data(), 3000,
                         PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_TRUNCATE, 8, eq_b));
  const auto md = source_md(0, 5);
  ASSERT_EQ(PtlGetRegion(md, 100, 2000, b.id(), kPortal, 0, 1, 1500), PTL_OK);
  at_b();
  ASSERT_EQ(events_b.size(), 2u);
  EXPECT_EQ(events_b[1].rlength, 2000u);
  EXPECT_EQ(events_b[1].mlength, 1500u);
  EXPECT_EQ(events_b[1].offset, 1500u);
  EXPECT_EQ(events_b[1].hdr_data, 0u);
  at_a();
  ASSERT_EQ(events_a.size(), 2u);
  for (const ptl_event_t& e : events_a) {
    EXPECT_EQ(e.initiator.nid, b.id().nid);
    EXPECT_EQ(e.initiator.pid, b.id().pid);
    EXPECT_EQ(e.pt_index, kPortal);
    EXPECT_EQ(e.match_bits, 1u);
    EXPECT_EQ(e.rlength, 2000u);
    EXPECT_EQ(e.mlength, 1500u);
    EXPECT_EQ(e.offset, 100u);  // in the local descriptor
    EXPECT_EQ(e.md.threshold, 4);
    EXPECT_EQ(e.link, events_a[0].link);
  }
  const auto untouched = pattern(kBytes);
  EXPECT_EQ(std::memcmp(source.data() + 100, content.data() + 1500, 1500), 0);
  EXPECT_EQ(std::memcmp(source.data(), untouched.data(), 100), 0);
  EXPECT_EQ(std::memcmp(source.data() + 1600, untouched.data() + 1600, kBytes - 1600), 0);
}

INSTANTIATE_TEST_SUITE_P(Networks, PortalsEvents, testing::ValuesIn(all_networks()), network_name);

}  // namespace
}  // namespace torii
