// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/torii_perf_job.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace torii::perf {

namespace {

constexpr unsigned kControlPort = TORII_PORT_MAX;
constexpr uint32_t kIdleRounds = 20000;  // before a waiting process may sleep
constexpr int kSleepMs = 10;

// Core `index` of those this process may use; nothing if there are fewer than `count`.
void bind_to_core(uint32_t index, uint32_t count) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  if (uint32_t(CPU_COUNT(&allowed)) < count) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || index-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

void become(uint32_t rank, uint32_t count) {
  setenv("TORII_RANK", std::to_string(rank).c_str(), 1);
  bind_to_core(rank, count);
}

void on_peer_down(void* ni, torii_peer_t* peer, int code) {
  if (code == TORII_ERR_PEER_DEAD)
    die("%s died", torii_peer_text(static_cast<torii_ni_t*>(ni), peer));
}

void count(void* arg, const torii_result_t* result) {
  if (result->code != TORII_OK) die("a message failed: %s", torii_code_text(result->code));
  ++*static_cast<unsigned*>(arg);
}

}  // namespace

void die(const char* format, ...) {
  va_list list;
  va_start(list, format);
  char text[1024];
  vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  fflush(stdout);
  fprintf(stderr, "torii-perf: %s\n", text);
  _exit(1);
}

bool launched() {
  for (const char* name : {"PMIX_NAMESPACE", "PMI_FD", "PMI_PORT", "TORII_RANK", "TORII_SIZE"})
    if (getenv(name)) return true;
  return false;
}

void fork_processes(uint32_t count, std::vector<int>* children) {
  setenv("TORII_SIZE", std::to_string(count).c_str(), 1);
  setenv("TORII_JOB", ("torii-perf-" + std::to_string(getpid())).c_str(), 1);
  const pid_t parent = getpid();
  for (uint32_t rank = 1; rank < count; ++rank) {
    const pid_t child = fork();
    if (child < 0) {
      for (int started : *children) kill(started, SIGTERM);
      die("process %u of %u cannot be started: %m", rank, count);
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      children->clear();
      return become(rank, count);
    }
    children->push_back(child);
  }
  become(0, count);
}

int reap(const std::vector<int>& children) {
  int failed = 0;
  for (int child : children) {
    int status = 0;
    failed += waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed;
}

Job::Job() {
  std::string why;
  boot_ = open_boot(&why);
  if (!boot_) die("%s", why.c_str());
  const BootInfo& info = boot_->info();
  if (info.size % 2 != 0)
    die("%u process%s started: they are measured in pairs, the number must be even", info.size,
        info.size == 1 ? " was" : "es were");
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = info.job;
  options.rank = info.rank;
  options.size = info.size;
  options.node = info.node;
  options.local_rank = info.local_rank;
  options.local_size = info.local_size;
  if (torii_open(&options, &ni_) != TORII_OK) die("%s", torii_error());
  std::byte address[Protocol::kAddressBytes];
  const size_t bytes = torii_address(ni_, address, sizeof(address));
  if (boot_->publish({address, bytes}, &why) != Status::ok ||
      boot_->process_map(&map_, &why) != Status::ok)
    die("%s", why.c_str());
  peers_.resize(info.size);
  ni().set_directory(this);
  torii_on_peer_down(ni_, on_peer_down, ni_);
  if (torii_port_open(ni_, kControlPort, &control_) != TORII_OK) die("%s", torii_error());
}

Job::~Job() {
  torii_port_close(control_);
  torii_close(ni_);
}

torii_peer_t* Job::peer(uint32_t rank) {
  if (peers_[rank]) return peers_[rank];
  std::vector<std::byte> address;
  std::string why;
  if (boot_->lookup(rank, &address, &why) != Status::ok) die("%s", why.c_str());
  if (torii_connect(ni_, address.data(), address.size(), &peers_[rank]) != TORII_OK)
    die("%s", torii_error());
  return peers_[rank];
}

void Job::idle() {
  if (torii_progress(ni_) > 0) {
    busy();
  } else if (++idle_rounds_ > kIdleRounds) {
    torii_wait(ni_, kSleepMs);
  }
}

void Job::say(uint32_t to, double value) {
  torii_data_t data{};
  data.base = &value;
  data.bytes = sizeof(value);
  unsigned done = 0;
  const int code =
      torii_send(control_, peer(to), TORII_STANDARD, 0, 0, &data, count, &done, nullptr);
  if (code < 0) die("rank %u cannot be told a value: %s", to, torii_code_text(code));
  while (code == TORII_PENDING && done == 0) idle();
}

double Job::hear(uint32_t from) {
  double value = 0;
  torii_data_t data{};
  data.base = &value;
  data.bytes = sizeof(value);
  unsigned done = 0;
  torii_result_t result;
  const int code = torii_recv(control_, peer(from), 0, 0, &data, count, &done, nullptr, &result);
  if (code < 0) die("rank %u cannot be heard: %s", from, torii_code_text(code));
  while (code == TORII_PENDING && done == 0) idle();
  return value;
}

double Job::slowest(double mine) {
  if (rank() != 0) {
    say(0, mine);
    return hear(0);
  }
  for (uint32_t other = 1; other < size(); ++other) mine = std::max(mine, hear(other));
  for (uint32_t other = 1; other < size(); ++other) say(other, mine);
  return mine;
}

bool Job::address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out, std::string* why) {
  uint32_t rank = 0;
  if (pid == 0 || !map_->rank_at(nid, pid - 1, &rank)) {
    *why = "the job has no process " + std::to_string(pid) + " on node " + std::to_string(nid);
    return false;
  }
  return boot_->lookup(rank, out, why) == Status::ok;
}

bool Job::ids(uint32_t rank, uint32_t* nid, uint32_t* pid) {
  if (rank >= map_->size()) return false;
  *nid = map_->node(rank);
  *pid = map_->local_rank(rank) + 1;
  return true;
}

}  // namespace torii::perf
