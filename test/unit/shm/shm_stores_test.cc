// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Bodies arrive unchanged and stay in bounds, whichever kind of store writes them.
#include "drivers/shm/stores.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/random.h"

namespace torii::shm {
namespace {

constexpr uint32_t kBytesMax = 20000;
constexpr uint32_t kGuard = 2 * kLine;

// A place for a body, at the beginning of a line, and a source of any alignment.
class Copies {
 public:
  Copies() : source_(kBytesMax + kLine, '\0') {
    for (size_t i = 0; i < source_.size(); i++) source_[i] = static_cast<char>(i * 7 % 251);
  }
  // True if write(to, from, n) writes the n bytes of the source at `skew` and no others.
  template <typename F>
  bool right(F write, uint32_t n, uint32_t skew) {
    std::memset(place_, '.', sizeof(place_));
    write(place_ + kGuard, reinterpret_cast<const std::byte*>(source_.data()) + skew, n);
    return std::memcmp(place_ + kGuard, source_.data() + skew, n) == 0 && untouched(0, kGuard) &&
           untouched(kGuard + n, sizeof(place_));
  }

 private:
  bool untouched(size_t first, size_t end) const {
    for (size_t i = first; i < end; i++)
      if (place_[i] != std::byte{'.'}) return false;
    return true;
  }

  std::string source_;
  alignas(kLine) std::byte place_[kBytesMax + 2 * kGuard];
};

// Calls try_one(n, skew) for sizes from 0 on: all short ones, then in steps, and around each whole
// number of lines.
template <typename F>
void for_sizes(F try_one) {
  Random random(1);
  const auto skew = [&] { return static_cast<uint32_t>(random.between(0, kLine - 1)); };
  for (uint32_t n = 0; n <= kBytesMax; n += n < 300 ? 1 : 37)
    ASSERT_TRUE(try_one(n, skew())) << n << " bytes";
  for (uint32_t n = kLine; n < kBytesMax; n += kLine)
    for (uint32_t size = n - 1; size <= n + 1; size++)
      ASSERT_TRUE(try_one(size, skew())) << size << " bytes";
}

constexpr uint32_t kLong = 8192;

// Ticks of a line by loop and by string.
struct Place {
  uint32_t loop, string;
  uint64_t cost(Store how) const {
    return StoreChoice::kPart * (how == Store::string ? string : loop);
  }
};

// The stores that write most of so many long bodies, once the choice has got used to the place.
Store settled(StoreChoice& choice, const Place& place, uint32_t bytes = kLong, int bodies = 4000) {
  int count[3] = {};
  for (int i = 0; i < 2 * bodies; i++) {
    const StoreChoice::Turn turn = choice.next(bytes);
    if (turn.measured) choice.note(turn.how, place.cost(turn.how));
    if (i >= bodies) count[static_cast<int>(turn.how)]++;
  }
  const auto most = std::max_element(count, count + 3);
  EXPECT_GE(*most, bodies - bodies / 50);
  return static_cast<Store>(most - count);
}

TEST(StoreChoice, TheCheapestWhereItIsAndAfterAMove) {
  StoreChoice choice;
  EXPECT_EQ(settled(choice, {12, 20}), Store::loop);
  EXPECT_EQ(settled(choice, {56, 12}), Store::string) << "far, and asks for many lines at once";
  EXPECT_EQ(settled(choice, {20, 12}), Store::string);
  EXPECT_EQ(settled(choice, {60, 70}), Store::past);
  EXPECT_EQ(settled(choice, {300, 300}), Store::past) << "much, but every time";
  EXPECT_EQ(settled(choice, {12, 20}), Store::loop);
}

// One that was interrupted says nothing of the place.
TEST(StoreChoice, AnInterruptionChangesNothing) {
  StoreChoice choice;
  const Place place{56, 20};
  ASSERT_EQ(settled(choice, place), Store::string);
  choice.note(Store::string, StoreChoice::kPart * 5000);
  EXPECT_EQ(choice.next(kLong).how, Store::string);
  choice.note(Store::string, place.cost(Store::string));
  choice.note(Store::string, StoreChoice::kPart * 100);  // a short one, which cannot be told
  EXPECT_EQ(settled(choice, place), Store::string);
}

TEST(StoreChoice, ShortOnesGoPastTheCachesOnlyIfThatPays) {
  StoreChoice choice;
  EXPECT_EQ(settled(choice, {56, 12}, 4096), Store::string);
  EXPECT_EQ(choice.next(2048).how, Store::loop);
  EXPECT_EQ(settled(choice, {60, 70}), Store::past);
  EXPECT_EQ(choice.next(2048).how, Store::past);
  EXPECT_EQ(choice.next(2047).how, Store::loop) << "a fence costs more";
}

// Whatever short ones come between.
TEST(StoreChoice, AmongShortOnes) {
  StoreChoice choice;
  const Place place{56, 12};
  int strings = 0;
  for (int i = 0; i < 4000; i++) {
    EXPECT_FALSE(choice.next(2048).measured);
    EXPECT_EQ(choice.next(100).how, Store::loop);
    const StoreChoice::Turn turn = choice.next(kLong);
    if (turn.measured) choice.note(turn.how, place.cost(turn.how));
    strings += turn.how == Store::string;
  }
  EXPECT_GT(strings, 3800);
}

TEST(BodyWriter, AFreshOneWritesEverySize) {
  Copies copies;
  for_sizes([&](uint32_t n, uint32_t skew) {
    BodyWriter writer;
    return copies.right([&](auto... args) { writer.write(args...); }, n, skew);
  });
}

// It measures on the way, and changes its ways.
TEST(BodyWriter, OneInUseWritesEverySize) {
  Copies copies;
  BodyWriter writer;
  for (int round = 0; round < 3; round++) {
    for_sizes([&](uint32_t n, uint32_t skew) {
      return copies.right([&](auto... args) { writer.write(args...); }, n, skew);
    });
  }
}

TEST(BodyWriter, OneWithoutAChoiceWritesEverySize) {
  Copies copies;
  BodyWriter writer;
  writer.allow_choice(false);
  for_sizes([&](uint32_t n, uint32_t skew) {
    return copies.right([&](auto... args) { writer.write(args...); }, n, skew);
  });
}

#if defined(__x86_64__)
TEST(BodyWriter, StoresPastTheCachesWriteEverySize) {
  Copies copies;
  for_sizes([&](uint32_t n, uint32_t skew) {
    return copies.right([](auto... args) { stream_bytes(args...); }, n, skew);
  });
}

TEST(BodyWriter, OneInstructionWritesEverySize) {
  Copies copies;
  for_sizes([&](uint32_t n, uint32_t skew) {
    return copies.right([](auto... args) { string_bytes(args...); }, n, skew);
  });
}
#endif

}  // namespace
}  // namespace torii::shm
