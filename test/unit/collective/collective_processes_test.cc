// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Collective operations of processes, more than there are processors on most machines: against the
// naive model, with early and late members, and with one that is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "unit/collective/collective_kit.h"

namespace torii {
namespace {

using test::any_call;
using test::Bytes;
using test::Call;
using test::inputs_of;
using test::Kind;
using test::result_of;
using test::Side;

constexpr uint32_t kMost = 16;

// The memory that the processes of a job share beside Torii.
struct Board {
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> bereft;  // have got the error
  size_t bytes[kMost];
  char address[kMost][512];
};

#define REQUIRE(condition)                                                                \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "%s:%d: rank %u: %s (%s)\n", __FILE__, __LINE__, rank_, #condition, \
              torii_error());                                                             \
      _exit(1);                                                                           \
    }                                                                                     \
  } while (0)

// A process of the job.
class Process {
 public:
  Process(Board& board, uint32_t rank, uint32_t size) : board_(board), rank_(rank), size_(size) {
    REQUIRE(torii_param_set("drivers", "shm,self", "test") == TORII_OK);
    REQUIRE(torii_param_set("peer_deadline_ms", "200", "test") == TORII_OK);
    const torii_options_t options = {sizeof(options), 9, rank, size, 0, rank, size, 0, nullptr};
    REQUIRE(torii_open(&options, &ni_) == TORII_OK);
    board.bytes[rank] = torii_address(ni_, board.address[rank], sizeof(board.address[rank]));
    ++board.arrived;
    while (board.arrived < size) usleep(100);
    for (uint32_t i = 0; i < size; ++i)
      REQUIRE(torii_connect(ni_, board.address[i], board.bytes[i], &peers_[i]) == TORII_OK);
    REQUIRE(torii_group_open(ni_, "all", 3, peers_, size, &group_) == TORII_OK);
    torii_flag_t flag{};
    REQUIRE(wait(torii_group_prepare(group_, torii_flag, &flag), flag) == TORII_OK);
  }
  // How it ended.
  int wait(int code, torii_flag_t& flag) {
    if (code != TORII_PENDING) return code;
    while (!flag.done) torii_wait_step(ni_);
    return flag.result.code;
  }
  int run(Side& side, torii_flag_t& flag) {
    flag = {};
    return wait(side.start(group_, torii_flag, &flag), flag);
  }
  void play(unsigned seed, unsigned operations) {
    std::mt19937_64 random(seed), own(seed * 100 + rank_);
    for (unsigned i = 0; i < operations; ++i) {
      const Call call = any_call(size_, random);
      const auto inputs = inputs_of(call, size_, random);
      if (own() % 8 == 0) usleep(useconds_t(own() % 3000));
      Side side(call, rank_, size_, inputs[rank_]);
      torii_flag_t flag;
      const int code = run(side, flag);
      const uint64_t most = call.kind == Kind::reduce ? 16 : call.kind == Kind::bcast ? 512 : 4096;
      if (code == TORII_ERR_UNSUPPORTED && size_ == 2 && call.bytes > most) continue;
      REQUIRE(code == TORII_OK);
      const Bytes want = result_of(call, rank_, inputs);
      REQUIRE(want.empty() || side.out() == want);
    }
  }
  void stop_if(uint32_t rank) const {
    if (rank_ == rank) raise(SIGSTOP);
  }
  void barrier() {
    torii_flag_t flag{};
    REQUIRE(wait(torii_group_barrier(group_, torii_flag, &flag), flag) == TORII_OK);
  }
  // Until an operation fails, because `victim` was killed.
  void expect_death(Kind kind, uint32_t victim, uint32_t root) {
    const uint64_t bytes = kind == Kind::barrier    ? 0
                           : kind == Kind::alltoall ? TORII_ALLTOALL_MAX / size_ / size_
                                                    : 48000;
    const Call call{kind, root, bytes, false, false};
    std::mt19937_64 random(5);
    const auto inputs = inputs_of(call, size_, random);
    for (int i = 0;; ++i) {
      if (rank_ == victim && i == 20) raise(SIGKILL);
      Side side(call, rank_, size_, inputs[rank_]);
      torii_flag_t flag{};
      const int code = side.start(group_, torii_flag, &flag);
      if (code == TORII_OK) {
        torii_progress(ni_);
        continue;
      }
      if (wait(code, flag) == TORII_OK) continue;
      if (code == TORII_PENDING) {
        REQUIRE(flag.result.code == TORII_ERR_PEER_DEAD);
        REQUIRE(flag.result.source == peers_[victim]);
      } else {
        REQUIRE(code == TORII_ERR_PEER_DEAD);
        REQUIRE(strstr(torii_error(), ("rank " + std::to_string(victim) + " ").c_str()));
      }
      break;
    }
    torii_flag_t flag;
    REQUIRE(torii_group_barrier(group_, torii_flag, &flag) == TORII_ERR_PEER_DEAD);
    // The end of this process must not be taken for the victim's.
    ++board_.bereft;
    while (board_.bereft < size_ - 1) usleep(100);
  }
  void close() {
    REQUIRE(torii_group_close(group_) == TORII_OK);
    REQUIRE(torii_close(ni_) == TORII_OK);
  }

 private:
  Board& board_;
  uint32_t rank_, size_;
  torii_ni_t* ni_ = nullptr;
  torii_peer_t* peers_[kMost] = {};
  torii_group_t* group_ = nullptr;
};

// Runs `body` in so many processes; -1, or the first that did not end as it should. One that stops
// goes on after more than two deadlines.
template <typename Body>
int run_job(uint32_t size, int victim, Body body) {
  auto* const board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      if (victim >= 0 && !freopen("/dev/null", "w", stderr)) _exit(2);  // that one died
      alarm(120);
      Process process(*board, rank, size);
      body(process);
      _exit(0);
    }
    children.push_back(child);
  }
  int failed = -1;
  for (uint32_t left = size; left > 0;) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WUNTRACED);
    if (WIFSTOPPED(status)) {
      usleep(500'000);
      kill(child, SIGCONT);
      continue;
    }
    --left;
    const auto rank = int(std::find(children.begin(), children.end(), child) - children.begin());
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const bool good = rank == victim ? killed : status == 0;
    if (!good && failed < 0) failed = rank;
  }
  munmap(board, sizeof(Board));
  return failed;
}

TEST(CollectiveProcesses, AgreeWithTheModel) {
  for (const uint32_t size : {2u, 3u, 8u, 16u}) {
    EXPECT_EQ(run_job(size, -1,
                      [&](Process& process) {
                        process.play(size, 60);
                        process.barrier();
                        process.close();
                      }),
              -1)
        << size;
  }
}

TEST(CollectiveProcesses, AMemberThatStopsForAWhileIsWaitedFor) {
  for (const uint32_t stops : {0u, 2u}) {
    EXPECT_EQ(run_job(4, -1,
                      [&](Process& process) {
                        process.play(7, 10);
                        process.stop_if(stops);
                        process.play(8, 10);
                        process.barrier();
                        process.close();
                      }),
              -1)
        << stops;
  }
}

// The victims: the member that made the segment, the root, and another one.
TEST(CollectiveProcesses, ADeadMemberIsNamedToAll) {
  for (unsigned kind = 0; kind < test::kKinds; ++kind)
    for (const uint32_t victim : {0u, 1u, 3u}) {
      EXPECT_EQ(run_job(5, int(victim),
                        [&](Process& process) {
                          process.barrier();
                          process.expect_death(Kind(kind), victim, 1);
                        }),
                -1)
          << "kind " << kind << ", victim " << victim;
    }
}

}  // namespace
}  // namespace torii
