// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Threads that wait for several interfaces of their process together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/base/param.h"
#include "core/torii.h"

namespace torii {
namespace {

constexpr int kRounds = 21;

double now_ms() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

// Far less than the 5 ms after which a sleeper looks by itself.
void expect_prompt(std::vector<double> late_ms) {
  std::sort(late_ms.begin(), late_ms.end());
  EXPECT_LT(late_ms[late_ms.size() / 2], 1.0);
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
  static void over(void* arg, const torii_result_t*) {
    static_cast<Own*>(arg)->received_ms = now_ms();
  }
  static void nothing_more(void*, const torii_result_t*) {}
  void receive() {
    received_ms = 0;
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
  std::atomic<double> received_ms{0};
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
  std::vector<double> late;
  for (int i = 0; i < kRounds; ++i) {
    double sent_ms = 0;
    beside.receive();
    std::thread sender([&] {
      usleep(useconds_t(20000 + 370 * i));
      sent_ms = now_ms();
      beside.send();
    });
    while (beside.received_ms == 0) {
      torii_wait_step(here.ni);
      torii_progress(beside.ni);
    }
    sender.join();
    late.push_back(beside.received_ms - sent_ms);
  }
  expect_prompt(late);
}

// Of an interface at which somebody else makes progress.
TEST_F(Together, WhoWaitsForAnyIsToldOfCallbacks) {
  Own here(5), beside(6);
  torii_ni_t* const both[] = {here.ni, beside.ni};
  ASSERT_EQ(torii_wait_together(both, 2), TORII_OK) << torii_error();
  std::vector<double> late;
  for (int i = 0; i < kRounds; ++i) {
    beside.receive();
    std::thread other([&] {
      usleep(useconds_t(20000 + 370 * i));
      beside.send();
      while (beside.received_ms == 0) torii_progress(beside.ni);
    });
    while (beside.received_ms == 0) torii_wait_any(here.ni);
    late.push_back(now_ms() - beside.received_ms);
    other.join();
  }
  expect_prompt(late);
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
  while (here.received_ms == 0)
    for (torii_ni_t* ni : all) torii_wait_any(ni);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  sender.join();
  const double used = double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec) -
                      1e-9 * double(before.tv_nsec);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_LT(used, 0.25);
#else
  EXPECT_LT(used, 0.1);
#endif
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
  while (here.received_ms == 0) torii_wait_any(here.ni);
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
