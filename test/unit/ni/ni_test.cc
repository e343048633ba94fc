// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One network interface used through both of its interfaces, torii.h and portals3.h.
#include "core/ni/ni.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/api/ni_registry.h"
#include "core/base/param.h"
#include "core/portals3.h"
#include "core/torii.h"

namespace torii {
namespace {

constexpr ptl_process_id_t kSelf{7, 1};
constexpr ptl_process_id_t kAnyone{PTL_NID_ANY, PTL_PID_ANY};
constexpr ptl_pt_index_t kPortal = 4;
constexpr int kInfinite = PTL_MD_THRESH_INF;

struct {
  torii_ni_t* ni = nullptr;
  ptl_handle_md_t source = PTL_INVALID_HANDLE;
  std::vector<ptl_hdr_data_t> seen;  // of each PUT_END
  ptl_hdr_data_t chain_end = 0;      // the handler puts again up to here
  int depth = 0;
} g_state;

void put(ptl_hdr_data_t number) {
  EXPECT_EQ(PtlPut(g_state.source, PTL_NO_ACK_REQ, kSelf, kPortal, 0, 1, 0, number), PTL_OK);
}

// Calls both interfaces, as a handler may.
void handler(ptl_event_t* event) {
  EXPECT_EQ(g_state.depth++, 0) << "a handler does not run inside itself";
  if (event->type == PTL_EVENT_PUT_END) {
    g_state.seen.push_back(event->hdr_data);
    if (event->hdr_data < g_state.chain_end) put(event->hdr_data + 1);
    torii_progress(g_state.ni);
  }
  --g_state.depth;
}

// An interface whose only peer is itself, with an entry that reports every put to `handler`.
class NiWithBoth : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_EQ(param_set("drivers", "self", "test", &why), Status::ok) << why;
    torii_options_t options{};
    options.struct_bytes = sizeof(options);
    options.job = 5;
    options.size = options.local_size = 1;
    options.node = kSelf.nid;
    options.threads = GetParam();
    ASSERT_EQ(torii_open(&options, &ni_), TORII_OK) << torii_error();
    char address[512];
    const size_t bytes = torii_address(ni_, address, sizeof(address));
    torii_peer_t* self = nullptr;
    ASSERT_EQ(torii_connect(ni_, address, bytes, &self), TORII_OK) << torii_error();
    int interfaces = 0;
    ASSERT_EQ(PtlInit(&interfaces), PTL_OK);
    handle_ = register_ni(reinterpret_cast<Ni*>(ni_)->portals());
    g_state = {};
    g_state.ni = ni_;
    attach();
  }
  void attach() {
    ptl_handle_eq_t queue;
    ptl_handle_me_t entry;
    ptl_handle_md_t target;
    ASSERT_EQ(PtlEQAlloc(handle_, 16, handler, &queue), PTL_OK);
    ASSERT_EQ(PtlMEAttach(handle_, kPortal, kAnyone, 1, 0, PTL_RETAIN, PTL_INS_AFTER, &entry),
              PTL_OK);
    ptl_md_t md{};
    md.start = memory_;
    md.length = sizeof(memory_);
    md.threshold = kInfinite;
    md.options = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE;
    md.eq_handle = queue;
    ASSERT_EQ(PtlMDAttach(entry, md, PTL_RETAIN, &target), PTL_OK);
    md.length = 8;
    md.options = 0;
    md.eq_handle = PTL_EQ_NONE;
    ASSERT_EQ(PtlMDBind(handle_, md, PTL_RETAIN, &g_state.source), PTL_OK);
  }
  void TearDown() override {
    EXPECT_TRUE(unregister_ni(handle_));
    PtlFini();
    EXPECT_EQ(torii_close(ni_), TORII_OK);
    std::string why;
    ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
  }

  torii_ni_t* ni_ = nullptr;
  ptl_handle_ni_t handle_ = PTL_INVALID_HANDLE;
  char memory_[64] = {};
};

TEST_P(NiWithBoth, ProgressRunsEventHandlers) {
  put(1);
  for (int i = 0; i < 100 && g_state.seen.empty(); ++i) torii_progress(ni_);
  EXPECT_EQ(g_state.seen, (std::vector<ptl_hdr_data_t>{1}));
  for (int i = 0; i < 10; ++i) torii_progress(ni_);
  EXPECT_EQ(torii_progress(ni_), 0) << "nothing is left";
  EXPECT_EQ(g_state.seen.size(), 1u);
}

TEST_P(NiWithBoth, WaitRunsEventHandlers) {
  put(1);
  for (int i = 0; i < 10 && g_state.seen.empty(); ++i) torii_wait(ni_, 100);
  EXPECT_EQ(g_state.seen, (std::vector<ptl_hdr_data_t>{1}));
}

void count(void* counter, const torii_result_t*) { ++*static_cast<int*>(counter); }

// A port for messages to oneself: `receives` are posted, and the first message has come.
struct OwnPort {
  OwnPort(torii_ni_t* ni, int receives) { open(ni, receives); }
  ~OwnPort() {
    if (port) {
      EXPECT_EQ(torii_port_close(port), TORII_OK);
    }
  }
  void send() { ASSERT_EQ(torii_send_now(port, self, 1, 0, nullptr, 0), TORII_OK); }

  torii_peer_t* self = nullptr;
  torii_port_t* port = nullptr;
  int received = 0;

 private:
  void open(torii_ni_t* ni, int receives) {
    char address[512];
    ASSERT_EQ(torii_connect(ni, address, torii_address(ni, address, sizeof(address)), &self),
              TORII_OK);
    ASSERT_EQ(torii_port_open(ni, 0, &port), TORII_OK);
    for (int i = 0; i < receives; ++i) {
      ASSERT_EQ(torii_recv(port, self, 1, 0, &data, count, &received, nullptr, &result),
                TORII_PENDING);
    }
    torii_send(port, self, TORII_STANDARD, 1, 0, &data, count, &sent, nullptr);  // and greets
    while (received < 1) torii_progress(ni);
  }

  torii_data_t data{};
  torii_result_t result;
  int sent = 0;
};

TEST_P(NiWithBoth, WaitFirstEndsWithTheFirstEvent) {
  OwnPort own(ni_, 6);
  for (int i = 0; i < 5; ++i) own.send();
  EXPECT_GT(torii_wait_first(ni_), 0);
  EXPECT_EQ(own.received, 2);
  EXPECT_GT(torii_wait_first(ni_), 0);
  EXPECT_EQ(own.received, 3);
  EXPECT_GT(torii_wait_step(ni_), 0);
  EXPECT_EQ(own.received, 6) << "wait_step takes all";
  EXPECT_EQ(torii_wait_first(ni_), 0);
}

TEST_P(NiWithBoth, ACallerBesideAnotherOneLeavesItTheRound) {
  OwnPort own(ni_, 4);
  uint32_t rounds = 0;
  EXPECT_EQ(torii_wait_step_beside(ni_, &rounds), 0) << "the other one has";
  own.send();
  EXPECT_GT(torii_wait_step_beside(ni_, &rounds), 0) << "nobody else has";
  EXPECT_EQ(own.received, 2);
  own.send();
  torii_progress(ni_);
  EXPECT_EQ(own.received, 3);
  own.send();
  EXPECT_EQ(torii_wait_step_beside(ni_, &rounds), 0);
  EXPECT_EQ(own.received, 3);
  EXPECT_GT(torii_wait_step_beside(ni_, &rounds), 0);
  EXPECT_EQ(own.received, 4);
}

TEST_P(NiWithBoth, HandlersThatCallBothAreNotNested) {
  g_state.chain_end = 5;
  put(1);
  for (int i = 0; i < 100; ++i) torii_progress(ni_);
  EXPECT_EQ(g_state.seen, (std::vector<ptl_hdr_data_t>{1, 2, 3, 4, 5}));
}

torii_ni_t* open_ni(uint64_t job) {
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = job;
  options.size = options.local_size = 1;
  torii_ni_t* ni = nullptr;
  EXPECT_EQ(torii_open(&options, &ni), TORII_OK) << torii_error();
  return ni;
}

TEST(Ni, ADriverThatDoesNotExistIsNamed) {
  std::string why;
  for (const char* list : {"self,smh", "self,shm,fault:smh", "smh"}) {
    ASSERT_EQ(param_set("drivers", list, "test", &why), Status::ok) << why;
    torii_options_t options{};
    options.struct_bytes = sizeof(options);
    options.job = 5;
    options.size = options.local_size = 1;
    torii_ni_t* ni = nullptr;
    EXPECT_EQ(torii_open(&options, &ni), TORII_ERR_UNREACHABLE) << list;
    const std::string text = torii_error();
    for (const std::string& part : {std::string("TORII_DRIVERS=") + list + ":",
                                    std::string("'smh'"), std::string("known are self, shm,")}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
}

TEST(Ni, APlanOfFaultsThatMakesNoSenseIsNamed) {
  std::string why;
  ASSERT_EQ(param_set("drivers", "self,fault:shm", "test", &why), Status::ok) << why;
  ASSERT_EQ(param_set("fault", "dorp=1", "test", &why), Status::ok) << why;
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = 5;
  options.size = options.local_size = 1;
  torii_ni_t* ni = nullptr;
  EXPECT_EQ(torii_open(&options, &ni), TORII_ERR_UNREACHABLE);
  EXPECT_NE(std::string(torii_error()).find("dorp"), std::string::npos) << torii_error();
  ASSERT_EQ(param_set("fault", "", "test", &why), Status::ok) << why;
  ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
}

TEST(Ni, PeersOfOtherJobsAreToldApart) {
  std::string why;
  ASSERT_EQ(param_set("drivers", "shm", "test", &why), Status::ok) << why;
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  const auto text_of = [&](torii_ni_t* ni) {
    char address[512];
    const size_t bytes = torii_address(ni, address, sizeof(address));
    torii_peer_t* peer = nullptr;
    EXPECT_EQ(torii_connect(here, address, bytes, &peer), TORII_OK) << torii_error();
    return std::string(torii_peer_text(here, peer));
  };
  EXPECT_EQ(text_of(there).find("rank 0 of another job on "), 0u) << text_of(there);
  EXPECT_EQ(text_of(here).find("rank 0 on "), 0u) << text_of(here);
  EXPECT_EQ(torii_close(there), TORII_OK);
  EXPECT_EQ(torii_close(here), TORII_OK);
  ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
}

TEST(Ni, WhoIsGoneBeforeTheFirstContactIsSaidToBe) {
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  char address[512];
  const size_t bytes = torii_address(there, address, sizeof(address));
  EXPECT_EQ(torii_close(there), TORII_OK);
  torii_peer_t* peer = nullptr;
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(torii_connect(here, address, bytes, &peer), TORII_ERR_PEER_CLOSED) << torii_error();
  EXPECT_EQ(torii_close(here), TORII_OK);
}

TEST(Ni, ShortAddressesNameTheSamePeer) {
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  for (torii_ni_t* ni : {there, here}) {
    char full[512], brief[512];
    const size_t full_bytes = torii_address(ni, full, sizeof(full));
    const size_t brief_bytes = torii_short_address(ni, brief, sizeof(brief));
    EXPECT_LT(brief_bytes, full_bytes);
    EXPECT_LE(brief_bytes, 110u) << "MPICH's names of ports have room for these";
    torii_peer_t *first = nullptr, *second = nullptr;
    ASSERT_EQ(torii_connect(here, brief, brief_bytes, &first), TORII_OK) << torii_error();
    ASSERT_EQ(torii_connect(here, full, full_bytes, &second), TORII_OK) << torii_error();
    EXPECT_EQ(first, second);
    EXPECT_EQ(torii_peer_may_join(here, first), ni == there);
    EXPECT_EQ(torii_short_address(ni, brief, brief_bytes - 1), brief_bytes) << "too small a buffer";
    for (size_t bytes = 0; bytes < 12; ++bytes)
      EXPECT_EQ(torii_connect(here, brief, bytes, &first), TORII_ERR_INVALID) << bytes;
  }
  EXPECT_EQ(torii_close(there), TORII_OK);
  EXPECT_EQ(torii_close(here), TORII_OK);
}

// With a driver for other nodes the name has room for that one alone.
TEST(Ni, ShortAddressesHaveRoomForANetwork) {
  std::string why;
  ASSERT_EQ(param_set("drivers", "self,shm,udp", "test", &why), Status::ok) << why;
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  ASSERT_NE(here, nullptr) << torii_error();
  ASSERT_NE(there, nullptr) << torii_error();
  char brief[512];
  const size_t bytes = torii_short_address(there, brief, sizeof(brief));
  EXPECT_LE(bytes, 118u) << "MPICH's names of ports";
  torii_peer_t* peer = nullptr;
  ASSERT_EQ(torii_connect(here, brief, bytes, &peer), TORII_OK) << torii_error();
  EXPECT_NE(std::string(torii_peer_text(here, peer)).find("by udp"), std::string::npos);
  EXPECT_EQ(torii_peer_may_join(here, peer), 1) << "by multicast";
  for (const unsigned char end : {0x00, 0xff}) {  // runs without a length, or too long
    char wrong[600];
    memset(wrong, end, sizeof(wrong));
    wrong[0] = 0;
    for (size_t i = 1; i < sizeof(wrong); i += 97)
      EXPECT_EQ(torii_connect(here, wrong, i, &peer), TORII_ERR_INVALID) << i;
  }
  EXPECT_EQ(torii_close(there), TORII_OK);
  EXPECT_EQ(torii_close(here), TORII_OK);
  ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
}

// A peer that is known by a short address has a host when it has said something.
TEST(Ni, HostOfAShortAddressComesWithTheFirstMessage) {
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  char host[65] = {}, address[512];
  gethostname(host, sizeof(host) - 1);
  torii_peer_t *sender = nullptr, *receiver = nullptr;
  size_t bytes = torii_short_address(there, address, sizeof(address));
  ASSERT_EQ(torii_connect(here, address, bytes, &sender), TORII_OK) << torii_error();
  EXPECT_EQ(std::string(torii_peer_text(here, sender)).find(host), std::string::npos);
  bytes = torii_short_address(here, address, sizeof(address));
  ASSERT_EQ(torii_connect(there, address, bytes, &receiver), TORII_OK) << torii_error();
  torii_port_t *from = nullptr, *to = nullptr;
  ASSERT_EQ(torii_port_open(there, 0, &from), TORII_OK);
  ASSERT_EQ(torii_port_open(here, 0, &to), TORII_OK);
  const torii_data_t nothing{};
  torii_result_t result{};
  torii_send(
      from, receiver, TORII_STANDARD, 7, 0, &nothing, [](void*, const torii_result_t*) {}, nullptr,
      nullptr);
  for (int i = 0; i < 1000000 && torii_probe(to, nullptr, 7, 0, &result) != TORII_OK; ++i) {
    torii_progress(there);
    torii_progress(here);
  }
  ASSERT_EQ(result.source, sender);
  EXPECT_NE(std::string(torii_peer_text(here, sender)).find(host), std::string::npos)
      << torii_peer_text(here, sender);
  EXPECT_EQ(torii_close(there), TORII_OK);
  EXPECT_EQ(torii_close(here), TORII_OK);
}

struct Published {
  std::vector<char> address;
  int asked = 0;

  static size_t find(void* self, uint64_t job, uint32_t rank, void* out, size_t capacity) {
    auto* const own = static_cast<Published*>(self);
    ++own->asked;
    if (job != 6 || rank != 0 || own->address.size() > capacity) return 0;
    std::copy(own->address.begin(), own->address.end(), static_cast<char*>(out));
    return own->address.size();
  }
};

// By whom a process is heard over a network that it has not connected to.
enum class Heard { by_directory, as_stranger, not_with_another_address };

class NiStrangers : public testing::TestWithParam<Heard> {};

TEST_P(NiStrangers, AreHeardIfTheyAreKnownOrWelcome) {
  std::string why;
  ASSERT_EQ(param_set("drivers", "udp", "test", &why), Status::ok) << why;
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  char address[512];
  torii_peer_t* receiver = nullptr;
  size_t bytes = torii_address(here, address, sizeof(address));
  ASSERT_EQ(torii_connect(there, address, bytes, &receiver), TORII_OK) << torii_error();
  torii_port_t *from = nullptr, *to = nullptr;
  ASSERT_EQ(torii_port_open(there, 0, &from), TORII_OK);
  ASSERT_EQ(torii_port_open(here, 0, &to), TORII_OK);
  const torii_data_t nothing{};
  torii_result_t result{};
  torii_send(
      from, receiver, TORII_STANDARD, 7, 0, &nothing, [](void*, const torii_result_t*) {}, nullptr,
      nullptr);
  const auto arrives = [&](int milliseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < end) {
      torii_progress(there);
      torii_progress(here);
      if (torii_probe(to, nullptr, 7, 0, &result) == TORII_OK) return true;
    }
    return false;
  };
  EXPECT_FALSE(arrives(100)) << "from a stranger";
  Published published;
  bytes = torii_address(GetParam() == Heard::not_with_another_address ? here : there, address,
                        sizeof(address));
  published.address.assign(address, address + bytes);
  if (GetParam() != Heard::as_stranger) {
    ASSERT_EQ(torii_add_directory(here, Published::find, &published), TORII_OK);
  }
  if (GetParam() != Heard::by_directory) {
    ASSERT_EQ(torii_welcome(here, 1), TORII_OK);
  }
  EXPECT_EQ(arrives(GetParam() == Heard::not_with_another_address ? 500 : 10000),
            GetParam() != Heard::not_with_another_address);
  if (GetParam() != Heard::as_stranger) {
    EXPECT_EQ(published.asked, 1) << "times that the directory was asked";
    EXPECT_EQ(torii_remove_directory(here, Published::find, &published), TORII_OK);
  }
  EXPECT_EQ(torii_add_directory(here, nullptr, nullptr), TORII_ERR_INVALID);
  EXPECT_EQ(torii_welcome(nullptr, 1), TORII_ERR_INVALID);
  EXPECT_EQ(torii_close(there), TORII_OK);
  EXPECT_EQ(torii_close(here), TORII_OK);
  ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
}

INSTANTIATE_TEST_SUITE_P(Ways, NiStrangers,
                         testing::Values(Heard::by_directory, Heard::as_stranger,
                                         Heard::not_with_another_address));

// All that a process has sent arrives, though the network loses frames and the process is closing.
TEST(Ni, ClosingWaitsForWhatIsUnderWay) {
  constexpr int kMessages = 20;
  std::string why;
  ASSERT_EQ(param_set("drivers", "fault:udp", "test", &why), Status::ok) << why;
  ASSERT_EQ(param_set("fault", "drop=30%", "test", &why), Status::ok) << why;
  torii_ni_t* here = open_ni(5);
  torii_ni_t* there = open_ni(6);
  char address[512];
  torii_peer_t *sender = nullptr, *receiver = nullptr;
  size_t bytes = torii_address(here, address, sizeof(address));
  ASSERT_EQ(torii_connect(there, address, bytes, &receiver), TORII_OK) << torii_error();
  bytes = torii_address(there, address, sizeof(address));
  ASSERT_EQ(torii_connect(here, address, bytes, &sender), TORII_OK) << torii_error();
  torii_port_t *from = nullptr, *to = nullptr;
  ASSERT_EQ(torii_port_open(there, 0, &from), TORII_OK);
  ASSERT_EQ(torii_port_open(here, 0, &to), TORII_OK);
  std::string message(1000, 'x');
  const auto data_of = [](std::string& memory) {
    torii_data_t data{};
    data.base = memory.data();
    data.bytes = memory.size();
    return data;
  };
  const torii_data_t data = data_of(message);
  int received = 0;
  std::atomic<bool> closed = false;
  const auto count = [](void* arg, const torii_result_t* result) {
    *static_cast<int*>(arg) += result->code == TORII_OK;
  };
  std::thread other([&] {
    std::string room(message.size(), ' ');
    const torii_data_t in = data_of(room);
    torii_result_t result{};
    for (int i = 0; i < kMessages; ++i)
      if (torii_recv(to, sender, 7, 0, &in, count, &received, nullptr, &result) == TORII_OK)
        ++received;
    for (int i = 0; i < 10000 && (received < kMessages || !closed); ++i) torii_wait(here, 1);
  });
  for (int i = 0; i < kMessages; ++i) {
    const int code = torii_send(
        from, receiver, TORII_STANDARD, 7, 0, &data, [](void*, const torii_result_t*) {}, nullptr,
        nullptr);
    EXPECT_TRUE(code == TORII_OK || code == TORII_PENDING) << torii_error();
  }
  EXPECT_EQ(torii_close(there), TORII_OK);
  closed = true;
  other.join();
  EXPECT_EQ(received, kMessages);
  EXPECT_EQ(torii_close(here), TORII_OK);
  ASSERT_EQ(param_set("fault", "", "test", &why), Status::ok) << why;
  ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
}

INSTANTIATE_TEST_SUITE_P(Threads, NiWithBoth, ::testing::Values(0, 1));

// A program's lock, and one thread that waits under it for what another one sends under it.
class UnderALock : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_EQ(param_set("drivers", "self", "test", &why), Status::ok) << why;
    ASSERT_EQ(param_set("wait", GetParam(), "test", &why), Status::ok) << why;
    options_.struct_bytes = sizeof(options_);
    options_.job = 7;
    options_.size = options_.local_size = 1;
    options_.lock = &lock_;
    ASSERT_EQ(torii_open(&options_, &ni_), TORII_OK) << torii_error();
    char address[512];
    const size_t bytes = torii_address(ni_, address, sizeof(address));
    ASSERT_EQ(torii_connect(ni_, address, bytes, &self_), TORII_OK) << torii_error();
    ASSERT_EQ(torii_port_open(ni_, 0, &port_), TORII_OK);
  }
  void TearDown() override {
    EXPECT_EQ(torii_port_close(port_), TORII_OK);
    EXPECT_EQ(torii_close(ni_), TORII_OK);
    std::string why;
    ASSERT_EQ(param_set("wait", "auto", "test", &why), Status::ok) << why;
    ASSERT_EQ(param_set("drivers", "self,shm", "test", &why), Status::ok) << why;
  }

  std::mutex mutex_;
  torii_lock_t lock_{[](void* mutex) { static_cast<std::mutex*>(mutex)->unlock(); },
                     [](void* mutex) { static_cast<std::mutex*>(mutex)->lock(); }, &mutex_};
  torii_options_t options_{};
  torii_ni_t* ni_ = nullptr;
  torii_peer_t* self_ = nullptr;
  torii_port_t* port_ = nullptr;
};

TEST_P(UnderALock, OthersHaveItWhileOneRests) {
  const torii_data_t data{};
  torii_result_t result;
  int received = 0, sent = 0;
  ASSERT_EQ(torii_recv(port_, nullptr, 1, 0, &data, count, &received, nullptr, &result),
            TORII_PENDING);
  std::unique_lock<std::mutex> guard(mutex_);
  std::thread sender([&] {
    usleep(20000);
    std::lock_guard<std::mutex> own(mutex_);
    torii_send(port_, self_, TORII_STANDARD, 1, 0, &data, count, &sent, nullptr);
  });
  const time_t begin = time(nullptr);
  while (received == 0 && time(nullptr) < begin + 20) torii_wait_step(ni_);
  EXPECT_EQ(received, 1) << "it keeps the lock";
  guard.unlock();
  sender.join();
}

TEST_P(UnderALock, AnInterfaceHasOne) {
  torii_ni_t* again = nullptr;
  EXPECT_EQ(torii_open(&options_, &again), TORII_OK) << torii_error();
  EXPECT_EQ(torii_close(again), TORII_OK);
  options_.lock = nullptr;
  EXPECT_EQ(torii_open(&options_, &again), TORII_ERR_INVALID);
  EXPECT_NE(std::string(torii_error()).find("another lock"), std::string::npos) << torii_error();
  lock_.take = nullptr;
  options_.lock = &lock_;
  EXPECT_EQ(torii_open(&options_, &again), TORII_ERR_INVALID);
}

// The thread is bound to one of its processors while the object lives.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

TEST(GiveWay, IsForThreadsThatShareAProcessor) {
  const OneProcessor bound;
  NiConfig config;
  Ni alone(config);
  config.threads = true;
  Ni shared(config);
  shared.give_way();
  EXPECT_EQ(shared.counters().yields, 0u) << "no other thread has waited";
  std::thread([&] {
    shared.give_way();
    alone.give_way();
  }).join();
  EXPECT_EQ(shared.counters().yields, 1u);
  EXPECT_EQ(alone.counters().yields, 0u) << "opened for one thread";
  for (int i = 0; i < 200; ++i) shared.give_way();
  EXPECT_EQ(shared.counters().yields, 1u) << "the other one has ended";
}

TEST(GiveWay, NotIfWaitSaysSpin) {
  std::string why;
  ASSERT_EQ(param_set("wait", "spin", "test", &why), Status::ok) << why;
  const OneProcessor bound;
  NiConfig config;
  config.threads = true;
  Ni ni(config);
  ni.give_way();
  std::thread([&] { ni.give_way(); }).join();
  EXPECT_EQ(ni.counters().yields, 0u);
  ASSERT_EQ(param_set("wait", "auto", "test", &why), Status::ok) << why;
}

INSTANTIATE_TEST_SUITE_P(Waits, UnderALock, ::testing::Values("auto", "sleep"));

}  // namespace
}  // namespace torii
