// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For tests of the `shm` driver that need several processes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "drivers/shm/layout.h"
#include "drivers/shm/shm.h"
#include "recorder.h"

namespace torii::test {

inline std::unique_ptr<Driver> open_shm_end(const DriverEnv& env) {
  std::string why;
  auto driver = open_shm(env, &why);
  if (!driver) fprintf(stderr, "%s\n", why.c_str());
  return driver;
}

inline std::string number_text(uint32_t n) {
  return {reinterpret_cast<const char*>(&n), sizeof(n)};
}

inline shm::Address parse(const std::vector<std::byte>& bytes) {
  shm::Address address;
  std::memcpy(&address, bytes.data(), sizeof(address));
  return address;
}

inline std::vector<std::byte> bytes_of(const shm::Address& address) {
  std::vector<std::byte> bytes(sizeof(address));
  std::memcpy(bytes.data(), &address, sizeof(address));
  return bytes;
}

// A child process that runs `body` and ends with what it returns; nothing of the parent's is
// closed or reported by it.
class Child {
 public:
  template <typename F>
  explicit Child(F body) {
    if (pipe(gate_) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(120);
      _exit(body(*this));
    }
  }
  ~Child() {
    if (pid_ > 0) finish();
    close(gate_[0]);
    close(gate_[1]);
  }
  // In the parent: lets the child out of wait_gate().
  void open_gate() { EXPECT_EQ(write(gate_[1], "x", 1), 1); }
  void wait_gate() {
    char c;
    if (read(gate_[0], &c, 1) != 1) _exit(99);
  }
  void kill_now() { kill(pid_, SIGKILL); }
  int finish() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int gate_[2];
};

// Connects `end` to `address`; kNoPeer if that fails.
inline PeerId connect_to(End& end, const std::vector<std::byte>& address) {
  PeerId peer = kNoPeer;
  std::string why;
  return end.driver->connect(address, &peer, &why) == Status::ok ? peer : kNoPeer;
}

inline void send_surely(End& end, PeerId peer, const std::string& head,
                        const std::string& body = {}) {
  while (!end.send(peer, head, body)) {
    end.driver->poll(0, 64);
    sched_yield();
  }
}

inline uint64_t g_poll_clock = 1;

// Polls until `until` holds, with a clock that runs a millisecond per 100 polls.
template <typename F>
bool poll_until(End& end, F until, uint64_t limit = 20'000'000) {
  for (uint64_t i = 0; i < limit; i++) {
    if (until()) return true;
    end.driver->poll(g_poll_clock, 64);
    g_poll_clock += 10'000;
    if (i % 64 == 63) sched_yield();
  }
  return until();
}

inline bool readable(int fd, int ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, ms) == 1;
}

}  // namespace torii::test
