// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Threads that wait for several interfaces of their process together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/param.h"
#include "core/ni/ni.h"
#include "core/torii.h"
#include "sanitized.h"

namespace torii {
namespace {

// How often a sleep at this interface ended because its time was over.
uint64_t timeouts(torii_ni_t* handle) {
  Ni& ni = *reinterpret_cast<Ni*>(handle);
  NiGuard guard(ni);
  return ni.counters().sleep_timeouts;
}

// woken(i) tells whether the sleeper of round i was woken, and not by time. On a busy machine its
// time may be over just then, but not in most rounds of every attempt.
template <class Round>
void expect_most_are_woken(Round woken) {
  constexpr int kRounds = 21, kAttempts = 10;
  int count = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    count = 0;
    for (int i = 0; i < kRounds; ++i) count += woken(i);
    if (count > kRounds / 2) return;
  }
  ADD_FAILURE() << count << " of " << kRounds << " in the last of " << kAttempts << " attempts";
}

// An interface whose only peer is itself.
struct Own {
  explicit Own(uint64_t job, int threads = 1) {
    torii_options_t options{};
    options.struct_bytes = sizeof(options);
    options.job = job;
    options.size = options.local_size = 1;
    options.threads = threads;
    EXPECT_EQ(torii_open(&options, &ni), TORII_OK) << torii_error();
    char address[512];
    EXPECT_EQ(torii_connect(ni, address, torii_address(ni, address, sizeof(address)), &self),
              TORII_OK);
    EXPECT_EQ(torii_port_open(ni, 0, &port), TORII_OK);
  }
  ~Own() { close(); }
  void close() {
    if (!ni) return;
    torii_port_close(port);
    torii_close(ni);
    ni = nullptr;
  }
  static void over(void* arg, const torii_result_t*) { static_cast<Own*>(arg)->received = true; }
  static void nothing_more(void*, const torii_result_t*) {}
  void receive() {
    received = false;
    ASSERT_EQ(torii_recv(port, self, 1, 0, &data, over, this, nullptr, &result), TORII_PENDING);
  }
  void send() {
    torii_send(port, self, TORII_STANDARD, 1, 0, &data, nothing_more, nullptr, nullptr);
  }

  torii_ni_t* ni = nullptr;
  torii_peer_t* self = nullptr;
  torii_port_t* port = nullptr;
  torii_data_t data{};
  torii_result_t result;
  std::atomic<bool> received{false};
};

class Together : public ::testing::Test {
 protected:
  void SetUp() override {
    set("drivers", "self");
    set("wait", "sleep");
  }
  void TearDown() override {
    set("drivers", "self,shm");
    set("wait", "auto");
  }
  static void set(const char* name, const char* value) {
    std::string why;
    ASSERT_EQ(param_set(name, value, "test", &why), Status::ok) << why;
  }
};

TEST_F(Together, ASleeperWakesForWhatArrivesBeside) {
  Own here(5), beside(6);
  torii_ni_t* const both[] = {here.ni, beside.ni};
  ASSERT_EQ(torii_wait_together(both, 2), TORII_OK) << torii_error();
  expect_most_are_woken([&](int i) {
    uint64_t before = 0;
    beside.receive();
    std::thread sender([&] {
      usleep(useconds_t(20000 + 370 * i));
      before = timeouts(here.ni);
      beside.send();
    });
    while (!beside.received) {
      torii_wait_step(here.ni);
      torii_progress(beside.ni);
    }
    sender.join();
    return timeouts(here.ni) == before;
  });
}

// The callbacks are of an interface at which somebody else makes progress.
TEST_F(Together, WhoWaitsForAnyIsToldOfCallbacks) {
  Own here(5), beside(6);
  torii_ni_t* const both[] = {here.ni, beside.ni};
  ASSERT_EQ(torii_wait_together(both, 2), TORII_OK) << torii_error();
  expect_most_are_woken([&](int i) {
    uint64_t before = 0;
    beside.receive();
    std::thread other([&] {
      usleep(useconds_t(20000 + 370 * i));
      before = timeouts(here.ni);
      beside.send();
      while (!beside.received) torii_progress(beside.ni);
    });
    while (!beside.received) torii_wait_any(here.ni);
    const uint64_t after = timeouts(here.ni);
    other.join();
    return after == before;
  });
}

TEST_F(Together, AWaitForAnyLeavesTheProcessorToOthers) {
  Own here(5), beside(6), third(7);
  torii_ni_t* const all[] = {here.ni, beside.ni, third.ni};
  ASSERT_EQ(torii_wait_together(all, 3), TORII_OK) << torii_error();
  here.receive();
  std::thread sender([&] {
    usleep(600000);
    here.send();
  });
  timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  while (!here.received)
    for (torii_ni_t* ni : all) torii_wait_any(ni);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  sender.join();
  const double used = double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec) -
                      1e-9 * double(before.tv_nsec);
  EXPECT_LT(used, test::kSanitized ? 0.25 : 0.1);
}

TEST_F(Together, OneThatIsClosedIsForgotten) {
  Own here(5), beside(6);
  torii_ni_t* const both[] = {here.ni, beside.ni};
  ASSERT_EQ(torii_wait_together(both, 2), TORII_OK) << torii_error();
  beside.close();
  here.receive();
  std::thread sender([&] {
    usleep(30000);
    here.send();
  });
  while (!here.received) torii_wait_any(here.ni);
  sender.join();
}

TEST_F(Together, OnlyInterfacesForThreads) {
  Own here(5), single(6, 0);
  torii_ni_t* const both[] = {here.ni, single.ni};
  EXPECT_EQ(torii_wait_together(both, 2), TORII_ERR_INVALID);
  EXPECT_NE(std::string(torii_error()).find("threads"), std::string::npos) << torii_error();
  EXPECT_EQ(torii_wait_together(nullptr, 1), TORII_ERR_INVALID);
}

}  // namespace
}  // namespace torii
