// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The shm driver alone, between two processes bound to two cores: one-way latency by frame size,
// frames and bytes per second in one direction, the cost of an empty poll; and in the same run
// the floor, cache lines bounced between the same cores. Prints the best and the median of
// many short rounds: on a busy machine only the best ones mean something.
//
//   shm_pingpong [ROUNDS [CORE CORE]]
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "drivers/shm/shm.h"

namespace torii {
namespace {

constexpr uint32_t kSizes[] = {8, 32, 56, 64, 128, 256, 512, 1024, 2048, 4096, 8184};
constexpr uint32_t kHead = 8;
constexpr int kBounces = 1000;
constexpr int kStream = 4000;

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) perror("sched_setaffinity");
}

// The state that both processes share besides the drivers' own memory.
struct Shared {
  struct alignas(128) Line {
    std::atomic<uint64_t> value;
  };
  Line ball[2];
  alignas(64) std::atomic<int> ready[2];
  std::byte address[2][kAddressMax];
};

struct Counting final : Sink {
  void packet(PeerId, std::span<const std::byte> frame) override {
    frames++;
    bytes += frame.size();
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override { gone = true; }
  uint64_t frames = 0;
  uint64_t bytes = 0;
  bool gone = false;
};

class Player {
 public:
  Player(Shared& shared, int side) : shared_(shared), side_(side) {
    env_.sink = &sink_;
    env_.counters = &counters_;
    env_.local_peers = 2;
    std::string why;
    driver_ = open_shm(env_, &why);
    if (!driver_) fail(why);
    driver_->address(shared.address[side]);
    shared.ready[side].store(1);
    while (!shared.ready[1 - side].load()) sched_yield();
    const std::span address(shared.address[1 - side], driver_->caps().address_bytes);
    if (driver_->connect(address, &peer_, &why) != Status::ok) fail(why);
    body_.resize(driver_->caps().mtu);
  }

  void send(uint32_t size) {
    Tx tx;
    tx.peer = peer_;
    tx.head = body_.data();
    tx.head_bytes = std::min(size, kHead);
    const iovec piece{body_.data(), size - tx.head_bytes};
    tx.pieces = &piece;
    tx.piece_count = piece.iov_len ? 1 : 0;
    tx.body_bytes = size - tx.head_bytes;
    while (driver_->send({&tx, 1}) != 1) poll();
  }
  void poll() {
    driver_->poll(clock_, 64);
    // Time moves only now and then, so that the benchmark does not measure the clock.
    if ((++polls_ & 0xfffff) == 0) clock_ = now_ns();
    if (sink_.gone) exit(1);
  }
  void await(uint64_t frames) {
    while (sink_.frames < frames) poll();
  }
  uint64_t received() const { return sink_.frames; }
  Driver& driver() { return *driver_; }

  // One way, in ns.
  double bounce(uint32_t size) {
    const uint64_t start = now_ns();
    for (int i = 0; i < kBounces; i++) {
      if (side_ == 0) send(size);
      await(++expected_);
      if (side_ == 1) send(size);
    }
    return static_cast<double>(now_ns() - start) / kBounces / 2;
  }
  // Frames from side 0 to side 1, ns per frame until the receiver has said that it has all.
  double stream(uint32_t size) {
    const uint64_t start = now_ns();
    if (side_ == 0) {
      for (int i = 0; i < kStream; i++) send(size);
      await(++expected_);
    } else {
      await(expected_ += kStream);
      send(8);
    }
    return static_cast<double>(now_ns() - start) / kStream;
  }
  // One line written by both in turn, or one line for each direction.
  double line(bool both_ways) {
    std::atomic<uint64_t>& mine = shared_.ball[both_ways ? 0 : side_].value;
    const std::atomic<uint64_t>& theirs = shared_.ball[both_ways ? 0 : 1 - side_].value;
    const uint64_t start = now_ns();
    for (int i = 0; i < kBounces; i++) {
      line_ += 2;
      if (side_ == 0) mine.store(line_ - 1, std::memory_order_release);
      while (theirs.load(std::memory_order_acquire) != line_ - (side_ == 1)) {
      }
      if (side_ == 1) mine.store(line_, std::memory_order_release);
    }
    return static_cast<double>(now_ns() - start) / kBounces / 2;
  }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    fprintf(stderr, "shm_pingpong: %s\n", why.c_str());
    exit(1);
  }

  Shared& shared_;
  int side_;
  Counting sink_;
  Counters counters_;
  DriverEnv env_;
  std::unique_ptr<Driver> driver_;
  PeerId peer_ = kNoPeer;
  std::vector<std::byte> body_;
  uint64_t clock_ = 1;
  uint64_t polls_ = 0;
  uint64_t expected_ = 0;
  uint64_t line_ = 0;
};

struct Row {
  std::vector<double> bounce, stream;
};

double median(std::vector<double>& v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double best(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

void play(Shared& shared, int side, int rounds) {
  Player player(shared, side);
  std::vector<double> one_line, floor, empty;
  std::vector<Row> rows(std::size(kSizes));
  player.bounce(8);
  for (int r = 0; r < rounds; r++) {
    one_line.push_back(player.line(true));
    floor.push_back(player.line(false));
    for (size_t i = 0; i < rows.size(); i++) {
      rows[i].bounce.push_back(player.bounce(kSizes[i]));
      rows[i].stream.push_back(player.stream(kSizes[i]));
    }
    const uint64_t start = now_ns();
    for (int i = 0; i < kBounces; i++) player.driver().poll(1, 64);
    empty.push_back(static_cast<double>(now_ns() - start) / kBounces);
  }
  if (side != 0) return;
  const double base = best(floor);
  printf("one way in ns, best and median of %d rounds\n", rounds);
  printf("a cache line written by both in turn: %.1f %.1f\n", best(one_line), median(one_line));
  printf("a cache line for each direction (the floor): %.1f %.1f\n", base, median(floor));
  printf("empty poll: %.1f\n", best(empty));
  printf("%8s %10s %8s %10s %12s %10s\n", "bytes", "best ns", "x floor", "median ns", "frames/s",
         "MB/s");
  for (size_t i = 0; i < rows.size(); i++) {
    const double latency = best(rows[i].bounce);
    const double each = best(rows[i].stream);
    printf("%8u %10.1f %8.2f %10.1f %12.0f %10.1f\n", kSizes[i], latency, latency / base,
           median(rows[i].bounce), 1e9 / each, kSizes[i] * 1e3 / each);
  }
}

}  // namespace
}  // namespace torii

int main(int argc, char** argv) {
  using namespace torii;
  const int rounds = argc > 1 ? atoi(argv[1]) : 101;
  const int cores[2] = {argc > 3 ? atoi(argv[2]) : 0, argc > 3 ? atoi(argv[3]) : 1};
  if (rounds < 1) {
    fprintf(stderr, "usage: shm_pingpong [ROUNDS [CORE CORE]]\n");
    return 2;
  }
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  auto& shared = *new (memory) Shared{};
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to(cores[1]);
    play(shared, 1, rounds);
    _exit(0);
  }
  bind_to(cores[0]);
  play(shared, 0, rounds);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
