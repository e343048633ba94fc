// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Reads and writes of remote memory that are over when the call returns, or are not begun.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/key.h"
#include "unit/memory/exports_kit.h"

namespace torii {
namespace {

using test::kBytes;
using test::kNetworks;
using test::kTag;
using test::Memory;
using test::Network;
using test::note;
using test::Outcome;
using test::Pair;
using test::pattern;

// The short ways do all or nothing, at once.
TEST_P(Memory, WhatIsOverInTheCall) {
  const Network& n = GetParam();
  Pair p(n);
  const bool at_once = n.mapped || ((n.flags & kGuard) && !n.pending && !n.denied);
  for (const size_t bytes : {1ul, 4ul, 8ul, 100ul, 1024ul}) {
    const auto data = pattern(bytes, unsigned(bytes));
    std::memset(p.memory, '.', p.size);
    const bool written = at_once && (n.mapped || (n.flags & kPut));
    ASSERT_EQ(torii_write_now(p.import, 8, data.data(), bytes), written ? TORII_OK : TORII_EMPTY);
    EXPECT_EQ(std::equal(data.begin(), data.end() - 1, p.bytes() + 8), written);
    EXPECT_EQ(p.bytes()[7], '.');
    EXPECT_EQ(p.bytes()[8 + bytes], '.');
    std::memcpy(p.bytes() + 8, data.data(), bytes);
    std::vector<uint8_t> back(bytes + 1, 0xee);
    const bool read = at_once && (n.mapped || (n.flags & kGet));
    ASSERT_EQ(torii_read_now(p.import, 8, back.data(), bytes), read ? TORII_OK : TORII_EMPTY);
    EXPECT_EQ(std::equal(data.begin(), data.end() - 1, back.begin()), read);
    EXPECT_EQ(back[bytes], 0xee);
  }
  char word[8] = "1234567";
  std::memset(p.memory, '.', p.size);
  EXPECT_EQ(torii_write_now(p.import, kBytes - 4, word, 8), TORII_EMPTY) << "out of bounds";
  EXPECT_EQ(torii_write_now(p.import, ~uint64_t{0} - 3, word, 8), TORII_EMPTY) << "out of bounds";
  EXPECT_EQ(torii_read_now(p.import, kBytes - 4, word, 8), TORII_EMPTY) << "out of bounds";
  EXPECT_EQ(torii_write_now(nullptr, 0, word, 8), TORII_EMPTY);
  EXPECT_EQ(torii_read_now(p.import, 0, nullptr, 8), TORII_EMPTY);
  EXPECT_EQ(p.bytes()[kBytes - 1], '.');
  EXPECT_STREQ(word, "1234567");
  ASSERT_EQ(p.unexport(), TORII_OK);
  EXPECT_EQ(torii_write_now(p.import, 0, word, 8), TORII_EMPTY) << "the export has ended";
  EXPECT_EQ(p.bytes()[0], '.');
  EXPECT_EQ(p.counters(1).exports_refused, 0u) << "nobody was asked";
}

TEST_P(Memory, RightsHoldForWhatIsOverInTheCall) {
  char word[8] = "1234567";
  Pair reads(GetParam(), TORII_MAY_READ);
  EXPECT_EQ(torii_write_now(reads.import, 0, word, 8), TORII_EMPTY);
  EXPECT_EQ(reads.bytes()[0], '.');
  Pair writes(GetParam(), TORII_MAY_WRITE);
  EXPECT_EQ(torii_read_now(writes.import, 0, word, 8), TORII_EMPTY);
  EXPECT_STREQ(word, "1234567");
}

// Short writes to memory for which the owner has to be asked.
class ShortWrites : public testing::Test {
 protected:
  static constexpr size_t kEach = 40;

  // Over for the caller in the call, or not.
  int write(size_t offset, const void* from, size_t bytes) {
    return torii_write(p.import, offset, from, bytes, TORII_COMPLETE_LOCAL, note, &unused);
  }
  // After it others find something under way.
  void first() { ASSERT_EQ(write(0, data.data(), 8), TORII_OK); }
  uint64_t frames() { return p.counters(0).frames_sent; }

  Pair p{kNetworks[0]};
  std::vector<uint8_t> data = pattern(kBytes, 3);
  Outcome unused;
};

TEST_F(ShortWrites, ShareFramesAndAnswers) {
  first();
  const uint64_t before = frames();
  for (size_t i = 1; i <= 100; ++i) ASSERT_EQ(write(i * 64, &data[i * 64], kEach), TORII_OK);
  EXPECT_EQ(p.bytes()[64], '.') << "the call copies; nobody has polled";
  ASSERT_EQ(p.flush(), TORII_OK);
  EXPECT_LE(frames(), before + 3);
  EXPECT_LE(p.counters(1).frames_sent, 6u);
  EXPECT_EQ(p.counters(0).asked_accesses, 101u);
  EXPECT_EQ(p.counters(1).exports_written, 101u);
  for (size_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(std::equal(&data[i * 64], &data[i * 64 + kEach], p.bytes() + i * 64)) << i;
    ASSERT_EQ(p.bytes()[i * 64 + kEach], '.') << i;
  }
  EXPECT_EQ(unused.calls, 0);
}

// Also to a caller that never flushes, and before what it asks for next.
TEST_F(ShortWrites, LeaveWithTheNextRoundOfProgress) {
  first();
  ASSERT_EQ(write(64, "abcdefgh", 8), TORII_OK);
  p.world.run();
  EXPECT_EQ(std::string(p.bytes() + 64, p.bytes() + 72), "abcdefgh");
  first();
  ASSERT_EQ(write(64, "ABCDEFGH", 8), TORII_OK);
  char back[8];
  ASSERT_EQ(p.read(64, back, 8), TORII_OK);
  EXPECT_EQ(std::string(back, 8), "ABCDEFGH");
  EXPECT_EQ(p.flush(), TORII_OK);
}

// Each is judged by itself.
TEST_F(ShortWrites, OneThatIsRefusedConcernsNoOther) {
  torii_import_t* const wrong = p.make_import(p.key(), kTag + 1);
  first();
  ASSERT_EQ(write(64, "abcdefgh", 8), TORII_OK);
  ASSERT_EQ(write(kBytes - 4, "abcdefgh", 8), TORII_OK);
  ASSERT_EQ(write(128, "abcdefgh", 8), TORII_OK);
  EXPECT_EQ(p.flush(), TORII_ERR_INVALID);
  EXPECT_EQ(std::string(p.bytes() + 64, p.bytes() + 72), "abcdefgh");
  EXPECT_EQ(std::string(p.bytes() + 128, p.bytes() + 136), "abcdefgh");
  EXPECT_EQ(p.bytes()[kBytes - 4], '.');
  EXPECT_EQ(p.counters(1).exports_refused, 1u);
  first();
  ASSERT_EQ(torii_write(wrong, 64, "ijklmnop", 8, TORII_COMPLETE_LOCAL, note, &unused), TORII_OK);
  EXPECT_EQ(p.flush(), TORII_ERR_DENIED);
  EXPECT_EQ(std::string(p.bytes() + 64, p.bytes() + 72), "abcdefgh");
  EXPECT_EQ(p.flush(), TORII_OK);
  torii_import_drop(wrong);
}

// They are copies: of those that a target has not acknowledged only so many are kept.
TEST_F(ShortWrites, AreBoundedWhileTheTargetDoesNotAnswer) {
  size_t taken = 0;
  std::vector<Outcome> outcomes(20000);
  int code = TORII_OK;
  for (; taken < outcomes.size() && code == TORII_OK; ++taken)
    code = torii_write(p.import, taken % 100 * 2000, data.data(), 1500, TORII_COMPLETE_LOCAL, note,
                       &outcomes[taken]);
  EXPECT_EQ(code, TORII_PENDING);
  EXPECT_LE(taken * 1500, 2u << 20);
  EXPECT_EQ(p.flush(), TORII_OK);
  EXPECT_EQ(outcomes[taken - 1].calls, 1);
}

TEST_F(ShortWrites, ToAProcessThatDiesAreToldByTheFlush) {
  first();
  ASSERT_EQ(write(64, "abcdefgh", 8), TORII_OK);
  p.world.kill(1);
  EXPECT_EQ(p.flush(), TORII_ERR_PEER_DEAD);
  torii_import_drop(std::exchange(p.import, nullptr));
}

// A frame whose description of its parts cannot be true is refused, as far as it goes.
TEST_F(ShortWrites, ThatDoNotFitTheirFrameAreRefused) {
  ExportKey key;
  const std::string text = p.key();
  ASSERT_TRUE(parse_key(std::as_bytes(std::span(text)), &key));
  Protocol& protocol = p.world.ni(0).protocol();
  unsigned refused = 0;
  const auto send = [&](const std::vector<std::byte>& payload) {
    Envelope env;
    env.space = Space::memory;
    env.several = env.want_ack = true;
    env.bits = key.handle;
    env.hdr_data = access_label(key.nonce, kTag);
    env.length = payload.size();
    const Owner owner{[](Op* op, OpEvent event, Status status, uint64_t) {
                        if (event != OpEvent::sent)
                          *static_cast<unsigned*>(op->owner.object) += status == Status::invalid;
                      },
                      &refused,
                      nullptr,
                      {0, 0}};
    ASSERT_EQ(
        protocol.put(*p.world.peer(0, 1), env,
                     Data(const_cast<std::byte*>(payload.data()), payload.size()), owner, nullptr),
        Status::pending);
    p.world.run();
  };
  const auto place = [](uint64_t offset, uint16_t bytes, size_t all) {
    std::vector<std::byte> out(all, std::byte{'x'});
    wire::write_place({offset, bytes}, out.data());
    return out;
  };
  send(std::vector<std::byte>(3));  // no room for a place
  send(place(0, 0, 8));             // of nothing
  send(place(0, 9, 16));            // of more than there is
  send(place(0, 65535, 16));        // of much more
  EXPECT_EQ(refused, 4u);
  EXPECT_EQ(p.bytes()[0], '.');
  send(place(64, 4, 12 + 7));  // the first one is right, and then half a place
  EXPECT_EQ(refused, 5u);
  EXPECT_EQ(p.bytes()[64], 'x');
  send(place((uint64_t{1} << 48) - 1, 8, 16));  // far out of bounds
  EXPECT_EQ(refused, 6u);
  send(place(72, 8, 16));
  EXPECT_EQ(refused, 6u);
  EXPECT_EQ(p.bytes()[79], 'x');
}

}  // namespace
}  // namespace torii
