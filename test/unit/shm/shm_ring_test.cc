// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The ring alone: both ends on ordinary memory, so that each word can be looked at and forged.
#include "drivers/shm/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "core/base/random.h"

namespace torii::shm {
namespace {

constexpr uint32_t kLines = kRingMin / kLine;

struct Ring {
  explicit Ring(uint32_t lines = kLines) : memory(lines), stale(lines / 64) {
    out.base = in.base = memory[0].bytes;
    out.stale = stale.data();
    out.released = in.released = &released;
    out.lines = in.lines = out.room = lines;
    in.longest = frame_max_of(lines);
    out.position = out.consumed = in.position = in.told = kFirstPosition;
  }

  // Bytes that look like the control word of any later lap: what stale lines must not be taken for.
  static std::string hostile(uint32_t bytes, uint32_t position, uint32_t lines) {
    std::string s(bytes + 8, '\0');
    for (uint32_t i = 0; i < bytes; i += 8) {
      const uint64_t word = control_word(kKindFrame, 5, position + (i + 8) / kLine + lines);
      std::memcpy(&s[i], &word, sizeof(word));
    }
    s.resize(bytes);
    return s;
  }

  bool send(const std::string& frame) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    const uint32_t padding = bytes > kFirstBytes && bytes < kMtu - kLine ? bytes % 8 * 8 : 0;
    std::byte* to = out.reserve(bytes + padding);
    EXPECT_FALSE(out.corrupt);
    if (!to) return false;
    std::memcpy(to + padding, frame.data(), frame.size());
    out.publish(bytes, padding);
    return true;
  }

  RingReceiver::Found receive(std::string* frame) {
    const std::byte* bytes;
    uint32_t length;
    const auto found = in.peek(&bytes, &length);
    if (found == RingReceiver::Found::frame) {
      frame->assign(reinterpret_cast<const char*>(bytes), length);
      in.consume();
    }
    return found;
  }

  struct alignas(kLine) Line {
    std::byte bytes[kLine];
  };
  std::vector<Line> memory;
  std::vector<uint64_t> stale;
  std::atomic<uint32_t> released{0};
  RingSender out;
  RingReceiver in;
};

TEST(ShmRing, EverySizeComesOutUnchangedInEveryPlace) {
  Ring ring;
  uint64_t lines = 0;
  for (uint32_t size = 0; size <= kMtu; size++) {
    const std::string frame = Ring::hostile(size, ring.out.position, kLines);
    ASSERT_TRUE(ring.send(frame)) << size;
    std::string got;
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame) << size;
    ASSERT_EQ(got, frame) << size;
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::nothing) << size;
    lines += lines_of(size);
  }
  EXPECT_GT(lines, 500u * kLines) << "many laps";
}

TEST(ShmRing, ALongRingTakesLongFramesInEveryPlace) {
  constexpr uint32_t kLongLines = kLongRing / kLine;
  Ring ring(kLongLines);
  uint64_t lines = 0;
  for (uint32_t size = kLongMtu; size > kMtu; size -= 53) {
    const std::string frame = Ring::hostile(size, ring.out.position, kLongLines);
    ASSERT_TRUE(ring.send(frame)) << size;
    std::string got;
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame) << size;
    ASSERT_EQ(got, frame) << size;
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::nothing) << size;
    lines += lines_of(size);
  }
  EXPECT_GT(lines, 10u * kLongLines) << "some laps";
}

// Random sizes and bursts against a queue. The position starts just below 2^32.
TEST(ShmRing, KeepsOrderOverManyLapsAndTheWrapOfThePosition) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    Random random(seed);
    Ring ring(seed % 2 ? kLines : 4 * kLines);
    std::deque<std::string> expected;
    unsigned refused = 0;
    for (int step = 0; step < 4000; step++) {
      for (uint64_t n = random.between(0, 12); n; n--) {
        const auto limit = random.chance(200000) ? kMtu : random.chance(500000) ? 300u : 56u;
        const auto size = static_cast<uint32_t>(random.between(0, limit));
        std::string frame = Ring::hostile(size, ring.out.position, ring.out.lines);
        if (!ring.send(frame)) {
          refused++;
          break;
        }
        expected.push_back(std::move(frame));
      }
      for (uint64_t n = random.between(0, 12); n; n--) {
        std::string got;
        const auto found = ring.receive(&got);
        ASSERT_NE(found, RingReceiver::Found::corrupt);
        ASSERT_EQ(found == RingReceiver::Found::frame, !expected.empty()) << "seed " << seed;
        if (expected.empty()) break;
        ASSERT_EQ(got, expected.front()) << "seed " << seed << " step " << step;
        expected.pop_front();
      }
    }
    EXPECT_GT(refused, 0u) << "the ring was never full";
  }
}

TEST(ShmRing, AnEmptiedRingTakesTheLargestFrameAtAnyPlace) {
  for (uint32_t offset = 0; offset < kLines; offset++) {
    Ring ring;
    std::string got;
    for (uint32_t i = 0; i < offset; i++) {
      ASSERT_TRUE(ring.send("x"));
      ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame);
    }
    ASSERT_TRUE(ring.send(std::string(kMtu, 'y'))) << "offset " << offset;
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame);
    ASSERT_EQ(got.size(), kMtu);
  }
}

// 2^32 lines later the same positions come again, and lines that were skipped all the time still
// hold the control words of then.
TEST(ShmRing, ControlWordsOfAnEarlierRoundAreNotTakenForNew) {
  Ring ring;
  std::string got;
  for (uint32_t i = 0; i < kLines; i++) {
    ASSERT_TRUE(ring.send("old"));
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame);
  }
  while (ring.out.position != 100 + kLines) {  // five frames of 100 lines, the last behind a skip
    ASSERT_TRUE(ring.send(std::string(100 * kLine - 8, '\0')));
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame);
  }
  ring.in.position -= 2 * kLines;  // the rest of the 2^32 in one step
  ring.out.position -= 2 * kLines;
  ring.in.told = ring.out.consumed = ring.in.position;
  ring.released.store(ring.in.position - kFirstPosition);
  ring.out.room = kLines;
  for (uint32_t i = 0; i < kLines; i++) {
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::nothing) << "line " << i;
    ASSERT_TRUE(ring.send("new"));
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame);
    ASSERT_EQ(got, "new");
  }
}

TEST(ShmRing, ForgedControlWordsAreFound) {
  const struct {
    uint64_t kind;
    uint32_t length;
    const char* what;
  } cases[] = {
      {kKindFrame, kMtu + 1, "longer than the mtu"},
      {kKindFrame, 0xffff, "the largest length"},
      {kKindSkip, 0, "a skip at the first line"},
      {77, 8, "an unknown kind"},
  };
  for (const auto& c : cases) {
    Ring ring;
    control_at(ring.in.base, ring.in.position % kLines)
        .store(control_word(c.kind, c.length, ring.in.position));
    std::string got;
    EXPECT_EQ(ring.receive(&got), RingReceiver::Found::corrupt) << c.what;
  }
  Ring ring;
  std::string got;
  for (uint32_t i = 0; i < kLines - 2; i++) {
    ASSERT_TRUE(ring.send("x"));
    ASSERT_EQ(ring.receive(&got), RingReceiver::Found::frame);
  }
  // Two lines are left before the end of the ring.
  control_at(ring.in.base, kLines - 2).store(control_word(kKindFrame, 121, ring.in.position));
  EXPECT_EQ(ring.receive(&got), RingReceiver::Found::corrupt) << "beyond the end of the ring";
  control_at(ring.in.base, kLines - 2)
      .store(control_word(kKindFrame, 8, ring.in.position, kFirstBytes + 8));
  EXPECT_EQ(ring.receive(&got), RingReceiver::Found::corrupt) << "more padding than a line";
  control_at(ring.in.base, kLines - 2).store(control_word(kKindSkip, 0, ring.in.position));
  EXPECT_EQ(ring.receive(&got), RingReceiver::Found::corrupt) << "a skip to nothing";
}

TEST(ShmRing, LongFramesAreForgeriesInAShortRing) {
  for (const auto& [lines, length] : {std::pair{uint32_t{kLongRing / kLine} / 2, kMtu + 1},
                                      std::pair{uint32_t{kLongRing / kLine}, kLongMtu + 1}}) {
    for (const uint32_t more : {0u, 1u}) {
      Ring ring(lines);
      ring.in.position = ring.in.told = 0;
      control_at(ring.in.base, 0).store(control_word(kKindFrame, length - 1 + more, 0));
      std::string got;
      EXPECT_EQ(ring.receive(&got),
                more ? RingReceiver::Found::corrupt : RingReceiver::Found::frame);
    }
  }
}

TEST(ShmRing, ASenderDoesNotBelieveInRoomItCannotHave) {
  for (const uint32_t lie : {1u, 512u, 0x80000000u, 0u - 2 * kLines}) {
    Ring ring;
    while (ring.send(std::string(1000, 'x'))) {
    }
    ring.released.store(ring.out.position - kFirstPosition + lie);
    EXPECT_EQ(ring.out.reserve(1000), nullptr);
    EXPECT_TRUE(ring.out.corrupt) << lie;
  }
}

TEST(ShmRing, TwoThreads) {
  Ring ring;
  constexpr uint32_t kFrames = 100000;
  std::thread sender([&] {
    Random random(3);
    for (uint32_t i = 0; i < kFrames;) {
      std::string frame(4 + random.between(0, 200), static_cast<char>(i));
      std::memcpy(frame.data(), &i, sizeof(i));
      while (!ring.send(frame)) std::this_thread::yield();
      i++;
    }
  });
  for (uint32_t i = 0; i < kFrames;) {
    std::string got;
    const auto found = ring.receive(&got);
    if (found == RingReceiver::Found::nothing) {
      std::this_thread::yield();
      continue;
    }
    uint32_t number = ~0u;
    if (found == RingReceiver::Found::frame) std::memcpy(&number, got.data(), sizeof(number));
    EXPECT_EQ(number, i);
    if (number != i) abort();  // the sender would wait for ever
    EXPECT_EQ(got.back(), got.size() > 4 ? static_cast<char>(i) : got.back());
    i++;
  }
  sender.join();
}

}  // namespace
}  // namespace torii::shm
