// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver over UCX's tcp on loopback, unless TORII_UCX_TLS names transports: what UCX must not
// do to this process, and what a process can send that has a worker of UCX but no key of the job.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/base/hardware.h"
#include "core/base/param.h"
#include "core/base/random.h"
#include "core/link/link.h"
#include "drivers/ucx/ucx.h"
#include "drivers/ucx/wire.h"
#include "drivers/ucx/worker.h"
#include "trust.h"

namespace torii::ucx {
namespace {

using Bytes = std::vector<std::byte>;

// The code of the C library, the first instructions of functions that UCX likes to replace,
// wherever they are, and the handlers of signals, as they were before anything in this program has
// opened UCX.
class Process {
 public:
  Process() : library_(read_library()), code_(read_code()) {
    for (size_t i = 0; i < std::size(kSignals); i++) sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  std::string changes() const {
    std::string out = library_.empty() ? " no code" : read_library() == library_ ? "" : " libc";
    const auto now = read_code();
    for (size_t i = 0; i < std::size(kFunctions); i++)
      if (now[i] != code_[i]) out += std::string(" ") + kFunctions[i];
    for (size_t i = 0; i < std::size(kSignals); i++) {
      struct sigaction action;
      sigaction(kSignals[i], nullptr, &action);
      if (action.sa_handler != actions_[i].sa_handler)
        out += std::string(" ") + strsignal(kSignals[i]);
    }
    return out;
  }

 private:
  static constexpr const char* kFunctions[] = {"mmap",  "munmap", "mremap", "shmat",
                                               "shmdt", "sbrk",   "brk",    "madvise"};
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  using Code = std::array<std::array<std::byte, 32>, std::size(kFunctions)>;

  static Code read_code() {
    Code out{};
    for (size_t i = 0; i < std::size(kFunctions); i++)
      std::memcpy(&out[i], dlsym(RTLD_DEFAULT, kFunctions[i]), sizeof(out[i]));
    return out;
  }

  // The executable segments of libc.so.
  static Bytes read_library() {
    Bytes out;
    const auto append = [](dl_phdr_info* library, size_t, void* to) {
      if (!strstr(library->dlpi_name, "/libc.so")) return 0;
      for (const auto& segment : std::span(library->dlpi_phdr, library->dlpi_phnum)) {
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        const auto* const begin =
            reinterpret_cast<const std::byte*>(library->dlpi_addr + segment.p_vaddr);
        auto& bytes = *static_cast<Bytes*>(to);
        bytes.insert(bytes.end(), begin, begin + segment.p_memsz);
      }
      return 1;
    };
    dl_iterate_phdr(append, &out);
    return out;
  }

  const Bytes library_;
  const Code code_;
  struct sigaction actions_[std::size(kSignals)];
};
const Process before_ucx;

bool wait_until(const std::function<bool()>& until) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!until())
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

struct End final : Sink {
  End() {
    std::string why;
    if (params().ucx_tls.empty()) {
      setenv("UCX_NET_DEVICES", "lo", 0);
      EXPECT_EQ(param_set("ucx_tls", "tcp", "test", &why), Status::ok) << why;
    }
    DriverEnv env;
    env.sink = this;
    env.counters = &counters;
    env.name = "ucx";
    env.keys = &keys;
    env.members = &members;
    driver = open_ucx(env, &why);
    if (!driver) throw std::runtime_error(why);
  }
  void packet(PeerId, std::span<const std::byte> frame) override {
    frames.emplace_back(frame.begin(), frame.end());
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override { downs++; }
  Bytes address() const {
    Bytes out(driver->caps().address_bytes);
    driver->address(out.data());
    return out;
  }
  void poll() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    driver->poll(static_cast<uint64_t>(now), 64);
  }

  Counters counters;
  test::PlainKeys keys;
  test::Everybody members;
  std::vector<Bytes> frames;
  unsigned downs = 0;
  std::unique_ptr<Driver> driver;
};

// A process with UCX that knows where `to` listens, as anybody on the network may.
class Stranger {
 public:
  explicit Stranger(End& to) : to_(to) {
    std::string why;
    EXPECT_TRUE(ucx_.open("tcp", 10000, &why)) << why;
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.cb = on_message;
    handler.arg = this;
    EXPECT_EQ(ucp.worker_set_am_recv_handler(ucx_.handle, &handler), UCS_OK);
    const Bytes bytes = to.address();
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;  // as the driver, which can answer then
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    params.address = reinterpret_cast<const ucp_address_t*>(bytes.data() + sizeof(AddressHead));
    EXPECT_EQ(ucp.ep_create(ucx_.handle, &params, &ep_), UCS_OK);
  }
  // Sends a message; it has left when this returns.
  void send(const Bytes& message, unsigned flags = UCP_AM_SEND_FLAG_EAGER) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    void* const request =
        ucp.am_send_nbx(ep_, kMessageId, nullptr, 0, message.data(), message.size(), &param);
    if (!UCS_PTR_IS_PTR(request)) return;
    EXPECT_TRUE(wait_until([&] {
      poll();
      return ucp.request_check_status(request) != UCS_INPROGRESS;
    }));
    ucp.request_free(request);
  }
  void poll() {
    ucp.worker_progress(ucx_.handle);
    to_.poll();
  }
  // A hello with the right tag.
  Bytes hello() const {
    AddressHead head;
    head.version = ucx_.version;
    head.key = keys_.own();
    const Bytes own = seal(head, ucx_.address);
    Hello hello;
    hello.first = 1;
    hello.job = 1;
    hello.rank = 3;
    Bytes out(sizeof(hello) + own.size());
    std::memcpy(out.data(), &hello, sizeof(hello));
    std::ranges::copy(own, out.begin() + sizeof(hello));
    std::string purpose = "ucx hello ucx";
    purpose.append(reinterpret_cast<const char*>(out.data()), out.size());
    const SecretKey key = test::PlainKeys::key(keys_.own(), to_.keys.own(), purpose);
    out.insert(out.end(), key.begin(), key.begin() + kTagBytes);
    return out;
  }
  // Says hello, and waits for the answer: the prefix of the first message of this process.
  Prefix become_peer() {
    send(hello());
    EXPECT_TRUE(wait_until([&] {
      poll();
      return answer.size() >= sizeof(Hello);
    }));
    Hello heard;
    if (answer.size() >= sizeof(Hello)) std::memcpy(&heard, answer.data(), sizeof(heard));
    EXPECT_EQ(heard.magic, Hello{}.magic);
    return {heard.number, heard.first};
  }

  Bytes answer;  // the last message

 private:
  static ucs_status_t on_message(void* self, const void*, size_t, void* data, size_t size,
                                 const ucp_am_recv_param_t*) {
    const auto* const begin = static_cast<const std::byte*>(data);
    static_cast<Stranger*>(self)->answer.assign(begin, begin + size);
    return UCS_OK;
  }

  End& to_;
  test::PlainKeys keys_;
  Worker ucx_;
  ucp_ep_h ep_ = nullptr;
};

// First of all, for what was loaded stays.
TEST(Ucx, IsNotLoadedWithoutADevice) {
  if (!rdma_devices().empty() || !params().ucx_tls.empty())
    GTEST_SKIP() << "there is a device, or TORII_UCX_TLS is set";
  std::string why;
  EXPECT_EQ(open_ucx({}, &why), nullptr);
  EXPECT_TRUE(why.starts_with("ucx: this node has no RDMA device")) << why;
  for (const char* const library : {Library::kFile, "libucs.so.0", "libibverbs.so.1"})
    EXPECT_EQ(dlopen(library, RTLD_NOW | RTLD_NOLOAD), nullptr) << library;
}

TEST(Ucx, ReplacesNothingInTheProcess) {
  const End end;
  EXPECT_EQ(before_ucx.changes(), "");
}

// The test before this one in another process, in which UCX is told to replace functions.
TEST(Ucx, WhatUcxReplacesIsSeen) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("UCX_MEM_EVENTS", "y", 1);
    setenv("UCX_TLS", "tcp", 1);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execl("/proc/self/exe", "ucx_test", "--gtest_filter=Ucx.ReplacesNothingInTheProcess", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
}

TEST(Ucx, EveryChangedHelloIsRefused) {
  End end;
  Stranger stranger(end);
  const Bytes good = stranger.hello();
  for (size_t bit = 0; bit < 8 * good.size(); bit++) {
    Bytes bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    stranger.send(bad);
    if (bit % 16 == 0) stranger.poll();
  }
  EXPECT_TRUE(wait_until([&] {
    stranger.poll();
    return end.counters.ucx_foreign == 8 * good.size();
  })) << end.counters.ucx_foreign
      << " of " << 8 * good.size();
  stranger.send(good);
  for (int i = 0; i < 1000; i++) stranger.poll();
  EXPECT_EQ(end.counters.ucx_foreign, 8 * good.size()) << "the right one was refused";
}

TEST(Ucx, WhoIsNoMemberIsNotHeard) {
  End end;
  end.members.admit = false;
  Stranger stranger(end);
  stranger.send(stranger.hello());
  EXPECT_TRUE(wait_until([&] {
    stranger.poll();
    return end.counters.ucx_foreign == 1;
  }));
}

// The first hello comes while its receiver cannot ask who that is; then the receiver connects.
TEST(Ucx, AHelloThatWasNotHeardIsSaidAgainBeforeFrames) {
  End a, b;
  b.members.admit = false;
  const auto connect = [](End& from, const End& to, PeerId* peer) {
    std::string why;
    EXPECT_EQ(from.driver->connect(to.address(), peer, &why), Status::ok) << why;
  };
  const auto poll = [&] {
    a.poll();
    b.poll();
  };
  PeerId to = kNoPeer, back = kNoPeer;
  connect(a, b, &to);
  ASSERT_TRUE(wait_until([&] {
    poll();
    return b.counters.ucx_foreign > 0;
  }));
  connect(b, a, &back);
  Tx tx;
  tx.peer = to;
  tx.head = "good frame";
  tx.head_bytes = 10;
  ASSERT_TRUE(wait_until([&] {
    poll();
    return a.driver->send({&tx, 1}) == 1;
  }));
  EXPECT_TRUE(wait_until([&] {
    poll();
    return b.frames.size() == 1;
  }));
}

// A member that sends anything: only the message with its number and the next sequence is taken.
TEST(Ucx, EveryChangedPrefixIsRefused) {
  End end;
  Stranger member(end);
  const Prefix good = member.become_peer();
  uint64_t bad = 0;
  const auto send = [&](const Prefix& prefix, size_t bytes = sizeof(Prefix) + 10) {
    Bytes message(bytes, std::byte{'x'});
    std::memcpy(message.data(), &prefix, std::min(bytes, sizeof(prefix)));
    member.send(message);
    if (++bad % 16 == 0) member.poll();
  };
  for (unsigned bit = 0; bit < 64; bit++)
    if (bit != 31)  // a bye with the next sequence is one
      send({bit < 32 ? good.to ^ 1u << bit : good.to,
            bit < 32 ? good.seq : good.seq ^ 1u << bit % 32});
  for (size_t bytes = 1; bytes < sizeof(Prefix); bytes++) send(good, bytes);
  member.send({});  // asks the card, and says nothing
  Random random(7);
  for (int i = 0; i < 2000; i++) {
    const auto seq = static_cast<uint32_t>(random.next());
    if (seq == good.seq) continue;
    const auto to = static_cast<uint32_t>(random.next());
    send({i % 2 ? to : good.to | (i % 4 ? kBye : 0), seq});
  }
  EXPECT_TRUE(wait_until([&] {
    member.poll();
    return end.counters.ucx_foreign == bad;
  })) << end.counters.ucx_foreign
      << " of " << bad;
  EXPECT_TRUE(end.frames.empty());
  EXPECT_EQ(end.downs, 0u);
  send(good);  // and once more: it has come already
  send(good);
  EXPECT_TRUE(wait_until([&] {
    member.poll();
    return end.counters.ucx_foreign == bad - 1 && end.frames.size() == 1;
  }));
  send({good.to | kBye, good.seq + 1});
  EXPECT_TRUE(wait_until([&] {
    member.poll();
    return end.downs == 1;
  }));
}

TEST(Ucx, FramesOfStrangersAreNotHandedUp) {
  End a, b;
  PeerId to = kNoPeer;
  std::string why;
  ASSERT_EQ(a.driver->connect(b.address(), &to, &why), Status::ok) << why;
  Tx tx;
  tx.peer = to;
  tx.head = "good frame";
  tx.head_bytes = 10;
  EXPECT_TRUE(wait_until([&] {
    a.poll();
    b.poll();
    return a.driver->send({&tx, 1}) == 1;
  }));
  EXPECT_TRUE(wait_until([&] {
    a.poll();
    b.poll();
    return b.frames.size() == 1;
  }));
  Stranger stranger(b);
  Random random(3);
  unsigned sent = 0;
  for (; sent < 900; sent++) {
    Bytes message(random.between(1, 64));
    for (std::byte& byte : message) byte = std::byte(random.next());
    // As a frame of a peer, and as its bye.
    const uint32_t to_peer = sent & 2 ? kBye : 0;
    if (sent % 2 && message.size() >= sizeof(Prefix))
      std::memcpy(message.data(), &to_peer, sizeof(to_peer));
    stranger.send(message);
  }
  // A message that is only announced is not fetched.
  stranger.send(Bytes(100000), UCP_AM_SEND_FLAG_RNDV);
  sent++;
  EXPECT_TRUE(wait_until([&] {
    stranger.poll();
    return b.counters.ucx_foreign == sent;
  })) << b.counters.ucx_foreign
      << " of " << sent;
  EXPECT_EQ(b.frames.size(), 1u);
  EXPECT_EQ(b.downs, 0u);
  EXPECT_TRUE(wait_until([&] {
    a.poll();
    b.poll();
    return a.driver->send({&tx, 1}) == 1;
  }));
  EXPECT_TRUE(wait_until([&] {
    a.poll();
    b.poll();
    return b.frames.size() == 2;
  }));
}

TEST(Ucx, DoesNotOpenWhereACipherIsWanted) {
  End end;  // it opens without one
  std::string why;
  ASSERT_EQ(param_set("link_cipher", "aes-128-gcm", "test", &why), Status::ok) << why;
  DriverEnv env;
  env.sink = &end;
  env.counters = &end.counters;
  env.keys = &end.keys;
  const auto driver = open_with_link("ucx", env, &why);
  ASSERT_EQ(param_set("link_cipher", "none", "test", &why), Status::ok);
  EXPECT_EQ(driver, nullptr);
  EXPECT_EQ(why,
            "TORII_LINK_CIPHER=aes-128-gcm: what ucx sends is not encrypted; leave it out of "
            "TORII_DRIVERS, or set TORII_LINK_CIPHER=none");
}

TEST(Ucx, OnlyCardsReadAndWrite) {
  EXPECT_TRUE(has_remote_memory("ib"));
  EXPECT_TRUE(has_remote_memory("rc_x,ud"));
  EXPECT_FALSE(has_remote_memory("ud")) << "by messages that name any address";
  EXPECT_FALSE(has_remote_memory("rc,tcp"));
  EXPECT_FALSE(has_remote_memory("tcp"));
  EXPECT_TRUE(all_of("ud_verbs,ud", {"ud"}));
  EXPECT_FALSE(all_of("ud,rc", {"ud"}));
}

TEST(Ucx, PathsAreReadFromWhatUcxPrints) {
  EXPECT_EQ(transports_in("#   peer: x\n"
                          "#   lane[0]:  1:tcp/lo.0 md[0]      -> md[0]/tcp am am_bw#0\n"
                          "#   lane[1]:  2:rc_verbs/rxe0:1.0 md[1]  -> md[1]\n"
                          "#   lane[2]:  1:tcp/lo.1 md[0]\n"),
            "tcp/lo, rc_verbs/rxe0:1");
  EXPECT_EQ(transports_in("lane[0]"), "");
}

}  // namespace
}  // namespace torii::ucx
