// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames: what is delivered, when memory is free again, and back-pressure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "conformance/kit.h"
#include "core/base/random.h"
#include "sanitized.h"

namespace torii::kit {
namespace {

// All sizes at which a driver may change its mind.
void every_size(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const DriverCaps caps = a.caps();
  std::set<size_t> sizes = {0, 1, 2, 7, 8, 31, 32, 40, 63, 64, 65, 511};
  for (const size_t edge : {size_t{caps.inline_max}, size_t{caps.mtu}, size_t{caps.mtu} / 2})
    for (const int delta : {-1, 0, 1}) sizes.insert(edge + static_cast<size_t>(delta));
  uint64_t serial = 1;
  for (const size_t head : {size_t{0}, size_t{1}, size_t{16}, size_t{104}, kHeadMax}) {
    for (const size_t size : sizes) {
      if (size > body_max(caps, head) || head + size == 0) continue;
      const std::string& sent = bed.keep(pattern(serial++, head + size));
      const std::string_view view = sent;
      const uint64_t cookie = size > caps.inline_max ? a.new_cookie() : 0;
      const size_t before = b.frames.size();
      bed.send(a, to, view.substr(0, head), view.substr(head), cookie);
      ASSERT_TRUE(bed.run([&] { return b.frames.size() > before && a.pending.empty(); }))
          << "head " << head << ", body " << size << " did not arrive or was not done";
      ASSERT_EQ(b.frames.size(), before + 1);
      ASSERT_EQ(b.frames.back().bytes, sent) << "head " << head << ", body " << size;
    }
  }
}

// Bodies in pieces, also empty ones.
void gather(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const DriverCaps caps = a.caps();
  for (uint32_t pieces = 1; pieces <= std::min(caps.pieces_max, 16u); pieces++) {
    for (const size_t size : {size_t{pieces}, size_t{caps.inline_max}, body_max(caps, 16)}) {
      if (size > body_max(caps, 16)) continue;
      std::string& sent = bed.keep(pattern(pieces * 1000 + size, size + 16));
      std::vector<iovec> parts;
      size_t offset = 16;
      for (uint32_t i = 0; i < pieces; i++) {
        const size_t left = size + 16 - offset;
        const size_t n = i + 1 == pieces ? left : i % 3 == 2 ? 0 : left / 2;
        parts.push_back({sent.data() + offset, n});
        offset += n;
      }
      Tx tx{to, 16, sent.data(), parts.data(), pieces, static_cast<uint32_t>(size), a.new_cookie()};
      const size_t before = b.frames.size();
      ASSERT_TRUE(bed.run([&] { return a.send(tx); }));
      ASSERT_TRUE(bed.run([&] { return b.frames.size() > before && a.pending.empty(); }));
      ASSERT_EQ(b.frames.back().bytes, sent) << pieces << " pieces, " << size << " bytes";
    }
  }
}

// The frames that arrive at `node`, as serial numbers; fails on bytes that nobody sent.
std::vector<uint64_t> serials(const Node& node) {
  std::vector<uint64_t> out;
  for (const auto& frame : node.frames) {
    uint64_t serial = 0;
    if (frame.bytes.size() >= 8) std::memcpy(&serial, frame.bytes.data(), 8);
    EXPECT_EQ(frame.bytes, pattern(serial, frame.bytes.size())) << "a frame arrived changed";
    out.push_back(serial);
  }
  return out;
}

// Random traffic in both directions with random polling. Returns how many each side has sent.
uint64_t traffic(Bed& bed, Node& a, Node& b, uint64_t frames) {
  Random random(bed.rig.seed);
  const PeerId to[2] = {a.connect(b), b.connect(a)};
  Node* const nodes[2] = {&a, &b};
  const DriverCaps caps = a.caps();
  for (uint64_t serial = 1; serial <= frames; serial++) {
    for (int side = 0; side < (&a == &b ? 1 : 2); side++) {
      const size_t limit = random.chance(200000) ? caps.mtu : std::min(caps.mtu, 200u);
      const size_t size = random.between(8, limit);
      const size_t head = random.between(8, std::min(size, kHeadMax));
      const std::string_view view = bed.keep(pattern(serial, size));
      const bool cookie = size - head > caps.inline_max || random.chance(100000);
      bed.send(*nodes[side], to[side], view.substr(0, head), view.substr(head),
               cookie ? nodes[side]->new_cookie() : 0);
    }
    if (random.chance(100000)) nodes[random.next() % 2]->poll(bed.now_ns += 1000, 8);
  }
  EXPECT_TRUE(bed.run([&] {
    return a.pending.empty() && b.pending.empty() &&
           (!a.has(kReliable) || (a.frames.size() >= frames && b.frames.size() >= frames));
  })) << "sent "
      << frames << " frames, arrived " << b.frames.size() << " and " << a.frames.size()
      << "; not done " << a.pending.size() << " and " << b.pending.size();
  bed.settle();
  return frames;
}

void reliable(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const uint64_t frames = traffic(bed, a, b, bed.rig.frames);
  for (Node* node : {&a, &b}) {
    std::vector<uint64_t> got = serials(*node);
    std::sort(got.begin(), got.end());
    ASSERT_EQ(got.size(), frames) << "frames were lost or arrived twice";
    for (uint64_t i = 0; i < frames; i++) ASSERT_EQ(got[i], i + 1) << "lost or arrived twice";
  }
}

void ordered(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  traffic(bed, a, b, bed.rig.frames);
  for (Node* node : {&a, &b}) {
    uint64_t last = 0;
    for (const auto& frame : node->frames) {
      uint64_t serial = 0;
      std::memcpy(&serial, frame.bytes.data(), std::min<size_t>(8, frame.bytes.size()));
      // Without kReliable the number itself may be damaged: then the frame says nothing.
      if (frame.bytes != pattern(serial, frame.bytes.size())) continue;
      ASSERT_GE(serial, last) << "a frame was overtaken";
      last = serial;
    }
  }
}

// Rule 5, first half: heads and short bodies are copied before send() returns.
void short_bodies_are_copied(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const size_t size = std::min<size_t>(a.caps().inline_max, body_max(a.caps(), 16));
  for (uint64_t i = 1; i <= 50; i++) {
    std::string& frame = bed.keep(pattern(i, 16 + size));
    const std::string_view view = frame;
    bed.send(a, to, view.substr(0, 16), view.substr(16), i % 2 ? 0 : a.new_cookie());
    std::fill(frame.begin(), frame.end(), '!');
  }
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 50 && a.pending.empty(); }));
  for (const auto& f : b.frames) {
    uint64_t serial;
    std::memcpy(&serial, f.bytes.data(), 8);
    ASSERT_EQ(f.bytes, pattern(serial, 16 + size)) << "rule 5: not copied by send()";
  }
}

// Rule 5, second half: done() says that a long body may be overwritten.
void long_bodies_are_kept_until_done(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const size_t size = body_max(a.caps(), 16);
  if (size <= a.caps().inline_max) return;
  for (uint64_t i = 1; i <= 50; i++) {
    std::string& frame = bed.keep(pattern(i, 16 + size));
    const std::string_view view = frame;
    bed.send(a, to, view.substr(0, 16), view.substr(16), a.new_cookie());
    // The sender alone first: a done() without the receiver's help may come too early.
    for (int j = 0; j < 3 && !a.pending.empty(); j++) a.poll(bed.now_ns += 1000);
    ASSERT_TRUE(bed.run([&] { return a.pending.empty(); })) << "rule 6: never done";
    std::fill(frame.begin(), frame.end(), '!');
  }
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 50; }));
  serials(b);
}

// Its first 16 bytes are the head.
Tx in_one_piece(PeerId to, const std::string& frame, iovec* piece) {
  *piece = {const_cast<char*>(frame.data()) + 16, frame.size() - 16};
  Tx tx;
  tx.peer = to;
  tx.head = frame.data();
  tx.head_bytes = 16;
  tx.pieces = piece;
  tx.piece_count = 1;
  tx.body_bytes = static_cast<uint32_t>(piece->iov_len);
  return tx;
}

// The same for a short one that is lent.
void lent_bodies_are_kept_until_done(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const DriverCaps& caps = a.caps();
  if (caps.lend_min == 0) return;
  const size_t size = std::max<size_t>(caps.lend_min, body_max(caps, 16) / 2);
  for (uint64_t i = 1; i <= 50; i++) {
    std::string& frame = bed.keep(pattern(i, 16 + size));
    iovec piece;
    Tx tx = in_one_piece(to, frame, &piece);
    tx.cookie = a.new_cookie();
    tx.lent = true;
    ASSERT_TRUE(bed.run([&] { return a.send(tx); }));
    for (int j = 0; j < 3 && !a.pending.empty(); j++) a.poll(bed.now_ns += 1000);
    ASSERT_TRUE(bed.run([&] { return a.pending.empty(); })) << "rule 6: never done";
    std::fill(frame.begin(), frame.end(), '!');
  }
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 50; }));
  serials(b);
}

// done() of a lent body says that it and what was sent before are where nothing of the sender's is
// needed any more.
void lent_bodies_are_delivered(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const DriverCaps& caps = a.caps();
  if (!a.has(kDelivers)) return;
  for (uint64_t i = 1; i <= 50; i++) {
    std::string& first = bed.keep(pattern(2 * i - 1, 100));
    std::string& frame = bed.keep(pattern(2 * i, 16 + caps.lend_min));
    iovec pieces[2];
    const Tx before = in_one_piece(to, first, &pieces[0]);
    Tx tx = in_one_piece(to, frame, &pieces[1]);
    tx.cookie = a.new_cookie();
    tx.lent = tx.awaited = true;
    ASSERT_TRUE(bed.run([&] { return a.send(before); }));
    ASSERT_TRUE(bed.run([&] { return a.send(tx); }));
    ASSERT_TRUE(bed.run([&] { return a.pending.empty(); })) << "rule 6: never done";
    // Nobody but the receiver does anything any more.
    for (int j = 0; j < 3 && b.frames.size() < 2 * i; j++) b.poll(bed.now_ns += 1000);
    ASSERT_EQ(b.frames.size(), 2 * i) << "kDelivers: done() came before the frames";
  }
}

// Frames that are longer than the MTU, among others: those that arrive are as they were sent.
void long_frames_arrive_whole(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const DriverCaps& caps = a.caps();
  // Where bodies are lent it goes up and down, and the longest are taken in any case.
  const uint32_t most =
      caps.lend_min || !a.driver().paths() ? caps.long_max : a.driver().paths()->long_max(to);
  if (most == 0) return;
  ASSERT_GT(most, caps.mtu);
  ASSERT_LE(most, caps.long_max);
  constexpr uint64_t kCount = 60;
  const auto size_of = [&](uint64_t i) {
    const size_t sizes[] = {most, caps.mtu + 1, 100, most - i, caps.mtu};
    return sizes[i % std::size(sizes)];
  };
  for (uint64_t i = 1; i <= kCount; i++) {
    std::string& frame = bed.keep(pattern(i, size_of(i)));
    iovec piece;
    Tx tx = in_one_piece(to, frame, &piece);
    tx.cookie = a.new_cookie();
    tx.lent = caps.lend_min > 0;
    ASSERT_TRUE(bed.run([&] { return a.send(tx); }));
    ASSERT_TRUE(bed.run([&] { return a.pending.empty(); })) << "rule 6: never done";
    std::fill(frame.begin(), frame.end(), '!');
  }
  if (!a.has(kReliable)) return bed.settle();
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == kCount; }));
  const std::vector<uint64_t> got = serials(b);
  for (size_t i = 0; i < got.size(); i++)
    EXPECT_EQ(b.frames[i].bytes.size(), size_of(got[i])) << "of frame " << got[i];
}

// Rule 6, whatever becomes of the frames.
void every_cookie_is_done_once(Bed& bed) {
  const size_t kCookies = test::in_short() ? 100 : 300;
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const std::string& body = bed.keep(pattern(1, body_max(a.caps(), 8)));
  Random random(bed.rig.seed);
  std::set<uint64_t> cookies;
  for (size_t i = 0; i < kCookies; i++) {
    const uint64_t cookie = a.new_cookie();
    const size_t size = random.chance(500000) ? body.size() : random.between(0, 64);
    bed.send(a, to, "headhead", std::string_view(body).substr(0, size), cookie);
    cookies.insert(cookie);
  }
  EXPECT_TRUE(bed.run([&] { return a.pending.empty(); }))
      << "rule 6: " << a.pending.size() << " cookies were never done";
  bed.settle();
  EXPECT_EQ(a.dones.size(), kCookies);
}

// Rule 3: fill the driver up while nobody receives. The frames it took arrive, those it refused
// do not, and one more offer is enough.
void refused_frames_leave_no_trace(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  constexpr uint64_t kBytesMax = 64 << 20;
  const size_t size = std::min<size_t>(a.caps().mtu, 2048);
  uint64_t serial = 1, refused = 0, bytes = 0;
  for (int round = 0; round < 5; round++) {
    uint64_t last_refused = 0;
    while (bytes < kBytesMax) {
      const std::string_view view = bed.keep(pattern(serial, size));
      const bool cookie = size - 16 > a.caps().inline_max;
      if (!a.send(to, view.substr(0, 16), view.substr(16), cookie ? a.new_cookie() : 0)) {
        refused++;
        if (last_refused == serial) break;  // twice: it is full, not a whim
        last_refused = serial;
        continue;
      }
      serial++;
      bytes += size;
    }
    ASSERT_LT(bytes, kBytesMax) << "no back-pressure: the driver takes without end";
    for (int i = 0; i < 3; i++) b.poll(bed.now_ns += 1000, 4);
    if (&a != &b) a.poll(bed.now_ns, 4);
  }
  EXPECT_GT(refused, 0u);
  ASSERT_TRUE(bed.run([&] { return b.frames.size() >= serial - 1 && a.pending.empty(); }))
      << "took " << serial - 1 << " frames, delivered " << b.frames.size();
  bed.settle();
  const std::vector<uint64_t> got = serials(b);
  ASSERT_EQ(got.size(), serial - 1) << "rule 3: refused frames were sent";
  for (uint64_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], i + 1);
}

// send_short() is send(): same bytes, same order, same back-pressure.
void short_frames(Bed& bed) {
  Node& a = bed.node();
  if (!a.driver().short_frames()) GTEST_SKIP() << "the driver has no function for them";
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const DriverCaps caps = a.caps();
  std::set<size_t> sizes = {16, 17, 23, 24, 31, 32, 48, 55, 56, 57, 63, 64, 65, 80, 208, 256};
  for (const int delta : {-1, 0}) {
    sizes.insert(std::min(caps.inline_max + 16, caps.mtu) + static_cast<size_t>(delta));
    sizes.insert(caps.mtu / 2 + static_cast<size_t>(delta));
  }
  std::vector<std::string> sent;
  const auto next = [&](size_t size) -> const std::string& {
    sent.push_back(pattern(sent.size() + 1, size));
    return sent.back();
  };
  const auto check = [&] {
    ASSERT_TRUE(bed.run([&] { return b.frames.size() >= sent.size(); }));
    bed.settle();
    ASSERT_EQ(b.frames.size(), sent.size());
    for (size_t i = 0; i < sent.size(); i++) ASSERT_EQ(b.frames[i].bytes, sent[i]) << i;
  };
  for (const size_t size : sizes) {
    if (size > caps.mtu || size - 16 > caps.inline_max) continue;
    bed.send_short(a, to, next(size));
    const std::string_view plain = next(size);
    bed.send(a, to, plain.substr(0, 16), plain.substr(16));
    bed.send_short(a, to, next(16));
  }
  check();
  constexpr uint64_t kBytesMax = 64 << 20;
  uint64_t bytes = 0;
  const size_t body_max = std::min(caps.inline_max, 60u);
  while (bytes < kBytesMax && a.send_short(to, next(16 + sent.size() % (body_max + 1))))
    bytes += sent.back().size();
  sent.pop_back();  // refused
  ASSERT_LT(bytes, kBytesMax) << "no back-pressure: the driver takes without end";
  check();
  bed.send_short(a, to, next(16));
  check();
}

// send() takes a prefix: frames of one batch to two peers, more of them than fit.
void batches_are_taken_from_the_front(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  Node& c = bed.node();
  Node* const targets[2] = {&b, &c};
  const PeerId to[2] = {a.connect(b), a.connect(c)};
  std::vector<std::string> heads;
  for (uint64_t i = 1; i <= 400; i++) heads.push_back(pattern(i, 24));
  std::vector<Tx> batch;
  for (const std::string& head : heads)
    batch.push_back({to[batch.size() % 2], 24, head.data(), nullptr, 0, 0, 0});
  size_t sent = 0;
  ASSERT_TRUE(bed.run([&] {
    const size_t n = std::min<size_t>(batch.size() - sent, 3 * a.caps().batch_max);
    sent += a.send_batch(std::span(batch).subspan(sent, n));
    return sent == batch.size();
  }));
  const size_t each = &b == &c ? 400 : 200;
  ASSERT_TRUE(bed.run([&] { return b.frames.size() >= each && c.frames.size() >= each; }));
  for (size_t side = 0; side < 2; side++) {
    const std::vector<uint64_t> got = serials(*targets[side]);
    ASSERT_EQ(got.size(), each);
    for (size_t i = 0; i < each; i++) ASSERT_EQ(got[i], each == 400 ? i + 1 : 2 * i + 1 + side);
  }
}

void poll_keeps_to_its_budget(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  int sent = 0;
  bed.settle();
  for (; sent < 48 && a.send(to, "12345678"); sent++) continue;
  for (int i = 0; i < 200 && b.frames.empty(); i++) b.poll(bed.now_ns += 20000, 1);
  EXPECT_LE(b.frames.size(), 16u) << "poll(now, 1) handed up a whole queue";
  EXPECT_TRUE(bed.run([&] { return b.frames.size() == static_cast<size_t>(sent); }));
  bed.settle();
  EXPECT_EQ(b.frames.size(), static_cast<size_t>(sent));
  EXPECT_EQ(b.poll(bed.now_ns, 64), 0u) << "an idle poll() claims events";
}

// Rule 2: upcalls may send and connect. Each frame is answered from inside packet().
void upcalls_may_send(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  int refused = 0;
  b.on_packet = [&](PeerId from, const std::string& bytes) {
    if (bytes.size() != 16) return;
    ASSERT_NE(from, kNoPeer) << "the sender of a connected pair is not known";
    EXPECT_EQ(b.connect(a), from) << "connect() inside an upcall";
    refused += !b.send(from, "the answer");
  };
  for (uint64_t i = 1; i <= 100; i++) bed.send(a, to, pattern(i, 16));
  const size_t own = &a == &b ? 100 : 0;
  ASSERT_TRUE(bed.run([&] {
    return a.frames.size() + static_cast<size_t>(refused) >= 100 + own && b.frames.size() >= 100;
  }));
  EXPECT_LT(refused, 100);
}

// Rule 1: one thread at a time, but not always the same one.
void threads_take_turns(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  for (uint64_t turn = 1; turn <= 10; turn++) {
    std::thread other([&] {
      bed.send(a, to, pattern(turn, 100));
      EXPECT_TRUE(bed.run([&] { return b.frames.size() == turn; }));
    });
    other.join();
  }
  EXPECT_EQ(serials(b).size(), 10u);
}

// take() moves any part of the frame that is being handed up, and other memory.
void bodies_are_taken(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  Random random(bed.rig.seed);
  b.on_frame = [&](std::span<const std::byte> frame) {
    const std::string kept(reinterpret_cast<const char*>(frame.data()), frame.size());
    const size_t first = random.between(0, kept.size() - 1);
    const size_t size = random.between(1, kept.size() - first);
    for (const std::byte* from : {frame.data(), reinterpret_cast<const std::byte*>(kept.data())}) {
      std::string out(size + 2, '.');
      b.driver().take(out.data() + 1, from + first, size);
      EXPECT_TRUE(out == "." + kept.substr(first, size) + ".")
          << "take() of " << size << " bytes from " << first << " of " << kept.size();
    }
  };
  for (uint64_t i = 1; i <= 50; i++) {
    const std::string& frame = bed.keep(pattern(i, 16 + random.between(0, body_max(a.caps(), 16))));
    const std::string_view view = frame;
    bed.send(a, to, view.substr(0, 16), view.substr(16), a.new_cookie());
  }
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 50; }));
  const Advice* const advice = b.driver().advice();
  EXPECT_EQ(advice && advice->take_min != kNoSize, b.counters().taken_bytes > 0)
      << "Advice::take_min: it says what the card moves, and taken_bytes counts it";
}

constexpr Case kFrameTable[] = {
    {"every_size", "sizes around every limit arrive unchanged", kSure, false, every_size},
    {"gather", "bodies of up to pieces_max pieces", kSure, false, gather},
    {"reliable", "rule 4: kReliable", kReliable, false, reliable},
    {"ordered", "rule 4: kReliable", kReliable, false, ordered},
    {"short_bodies_are_copied", "rule 5", kReliable, false, short_bodies_are_copied},
    {"long_bodies_are_kept_until_done", "rule 5", kReliable, false,
     long_bodies_are_kept_until_done},
    {"lent_bodies_are_kept_until_done", "rule 5", kReliable, false,
     lent_bodies_are_kept_until_done},
    {"bodies_are_taken", "take", kReliable, false, bodies_are_taken},
    {"lent_bodies_are_delivered", "kDelivers", kReliable, false, lent_bodies_are_delivered},
    {"long_frames_arrive_whole", "long_max", 0, false, long_frames_arrive_whole},
    {"every_cookie_is_done_once", "rule 6", 0, false, every_cookie_is_done_once},
    {"refused_frames_leave_no_trace", "rule 3", kSure, false, refused_frames_leave_no_trace},
    {"short_frames", "send_short() is send()", kSure, false, short_frames},
    {"batches_are_taken_from_the_front", "rule 3: send() takes a prefix", kSure, false,
     batches_are_taken_from_the_front},
    {"poll_keeps_to_its_budget", "poll(): bounded work, no false events", kSure, false,
     poll_keeps_to_its_budget},
    {"upcalls_may_send", "rule 2", kSure, false, upcalls_may_send},
    {"threads_take_turns", "rule 1", kSure, false, threads_take_turns},
};

}  // namespace

const std::span<const Case> kFrameCases = kFrameTable;

}  // namespace torii::kit
