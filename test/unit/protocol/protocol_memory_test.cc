// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Exported memory over frames: what travels, and what is not believed.
#include <algorithm>
#include <functional>

#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

using ProtocolMemory = ProtocolFrames;

TEST_F(ProtocolMemory, AnAtomicOperationIsOneShortFrameEachWay) {
  open(0);
  wire::Update asked{};
  asked.operation = 3;
  asked.width = 8;
  asked.offset = 80;
  asked.operand = 5;
  uint64_t old[2] = {1, 1};
  ASSERT_EQ(protocol_->update(*peer_, asked, nullptr, &old[0], owner()), Status::pending);
  const wire::Update first = sent(wire::Kind::update).update;
  EXPECT_EQ(driver_->sent.back().bytes.size(), 56u);
  EXPECT_EQ(first.operation, 3);
  EXPECT_EQ(first.offset, 80u);
  EXPECT_EQ(first.operand, 5u);
  ASSERT_EQ(protocol_->update(*peer_, asked, nullptr, &old[1], owner()), Status::pending);
  const uint64_t second = sent(wire::Kind::update).update.op;
  wire::Updated answer{};
  answer.kind = wire::Kind::updated;
  answer.op = first.op;
  answer.old = 99;
  arrive(encoded(answer));
  EXPECT_EQ(old[0], 99u);
  arrive(control(wire::Kind::finish, second, 0, Status::denied));
  EXPECT_EQ(old[1], 1u);
  EXPECT_EQ(notes_,
            (Notes{{OpEvent::received, Status::ok, 8}, {OpEvent::dropped, Status::denied, 0}}));
  EXPECT_EQ(counters_.bad_frames, 0u);
  const std::string number = std::to_string(first.op);
  expect_cut(encoded(answer), "answer to no atomic operation (operation " + number + ")");
}

// An atomic operation takes only an answer to an atomic operation, and a get takes none of those.
TEST_F(ProtocolMemory, AnAtomicOperationTakesNoOtherAnswer) {
  uint64_t old = 1;
  for (unsigned i = 0; i < 4; ++i) {
    open(0);
    notes_.clear();
    wire::Update asked{};
    asked.operation = 3;
    asked.width = 8;
    ASSERT_EQ(protocol_->update(*peer_, asked, nullptr, &old, owner()), Status::pending);
    const uint64_t op = sent(wire::Kind::update).update.op;
    Envelope env;
    env.space = Space::memory;
    env.length = 8;
    ASSERT_EQ(protocol_->get(*peer_, env, Data(&old, 8), owner(), nullptr), Status::pending);
    wire::Updated answer{};
    answer.kind = wire::Kind::updated;
    answer.op = sent(wire::Kind::get).request.op;
    answer.old = 99;
    const std::string frames[] = {control(wire::Kind::reply, op, 8) + "8 bytes!",
                                  control(wire::Kind::data, op, 0) + "8 bytes!",
                                  control(wire::Kind::ack, op, 8), encoded(answer)};
    const std::string faults[] = {
        "reply to no request (operation " + std::to_string(op) + ")",
        "payload of no message (offset 0)", "unexpected acknowledgement (bytes 8)",
        "answer to no atomic operation (operation " + std::to_string(answer.op) + ")"};
    expect_cut(frames[i], faults[i]);
    EXPECT_EQ(old, 1u);
    EXPECT_EQ(notes_, Notes(2, {OpEvent::received, Status::peer_dead, 0}));
  }
}

// The words for its lock go behind it, and the answer may be that the lock was not free.
TEST_F(ProtocolMemory, AnAtomicOperationUnderALockIsOneFrameEachWay) {
  open(0);
  wire::Update asked{};
  asked.width = 8;
  const wire::LockWord lock{11, 12, 13, 14};
  uint64_t old = 1;
  for (const uint8_t busy : {1, 0}) {
    ASSERT_EQ(protocol_->update(*peer_, asked, &lock, &old, owner()), Status::pending);
    const wire::Frame frame = sent(wire::Kind::update);
    EXPECT_EQ(driver_->sent.back().bytes.size(), 88u);
    ASSERT_EQ(frame.update.locked, 1);
    ASSERT_EQ(frame.payload.size(), wire::LockWord::kBytes);
    const wire::LockWord told = wire::read_lock(frame.payload.data());
    EXPECT_EQ(std::memcmp(&told, &lock, sizeof(lock)), 0);
    wire::Updated answer{};
    answer.kind = wire::Kind::updated;
    answer.busy = busy;
    answer.op = frame.update.op;
    answer.old = 99;
    arrive(encoded(answer));
  }
  EXPECT_EQ(notes_,
            (Notes{{OpEvent::received, Status::ok, 0}, {OpEvent::received, Status::ok, 8}}));
  EXPECT_EQ(old, 99u);
  // A lock that is not there, or not announced, or not all there.
  asked.kind = wire::Kind::update;
  asked.op = 5;
  constexpr struct {
    uint8_t locked;
    size_t bytes;
  } kWrong[] = {{0, wire::LockWord::kBytes},
                {1, 0},
                {1, wire::LockWord::kBytes - 1},
                {2, wire::LockWord::kBytes}};
  for (const auto& [locked, bytes] : kWrong) {
    open(0);
    asked.locked = locked;
    expect_cut(encoded(asked) + std::string(bytes, 0), "malformed header (kind 17)");
  }
}

// However long the other process does not look, nothing but its own answers is kept for it.
TEST_F(ProtocolMemory, AnAtomicOperationIsAnsweredInItsTurn) {
  open(0);
  wire::Update asked{};
  asked.kind = wire::Kind::update;
  asked.width = 8;
  expect_cut(encoded(asked), "malformed header (kind 17)");  // nobody to answer to
  open(0);
  asked.op = 5;
  arrive(encoded(asked));
  EXPECT_EQ(sent(wire::Kind::updated).updated.op, 5u);
  EXPECT_EQ(sent(wire::Kind::updated).updated.old, 41u);
  EXPECT_EQ(protocol_->ops().used(), 0u);
  driver_->sent.clear();
  driver_->refusals = 1000;
  for (const uint8_t operation : {0, 1, 0}) {
    asked.operation = operation;
    asked.op++;
    arrive(encoded(asked));
  }
  EXPECT_TRUE(driver_->sent.empty());
  driver_->refusals = 0;
  protocol_->progress(++now_ns_);
  ASSERT_EQ(driver_->sent.size(), 3u);
  constexpr wire::Kind kAnswers[] = {wire::Kind::updated, wire::Kind::finish, wire::Kind::updated};
  for (unsigned i = 0; i < 3; ++i) {
    wire::Frame f;
    ASSERT_TRUE(wire::parse(std::as_bytes(std::span(driver_->sent[i].bytes)), &f));
    EXPECT_EQ(f.kind, kAnswers[i]);
    EXPECT_EQ(i == 1 ? f.control.op : f.updated.op, 6u + i);
  }
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

// A getput of exported memory is not known any more, and none is let through.
TEST_F(ProtocolMemory, AGetputOfExportedMemoryIsMalformed) {
  open(0);
  expect_cut(request(wire::Kind::getput, 8, wire::kMemorySpace) + "8 bytes!",
             "malformed header (kind 6)");
}

// Where there are only frames, the target of a long get sends them unasked, and keeps its memory
// until the driver has read it.
TEST_F(ProtocolMemory, ALongGetOfExportedMemoryIsStreamed) {
  for (const uint32_t flags : {0u, uint32_t{kGet | kPut}}) {
    open(flags);
    room_.memory.assign(room_.memory.size(), 'm');
    arrive(request(wire::Kind::get, 60000, wire::kMemorySpace));
    while (!protocol_->drained()) protocol_->progress(++now_ns_);
    if (flags) {
      (void)sent(wire::Kind::reply_announce);
      driver_->sent.clear();
      continue;
    }
    uint64_t at = 0;
    for (const auto& frame : driver_->sent) {
      wire::Frame f;
      ASSERT_TRUE(wire::parse(std::as_bytes(std::span(frame.bytes)), &f));
      if (f.kind == wire::Kind::hello) continue;
      ASSERT_EQ(f.kind, wire::Kind::data);
      EXPECT_EQ(f.control.op, 77u);
      EXPECT_EQ(f.control.length, at);
      at += f.payload.size();
    }
    EXPECT_EQ(at, 60000u);
    driver_->sent.clear();
    EXPECT_EQ(notes_, Notes{});
    while (driver_->lent() > 1) give_back();
    EXPECT_EQ(notes_, Notes{});
    give_back();
    EXPECT_EQ(notes_, (Notes{{OpEvent::replied, Status::ok, 60000}}));
    EXPECT_EQ(protocol_->ops().used(), 0u);
  }
}

TEST_F(ProtocolMemory, AStreamedAnswerIsTakenWhereItBelongs) {
  open(0);
  std::string memory(20, '.');
  const auto get = [&](Space space) {
    Envelope env;
    env.space = space;
    env.length = 10;
    EXPECT_EQ(protocol_->get(*peer_, env, Data(memory.data(), 10), owner(), nullptr),
              Status::pending);
    return sent(wire::Kind::get).request.op;
  };
  uint64_t op = get(Space::memory);
  arrive(control(wire::Kind::data, op, 0) + "first");
  EXPECT_EQ(notes_, Notes{});
  arrive(control(wire::Kind::data, op, 5) + "other");
  EXPECT_EQ(memory, "firstother..........");
  EXPECT_EQ(notes_, (Notes{{OpEvent::received, Status::ok, 10}}));
  // A reply that has begun goes on by `more`.
  op = get(Space::memory);
  arrive(control(wire::Kind::reply, op, 10) + "reply");
  arrive(control(wire::Kind::more, 0, 5) + "right");
  EXPECT_EQ(memory, "replyright..........");
  EXPECT_EQ(counters_.bad_frames, 0u);

  // After `before`, which is well, comes `frame`, which is not. Nothing of it is stored.
  struct Wrong {
    std::string before, frame, fault;
  };
  const auto wrong = [&](Space space, const std::function<Wrong(uint64_t)>& frames) {
    open(0);
    notes_.clear();
    op = get(space);
    const auto [before, frame, fault] = frames(op);
    if (!before.empty()) arrive(before);
    memory.assign(20, '.');
    expect_cut(frame, fault);
    EXPECT_EQ(memory, std::string(20, '.'));
    EXPECT_EQ(notes_, (Notes{{OpEvent::received, Status::peer_dead, 0}}));
  };
  constexpr auto kData = wire::Kind::data, kReply = wire::Kind::reply;
  wrong(Space::memory, [](uint64_t o) {
    return Wrong{"", control(kData, o, 1) + "early", "payload of no message (offset 1)"};
  });
  wrong(Space::memory, [](uint64_t o) {
    return Wrong{"", control(kData, o, 0) + "eleven byte", "payload of no message (offset 0)"};
  });
  wrong(Space::memory, [](uint64_t o) {
    return Wrong{"", control(kData, o, ~uint64_t{0} - 1) + "far", "malformed header (kind 11)"};
  });
  wrong(Space::memory, [](uint64_t o) {
    return Wrong{control(kData, o, 0) + "first", control(kData, o, 0) + "again",
                 "payload of no message (offset 0)"};
  });
  wrong(Space::memory, [](uint64_t o) {
    return Wrong{control(kData, o, 0) + "first", control(kReply, o, 5) + "other",
                 "reply to no request (operation " + std::to_string(o) + ")"};
  });
  wrong(Space::memory, [](uint64_t o) {
    return Wrong{control(kReply, o, 10) + "reply", control(kData, o, 5) + "wrong",
                 "payload of no message (offset 5)"};
  });
  wrong(Space::portal, [](uint64_t o) {
    return Wrong{"", control(kData, o, 0) + "wrong", "payload of no message (offset 0)"};
  });
}

// Where there are only frames, puts to an export are not announced up to 256 KiB, and no credit is
// asked for them: their place is there.
TEST_F(ProtocolMemory, PutsToAnExportAreNotAnnounced) {
  for (const uint32_t flags : {0u, uint32_t{kGet | kPut}}) {
    open(flags);
    std::vector<char> memory((256 << 10) + 1);
    Envelope env;
    env.space = Space::memory;
    env.want_ack = true;
    env.length = memory.size();
    const auto put = [&](uint64_t bytes) {
      driver_->sent.clear();
      env.length = bytes;
      EXPECT_EQ(protocol_->put(*peer_, env, Data(memory.data(), bytes), owner(), nullptr),
                Status::pending);
      while (!protocol_->drained()) protocol_->progress(++now_ns_);
    };
    put(1);  // the hello has left with it
    const uint64_t credit = peer_->credit;
    put(256 << 10);
    if (flags) {
      (void)sent(wire::Kind::put_announce);
      continue;
    }
    (void)sent(wire::Kind::put);
    (void)sent(wire::Kind::more);
    EXPECT_EQ(peer_->credit, credit);
    EXPECT_EQ(counters_.credit_stalls, 0u);
    put(memory.size());
    (void)sent(wire::Kind::put_announce);
  }
}

// Frames that do not leave at once go before all else to that peer: then no long put is pushed.
TEST_F(ProtocolMemory, LongPutsAreNotPushedIntoABacklog) {
  open(0);
  std::vector<char> memory(256 << 10);
  Envelope env;
  env.space = Space::memory;
  env.want_ack = true;
  const auto put = [&](uint64_t bytes) {
    env.length = bytes;
    EXPECT_EQ(protocol_->put(*peer_, env, Data(memory.data(), bytes), owner(), nullptr),
              Status::pending);
  };
  put(1);
  driver_->sent.clear();
  driver_->refusals = 3;
  put(memory.size());
  put(memory.size());
  put(peer_->plan.small_max);
  ASSERT_TRUE(driver_->sent.empty());
  while (!protocol_->drained()) protocol_->progress(++now_ns_);
  std::vector<wire::Kind> kinds;
  for (const auto& s : driver_->sent) {
    wire::Frame f;
    ASSERT_TRUE(wire::parse(std::as_bytes(std::span(s.bytes)), &f));
    if (f.kind != wire::Kind::more) kinds.push_back(f.kind);
  }
  EXPECT_EQ(kinds, (std::vector{wire::Kind::put, wire::Kind::put_announce, wire::Kind::put}));
}

// More than the window may come for an export; for a port or a portal it may not.
TEST_F(ProtocolMemory, PutsToAnExportNeedNoWindow) {
  open(0);
  expect_cut(request(wire::Kind::put, 90000, wire::kWantAck) + "begin",
             "eager message beyond the granted window (bytes 90000)");
  open(0);
  counters_.bad_frames = 0;
  arrive(request(wire::Kind::put, 90000, wire::kMemorySpace | wire::kWantAck) + "begin");
  const std::string piece(3999, 'p');
  for (uint64_t at = 5; at < 90000; at += piece.size())
    arrive(control(wire::Kind::more, 0, at) + piece.substr(0, 90000 - at));
  EXPECT_EQ(counters_.bad_frames, 0u);
  EXPECT_EQ(sent(wire::Kind::ack).control.length, 90000u);
  EXPECT_EQ(std::string(room_.memory.data(), 6), "beginp");
  EXPECT_EQ(peer_->in_use, 0u);
}

// However many wait for room in the driver, a round of progress offers it no more than it takes,
// and one for each peer.
TEST_F(ProtocolMemory, ManyThatWaitForRoomAreNotAllOfferedAgain) {
  constexpr unsigned kEach = 500, kRoom = 8;
  open(kPut);
  Peer* const peers[] = {peer_, connect(kPeer + 1)};
  driver_->remote = Status::pending;
  driver_->lent_most = kRoom;
  const std::byte key[FakeDriver::kKeyBytes] = {};
  uint32_t remote = kNoRemote;
  ASSERT_EQ(driver_->import(kPeer, key, &remote), Status::ok);
  for (unsigned i = 0; i < kEach; ++i)
    for (Peer* peer : peers)
      ASSERT_EQ(access_any(*protocol_, *peer, remote, source_.data(), 10, false, &notes_),
                Status::pending);
  EXPECT_EQ(driver_->lent(), kRoom);

  for (unsigned left = 2 * kEach; left > kEach; --left) {
    driver_->accesses = 0;
    give_back();
    EXPECT_EQ(driver_->lent(), kRoom);
    EXPECT_LE(driver_->accesses, 3u);
  }
  EXPECT_EQ(notes_.size(), kEach);

  notes_.clear();
  driver_->go_down(kPeer, Status::peer_dead);
  protocol_->progress(++now_ns_);
  while (driver_->lent() > 0) {
    EXPECT_FALSE(protocol_->drained());
    give_back();
  }
  EXPECT_TRUE(protocol_->drained());
  ASSERT_EQ(notes_.size(), kEach);
  const auto dead = std::ranges::count(notes_, Status::peer_dead, &Note::status);
  EXPECT_GT(dead, kEach / 4);
  EXPECT_LT(dead, kEach);
  EXPECT_EQ(protocol_->ops().used(), 0u);
  driver_->drop(remote);
}

// An access that the driver takes in one piece is no operation; a longer one is. Either is told
// of once.
TEST_F(ProtocolMemory, AccessesInOnePieceAndInSeveral) {
  open(kGet | kPut);
  const std::byte key[FakeDriver::kKeyBytes] = {};
  uint32_t remote = kNoRemote;
  ASSERT_EQ(driver_->import(kPeer, key, &remote), Status::ok);
  const auto read = [&](uint64_t bytes) {
    return access_any(*protocol_, *peer_, remote, source_.data(), bytes, true, &notes_);
  };
  driver_->remote = Status::ok;
  EXPECT_EQ(read(10), Status::ok);
  EXPECT_EQ(counters_.pulled_bytes, 10u);
  driver_->remote = Status::invalid;
  EXPECT_EQ(read(10), Status::invalid);
  EXPECT_TRUE(protocol_->drained());

  driver_->remote = Status::pending;
  for (const uint64_t most : {~uint64_t{0}, uint64_t{60}}) {
    protocol_->limit_moves(most);
    notes_.clear();
    EXPECT_EQ(read(100), Status::pending);
    EXPECT_EQ(protocol_->ops().used(), most < 100 ? 1u : 0u);
    EXPECT_FALSE(protocol_->drained());
    EXPECT_EQ(driver_->lent(), most < 100 ? 2u : 1u);
    while (driver_->lent() > 0) give_back();
    EXPECT_EQ(notes_, (Notes{{OpEvent::moved, Status::ok, 0}}));
    EXPECT_EQ(protocol_->accesses(), 0u);
    EXPECT_TRUE(protocol_->drained());
  }
  EXPECT_EQ(counters_.pulled_bytes, 210u);

  protocol_->limit_moves(~uint64_t{0});
  notes_.clear();
  EXPECT_EQ(read(100), Status::pending);
  give_back(Status::denied);
  EXPECT_EQ(notes_, (Notes{{OpEvent::moved, Status::denied, 0}}));
  EXPECT_EQ(read(100), Status::denied) << "not this way any more";

  peer_->remote_denied = false;
  notes_.clear();
  EXPECT_EQ(read(100), Status::pending);
  arrive(control(wire::Kind::bye, 0, 0));
  give_back(Status::peer_dead);
  EXPECT_EQ(notes_, (Notes{{OpEvent::moved, Status::peer_closed, 0}}));
  EXPECT_EQ(read(100), Status::peer_closed);
  EXPECT_EQ(protocol_->ops().used(), 0u);
  EXPECT_TRUE(protocol_->drained());
  driver_->drop(remote);
}

// Whatever is under way to a process that dies ends with an error, once, and nothing of it is left.
TEST_F(ProtocolMemory, WhatADeadPeerOwesEnds) {
  for (const uint32_t flags : {0u, uint32_t{kGet | kPut}}) {
    open(flags);
    driver_->remote = Status::pending;
    notes_.clear();
    Envelope env;
    env.space = Space::memory;
    env.want_ack = true;
    std::vector<char> memory(128 << 10, '.');
    uint64_t old = 5;
    std::vector<Notes> notes(5);
    const auto watched = [&](size_t i) {
      Owner o;
      o.object = &notes[i];
      o.notify = [](Op* op, OpEvent event, Status status, uint64_t bytes) {
        static_cast<Notes*>(op->owner.object)->push_back({event, status, bytes});
      };
      return o;
    };
    wire::Update asked{};
    asked.operation = 3;
    asked.width = 8;
    ASSERT_EQ(protocol_->update(*peer_, asked, nullptr, &old, watched(0)), Status::pending);
    env.length = 10;
    const Data ten(memory.data(), 10);
    ASSERT_EQ(protocol_->get(*peer_, env, ten, watched(1), nullptr), Status::pending);
    const uint64_t get = sent(wire::Kind::get).request.op;
    arrive(control(wire::Kind::data, get, 0) + "first");  // the stream has begun
    env.length = 100;  // arrives in one piece, the answer is missing
    ASSERT_EQ(protocol_->put(*peer_, env, Data(memory.data(), 100), watched(2), nullptr),
              Status::pending);
    driver_->takes = 3;  // pushed: some of its frames leave, or only its announcement
    env.length = memory.size();
    ASSERT_EQ(protocol_->put(*peer_, env, Data(memory.data(), memory.size()), watched(3), nullptr),
              Status::pending);
    driver_->takes = ~0u;
    uint32_t remote = kNoRemote;
    if (flags) {
      const std::byte key[FakeDriver::kKeyBytes] = {};
      ASSERT_EQ(driver_->import(kPeer, key, &remote), Status::ok);
      ASSERT_EQ(access_any(*protocol_, *peer_, remote, memory.data(), 10, true, &notes[4]),
                Status::pending);
    }
    driver_->takes = 0;
    driver_->go_down(kPeer, Status::peer_dead);
    for (int i = 0; i < 10; ++i) protocol_->progress(++now_ns_);
    for (size_t i = 0; i < (flags ? 5u : 4u); ++i) {
      ASSERT_FALSE(notes[i].empty()) << i;
      EXPECT_EQ(notes[i].back().status, Status::peer_dead) << i;
      notes[i].pop_back();
      for (const Note& n : notes[i]) EXPECT_EQ(n.event, OpEvent::sent) << i;
      EXPECT_LE(notes[i].size(), 1u);
    }
    EXPECT_EQ(room_.downs, std::vector{Status::peer_dead});
    room_.downs.clear();
    EXPECT_EQ(old, 5u);
    EXPECT_EQ(protocol_->ops().used(), 0u);
    EXPECT_EQ(driver_->lent(), 0u);
    EXPECT_EQ(driver_->registered(), 0u);
    if (flags) driver_->drop(remote);
    EXPECT_EQ(protocol_->update(*peer_, asked, nullptr, &old, watched(0)), Status::peer_dead);
  }
}

}  // namespace
}  // namespace torii
