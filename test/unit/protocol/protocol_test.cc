// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The protocol, frame by frame, over a driver that does what the test says: orders of events that
// simulated networks do not produce.
#include <algorithm>

#include "unit/protocol/protocol_kit.h"

namespace torii {
namespace {

using namespace test;

TEST_F(ProtocolFrames, AnAcknowledgementMayOvertakeTheDriver) {
  open(0);
  ASSERT_EQ(put(1000, true), Status::pending);
  ASSERT_EQ(driver_->lent(), 1u);
  arrive(control(wire::Kind::ack, sent(wire::Kind::put).request.op, 1000));
  EXPECT_EQ(notes_, Notes{}) << "the driver still reads the memory";
  EXPECT_EQ(counters_.bad_frames, 0u);
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 1000}, {OpEvent::acked, Status::ok, 1000}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, ARefusalMayOvertakeTheDriver) {
  open(0);
  ASSERT_EQ(put(1000, true), Status::pending);
  arrive(control(wire::Kind::finish, sent(wire::Kind::put).request.op, 0, Status::dropped));
  EXPECT_EQ(notes_, Notes{});
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 1000}, {OpEvent::dropped, Status::ok, 0}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, AStreamThatHasArrivedIsOverWhenTheDriverIsThrough) {
  open(0);
  ASSERT_EQ(put(60000, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  arrive(control(wire::Kind::stream, op, 60000, Status::ok, 9));
  while (!protocol_->drained()) protocol_->progress(++now_ns_);
  ASSERT_GT(driver_->lent(), 1u);
  arrive(control(wire::Kind::finish, op, 60000));
  EXPECT_EQ(notes_, Notes{});
  while (driver_->lent() > 1) give_back();
  EXPECT_EQ(notes_, Notes{});
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 60000}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

// A driver that tells when a stream has arrived.
class Delivered : public ProtocolFrames {
 protected:
  void open_delivering() {
    open(kDelivers, [](FakeDriver& driver) {
      driver.want_lent_from(500);
      driver.advise_batches_of(8);
      driver.advise(8000, 0, 0);
    });
    EXPECT_EQ(put(1, false), Status::ok);  // the hello has left with it
    driver_->sent.clear();
  }
  Status put_tagged(uint64_t bytes, bool want_ack = false) {
    Envelope env;
    env.space = Space::tagged;
    env.want_ack = want_ack;
    env.length = bytes;
    return protocol_->put(*peer_, env, Data(source_.data(), bytes), owner(), nullptr);
  }
  void send_all() {
    while (!protocol_->drained()) protocol_->progress(++now_ns_);
  }
  std::vector<wire::Kind> kinds() const {
    std::vector<wire::Kind> out;
    for (const auto& s : driver_->sent) out.push_back(static_cast<wire::Kind>(s.bytes[0]));
    return out;
  }
};

TEST_F(Delivered, AStreamNeedsNoFinish) {
  open_delivering();
  ASSERT_EQ(put_tagged(100000), Status::pending);  // more than the credit
  const uint64_t op = sent(wire::Kind::tagged_announce).announced.op;
  driver_->sent.clear();
  arrive(control(wire::Kind::stream, op, 90000, Status::ok, 9));
  send_all();
  std::vector<wire::Kind> expected(driver_->sent.size() - 1, wire::Kind::data);
  expected.push_back(wire::Kind::data_end);
  EXPECT_EQ(kinds(), expected);
  EXPECT_TRUE(driver_->awaited) << "of the last frame";
  while (driver_->lent() > 1) give_back();
  EXPECT_EQ(notes_, Notes{});
  give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 90000}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

// Nobody waits for the end of one stream while others go on: they bring acknowledgements.
TEST_F(Delivered, OnlyTheLastStreamIsAwaited) {
  open_delivering();
  uint64_t ops[2];
  for (uint64_t& op : ops) {
    ASSERT_EQ(put_tagged(100000), Status::pending);
    op = sent(wire::Kind::tagged_announce).announced.op;
  }
  driver_->takes = 0;
  for (const uint64_t op : ops) arrive(control(wire::Kind::stream, op, 20000, Status::ok, op));
  driver_->takes = ~0u;
  driver_->sent.clear();
  send_all();
  EXPECT_EQ(std::ranges::count(kinds(), wire::Kind::data_end), 2);
  EXPECT_EQ(driver_->awaited, 1u);
  while (driver_->lent()) give_back();
  EXPECT_EQ(notes_,
            (Notes{{OpEvent::sent, Status::ok, 20000}, {OpEvent::sent, Status::ok, 20000}}));
}

// A peer that dies meanwhile is reported once, as elsewhere.
TEST_F(Delivered, AStreamEndsWithItsPeer) {
  open_delivering();
  ASSERT_EQ(put_tagged(100000), Status::pending);
  const uint64_t op = sent(wire::Kind::tagged_announce).announced.op;
  arrive(control(wire::Kind::stream, op, 90000, Status::ok, 9));
  send_all();
  driver_->go_down(kPeer, Status::peer_dead);
  protocol_->progress(++now_ns_);
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::peer_dead, 0}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(Delivered, ATargetThatWasToldSendsNoFinish) {
  open_delivering();
  arrive(announcement(1000));
  const uint64_t op = sent(wire::Kind::stream).control.sender_op;
  driver_->sent.clear();
  arrive(control(wire::Kind::data, op, 0) + std::string(600, 'x'));
  EXPECT_EQ(notes_, Notes{});
  arrive(control(wire::Kind::data_end, op, 600) + std::string(400, 'y'));
  EXPECT_EQ(notes_, (Notes{{OpEvent::received, Status::ok, 1000}}));
  EXPECT_EQ(kinds(), std::vector<wire::Kind>{});
  EXPECT_EQ(counters_.bad_frames, 0u);
  EXPECT_EQ(std::string(room_.memory.data() + 599, 2), "xy");
  arrive(announcement(1000));
  expect_cut(control(wire::Kind::data_end, sent(wire::Kind::stream).control.sender_op, 0) +
                 std::string(600, 'x'),
             "end of a stream that goes on (offset 0)");
}

// Where frames carry all data an announcement would only cost a round trip.
TEST_F(Delivered, WhatThereIsCreditForIsPushed) {
  open_delivering();
  for (const bool acked : {false, true}) {
    driver_->sent.clear();
    notes_.clear();
    ASSERT_EQ(put_tagged(20000, acked), Status::pending);
    EXPECT_EQ(sent(wire::Kind::put).request.length, 20000u);
    EXPECT_EQ(counters_.rendezvous_sent, 0u);
    for (const auto& frame : driver_->sent) EXPECT_TRUE(frame.lent);
    EXPECT_EQ(driver_->awaited, acked ? 2u : 1u) << "the last frame of each";
    while (driver_->lent()) give_back();
    EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 20000}}));
  }
  EXPECT_EQ(put_tagged(20000), Status::pending);
  EXPECT_EQ(counters_.rendezvous_sent, 1u) << "there would be none left for small ones";
  (void)put_tagged(4000);
  EXPECT_EQ(counters_.rendezvous_sent, 1u);
}

// One message that is alone leaves in one long frame, and is over for its sender at once.
TEST_F(Delivered, ACopyOfALoneEagerMessageIsLent) {
  open_delivering();
  driver_->take_long_frames_of(16384);
  const std::string message(source_.data(), 6000);
  EXPECT_EQ(put_tagged(6000), Status::ok);
  std::fill_n(source_.begin(), 6000, '!');
  ASSERT_EQ(driver_->sent.size(), 1u);
  EXPECT_TRUE(driver_->sent[0].lent);
  EXPECT_EQ(driver_->awaited, 0u) << "nobody waits";
  EXPECT_EQ(driver_->sent[0].bytes.substr(sizeof(wire::Request)), message);
  EXPECT_EQ(protocol_->ops().used(), 1u) << "it keeps the copy";

  EXPECT_EQ(put_tagged(6000), Status::pending) << "not alone: the driver has its frames to copy";
  EXPECT_GT(driver_->sent.size(), 2u);
  for (size_t i = 1; i < driver_->sent.size(); ++i) EXPECT_FALSE(driver_->sent[i].lent);
  while (driver_->lent()) give_back();
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 6000}})) << "of the second";
  EXPECT_EQ(protocol_->ops().used(), 0u);

  EXPECT_EQ(put_tagged(6000), Status::ok) << "alone again";
  EXPECT_EQ(put_tagged(2000), Status::pending);
  notes_.clear();
  driver_->go_down(kPeer, Status::peer_dead);
  protocol_->progress(++now_ns_);
  EXPECT_EQ(notes_, (Notes{{OpEvent::sent, Status::peer_dead, 2000}})) << "of the last";
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(Delivered, WhatIsReadOfAnExportIsLentIfItIsLongerThanAFrame) {
  open_delivering();
  for (const uint64_t bytes : {4000, 5000}) {
    driver_->sent.clear();
    arrive(request(wire::Kind::get, bytes, wire::kMemorySpace));
    send_all();
    const bool longer = bytes > 4096;
    ASSERT_EQ(driver_->sent.size(), longer ? 2u : 1u);
    for (const auto& frame : driver_->sent) EXPECT_EQ(frame.lent, longer);
    EXPECT_EQ(kinds().back(), longer ? wire::Kind::data : wire::Kind::reply);
  }
}

TEST_F(Delivered, WhatWaitsBehindOthersIsAnnounced) {
  open_delivering();
  driver_->takes = 0;
  ASSERT_EQ(put_tagged(20000), Status::pending);
  ASSERT_EQ(put_tagged(20000), Status::pending);
  EXPECT_EQ(counters_.rendezvous_sent, 1u) << "small ones must not wait behind it";
  driver_->takes = ~0u;
  send_all();
  EXPECT_EQ(sent(wire::Kind::tagged_announce).announced.length, 20000u);
}

// Words of zeros at the end of a key stay at home; the driver gets them back.
TEST_F(ProtocolFrames, TheAnnouncementOfATaggedMessageIsShort) {
  open(kGet);
  Envelope env;
  env.space = Space::tagged;
  env.index = 3;
  env.ready = true;
  env.bits = 0x1122334455667788;
  env.hdr_data = 0x99aabbcc;
  env.length = 60000;
  ASSERT_EQ(protocol_->put(*peer_, env, Data(source_.data(), 60000), owner(), nullptr),
            Status::pending);
  const std::string frame = driver_->sent.back().bytes;
  EXPECT_EQ(frame.size(), 32u + 8);
  const wire::Announced h = sent(wire::Kind::tagged_announce).announced;
  EXPECT_EQ(h.port, 3 | wire::kReadyBit);
  EXPECT_EQ(h.bits, env.bits);
  EXPECT_EQ(h.user, env.hdr_data);
  EXPECT_EQ(h.length, 60000u);
  EXPECT_NE(h.op, 0u);

  arrive(frame);
  EXPECT_EQ(room_.puts, 1u);
  ASSERT_EQ(driver_->imported.size(), 1u);
  EXPECT_EQ(driver_->imported[0], frame.substr(32) + std::string(16, '\0'));
}

// Without a key, or with one that is no key of the driver's, the source is asked for frames.
TEST_F(ProtocolFrames, WhatCannotBeReadIsAskedFor) {
  open(kGet);
  wire::Announced h{};
  h.kind = wire::Kind::tagged_announce;
  h.length = 60000;
  h.op = 77;
  for (const size_t key_bytes : {0, 25, 128}) {
    driver_->sent.clear();
    arrive(encoded(h) + std::string(key_bytes, 'k'));
    EXPECT_EQ(sent(wire::Kind::stream).control.op, 77u) << key_bytes;
  }
  EXPECT_EQ(driver_->imported.size(), 0u);
  EXPECT_EQ(counters_.bad_frames, 0u);
  expect_cut(encoded(h) + std::string(129, 'k'), "malformed header (kind 19)");
  open(kGet);
  h.op = 0;  // nobody could be answered
  expect_cut(encoded(h), "malformed header (kind 19)");
}

// Says of each message that was just sent whether it was announced, and lets the peer take them
// all.
class ReadOrEager : public ProtocolFrames {
 protected:
  static constexpr uint64_t kAlone = 2000, kCrossing = 3000, kEager = 3900;
  void open_with_advice() {
    open(kGet, [](FakeDriver& driver) { driver.advise(kEager, kAlone, kCrossing); });
    EXPECT_EQ(put(1, false), Status::ok);  // the hello has left with it
  }
  bool announces(uint64_t bytes) {
    EXPECT_EQ(put(bytes, false), Status::pending);
    wire::Frame f;
    EXPECT_TRUE(wire::parse(std::as_bytes(std::span(driver_->sent.back().bytes)), &f));
    if (f.kind == wire::Kind::put_announce) announced_.push_back({f.request.op, bytes});
    return f.kind == wire::Kind::put_announce;
  }
  void take_all() {
    while (driver_->lent()) give_back();
    for (const auto& [op, bytes] : announced_) arrive(control(wire::Kind::finish, op, bytes));
    announced_.clear();
  }
  std::vector<std::pair<uint64_t, uint64_t>> announced_;
};

TEST_F(ReadOrEager, OneThatIsAloneIsRead) {
  open_with_advice();
  for (int i = 0; i < 5; i++) {
    EXPECT_FALSE(announces(kAlone - 1)) << i;
    EXPECT_TRUE(announces(kAlone)) << i;
    take_all();
    EXPECT_TRUE(announces(kEager)) << i;
    take_all();
  }
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ReadOrEager, OneOfManyIsEagerUntilTheManyAreOver) {
  open_with_advice();
  EXPECT_TRUE(announces(kAlone));
  EXPECT_FALSE(announces(kAlone));
  take_all();
  int eager = 0;
  while (eager < 100 && !announces(kAlone)) {
    take_all();
    eager++;
  }
  EXPECT_EQ(eager, 16);
  take_all();
  EXPECT_TRUE(announces(kAlone));
  take_all();
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ReadOrEager, LongOnesThatMeetAreRead) {
  open_with_advice();
  EXPECT_TRUE(announces(kAlone));
  arrive(announcement(kEager, std::string(FakeDriver::kKeyBytes, 'k')));
  EXPECT_FALSE(announces(kCrossing - 1)) << "short ones overlap better";
  EXPECT_TRUE(announces(kCrossing));
  take_all();
  EXPECT_TRUE(announces(kCrossing)) << "the first that met nothing";
  take_all();
  EXPECT_TRUE(announces(kCrossing)) << "the second: from now on they are alone";
  take_all();
  EXPECT_TRUE(announces(kAlone));
  take_all();
}

// One frame is enough to see that long messages come while others wait to leave.
TEST_F(ReadOrEager, LongOnesOfOneFrameThatMeetAreRead) {
  open_with_advice();
  wire::Tagged tagged{};
  tagged.kind = wire::Kind::tagged;
  for (const uint64_t bytes : {kCrossing - 1, kCrossing}) {
    (void)announces(kAlone);
    driver_->takes = 0;
    EXPECT_EQ(put(kAlone - 1, false), Status::pending);
    arrive(encoded(tagged) + std::string(bytes, 't'));
    driver_->takes = ~0u;
    protocol_->progress(++now_ns_);
    EXPECT_EQ(announces(kCrossing), bytes == kCrossing) << bytes;
    take_all();
  }
}

// Many reads that are over in their call leave room for frames; all get their turn.
TEST_F(ProtocolFrames, ReadsInTheCallAreMadeAFewInARound) {
  constexpr unsigned kMessages = 8;
  constexpr uint64_t kLong = 100000, kOnce = 1 << 16, kRound = 256 << 10;
  open(kGet);
  driver_->refusals = kMessages;
  for (unsigned i = 0; i < kMessages; i++)
    driver_->arrive(kPeer, announcement(kLong, std::string(FakeDriver::kKeyBytes, 'k')));
  protocol_->progress(++now_ns_);
  EXPECT_EQ(counters_.pulled_bytes, kRound) << kOnce;
  for (uint64_t before = 0; counters_.pulled_bytes != before;) {
    before = counters_.pulled_bytes;
    protocol_->progress(++now_ns_);
    EXPECT_LE(counters_.pulled_bytes - before, kRound + kOnce);
  }
  EXPECT_EQ(counters_.pulled_bytes, kMessages * kLong);
  EXPECT_EQ(notes_.size(), kMessages);
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

// Streams take turns of many frames, also if the driver takes them one by one, and all get theirs.
TEST_F(ProtocolFrames, StreamsTakeTurnsOfManyFrames) {
  open(0);
  uint64_t ops[2];
  for (uint64_t& op : ops) {
    ASSERT_EQ(put(100000, false), Status::pending);
    op = sent(wire::Kind::put_announce).request.op;
  }
  driver_->refusals = 1000;
  for (const uint64_t op : ops) arrive(control(wire::Kind::stream, op, 100000, Status::ok, op));
  driver_->sent.clear();
  for (int i = 0; !protocol_->drained(); i++) {
    ASSERT_LT(i, 1000);
    driver_->refusals = i % 2;
    protocol_->progress(++now_ns_);
  }
  std::vector<unsigned> runs;
  uint64_t last = 0;
  for (const auto& s : driver_->sent) {
    wire::Frame f;
    ASSERT_TRUE(wire::parse(std::as_bytes(std::span(s.bytes)), &f));
    if (f.control.op != std::exchange(last, f.control.op)) runs.push_back(0);
    runs.back()++;
  }
  EXPECT_EQ(runs, (std::vector<unsigned>{16, 16, 9, 9}));
}

// A frame that was packed and refused is kept until it is taken, no longer: a driver that reads it
// again would find other bytes.
TEST_F(ProtocolFrames, WhatWasPackedIsNotLent) {
  open(0);
  driver_->want_lent_from(100);
  const auto pack = [](void*, uint64_t, void* buffer, size_t bytes) {
    std::memset(buffer, 1, bytes);
  };
  const Data packed(pack, nullptr, nullptr, 60000), plain(source_.data(), 60000);
  for (const bool packs : {true, false}) {
    const Data& data = packs ? packed : plain;
    Envelope env;
    env.length = data.bytes();
    ASSERT_EQ(protocol_->put(*peer_, env, data, owner(), nullptr), Status::pending);
    const uint64_t op = sent(wire::Kind::put_announce).request.op;
    driver_->sent.clear();
    arrive(control(wire::Kind::stream, op, 60000, Status::ok, op));
    for (int i = 0; !protocol_->drained(); i++) {
      ASSERT_LT(i, 1000);
      driver_->refusals = i % 2;
      protocol_->progress(++now_ns_);
    }
    ASSERT_GT(driver_->sent.size(), 4u);
    for (const auto& frame : driver_->sent) EXPECT_EQ(frame.lent, !packs);
    driver_->sent.clear();
  }
}

// A driver that gains from many frames at a time gets those of a message together, and what it does
// not take comes again from where it stopped.
TEST_F(ProtocolFrames, FramesOfAMessageGoToTheDriverTogether) {
  open(0);
  driver_->advise_batches_of(20);
  for (size_t i = 0; i < source_.size(); ++i) source_[i] = char(i * 7);
  ASSERT_EQ(put(30000, true), Status::pending);
  driver_->batches.erase(driver_->batches.begin());  // the hello
  EXPECT_EQ(driver_->batches, (std::vector<size_t>{8}));
  driver_->batches.clear();
  driver_->sent.clear();
  ASSERT_EQ(put(60000, false), Status::pending);
  const uint64_t op = sent(wire::Kind::put_announce).request.op;
  driver_->sent.clear();
  driver_->batches.clear();
  driver_->takes = 3;
  arrive(control(wire::Kind::stream, op, 60000, Status::ok, 9));
  ASSERT_EQ(driver_->sent.size(), 3u);
  driver_->takes = ~0u;
  while (!protocol_->drained()) protocol_->progress(++now_ns_);
  EXPECT_EQ(driver_->batches, (std::vector<size_t>{15, 12}));
  std::string got;
  for (const auto& frame : driver_->sent) {
    wire::Frame f;
    ASSERT_TRUE(wire::parse(std::as_bytes(std::span(frame.bytes)), &f));
    EXPECT_EQ(f.control.length, got.size());
    got.append(reinterpret_cast<const char*>(f.payload.data()), f.payload.size());
  }
  EXPECT_TRUE(std::equal(got.begin(), got.end(), source_.begin(), source_.begin() + 60000));
}

// An error in the target's last word must not leave a synchronous send without an end.
TEST_F(ProtocolFrames, AnErrorInsteadOfAnAcknowledgementIsTold) {
  open(0);
  ASSERT_EQ(put(10, true), Status::pending);
  ASSERT_EQ(notes_, (Notes{{OpEvent::sent, Status::ok, 10}}));
  const uint64_t op = sent(wire::Kind::put).request.op;
  arrive(control(wire::Kind::finish, op, 0, Status::io_error));
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_EQ(notes_[1].event, OpEvent::acked);
  EXPECT_EQ(notes_[1].status, Status::io_error);
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, MemoryIsTheDriversUntilDoneEvenIfThePeerLeaves) {
  open(kGet);
  driver_->remote = Status::pending;
  arrive(announcement(50000, "a valid!"));
  ASSERT_EQ(driver_->lent(), 1u);
  arrive(control(wire::Kind::bye, 0, 0));
  EXPECT_EQ(room_.downs, std::vector<Status>{Status::peer_closed});
  EXPECT_EQ(notes_, Notes{}) << "the driver still writes into the memory";
  give_back(Status::peer_closed);
  EXPECT_EQ(notes_, (Notes{{OpEvent::received, Status::peer_closed, 0}}));
  EXPECT_EQ(protocol_->ops().used(), 0u);
}

TEST_F(ProtocolFrames, NothingCountsAfterAPeersEnd) {
  open(0);
  arrive(control(wire::Kind::bye, 0, 0));
  ASSERT_EQ(room_.downs.size(), 1u);
  wire::Tagged tagged{};
  tagged.kind = wire::Kind::tagged;
  for (const std::string& frame : {announcement(50000), encoded(tagged), hello(),
                                   announcement(50000), control(wire::Kind::bye, 0, 0)})
    arrive(frame);
  EXPECT_EQ(counters_.bad_frames, 0u) << "they may have been under way";
  EXPECT_EQ(room_.puts, 0u);
  EXPECT_EQ(room_.downs.size(), 1u);
  EXPECT_EQ(protocol_->ops().used(), 0u) << "an operation that would never end";
}

TEST_F(ProtocolFrames, WhoHasJoinedIsToldAndHeard) {
  open(0);
  protocol_->tell_joined(*peer_, 0x1122334455667788, true);
  const std::string& frame = driver_->sent.back().bytes;
  const unsigned char expected[32] = {16,   0,    0,    0,    0,    0,    0,    0,  //
                                      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                                      0,    0,    0,    0,    0,    0,    0,    0,  //
                                      1};
  EXPECT_EQ(frame, std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
  arrive(frame);
  arrive(control(wire::Kind::joined, 5, 0));
  EXPECT_EQ(room_.joined,
            (std::vector<std::pair<uint64_t, bool>>{{0x1122334455667788, true}, {5, false}}));
  expect_cut(control(wire::Kind::joined, 5, 0) + "payload", "malformed header (kind 16)");
  EXPECT_EQ(room_.joined.size(), 2u);
}

// Credit is owed to one peer, and a frame for several must not give it to all.
TEST_F(ProtocolFrames, AFrameForAGroupGivesNoCreditBack) {
  open(0);
  constexpr PeerId kGroup = 3;
  Peer* peers[] = {peer_};
  Envelope env;
  env.index = 2;
  env.bits = 7;
  env.hdr_data = 9;
  const Data five(source_.data(), 5);
  EXPECT_FALSE(protocol_->multicast_now(kGroup, peers, env, five)) << "before the hello";
  ASSERT_EQ(put(1, false), Status::ok);
  wire::Tagged tagged{};
  tagged.kind = wire::Kind::tagged;
  arrive(encoded(tagged));
  const uint32_t owed = peer_->owed;
  ASSERT_GT(owed, 0u);
  const uint64_t credit = peer_->credit;
  ASSERT_TRUE(protocol_->multicast_now(kGroup, peers, env, five));
  EXPECT_EQ(driver_->sent.back().peer, kGroup);
  const wire::Tagged h = sent(wire::Kind::tagged).tagged;
  EXPECT_EQ(h.credit, 0u);
  EXPECT_EQ(h.port, 2u);
  EXPECT_EQ(h.bits, 7u);
  EXPECT_EQ(h.user, 9u);
  EXPECT_EQ(peer_->owed, owed);
  EXPECT_EQ(peer_->credit, credit - wire::credit_units(5));
  // A driver without room leaves everything as it was.
  driver_->refusals = 1;
  EXPECT_FALSE(protocol_->multicast_now(kGroup, peers, env, five));
  EXPECT_EQ(peer_->credit, credit - wire::credit_units(5));
}

}  // namespace
}  // namespace torii
