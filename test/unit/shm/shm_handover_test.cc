// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Processes that cannot open each other's segments through /proc, because they are not dumpable.
// Children give up root, to which /proc is always open.
#include "drivers/shm/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>

#include "core/base/log.h"
#include "unit/shm/shm_kit.h"

namespace torii {
namespace {

using test::bytes_of;
using test::Child;
using test::End;
using test::number_text;
using test::open_shm_end;
using test::poll_until;
using test::readable;

constexpr uid_t kNobody = 65534;
constexpr uint32_t kFrames = 300;

// Two children and what they tell each other.
struct Shared {
  shm::Address address[2];
  std::atomic<bool> open[2];
  std::atomic<bool> done[2];
  std::atomic<int> step;
};

class ShmHandover : public ::testing::Test {
 protected:
  void SetUp() override {
    void* at =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    shared_ = new (at) Shared{};
  }
  void TearDown() override { munmap(shared_, sizeof(Shared)); }
  Shared* shared_ = nullptr;
};

// Becomes an ordinary process that others of its user may look into, or not.
bool become(bool dumpable) {
  if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
                         setresuid(kNobody, kNobody, kNobody) != 0))
    return false;
  return prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0) == 0;
}

// Tells the address of `end` and waits for that of the other child.
shm::Address meet(Shared& shared, int me, const End& end) {
  end.driver->address(reinterpret_cast<std::byte*>(&shared.address[me]));
  shared.open[me] = true;
  while (!shared.open[1 - me]) sched_yield();
  return shared.address[1 - me];
}

std::string frame_text(uint32_t n) {
  return number_text(n) + std::string(n * 37 % 3000, static_cast<char>(n));
}

// Sends kFrames to `peer` and takes as many.
bool exchange(End& end, PeerId peer) {
  for (uint32_t n = 0; n < kFrames; n++) {
    const std::string text = frame_text(n);
    if (!poll_until(end, [&] { return end.send(peer, text.substr(0, 4), text.substr(4)); }))
      return false;
  }
  const auto& packets = end.sink.packets;
  if (!poll_until(end, [&] { return packets.size() >= kFrames; })) return false;
  for (uint32_t n = 0; n < kFrames; n++)
    if (packets[n].from != peer || packets[n].bytes != frame_text(n)) return false;
  return packets.size() == kFrames;
}

// Child 0 connects, child 1 answers whoever sends to it. The number of the check that failed.
int run_side(Shared& shared, int me, const bool (&dumpable)[2]) {
  if (!become(dumpable[me])) return 1;
  End end(open_shm_end);
  if (!end.driver) return 2;
  const auto other = bytes_of(meet(shared, me, end));
  PeerId peer = kNoPeer;
  std::string why;
  if (me == 0) {
    if (end.driver->connect(other, &peer, &why) != Status::ok) return 3;
    if (end.driver->caps().flags & kGet) {
      if ((why.find("refused") == why.npos) != dumpable[1]) return 4;
      if (end.counters.remote_read_fallback != (dumpable[1] ? 0 : 1)) return 5;
    }
  } else {
    if (!poll_until(end, [&] { return !end.sink.packets.empty(); })) return 6;
    peer = end.sink.packets[0].from;
  }
  if (!exchange(end, peer)) return 7;
  PeerId again = kNoPeer;
  if (end.driver->connect(other, &again, &why) != Status::ok || again != peer) return 8;
  shared.done[me] = true;
  while (!shared.done[1 - me]) end.driver->poll(1, 64);
  if (me == 0) return 0;
  if (!poll_until(end, [&] { return !end.sink.downs.empty(); })) return 9;
  return end.sink.downs[0].status == Status::peer_closed ? 0 : 10;
}

TEST_F(ShmHandover, FramesGoBothWays) {
  set_log_level(LogLevel::error);
  for (const auto& dumpable : {std::array{true, true}, std::array{true, false},
                               std::array{false, true}, std::array{false, false}}) {
    new (shared_) Shared{};
    const bool which[2] = {dumpable[0], dumpable[1]};
    Child first([&](Child&) { return run_side(*shared_, 0, which); });
    Child second([&](Child&) { return run_side(*shared_, 1, which); });
    EXPECT_EQ(first.finish(), 0) << "dumpable: " << which[0] << which[1];
    EXPECT_EQ(second.finish(), 0) << "dumpable: " << which[0] << which[1];
  }
}

// Connects to a process that does not poll, then waits for its end.
int await_in_vain(Shared& shared, Status end_expected) {
  if (!become(true)) return 1;
  End end(open_shm_end);
  const shm::Address other = meet(shared, 0, end);
  PeerId peer = kNoPeer;
  std::string why;
  if (end.driver->connect(bytes_of(other), &peer, &why) != Status::ok) return 2;
  for (int i = 0; i < 10000; i++) {
    end.driver->poll(uint64_t(i) * 100'000, 64);
    if (end.send(peer, "x") || !end.sink.downs.empty()) return 3;
  }
  shared.step = 1;
  test::g_poll_clock = 10'000'000'000;
  if (!poll_until(end, [&] { return !end.sink.downs.empty(); })) return 4;
  for (int i = 0; i < 1000; i++) end.driver->poll(test::g_poll_clock += 1'000'000, 64);
  if (end.sink.downs.size() != 1 || end.sink.downs[0].peer != peer) return 5;
  return end.sink.downs[0].status == end_expected ? 0 : 6;
}

TEST_F(ShmHandover, AProcessThatDoesNotPollHoldsNobodyUp) {
  set_log_level(LogLevel::error);
  for (const bool in_order : {true, false}) {
    new (shared_) Shared{};
    Child silent([&](Child&) {
      if (!become(false)) return 1;
      End end(open_shm_end);
      meet(*shared_, 1, end);
      while (shared_->step == 0) sched_yield();
      if (!in_order) raise(SIGKILL);
      return 0;
    });
    Child asking([&](Child&) {
      return await_in_vain(*shared_, in_order ? Status::peer_closed : Status::peer_dead);
    });
    EXPECT_EQ(asking.finish(), 0) << in_order;
    EXPECT_EQ(silent.finish(), in_order ? 0 : 128 + SIGKILL);
  }
}

TEST_F(ShmHandover, TheSleeperIsWoken) {
  set_log_level(LogLevel::error);
  Child sleeper([&](Child&) {
    if (!become(false)) return 1;
    End end(open_shm_end);
    meet(*shared_, 1, end);
    if (!poll_until(end, [&] { return end.sink.packets.size() == 1; })) return 2;
    int fd = -1;
    if (end.driver->arm(&fd) != Status::ok) return 3;
    shared_->step = 1;
    if (!readable(fd, 20000)) return 4;
    return poll_until(end, [&] { return end.sink.packets.size() == 2; }) ? 0 : 5;
  });
  Child waker([&](Child&) {
    if (!become(true)) return 1;
    End end(open_shm_end);
    PeerId peer = kNoPeer;
    std::string why;
    const shm::Address other = meet(*shared_, 0, end);
    if (end.driver->connect(bytes_of(other), &peer, &why) != Status::ok) return 2;
    if (!poll_until(end, [&] { return end.send(peer, "one"); })) return 3;
    while (shared_->step == 0) sched_yield();
    return end.send(peer, "two") ? 0 : 4;
  });
  EXPECT_EQ(sleeper.finish(), 0);
  EXPECT_EQ(waker.finish(), 0);
}

TEST_F(ShmHandover, AnotherNetworkNamespaceIsSaid) {
  if (geteuid() != 0) GTEST_SKIP() << "making a network namespace takes root";
  std::atomic<bool>& skipped = shared_->done[0];
  Child elsewhere([&](Child&) {
    if (!become(false)) return 1;
    End end(open_shm_end);
    meet(*shared_, 1, end);
    while (shared_->step == 0) sched_yield();
    return 0;
  });
  Child here([&](Child&) {
    skipped = unshare(CLONE_NEWNET) != 0;
    if (!become(true)) return 1;
    End end(open_shm_end);
    PeerId peer = kNoPeer;
    std::string why;
    const shm::Address other = meet(*shared_, 0, end);
    const Status status = end.driver->connect(bytes_of(other), &peer, &why);
    shared_->step = 1;
    if (skipped) return 0;
    if (status != Status::unreachable) return 2;
    return why.find("network namespace") == why.npos ? 3 : 0;
  });
  EXPECT_EQ(here.finish(), 0);
  EXPECT_EQ(elsewhere.finish(), 0);
  if (skipped) GTEST_SKIP() << "network namespaces are not permitted here";
}

// --- the socket alone ---------------------------------------------------------------------------

shm::Address address_of(uint32_t pid, uint32_t token) {
  shm::Address address{};
  address.pid = pid;
  address.socket = token;
  return address;
}

size_t open_files() {
  size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory)) count++;
  closedir(directory);
  return count;
}

TEST_F(ShmHandover, OtherUsersGetNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "two users are needed";
  shm::Giver giver;
  const auto pid = static_cast<uint32_t>(getpid());
  ASSERT_TRUE(giver.listen(pid));
  const int file = open("/dev/null", O_RDWR);
  Child stranger([&](Child& self) {
    if (!become(true)) return 1;
    Descriptor request;
    std::string why;
    if (shm::ask(address_of(pid, giver.token()), &request, &why) != Status::unreachable) return 2;
    if (why.find("one user") == why.npos) return 3;
    // One that does not look whom it asks.
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "torii-shm-%u-%08x", pid,
                           giver.token());
    request.reset(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    if (connect(request.get(), reinterpret_cast<sockaddr*>(&name),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size_t(n))) != 0)
      return 4;
    shared_->step = 1;
    self.wait_gate();
    shm::Given given;
    return shm::receive(request, &given) == Status::io_error && !given.segment ? 0 : 5;
  });
  while (shared_->step == 0) sched_yield();
  giver.answer(file, -1);
  stranger.open_gate();
  EXPECT_EQ(stranger.finish(), 0);
  close(file);
}

TEST_F(ShmHandover, ASocketOfAnotherProcessIsNotBelieved) {
  const auto pid = static_cast<uint32_t>(getpid());
  Child impostor([&](Child& self) {
    shm::Giver giver;
    if (!giver.listen(pid)) return 1;  // under the parent's name
    shared_->address[0] = address_of(pid, giver.token());
    shared_->step = 1;
    self.wait_gate();
    return 0;
  });
  while (shared_->step == 0) sched_yield();
  Descriptor request;
  std::string why;
  EXPECT_EQ(shm::ask(shared_->address[0], &request, &why), Status::unreachable);
  EXPECT_NE(why.find("is not of process"), std::string::npos) << why;
  EXPECT_FALSE(request);
  impostor.open_gate();
  EXPECT_EQ(impostor.finish(), 0);
}

TEST_F(ShmHandover, DescriptorsArriveAndNoneIsLeft) {
  shm::Giver giver;
  const auto pid = static_cast<uint32_t>(getpid());
  ASSERT_TRUE(giver.listen(pid));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const size_t files = open_files();
  {
    Descriptor first, second;
    shm::Given given;
    std::string why;
    ASSERT_EQ(shm::ask(address_of(pid, giver.token()), &first, &why), Status::ok) << why;
    ASSERT_EQ(shm::ask(address_of(pid, giver.token()), &second, &why), Status::ok) << why;
    EXPECT_EQ(shm::receive(first, &given), Status::again);
    giver.answer(ends[0], ends[1]);
    ASSERT_EQ(shm::receive(first, &given), Status::ok);
    EXPECT_TRUE(given.segment);
    ASSERT_TRUE(given.pipe);
    EXPECT_EQ(write(given.pipe.get(), "x", 1), 1);
    EXPECT_TRUE(readable(ends[0], 0));
    EXPECT_EQ(shm::receive(first, &given), Status::io_error) << "one answer is all";
    // A file that is no segment is found out when it is proved.
    shm::Segment segment;
    EXPECT_EQ(shm::adopt_segment(address_of(pid, 1), std::move(given.segment), &segment, &why),
              Status::invalid);
    EXPECT_NE(why.find("not a sealed segment"), std::string::npos) << why;
  }
  EXPECT_EQ(open_files(), files);
  giver.stop();
  Descriptor late;
  std::string why;
  EXPECT_EQ(shm::ask(address_of(pid, giver.token()), &late, &why), Status::unreachable);
  close(ends[0]);
  close(ends[1]);
}

// Sends a message with `count` descriptors.
void send_message(int to, const std::string& text, size_t count) {
  iovec bytes{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (count) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    const std::vector<int> descriptors(count, to);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), count * sizeof(int));
  }
  ASSERT_EQ(sendmsg(to, &message, 0), static_cast<ssize_t>(text.size()));
}

TEST_F(ShmHandover, AnswersThatMakeNoSenseLeaveNothing) {
  const std::string right = number_text(shm::kMagic), wrong = number_text(shm::kMagic + 1);
  const size_t files = open_files();
  for (const auto& [text, count] : std::vector<std::pair<std::string, size_t>>{
           {wrong, 2}, {right, 0}, {"x", 1}, {right + right, 2}, {"", 0}, {wrong, 16}}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    const Descriptor from(ends[0]), to(ends[1]);
    send_message(to.get(), text, count);
    shm::Given given;
    EXPECT_EQ(shm::receive(from, &given), Status::io_error) << text.size() << ", " << count;
    EXPECT_FALSE(given.segment);
  }
  EXPECT_EQ(open_files(), files);
}

}  // namespace
}  // namespace torii
