// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Several threads on one interface: who gets an event, and who is woken.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "unit/portals/portals_kit.h"

namespace torii {
namespace {

// An interface that really sleeps: until another thread has posted something.
class SleepyNode final : public PortalsHost, public Upper {
 public:
  SleepyNode()
      : protocol(node_config(network(), 0), this, &counters),
        portals(protocol, counters, *this, Portals::grant(nullptr)) {
    int interfaces;
    EXPECT_EQ(PtlInit(&interfaces), PTL_OK);
    DriverEnv env;
    env.sink = protocol.next_sink();
    env.counters = &counters;
    std::string why;
    protocol.add_driver("self", open_driver("self", env, &why));
    handle = register_ni(portals);
  }
  ~SleepyNode() {
    unregister_ni(handle);
    PtlFini();
  }
  static Network network() { return {.name = "self", .driver = "self"}; }
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }
  Peer* resolve(uint32_t nid, uint32_t pid, std::string* why) override {
    if (nid != 0 || pid != 1) return nullptr;
    std::byte address[Protocol::kAddressBytes];
    Peer* peer = nullptr;
    const size_t bytes = protocol.address(address, sizeof(address));
    return protocol.connect({address, bytes}, &peer, why) == Status::ok ? peer : nullptr;
  }
  unsigned progress() override { return protocol.progress(now_ns()); }
  bool sleep(int milliseconds) override {
    EXPECT_FALSE(sleeping_) << "one thread at a time";
    sleeping_ = true;
    std::unique_lock guard(mutex_, std::adopt_lock);
    if (milliseconds < 0) {
      woken_.wait(guard, [&] { return awake_; });
    } else {
      woken_.wait_for(guard, std::chrono::milliseconds(milliseconds), [&] { return awake_; });
    }
    awake_ = false;
    sleeping_ = false;
    guard.release();
    return true;
  }
  void wake() override {
    EXPECT_TRUE(sleeping_);
    awake_ = true;
    woken_.notify_one();
  }
  uint64_t now_ns() override {
    return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  uint32_t job_size() override { return 1; }
  bool rank_ids(uint32_t, uint32_t*, uint32_t*) override { return false; }
  void on_put(Arrival& a) override { portals.on_put(a); }
  void on_get(Arrival& a) override { portals.on_get(a); }
  void on_update(Arrival& a) override { protocol.drop(a); }
  void on_peer_down(Peer& peer, Status why) override { portals.on_peer_down(peer, why); }

  Counters counters;
  Protocol protocol;
  Portals portals;
  ptl_handle_ni_t handle = PTL_INVALID_HANDLE;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool sleeping_ = false;
  bool awake_ = false;
};

// Many threads wait on one queue, for ever: each event wakes exactly one of them.
TEST(PortalsThreads, EveryEventIsGivenToOneWaitingThread) {
  constexpr unsigned kThreads = 4, kEach = 50, kPuts = kThreads * kEach;
  SleepyNode node;
  ptl_handle_eq_t eq;
  ASSERT_EQ(PtlEQAlloc(node.handle, 2 * kPuts, nullptr, &eq), PTL_OK);
  std::vector<std::byte> memory(1000);
  ptl_handle_me_t me;
  ASSERT_EQ(PtlMEAttach(node.handle, kPortal, kAnyone, 1, 0, PTL_RETAIN, PTL_INS_AFTER, &me),
            PTL_OK);
  ASSERT_EQ(PtlMDAttach(me,
                        make_md(memory.data(), 1000,
                                PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                                kInf, eq),
                        PTL_RETAIN, nullptr),
            PTL_OK);
  std::atomic<unsigned> seen[kPuts] = {};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (unsigned n = 0; n < kEach; ++n) {
        ptl_event_t event;
        ASSERT_EQ(PtlEQWait(eq, &event), PTL_OK);
        ++seen[event.hdr_data];
      }
    });
  ptl_handle_md_t md;
  ASSERT_EQ(
      PtlMDBind(node.handle, make_md(memory.data(), 8, 0, kInf, PTL_EQ_NONE), PTL_RETAIN, &md),
      PTL_OK);
  for (unsigned i = 0; i < kPuts; ++i) {
    ASSERT_EQ(PtlPut(md, PTL_NO_ACK_REQ, {0, 1}, kPortal, 0, 1, 0, i), PTL_OK);
    ASSERT_EQ(PtlProgress(node.handle, 0), PTL_OK);
    if (i % 16 == 0) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned i = 0; i < kPuts; ++i) EXPECT_EQ(seen[i], 1u) << i;
  ptl_event_t event;
  EXPECT_EQ(PtlEQGet(eq, &event), PTL_EQ_EMPTY);
}

// Threads that wait on a queue of their own are woken, whichever of them sleeps in the drivers.
TEST(PortalsThreads, PingPongBetweenThreads) {
  constexpr unsigned kRounds = 200;
  SleepyNode node;
  std::vector<std::byte> memory(100);
  ptl_handle_md_t md;
  ASSERT_EQ(
      PtlMDBind(node.handle, make_md(memory.data(), 8, 0, kInf, PTL_EQ_NONE), PTL_RETAIN, &md),
      PTL_OK);
  ptl_handle_eq_t eq[2];
  for (unsigned side = 0; side < 2; ++side) {
    ASSERT_EQ(PtlEQAlloc(node.handle, 64, nullptr, &eq[side]), PTL_OK);
    ptl_handle_me_t me;
    ASSERT_EQ(PtlMEAttach(node.handle, kPortal, kAnyone, side, 0, PTL_RETAIN, PTL_INS_AFTER, &me),
              PTL_OK);
    ASSERT_EQ(PtlMDAttach(me,
                          make_md(memory.data() + 50, 50,
                                  PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                                  kInf, eq[side]),
                          PTL_RETAIN, nullptr),
              PTL_OK);
  }
  auto play = [&](unsigned side) {
    for (unsigned round = 0; round < kRounds; ++round) {
      ptl_event_t event;
      if (side == 1 || round > 0) {
        ASSERT_EQ(PtlEQWait(eq[side], &event), PTL_OK);
      }
      ASSERT_EQ(PtlPut(md, PTL_NO_ACK_REQ, {0, 1}, kPortal, 0, 1 - side, 0, round), PTL_OK);
      ASSERT_EQ(PtlProgress(node.handle, 0), PTL_OK);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
}

}  // namespace
}  // namespace torii
