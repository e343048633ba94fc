// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Groups over a simulated network: when a message is one frame, when it is one for each member, and
// that members see no difference.
#include "core/multicast/group.h"

#include <cstring>
#include <random>

#include "core/base/log.h"
#include "core/base/param.h"
#include "party.h"

namespace torii {
namespace {

using test::flat;
using test::note;
using test::Outcome;
using test::Party;
using test::Tap;

TEST(Group, OneFrameLeavesForAllMembers) {
  Party p(5);
  p.open_everywhere();
  EXPECT_EQ(torii_group_path(p.groups[0]), TORII_MULTICAST);
  EXPECT_STREQ(torii_group_text(p.groups[0]), "group all of 5: one frame by sim");
  for (const std::string text : {"", "x", "hello"}) {
    const unsigned before = p.taps[0].frames;
    const uint64_t sent = p.counters(0).frames_sent;
    Outcome outcome;
    EXPECT_EQ(TORII_OK, p.send(0, text, &outcome));
    EXPECT_EQ(p.taps[0].frames, before + 1);
    EXPECT_EQ(p.counters(0).frames_sent, sent + 1);
    for (unsigned i = 1; i < 5; ++i) EXPECT_EQ(p.receive(i, 0), text) << i;
    EXPECT_EQ(p.receive(0, 0), "(nothing)") << "to this process itself";
    EXPECT_EQ(outcome.calls, 0);
  }
  EXPECT_EQ(p.counters(0).multicast_frames, 3u);
  EXPECT_EQ(p.counters(0).group_unicasts, 0u);
}

// The largest message of one frame, and the next.
TEST(Group, LargeMessagesGoToEachMember) {
  Party p(4);
  p.open_everywhere();
  const size_t small = reinterpret_cast<Peer*>(p.peers[0][1])->plan.small_max;
  for (const size_t bytes : {small, small + 1, size_t{30000}, size_t{150000}}) {
    const uint64_t before = p.counters(0).multicast_frames;
    const std::string text(bytes, char('a' + bytes % 26));
    Outcome outcome;
    const int code = p.send(0, text, &outcome);
    EXPECT_EQ(p.counters(0).multicast_frames, before + (bytes == small));
    for (unsigned i = 1; i < 4; ++i) EXPECT_TRUE(p.receive(i, 0) == text) << bytes;
    EXPECT_EQ(outcome.calls, code == TORII_PENDING) << bytes;
    if (code != TORII_PENDING) continue;
    EXPECT_EQ(outcome.result.code, TORII_OK);
    EXPECT_EQ(outcome.result.bytes, bytes);
    EXPECT_EQ(outcome.result.source, nullptr);
  }
  EXPECT_EQ(p.counters(0).group_unicasts, 3u);
}

TEST(Group, MembersMayOpenLate) {
  Party p(4);
  for (unsigned i : {0, 1, 2}) p.open(i);
  p.world.run();
  EXPECT_EQ(torii_group_path(p.groups[0]), TORII_UNICAST);
  EXPECT_STREQ(torii_group_text(p.groups[0]),
               "group all of 4: one message for each member until all have joined, then one frame "
               "by sim");
  Outcome outcome;
  EXPECT_EQ(TORII_OK, p.send(0, "early", &outcome));
  p.world.run();
  p.open(3);
  EXPECT_EQ(TORII_OK, p.send(3, "before I know who has joined", &outcome));
  p.world.run();
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(torii_group_path(p.groups[i]), TORII_MULTICAST) << i;
  EXPECT_EQ(TORII_OK, p.send(0, "late", &outcome));
  for (unsigned i = 1; i < 4; ++i) {
    EXPECT_EQ(p.receive(i, 0), "early");
    EXPECT_EQ(p.receive(i, 0), "late");
  }
  EXPECT_EQ(p.receive(1, 3), "before I know who has joined");
}

// A member opens the group again while others have the old one still.
TEST(Group, OpeningAgainMakesAnotherGroup) {
  Party p(3);
  p.open_everywhere();
  ASSERT_EQ(TORII_OK, torii_group_close(p.groups[0]));
  p.open(0);
  p.world.run();
  EXPECT_EQ(torii_group_path(p.groups[0]), TORII_UNICAST);
  Outcome outcome;
  EXPECT_EQ(TORII_OK, p.send(0, "between", &outcome));
  for (unsigned i : {1, 2}) {
    ASSERT_EQ(TORII_OK, torii_group_close(p.groups[i]));
    p.open(i);
  }
  p.world.run();
  EXPECT_EQ(torii_group_path(p.groups[0]), TORII_MULTICAST);
  EXPECT_EQ(TORII_OK, p.send(0, "after", &outcome));
  for (unsigned i : {1, 2}) {
    EXPECT_EQ(p.receive(i, 0), "between");
    EXPECT_EQ(p.receive(i, 0), "after");
  }
}

TEST(Group, WhoeverCannotJoinGetsMessagesOfItsOwn) {
  for (const bool declared : {true, false}) {
    std::vector<Tap> taps(4);
    taps[2].multicast = declared;
    taps[2].join_says = Status::no_memory;
    Party p(taps);
    p.open_everywhere();
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(torii_group_path(p.groups[i]), TORII_UNICAST) << i;
    EXPECT_EQ(
        torii_group_text(p.groups[2]),
        std::string("group all of 4: one message for each member: driver sim ") +
            (declared ? "refused to join (" + std::string(status_text(Status::no_memory)) + ")"
                      : "has no multicast"));
    Outcome outcome;
    EXPECT_EQ(TORII_OK, p.send(0, "a", &outcome));
    EXPECT_EQ(TORII_OK, p.send(2, "c", &outcome));
    for (unsigned i = 1; i < 4; ++i) EXPECT_EQ(p.receive(i, 0), "a");
    EXPECT_EQ(p.receive(0, 2), "c");
    EXPECT_EQ(p.counters(0).multicast_frames + p.counters(2).multicast_frames, 0u);
    EXPECT_EQ(p.counters(0).group_unicasts, 1u);
  }
}

TEST(Group, TheReportSaysHowMessagesTravel) {
  std::string why;
  ASSERT_EQ(param_set("report", "yes", "test", &why), Status::ok) << why;
  const LogLevel before = log_level();
  set_log_level(LogLevel::info);
  testing::internal::CaptureStderr();
  {
    std::vector<Tap> taps(2);
    taps[1].join_says = Status::denied;
    Party p(taps);
    p.open_everywhere();
  }
  const std::string text = testing::internal::GetCapturedStderr();
  set_log_level(before);
  ASSERT_EQ(param_set("report", "no", "test", &why), Status::ok) << why;
  EXPECT_NE(text.find("torii report: rank 0: group all of 2: one message for each member until all "
                      "have joined, then one frame by sim\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("torii report: rank 1: group all of 2: one message for each member: driver "
                      "sim refused to join"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("info: group all of 2: "), std::string::npos) << text;
}

TEST(Group, CreditStaysRight) {
  Party p(4);
  p.open_everywhere();
  std::mt19937 random(1);
  Outcome outcome;
  unsigned calls = 0;
  constexpr unsigned kMessages = 10000;
  const std::string body(1000, 'b');
  unsigned received = 0;
  const auto drain = [&] {
    for (unsigned i = 1; i < 4; ++i) {
      std::string text(1000, '\0');
      torii_data_t d = flat(text.data(), text.size());
      torii_result_t r{};
      torii_message_t* message = nullptr;
      while (torii_mprobe(p.ports[i], nullptr, 0, ~0ull, &message, &r) == TORII_OK)
        received += torii_mrecv(p.ports[i], message, &d, note, &outcome, nullptr, &r) == TORII_OK;
    }
  };
  for (unsigned n = 0; n < kMessages; ++n) {
    calls += p.send(0, body.substr(0, random() % 1000), &outcome) == TORII_PENDING;
    p.world.step();
    drain();
  }
  p.world.run();
  drain();
  p.world.run();
  EXPECT_EQ(calls, 0u);
  // The window is used many times over, so credit comes back; and nearly all are one frame.
  EXPECT_GT(p.counters(0).bytes_sent, 4 * reinterpret_cast<Peer*>(p.peers[0][1])->window * 64);
  EXPECT_GT(p.counters(0).multicast_frames, kMessages * 9 / 10);
  EXPECT_EQ(p.counters(0).multicast_frames + p.counters(0).group_unicasts, kMessages);
  EXPECT_EQ(received, 3 * kMessages);
  p.expect_credit_adds_up();
}

TEST(Group, AMemberWithoutCreditIsAnnouncedTo) {
  Party p(3);
  p.open_everywhere();
  const auto* to = reinterpret_cast<Peer*>(p.peers[0][1]);
  std::string fill(1000, 'f');
  Outcome ignored;
  unsigned sent = 0;
  for (; to->credit >= wire::credit_units(fill.size()); ++sent) {
    torii_data_t d = flat(fill.data(), fill.size());
    ASSERT_GE(
        torii_send(p.ports[0], p.peers[0][1], TORII_STANDARD, 3, 9, &d, note, &ignored, nullptr),
        0);
    p.world.run(5);
  }
  const uint64_t multicasts = p.counters(0).multicast_frames;
  const uint64_t stalls = p.counters(0).credit_stalls;
  Outcome outcome;
  const std::string text(900, 'x');
  EXPECT_EQ(TORII_PENDING, p.send(0, text, &outcome));
  EXPECT_EQ(p.counters(0).multicast_frames, multicasts);
  EXPECT_EQ(p.counters(0).credit_stalls, stalls + 1);
  p.world.run();
  EXPECT_EQ(p.receive(2, 0), text) << "a member with credit does not wait";
  EXPECT_EQ(outcome.calls, 0);
  for (unsigned i = 0; i < sent; ++i) ASSERT_EQ(p.receive(1, 0), fill);
  EXPECT_EQ(p.receive(1, 0), text);
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_EQ(outcome.result.code, TORII_OK);
  EXPECT_EQ(TORII_OK, p.send(0, "again", &outcome));
  EXPECT_EQ(p.counters(0).multicast_frames, multicasts + 1);
  p.receive(1, 0);
  p.receive(2, 0);
  p.expect_credit_adds_up();
}

TEST(Group, ADeadMemberDoesNotKeepTheMessageFromOthers) {
  Party p(4);
  p.open_everywhere();
  p.world.kill(2);
  p.world.run();
  for (const size_t bytes : {size_t{10}, size_t{100000}}) {
    const std::string text(bytes, 't');
    const unsigned before = p.taps[0].frames;
    Outcome outcome;
    EXPECT_EQ(TORII_PENDING, p.send(0, text, &outcome));
    if (bytes == 10) {
      EXPECT_EQ(p.taps[0].frames, before + 1) << "one frame for those who live";
    }
    EXPECT_EQ(p.receive(1, 0), text);
    EXPECT_EQ(p.receive(3, 0), text);
    ASSERT_EQ(outcome.calls, 1);
    EXPECT_EQ(outcome.result.code, TORII_ERR_PEER_DEAD);
    EXPECT_EQ(outcome.result.source, p.peers[0][2]);
    EXPECT_EQ(outcome.result.bytes, 0u);
    EXPECT_EQ(outcome.result.sent_bytes, bytes);
  }
  EXPECT_EQ(p.counters(0).multicast_frames, 1u);
}

TEST(Group, AMemberThatDiesMeanwhileIsReportedOnceAllHaveEnded) {
  Party p(4);
  p.open_everywhere();
  const std::string text(100000, 't');
  Outcome outcome;
  EXPECT_EQ(TORII_PENDING, p.send(0, text, &outcome));
  EXPECT_EQ(p.receive(1, 0), text);
  p.world.kill(2);
  p.world.run();
  EXPECT_EQ(outcome.calls, 0) << "the memory is still lent to one member";
  EXPECT_EQ(p.receive(3, 0), text);
  ASSERT_EQ(outcome.calls, 1);
  EXPECT_EQ(outcome.result.code, TORII_ERR_PEER_DEAD);
  EXPECT_EQ(outcome.result.source, p.peers[0][2]);
}

TEST(Group, NobodyIsLeft) {
  Party p(2);
  p.open_everywhere();
  p.world.kill(1);
  p.world.run();
  Outcome outcome;
  EXPECT_EQ(TORII_PENDING, p.send(0, "x", &outcome));
  p.world.run();
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_EQ(outcome.result.code, TORII_ERR_PEER_DEAD);
  torii_group_t* alone = nullptr;
  ASSERT_EQ(TORII_OK, torii_group_open(p.world.handle(0), "alone", 5, nullptr, 0, &alone));
  torii_data_t d = flat(nullptr, 0);
  Outcome never;
  EXPECT_EQ(TORII_OK, torii_group_send(alone, p.ports[0], 0, 0, &d, note, &never));
  p.world.run();
  EXPECT_EQ(never.calls, 0);
}

TEST(Group, ClosingDoesNotDisturbPendingSends) {
  Party p(3);
  p.open_everywhere();
  Outcome outcome;
  const std::string text(100000, 't');
  EXPECT_EQ(TORII_OK, p.send(0, "small", &outcome));
  EXPECT_EQ(TORII_PENDING, p.send(0, text, &outcome));
  ASSERT_EQ(TORII_OK, torii_group_close(p.groups[0]));
  for (unsigned i : {1, 2}) {
    EXPECT_EQ(p.receive(i, 0), "small");
    EXPECT_EQ(p.receive(i, 0), text);
  }
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_EQ(outcome.result.code, TORII_OK);
  p.expect_credit_adds_up();
}

struct Packing {
  uint64_t next = 0;
  unsigned calls = 0;
};

TEST(Group, PackFunctionsRunOnceForAllMembers) {
  Party p(4);
  p.open_everywhere();
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{5000}, size_t{100000}}) {
    Packing packing;
    torii_data_t d{};
    d.layout = TORII_FUNCTIONS;
    d.bytes = bytes;
    d.base = &packing;
    d.pack = [](void* context, uint64_t offset, void* buffer, size_t n) {
      auto* state = static_cast<Packing*>(context);
      EXPECT_EQ(offset, state->next);
      state->next += n;
      std::memset(buffer, 'p', n);
    };
    Outcome outcome;
    const int code = torii_group_send(p.groups[0], p.ports[0], 3, 9, &d, note, &outcome);
    EXPECT_EQ(packing.next, bytes) << "during the call";
    for (unsigned i = 1; i < 4; ++i) EXPECT_TRUE(p.receive(i, 0) == std::string(bytes, 'p'));
    EXPECT_EQ(packing.next, bytes);
    EXPECT_EQ(outcome.calls, code == TORII_PENDING);
  }
  EXPECT_EQ(p.counters(0).multicast_frames, 2u);
}

TEST(Group, PiecesAreGathered) {
  Party p(3);
  p.open_everywhere();
  std::string text = "many small pieces, more than a frame takes of them";
  std::vector<iovec> pieces;
  for (char& c : text) pieces.push_back({&c, 1});
  for (const uint32_t count : {3u, uint32_t(pieces.size())}) {
    torii_data_t d{};
    d.layout = TORII_PIECES;
    d.pieces = pieces.data();
    d.piece_count = count;
    d.bytes = count;
    Outcome outcome;
    EXPECT_GE(torii_group_send(p.groups[0], p.ports[0], 3, 9, &d, note, &outcome), 0);
    for (unsigned i : {1, 2}) EXPECT_EQ(p.receive(i, 0), text.substr(0, count));
  }
}

TEST(Group, BadArgumentsAreRefused) {
  Party p(3), other(2);
  torii_group_t* group = nullptr;
  torii_ni_t* ni = p.world.handle(0);
  const auto open = [&](const char* name, size_t bytes, std::vector<torii_peer_t*> members) {
    return torii_group_open(ni, name, bytes, members.data(), members.size(), &group);
  };
  EXPECT_EQ(TORII_ERR_INVALID, open("", 0, p.peers[0]));
  EXPECT_EQ(TORII_ERR_INVALID, open("seventeen letters", 17, p.peers[0]));
  EXPECT_NE(std::string(torii_error()).find("1 to 16"), std::string::npos) << torii_error();
  EXPECT_EQ(TORII_ERR_INVALID, open(nullptr, 1, p.peers[0]));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_open(nullptr, "x", 1, p.peers[0].data(), 3, &group));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_open(ni, "x", 1, nullptr, 3, &group));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_open(ni, "x", 1, p.peers[0].data(), 3, nullptr));
  EXPECT_EQ(TORII_ERR_INVALID, open("x", 1, {p.peers[0][1], nullptr}));
  EXPECT_EQ(TORII_ERR_INVALID, open("x", 1, {p.peers[0][1], p.peers[1][2]}));
  EXPECT_NE(std::string(torii_error()).find("member 1"), std::string::npos) << torii_error();
  EXPECT_EQ(TORII_ERR_INVALID, open("x", 1, {p.peers[0][1], p.peers[0][2], p.peers[0][1]}));
  EXPECT_NE(std::string(torii_error()).find("twice"), std::string::npos) << torii_error();
  EXPECT_EQ(TORII_OK, open("sixteen letters!", 16, {p.peers[0][1]}));
  torii_data_t d = flat(nullptr, 0);
  torii_data_t bad = flat(nullptr, 1);
  Outcome never;
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_send(nullptr, p.ports[0], 0, 0, &d, note, &never));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_send(group, nullptr, 0, 0, &d, note, &never));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_send(group, p.ports[0], 0, 0, nullptr, note, &never));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_send(group, p.ports[0], 0, 0, &bad, note, &never));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_send(group, p.ports[0], 0, 0, &d, nullptr, &never));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_send(group, p.ports[1], 0, 0, &d, note, &never));
  EXPECT_EQ(TORII_ERR_INVALID, torii_group_close(nullptr));
  EXPECT_EQ(never.calls, 0);
}

// Nobody can make another process believe that a third one has joined.
TEST(Group, OnlyMembersJoin) {
  Party p(4);
  const auto three = [&](unsigned i) {
    torii_peer_t* members[] = {p.peers[i][0], p.peers[i][1], p.peers[i][2]};
    ASSERT_EQ(TORII_OK, torii_group_open(p.world.handle(i), "g", 1, members, 3, &p.groups[i]));
  };
  three(0);
  three(1);
  const uint64_t number = reinterpret_cast<Group*>(p.groups[0])->number;
  Outcome outcome;
  torii_data_t d = flat(nullptr, 0);
  ASSERT_GE(
      torii_send(p.ports[3], p.peers[3][0], TORII_STANDARD, 1, 0, &d, note, &outcome, nullptr), 0);
  p.world.ni(3).protocol().tell_joined(*reinterpret_cast<Peer*>(p.peers[3][0]), number, true);
  p.world.ni(2).protocol().tell_joined(*reinterpret_cast<Peer*>(p.peers[2][0]), number + 1, true);
  p.world.run();
  EXPECT_EQ(torii_group_path(p.groups[0]), TORII_UNICAST);
  EXPECT_EQ(p.counters(0).bad_frames, 0u);
  three(2);
  p.world.run();
  EXPECT_EQ(torii_group_path(p.groups[0]), TORII_MULTICAST);
}

}  // namespace
}  // namespace torii
