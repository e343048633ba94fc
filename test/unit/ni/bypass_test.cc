// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Operations that complete while one of the two sides does not call Torii, because it has a
// progress thread. Both sides are in this process, over shared memory and over a simulated network.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/api/ni_registry.h"
#include "core/link/link.h"
#include "core/ni/ni.h"
#include "core/portals3.h"
#include "core/torii.h"
#include "drivers/decorator.h"
#include "drivers/sim/sim.h"
#include "trust.h"
#include "world.h"

namespace torii {
namespace {

using test::flat;
using test::note;
using test::Outcome;
using test::pattern;
using test::pub;

constexpr size_t kLarge = 1 << 20;

// A simulated fabric, whose drivers belong to several threads here.
struct SharedFabric {
  std::recursive_mutex lock;
  SimFabric fabric;
};

class Guarded final : public Decorator {
 public:
  Guarded(const DriverEnv& env, SharedFabric& shared) : Decorator(env), shared_(shared) {
    Hold hold(shared_.lock);
    open([&](const DriverEnv& inner) { return open_sim(shared_.fabric, inner); }, env);
  }
  ~Guarded() override {
    Hold hold(shared_.lock);
    below_.reset();
  }
  void address(std::byte* out) const override {
    Hold hold(shared_.lock);
    below_->address(out);
  }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override {
    Hold hold(shared_.lock);
    return below_->connect(address, peer, why);
  }
  size_t send(std::span<const Tx> batch) override {
    Hold hold(shared_.lock);
    return below_->send(batch);
  }
  unsigned poll(uint64_t now_ns, unsigned budget) override {
    Hold hold(shared_.lock);
    return below_->poll(now_ns, budget);
  }
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    Hold hold(shared_.lock);
    return below_->reg(base, bytes, access, out);
  }
  void dereg(Region& region) override {
    Hold hold(shared_.lock);
    below_->dereg(region);
  }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    Hold hold(shared_.lock);
    return below_->import(peer, key, remote);
  }
  void drop(uint32_t remote) override {
    Hold hold(shared_.lock);
    below_->drop(remote);
  }
  Status put(const Rma& rma) override {
    Hold hold(shared_.lock);
    return below_->put(rma);
  }
  Status get(const Rma& rma) override {
    Hold hold(shared_.lock);
    return below_->get(rma);
  }
  Status arm(int* fd) override {
    Hold hold(shared_.lock);
    return below_->arm(fd);
  }

 private:
  using Hold = std::lock_guard<std::recursive_mutex>;
  SharedFabric& shared_;
};

struct Setting {
  const char* driver;
  bool threads;  // of the application
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.driver << (s.threads ? "_threads" : "");
}

// Interface 0 is the test's; interface 1 has a progress thread.
class Bypass : public ::testing::TestWithParam<Setting> {
 protected:
  static constexpr ptl_pt_index_t kPortal = 4;
  static constexpr ptl_process_id_t kAnyone{PTL_NID_ANY, PTL_PID_ANY};

  void SetUp() override {
    int interfaces = 0;
    ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
    for (uint32_t i = 0; i < 2; ++i) open(i);
    for (uint32_t i = 0; i < 2; ++i) {
      std::byte address[Protocol::kAddressBytes];
      const size_t n = ni_[1 - i]->protocol().address(address, sizeof(address));
      Peer* peer = nullptr;
      std::string why;
      ASSERT_EQ(ni_[i]->connect({address, n}, &peer, &why), Status::ok) << why;
      peer_[i] = pub(peer);
      ASSERT_EQ(torii_port_open(handle(i), 0, &port_[i]), TORII_OK);
      portals_[i] = register_ni(ni_[i]->portals());
    }
    ASSERT_TRUE(ni_[1]->start_progress_thread());
  }
  void open(uint32_t i) {
    NiConfig config;
    config.self = own_identity();
    config.self.job = 99;
    config.self.rank = config.self.nid = i;
    config.self.pid = 1;
    config.size = 2;
    config.threads = i == 1 && GetParam().threads;
    ni_[i] = std::make_unique<Ni>(config);
    DriverEnv env;
    env.sink = ni_[i]->protocol().next_sink();
    env.counters = &ni_[i]->counters();
    env.members = &test::everybody();
    env.local_peers = 2;
    std::unique_ptr<Driver> driver;
    std::string why;
    if (GetParam().driver == std::string("sim")) {
      driver = std::make_unique<Guarded>(env, fabric_);
    } else {
      driver = open_with_link(GetParam().driver, env, &why);
    }
    ASSERT_TRUE(driver) << why;
    ni_[i]->protocol().add_driver(GetParam().driver, std::move(driver));
  }
  void TearDown() override {
    for (uint32_t i : {1u, 0u}) {
      unregister_ni(portals_[i]);
      torii_port_close(port_[i]);
      ni_[i]->close();
    }
    ni_[1].reset();
    ni_[0].reset();
    PtlFini();
  }
  torii_ni_t* handle(unsigned i) { return reinterpret_cast<torii_ni_t*>(ni_[i].get()); }

  // The test's interface makes progress until `done`; false after ten seconds.
  template <typename Done>
  bool run_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      torii_progress(handle(0));
      std::this_thread::yield();
    }
    return true;
  }
  void post(const torii_data_t& data, torii_done_t done, void* arg) {
    torii_result_t now{};
    ASSERT_EQ(torii_recv(port_[1], peer_[1], 3, 0, &data, done, arg, nullptr, &now), TORII_PENDING);
  }
  // Interface 0 sends; true once it has heard that all was taken.
  bool send(const torii_data_t& data) {
    Outcome sent;
    const int code =
        torii_send(port_[0], peer_[0], TORII_SYNCHRONOUS, 3, 9, &data, note, &sent, nullptr);
    EXPECT_EQ(code, TORII_PENDING);
    return run_until([&] { return sent.calls == 1; }) && sent.result.code == TORII_OK;
  }
  uint64_t counter(unsigned i, const char* name) {
    for (size_t c = 0; c < torii_counter_count(); ++c)
      if (std::string(torii_counter_name(c)) == name) return torii_counter_value(handle(i), c);
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  // Takes the lock of interface 1: what its thread did before happened before for this thread, and
  // what this one did for that, in the eyes of a race detector, which does not see shared memory.
  void meet() { counter(1, "thread_events"); }

  // Portals: memory of interface 1 that interface 0 puts to and gets from.
  void expose(void* base, size_t bytes, ptl_handle_eq_t eq) {
    ptl_handle_me_t entry;
    ASSERT_EQ(PtlMEAttach(portals_[1], kPortal, kAnyone, 1, 0, PTL_RETAIN, PTL_INS_AFTER, &entry),
              PTL_OK);
    ASSERT_EQ(PtlMDAttach(entry,
                          md(base, bytes,
                             PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE |
                                 PTL_MD_EVENT_START_DISABLE,
                             eq),
                          PTL_RETAIN, nullptr),
              PTL_OK);
  }
  static ptl_md_t md(void* base, size_t bytes, unsigned options, ptl_handle_eq_t eq) {
    ptl_md_t m{};
    m.start = base;
    m.length = bytes;
    m.threshold = PTL_MD_THRESH_INF;
    m.options = options;
    m.eq_handle = eq;
    return m;
  }
  ptl_handle_md_t bind(void* base, size_t bytes, ptl_handle_eq_t eq) {
    ptl_handle_md_t out = PTL_INVALID_HANDLE;
    EXPECT_EQ(
        PtlMDBind(portals_[0], md(base, bytes, PTL_MD_EVENT_START_DISABLE, eq), PTL_RETAIN, &out),
        PTL_OK);
    return out;
  }
  bool see(ptl_handle_eq_t eq, ptl_event_kind_t kind) {
    return run_until([&] {
      ptl_event_t event;
      return PtlEQGet(eq, &event) == PTL_OK && event.type == kind;
    });
  }

  SharedFabric fabric_;
  std::unique_ptr<Ni> ni_[2];
  torii_peer_t* peer_[2] = {};
  torii_port_t* port_[2] = {};
  ptl_handle_ni_t portals_[2] = {PTL_INVALID_HANDLE, PTL_INVALID_HANDLE};
};

struct Told {
  Outcome outcome;
  std::thread::id thread;
};

void note_thread(void* arg, const torii_result_t* result) {
  auto* told = static_cast<Told*>(arg);
  note(&told->outcome, result);
  told->thread = std::this_thread::get_id();
}

TEST_P(Bypass, ARendezvousCompletesAndTheCallbackWaits) {
  std::vector<uint8_t> out = pattern(kLarge, 1), in(kLarge + 1);
  Told told;
  post(flat(in.data(), kLarge), note_thread, &told);
  ASSERT_TRUE(send(flat(out.data(), kLarge)));
  EXPECT_GT(counter(1, "thread_events"), 0u);
  EXPECT_EQ(told.outcome.calls, 0) << "callbacks run in the application's threads";
  EXPECT_EQ(in, out);
  while (told.outcome.calls == 0) torii_progress(handle(1));
  EXPECT_EQ(told.outcome.result.bytes, kLarge);
  EXPECT_EQ(told.thread, std::this_thread::get_id());
}

// Pack and unpack functions run wherever progress is made.
struct Scattered {
  std::vector<uint8_t> bytes;
  std::atomic<bool> elsewhere{false};  // the function ran in another thread than the test's
  std::thread::id test = std::this_thread::get_id();

  static void unpack(void* context, uint64_t offset, const void* buffer, size_t n) {
    auto* self = static_cast<Scattered*>(context);
    if (std::this_thread::get_id() != self->test) self->elsewhere = true;
    std::memcpy(self->bytes.data() + offset, buffer, n);
  }
  static void pack(void* context, uint64_t offset, void* buffer, size_t n) {
    auto* self = static_cast<Scattered*>(context);
    if (std::this_thread::get_id() != self->test) self->elsewhere = true;
    std::memcpy(buffer, self->bytes.data() + offset, n);
  }
  torii_data_t data(size_t n) {
    torii_data_t d{};
    d.layout = TORII_FUNCTIONS;
    d.bytes = n;
    d.base = this;
    d.pack = pack;
    d.unpack = unpack;
    return d;
  }
};

TEST_P(Bypass, AStreamCompletes) {
  std::vector<uint8_t> out = pattern(kLarge, 2);
  Scattered in;
  in.bytes.resize(kLarge + 1);
  Outcome received;
  post(in.data(kLarge), note, &received);
  ASSERT_TRUE(send(flat(out.data(), kLarge)));
  meet();
  EXPECT_EQ(received.calls, 0);
  EXPECT_TRUE(in.elsewhere);
  EXPECT_EQ(in.bytes, out);
  while (received.calls == 0) torii_progress(handle(1));
}

// The side with the thread is the source: it computes while the target asks for the data.
TEST_P(Bypass, ASourceStreamsWhileItComputes) {
  Scattered out;
  out.bytes = pattern(kLarge, 3);
  std::vector<uint8_t> in(kLarge + 1);
  Outcome sent, received;
  const torii_data_t data = out.data(kLarge);
  ASSERT_EQ(torii_send(port_[1], peer_[1], TORII_STANDARD, 3, 9, &data, note, &sent, nullptr),
            TORII_PENDING);
  torii_result_t now{};
  const torii_data_t to = flat(in.data(), kLarge);
  ASSERT_EQ(torii_recv(port_[0], peer_[0], 3, 0, &to, note, &received, nullptr, &now),
            TORII_PENDING);
  ASSERT_TRUE(run_until([&] { return received.calls == 1; }));
  EXPECT_EQ(in, out.bytes);
  EXPECT_TRUE(out.elsewhere);
  EXPECT_EQ(sent.calls, 0);
  while (sent.calls == 0) torii_progress(handle(1));
}

// Small messages are received into their places as well.
TEST_P(Bypass, SmallMessagesAreTakenOutOfTheWay) {
  constexpr unsigned kCount = 1000;
  uint8_t in[8] = {};
  std::vector<Outcome> received(kCount);
  for (Outcome& outcome : received) post(flat(in, sizeof(in)), note, &outcome);
  for (unsigned i = 0; i < kCount; ++i) {
    uint8_t out[8] = {};
    ASSERT_TRUE(send(flat(out, sizeof(out))));
  }
  EXPECT_EQ(received[0].calls, 0);
  while (received[kCount - 1].calls == 0) torii_progress(handle(1));
  for (const Outcome& outcome : received) EXPECT_EQ(outcome.calls, 1);
}

// A prompt, which ends receives at once, is the application's as well.
TEST_P(Bypass, PromptsWaitForTheApplication) {
  ASSERT_EQ(torii_port_prompt(port_[1], note,
                              [](void* arg, const torii_result_t*) {
                                static_cast<Outcome*>(arg)->result.code = TORII_EMPTY;
                                return 1;
                              }),
            TORII_OK);
  uint8_t in = 0, out = 1;
  Outcome received;
  post(flat(&in, 1), note, &received);
  ASSERT_TRUE(send(flat(&out, 1)));
  meet();
  EXPECT_EQ(received.result.code, TORII_OK);
}

TEST_P(Bypass, PortalsPutGetAndGetPut) {
  std::vector<uint8_t> memory = pattern(kLarge, 4), here(kLarge + 1), put = pattern(kLarge, 5);
  ptl_handle_eq_t theirs, ours;
  ASSERT_EQ(PtlEQAlloc(portals_[1], 16, nullptr, &theirs), PTL_OK);
  ASSERT_EQ(PtlEQAlloc(portals_[0], 16, nullptr, &ours), PTL_OK);
  expose(memory.data(), kLarge, theirs);
  const ptl_process_id_t target{1, 1};
  // The target's application calls nothing from here on.
  ASSERT_EQ(PtlGet(bind(here.data(), kLarge, ours), target, kPortal, 0, 1, 0), PTL_OK);
  ASSERT_TRUE(see(ours, PTL_EVENT_REPLY_END));
  meet();
  EXPECT_EQ(here, memory);
  meet();

  ASSERT_EQ(PtlPut(bind(put.data(), kLarge, ours), PTL_ACK_REQ, target, kPortal, 0, 1, 0, 0),
            PTL_OK);
  ASSERT_TRUE(see(ours, PTL_EVENT_ACK));
  meet();
  EXPECT_EQ(memory, put);
  meet();

  uint8_t old[64] = {}, fresh[64];
  std::memset(fresh, 7, sizeof(fresh));
  ASSERT_EQ(PtlGetPut(bind(old, 64, ours), bind(fresh, 64, ours), target, kPortal, 0, 1, 0, 0),
            PTL_OK);
  ASSERT_TRUE(see(ours, PTL_EVENT_REPLY_END));
  meet();
  EXPECT_EQ(std::memcmp(old, put.data(), 64), 0);
  EXPECT_EQ(std::memcmp(memory.data(), fresh, 64), 0);

  for (ptl_event_kind_t kind : {PTL_EVENT_GET_END, PTL_EVENT_PUT_END, PTL_EVENT_GETPUT_END}) {
    ptl_event_t event;
    ASSERT_EQ(PtlEQGet(theirs, &event), PTL_OK);
    EXPECT_EQ(event.type, kind);
  }
}

// Handlers of events are the application's as callbacks are.
std::atomic<unsigned> g_handled{0};
void count_handled(ptl_event_t*) { ++g_handled; }

TEST_P(Bypass, EventHandlersWaitForTheApplication) {
  std::vector<uint8_t> memory(64), source(64);
  ptl_handle_eq_t theirs, ours;
  g_handled = 0;
  ASSERT_EQ(PtlEQAlloc(portals_[1], 16, count_handled, &theirs), PTL_OK);
  ASSERT_EQ(PtlEQAlloc(portals_[0], 16, nullptr, &ours), PTL_OK);
  expose(memory.data(), 64, theirs);
  ASSERT_EQ(PtlPut(bind(source.data(), 8, ours), PTL_ACK_REQ, {1, 1}, kPortal, 0, 1, 0, 0), PTL_OK);
  ASSERT_TRUE(see(ours, PTL_EVENT_ACK));
  EXPECT_EQ(g_handled, 0u);
  torii_progress(handle(1));
  EXPECT_EQ(g_handled, 1u);
}

// The application comes and goes while the thread works.
TEST_P(Bypass, TheApplicationComesBackAtAnyTime) {
  constexpr unsigned kRounds = 60;
  std::vector<uint8_t> out = pattern(kLarge, 6), in(kLarge + 1);
  for (unsigned round = 0; round < kRounds; ++round) {
    const size_t bytes = round % 2 ? kLarge : 100;
    Outcome received, sent;
    post(flat(in.data(), bytes), note, &received);
    const torii_data_t data = flat(out.data(), bytes);
    const int code =
        torii_send(port_[0], peer_[0], TORII_SYNCHRONOUS, 3, 9, &data, note, &sent, nullptr);
    ASSERT_EQ(code, TORII_PENDING);
    const auto back = std::chrono::steady_clock::now() + std::chrono::microseconds(7 * round);
    ASSERT_TRUE(run_until([&] {
      if (std::chrono::steady_clock::now() > back) torii_progress(handle(1));
      return sent.calls && received.calls;
    }));
    meet();
    ASSERT_EQ(std::memcmp(in.data(), out.data(), bytes), 0);
    std::fill(in.begin(), in.end(), uint8_t{0});
  }
}

// An interface that is told of more threads later goes on.
TEST_P(Bypass, ThreadsMayBeEnabledLater) {
  ni_[1]->enable_threads();
  std::vector<uint8_t> out = pattern(kLarge, 7), in(kLarge + 1);
  Outcome received;
  post(flat(in.data(), kLarge), note, &received);
  ASSERT_TRUE(send(flat(out.data(), kLarge)));
  meet();
  EXPECT_EQ(received.calls, 0);
  EXPECT_EQ(in, out);
}

// With nothing to do it sleeps: a look at the peers every 50 ms.
TEST_P(Bypass, IdleMeansAsleep) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const uint64_t before = counter(1, "thread_sleeps");
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const uint64_t sleeps = counter(1, "thread_sleeps") - before;
  const auto took = std::chrono::steady_clock::now() - begin;  // longer on a busy machine
  EXPECT_GE(sleeps, 1u);
  EXPECT_LE(sleeps, uint64_t(took / std::chrono::milliseconds(50)) + 5);
}

// A flag is set by the thread just after the application looked at it: a wait for it ends although
// nothing is left to happen.
TEST_P(Bypass, AWaitForAFlagEnds) {
  uint8_t in = 0, out = 1;
  Outcome first;
  post(flat(&in, 1), note, &first);
  ASSERT_TRUE(send(flat(&out, 1)));  // short messages go to whom one has spoken with
  while (first.calls == 0) torii_progress(handle(1));
  torii_flag_t flag{};
  post(flat(&in, 1), torii_flag, &flag);
  ASSERT_EQ(torii_send_now(port_[0], peer_[0], 3, 9, &out, 1), TORII_OK);
  ASSERT_TRUE(run_until([&] { return __atomic_load_n(&flag.done, __ATOMIC_ACQUIRE) != 0; }));
  const auto begin = std::chrono::steady_clock::now();
  torii_wait(handle(1), 5000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(flag.result.bytes, 1u);
}

// An application that waits inside Torii, awake or asleep, is left alone, and woken as ever.
TEST_P(Bypass, AWaitingApplicationIsLeftAlone) {
  constexpr unsigned kRounds = 20;
  uint8_t in = 0, out = 1;
  for (unsigned round = 0; round < kRounds; ++round) {
    Outcome received;
    post(flat(&in, 1), note, &received);
    std::thread application([&] {
      while (received.calls == 0) torii_wait(handle(1), 1000);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 3 * 4));
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(send(flat(&out, 1)));
    application.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, Bypass,
                         ::testing::Values(Setting{"shm", false}, Setting{"shm", true},
                                           Setting{"sim", false}, Setting{"sim", true}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace torii
