// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which protocol a message takes, for each kind of driver and each situation.
#include <gtest/gtest.h>

#include <utility>

#include "core/protocol/choice.h"
#include "core/protocol/wire.h"

namespace torii {
namespace {

using namespace choice;

class Advised : public Advice {};

DriverCaps caps_with(uint32_t flags) {
  DriverCaps caps;
  caps.flags = flags;
  caps.mtu = caps.inline_max = 1024;
  caps.pieces_max = 100;
  return caps;
}

Plan plan_of(uint32_t flags, uint64_t limit = 0) {
  Advised advice;
  advice.remote_min = 4000;
  advice.read_alone_min = 6000;
  advice.read_crossing_min = 5000;
  advice.sent_below = 20000;
  DriverCaps caps = caps_with(flags);
  caps.eager_advice = 10000;
  caps.long_max = 64 << 10;
  return make_plan(caps, &advice, limit, 1 << 20);
}

Payload payload(uint64_t bytes) {
  Payload p;
  p.bytes = bytes;
  return p;
}
Payload in_pieces(uint64_t bytes) {
  Payload p = payload(bytes);
  p.contiguous = false;
  return p;
}
Payload exported(uint64_t bytes) {
  Payload p = payload(bytes);
  p.exported = true;
  return p;
}
Payload near(uint64_t bytes) {
  Payload p = payload(bytes);
  p.near = true;
  return p;
}
Load idle() {
  Load load;
  load.credit = 1 << 20;
  load.long_max = 64 << 10;
  return load;
}
using Answer = std::pair<Way, Reason>;
Answer chosen(const Plan& plan, const Payload& p, const Load& load = idle(), Recent recent = {}) {
  const Choice choice = put(plan, &recent, p, load);
  return {choice.way, choice.reason};
}
constexpr Answer kEager{Way::eager, Reason::none};
constexpr Answer kLong{Way::announced, Reason::length};

TEST(ChoicePlan, TakesTheDriversAdviceTheUsersLimitAndHalfTheWindow) {
  const Plan plan = plan_of(kGet);
  EXPECT_EQ(plan.eager_max, 10000u);
  EXPECT_EQ(plan.small_max, 1024 - sizeof(wire::Tagged));
  EXPECT_EQ(plan.pieces_max, kPieces);
  EXPECT_EQ(plan.read_min, 5000u);
  EXPECT_EQ(plan_of(kGet, 500).eager_max, 500u);
  EXPECT_EQ(plan_of(kGet, 500).small_max, 500u);
  EXPECT_EQ(plan_of(kGet, 500).alone_min, kNoSize) << "the user wants it eager";
  EXPECT_EQ(plan_of(kGet, 9 << 20).eager_max, 1u << 20) << "no more than the window";
  EXPECT_EQ(plan_of(kPut).read_min, kNoSize) << "nobody reads";
  EXPECT_EQ(make_plan(caps_with(kGet), nullptr, 0, 1 << 20).eager_max, 8u * 1024);
  EXPECT_EQ(make_plan(caps_with(kGet), nullptr, 0, 1 << 20).crossing_min, 4u * 1024 + 1);
  EXPECT_EQ(make_plan(caps_with(kGet), nullptr, 0, 6000).eager_max, 3000u);
}

TEST(ChoicePlan, TheWindowIsAShareOfTheMemoryWithinBounds) {
  EXPECT_EQ(eager_window(12345, 64 << 20, 2), 12345u);
  EXPECT_EQ(eager_window(0, 64 << 20, 64), 1u << 20);
  EXPECT_EQ(eager_window(0, 64 << 20, 1), 4u << 20);
  EXPECT_EQ(eager_window(0, 64 << 20, 1 << 20), 64u << 10);
  EXPECT_EQ(eager_window(0, 64 << 20, 0), 4u << 20);
}

TEST(ChoicePut, ByLengthMemoryAndCredit) {
  const Plan plan = plan_of(kGet);
  EXPECT_EQ(chosen(plan, payload(0)), kEager);
  EXPECT_EQ(chosen(plan, payload(5999)), kEager);
  EXPECT_EQ(chosen(plan, payload(6000)), Answer(Way::announced, Reason::alone));
  EXPECT_EQ(chosen(plan, in_pieces(6000)), kEager) << "there is no one address to read from";
  EXPECT_EQ(chosen(plan, in_pieces(10000)), kEager);
  EXPECT_EQ(chosen(plan, in_pieces(10001)), kLong);
  EXPECT_EQ(chosen(plan, payload(10001)), kLong);
  EXPECT_EQ(chosen(plan, near(2000)), Answer(Way::announced, Reason::near));
  Load denied = idle();
  denied.denied = true;
  EXPECT_EQ(chosen(plan, payload(9000), denied), kEager);
  Load load = idle();
  load.credit = wire::credit_units(100);
  EXPECT_EQ(chosen(plan, payload(100), load), kEager);
  EXPECT_EQ(chosen(plan, payload(200), load), Answer(Way::announced, Reason::credit));
  EXPECT_EQ(chosen(plan, exported(200), load), kEager) << "its place is known: it costs none";
}

TEST(ChoicePut, BesideOthersAndBothWays) {
  const Plan plan = plan_of(kGet);
  Load others = idle();
  others.announced = true;
  EXPECT_EQ(chosen(plan, payload(6000), others), kEager);
  Recent meets;
  meets.met();
  EXPECT_EQ(chosen(plan, payload(4999), others, meets), kEager);
  EXPECT_EQ(chosen(plan, payload(5000), others, meets), Answer(Way::announced, Reason::crossing));
  EXPECT_EQ(chosen(plan, in_pieces(5000), others, meets), kEager);
}

// Messages that meet nothing end it, one that met others is followed by eager ones for a while.
TEST(ChoicePut, RemembersWhatWasUnderWay) {
  const Plan plan = plan_of(kGet);
  Recent recent;
  recent.met();
  EXPECT_EQ(put(plan, &recent, payload(5500), idle()).reason, Reason::crossing);
  EXPECT_TRUE(recent.crosses());
  EXPECT_EQ(put(plan, &recent, payload(5500), idle()).reason, Reason::crossing);
  EXPECT_FALSE(recent.crosses());
  EXPECT_EQ(put(plan, &recent, payload(5500), idle()).way, Way::eager);
  Load others = idle();
  others.backlog = true;
  EXPECT_EQ(put(plan, &recent, payload(6000), others).way, Way::eager);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(put(plan, &recent, payload(6000), idle()).way, Way::eager);
  EXPECT_EQ(put(plan, &recent, payload(6000), idle()).reason, Reason::alone);
  recent.not_read();
  for (int i = 0; i < 255; ++i)
    EXPECT_EQ(put(plan, &recent, payload(6000), idle()).way, Way::eager);
  EXPECT_EQ(put(plan, &recent, payload(6000), idle()).reason, Reason::alone);
}

TEST(ChoicePut, WhereOnlyFramesCarryData) {
  const Plan plan = plan_of(kDelivers);
  EXPECT_EQ(chosen(plan, payload(1024)), kEager);
  EXPECT_EQ(chosen(plan, payload(3 << 10)), Answer(Way::copied, Reason::none));
  EXPECT_EQ(chosen(plan, in_pieces(3 << 10)), kEager);
  EXPECT_EQ(chosen(plan, exported(3 << 10)), kEager);
  Payload answered = payload(3 << 10);
  answered.answered = true;
  EXPECT_EQ(chosen(plan, answered), kEager);
  Load busy = idle();
  busy.copied = true;
  EXPECT_EQ(chosen(plan, payload(3 << 10), busy), kEager);
  Load narrow = idle();
  narrow.long_max = 2000;
  EXPECT_EQ(chosen(plan, payload(3 << 10), narrow), kEager);
  EXPECT_EQ(chosen(plan, payload(128 << 10)), Answer(Way::lent, Reason::none));
  EXPECT_EQ(chosen(plan, payload((128 << 10) + 1)), kLong);
  EXPECT_EQ(chosen(plan, in_pieces(10001)), kLong);
  EXPECT_EQ(chosen(plan, exported(256 << 10)), Answer(Way::lent, Reason::none));
  EXPECT_EQ(chosen(plan, exported((256 << 10) + 1)), kLong);
  Load waits = idle();
  waits.backlog = true;
  EXPECT_EQ(chosen(plan, payload(10001), waits), kLong);
  EXPECT_EQ(chosen(plan, exported(1025), waits), kLong) << "one frame";
  Load few = idle();
  few.credit = wire::credit_units(20000);
  EXPECT_EQ(chosen(plan, payload(20000), few), Answer(Way::announced, Reason::credit))
      << "short ones need some";
  EXPECT_EQ(chosen(plan_of(kDelivers, 10000), payload(10001)), kLong) << "the user's limit";
  EXPECT_EQ(chosen(plan_of(0), payload(10001)), kLong) << "nobody tells when it has arrived";
}

TEST(ChoiceReply, ByLengthAndByWhatIsKnownOfItsPlace) {
  const auto way = [](const Plan& plan, const Payload& p) { return reply(plan, p).way; };
  const Plan reads = plan_of(kGet), frames = plan_of(kDelivers), plain = plan_of(0);
  EXPECT_EQ(way(reads, payload(10000)), Way::eager);
  EXPECT_EQ(way(reads, payload(10001)), Way::announced);
  EXPECT_EQ(way(reads, near(2000)), Way::announced);
  EXPECT_EQ(way(reads, exported(10001)), Way::announced) << "a get is quicker";
  EXPECT_EQ(way(frames, payload(10001)), Way::announced);
  EXPECT_EQ(way(frames, exported(900)), Way::eager);
  EXPECT_EQ(way(frames, exported(1000)), Way::streamed);
  EXPECT_EQ(way(plain, exported(1000)), Way::eager);
  EXPECT_EQ(way(plain, exported(10001)), Way::streamed);
}

TEST(ChoiceMove, WhoMovesAnAnnouncedPayload) {
  const Plan reads = plan_of(kGet | kPut), writes = plan_of(kPut), frames = plan_of(0);
  const auto target = [](uint64_t bytes, auto set) {
    Target t;
    t.bytes = bytes;
    t.key = true;
    set(t);
    return t;
  };
  const auto nothing = [](Target&) {};
  EXPECT_EQ(move(reads, target(30000, nothing)), Move::read);
  EXPECT_EQ(move(reads, target(30000, [](Target& t) { t.key = false; })), Move::frames);
  EXPECT_TRUE(reachable(reads, kGet, payload(1), true, false));
  EXPECT_FALSE(reachable(reads, kGet, payload(1), false, false));
  EXPECT_FALSE(reachable(reads, kGet, payload(1), true, true));
  const auto no_key = [](Target& t) { t.key = false; };
  EXPECT_EQ(move(writes, target(30000, no_key)), Move::write);
  EXPECT_EQ(move(frames, target(30000, no_key)), Move::write) << "for who can export it";
  const auto sooner = [](Target& t) { t.sooner = true; };
  EXPECT_EQ(move(reads, target(19999, sooner)), Move::frames_first);
  EXPECT_EQ(move(reads, target(20000, sooner)), Move::read);
  EXPECT_EQ(move(plan_of(kGet | kDelivers), target(19999, sooner)), Move::read);
  for (bool Target::*reason : {&Target::near, &Target::backlog, &Target::silent}) {
    Target t = target(19999, sooner);
    t.*reason = true;
    EXPECT_EQ(move(reads, t), Move::read);
  }
  EXPECT_FALSE(reachable(writes, kGet, payload(1), true, false));
  EXPECT_TRUE(reachable(writes, kPut, payload(1), true, false));
  EXPECT_FALSE(reachable(writes, kPut, payload(1), false, false));
  EXPECT_FALSE(reachable(writes, kPut, payload(1), true, true));
  EXPECT_FALSE(reachable(frames, kPut, payload(1), true, false));
}

// Where this process's memory has to be registered, too.
TEST(ChoiceMove, RegistersItsOwnMemoryIfItPays) {
  class Registered : public RegisteredMemory {
  } registered;
  registered.once_min = 30000;
  const DriverCaps caps = caps_with(kGet | kNeedsReg);
  EXPECT_FALSE(make_plan(caps, nullptr, 0, 1 << 20, &registered).registers_local());
  registered.local = true;
  const Plan plan = make_plan(caps, nullptr, 0, 1 << 20, &registered);
  EXPECT_TRUE(plan.registers_local());
  EXPECT_TRUE(movable(plan, payload(1024))) << "the driver copies it";
  EXPECT_TRUE(movable(plan, in_pieces(1024)));
  EXPECT_FALSE(movable(plan, payload(1025)));
  EXPECT_FALSE(movable(plan, payload(29999)));
  EXPECT_TRUE(movable(plan, payload(30000)));
  EXPECT_FALSE(movable(plan, in_pieces(30000)));
  Payload kept = payload(1025);
  kept.kept = true;
  EXPECT_TRUE(movable(plan, kept));
  EXPECT_TRUE(exports(plan, {}, kept, false, kRemoteRead));
  EXPECT_FALSE(exports(plan, {}, payload(29999), false, kRemoteRead));
  EXPECT_TRUE(reachable(plan, kGet, kept, true, false));
  EXPECT_FALSE(reachable(plan, kGet, payload(1025), true, false));
}

TEST(ChoiceExports, WhatIsWorthWhile) {
  const Plan plan = plan_of(kGet), costly = plan_of(kGet | kNeedsReg);
  EXPECT_TRUE(exports(plan, {}, payload(4000), false, kRemoteRead));
  EXPECT_FALSE(exports(plan, {}, payload(3999), false, kRemoteRead));
  EXPECT_FALSE(exports(plan, {}, payload(4000), false, kRemoteWrite));
  EXPECT_FALSE(exports(plan, {}, payload(4000), true, kRemoteRead));
  EXPECT_FALSE(exports(plan, {}, in_pieces(4000), false, kRemoteRead));
  EXPECT_FALSE(exports(plan, {}, near(0), false, kRemoteRead));
  EXPECT_TRUE(exports(plan, {}, near(1), false, kRemoteRead));
  EXPECT_FALSE(exports(costly, {}, payload((64 << 10) - 1), false, kRemoteRead));
  EXPECT_TRUE(exports(costly, {}, payload(64 << 10), false, kRemoteRead));
}

}  // namespace
}  // namespace torii
