// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/perf/torii_perf_job.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/tools/cores.h"

namespace torii::perf {

namespace {

constexpr unsigned kControlPort = TORII_PORT_MAX;
constexpr uint32_t kIdleRounds = 20000;  // before a waiting process may sleep
constexpr int kSleepMs = 10;

// On the core of its own that it gets, if there are enough.
void bind_to_core(uint32_t index, const std::vector<int>& cores) {
  if (index >= cores.size()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(size_t(cores[index]), &one);
  sched_setaffinity(0, sizeof(one), &one);
}

void become(uint32_t rank, const std::vector<int>& cores) {
  setenv("TORII_RANK", std::to_string(rank).c_str(), 1);
  bind_to_core(rank, cores);
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
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
  _exit(1);
}

void fork_processes(uint32_t count, std::vector<int>* children) {
  setenv("TORII_SIZE", std::to_string(count).c_str(), 1);
  setenv("TORII_JOB", (program_invocation_short_name + ("-" + std::to_string(getpid()))).c_str(),
         1);
  std::vector<int> cores = usable_cores();
  if (cores.size() < count) cores.clear();
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
      return become(rank, cores);
    }
    children->push_back(child);
  }
  become(0, cores);
}

int reap(const std::vector<int>& children) {
  int failed = 0;
  for (int child : children) {
    int status = 0;
    failed += waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed;
}

Job::Job(bool alone) {
  std::string why;
  boot_ = open_boot(&why);
  if (!boot_) die("%s", why.c_str());
  info_ = boot_->info();
  if (info_.size % 2 != 0 && !(alone && info_.size == 1))
    die("%u process%s started: they are measured in pairs, the number must be even", info_.size,
        info_.size == 1 ? " was" : "es were");
  open();
  std::byte address[Protocol::kAddressBytes];
  const size_t bytes = torii_address(ni_, address, sizeof(address));
  if (boot_->publish({address, bytes}, &why) != Status::ok ||
      boot_->process_map(&map_, &why) != Status::ok)
    die("%s", why.c_str());
  torii_add_directory(ni_, find, this);
}

Job::Job(Job& first) : info_(first.info_), map_(first.map_) {
  info_.job += ++first.others_;  // of the same job it would be the same interface
  open();
  struct Slot {
    uint64_t bytes;
    std::byte address[Protocol::kAddressBytes];
  };
  Slot own{};
  own.bytes = torii_address(ni_, own.address, sizeof(own.address));
  for (uint32_t other = 0; other < size(); ++other)
    if (other != rank()) first.say(other, &own, sizeof(own));
  addresses_.resize(size());
  for (uint32_t other = 0; other < size(); ++other) {
    Slot slot = own;
    if (other != rank()) first.hear(other, &slot, sizeof(slot));
    if (slot.bytes > sizeof(slot.address)) die("rank %u has an address that is none", other);
    addresses_[other].assign(slot.address, slot.address + slot.bytes);
  }
  torii_add_directory(ni_, find, this);
}

void Job::open() {
  torii_options_t options{};
  options.struct_bytes = sizeof(options);
  options.job = info_.job;
  options.rank = info_.rank;
  options.size = info_.size;
  options.node = info_.node;
  options.local_rank = info_.local_rank;
  options.local_size = info_.local_size;
  if (torii_open(&options, &ni_) != TORII_OK) die("%s", torii_error());
  peers_.resize(info_.size);
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
  if (!find_address(rank, &address, &why)) die("%s", why.c_str());
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

void Job::say(uint32_t to, const void* value, size_t bytes) {
  torii_data_t data{};
  data.base = const_cast<void*>(value);
  data.bytes = bytes;
  unsigned done = 0;
  const int code =
      torii_send(control_, peer(to), TORII_STANDARD, 0, 0, &data, count, &done, nullptr);
  if (code < 0) die("rank %u cannot be told a value: %s", to, torii_code_text(code));
  while (code == TORII_PENDING && done == 0) idle();
}

void Job::hear(uint32_t from, void* value, size_t bytes) {
  torii_data_t data{};
  data.base = value;
  data.bytes = bytes;
  unsigned done = 0;
  torii_result_t result;
  const int code = torii_recv(control_, peer(from), 0, 0, &data, count, &done, nullptr, &result);
  if (code < 0) die("rank %u cannot be heard: %s", from, torii_code_text(code));
  while (code == TORII_PENDING && done == 0) idle();
}

void Job::exchange(const void* mine, void* theirs, size_t bytes) {
  if (leads()) say(partner(), mine, bytes);
  hear(partner(), theirs, bytes);
  if (!leads()) say(partner(), mine, bytes);
}

double Job::slowest(double mine) {
  if (rank() != 0) {
    say(0, &mine, sizeof(mine));
    hear(0, &mine, sizeof(mine));
    return mine;
  }
  for (uint32_t other = 1; other < size(); ++other) {
    double theirs = 0;
    hear(other, &theirs, sizeof(theirs));
    mine = std::max(mine, theirs);
  }
  for (uint32_t other = 1; other < size(); ++other) say(other, &mine, sizeof(mine));
  return mine;
}

bool Job::address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out, std::string* why) {
  uint32_t rank = 0;
  if (pid == 0 || !map_->rank_at(nid, pid - 1, &rank)) {
    *why = "the job has no process " + std::to_string(pid) + " on node " + std::to_string(nid);
    return false;
  }
  return find_address(rank, out, why);
}

size_t Job::find(void* self, uint64_t job, uint32_t rank, void* address, size_t capacity) {
  std::vector<std::byte> found;
  std::string why;
  Job* const own = static_cast<Job*>(self);
  if (job != own->info_.job || !own->find_address(rank, &found, &why)) return 0;
  if (found.size() <= capacity) std::memcpy(address, found.data(), found.size());
  return found.size();
}

bool Job::find_address(uint32_t rank, std::vector<std::byte>* out, std::string* why) {
  if (boot_) return boot_->lookup(rank, out, why) == Status::ok;
  *out = addresses_[rank];
  return true;
}

bool Job::ids(uint32_t rank, uint32_t* nid, uint32_t* pid) {
  if (rank >= map_->size()) return false;
  *nid = map_->node(rank);
  *pid = map_->local_rank(rank) + 1;
  return true;
}

}  // namespace torii::perf
