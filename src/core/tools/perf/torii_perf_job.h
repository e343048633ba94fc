// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The processes that torii-perf and torii-tune measure between: start, addresses, pairs, and the
// small talk between measurements, which travels over a tagged port of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/boot/boot.h"
#include "core/ni/ni.h"
#include "core/torii.h"

namespace torii::perf {

inline constexpr size_t kPage = 4096;  // alignment of the memory that is measured

// Says "PROGRAM: ..." and ends this process; the others learn it from the interface.
[[noreturn]] void die(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Turns this process into rank 0 of `count` processes on this machine; returns in all of them.
// In rank 0, *children are the others.
void fork_processes(uint32_t count, std::vector<int>* children);
// Waits for them; the number of those that did not end well.
int reap(const std::vector<int>& children);

class Job final : public Directory {
 public:
  // Dies with the reason if it cannot be had. `alone`: one process, its own partner, will do.
  explicit Job(bool alone);
  // Another interface of the same processes, with the parameters now in force. `first` carries the
  // addresses and must live longer. Collective.
  explicit Job(Job& first);
  ~Job();
  Job(const Job&) = delete;

  uint32_t rank() const { return info_.rank; }
  uint32_t size() const { return info_.size; }
  uint32_t pairs() const { return size() == 1 ? 1 : size() / 2; }
  bool leads() const { return rank() < pairs(); }  // the first of its pair
  uint32_t partner() const {
    return size() == 1 ? 0 : leads() ? rank() + pairs() : rank() - pairs();
  }
  const char* launcher() const { return info_.launcher; }
  const std::string& host() const { return info_.host; }

  torii_ni_t* handle() const { return ni_; }
  Ni& ni() const { return *reinterpret_cast<Ni*>(ni_); }
  torii_peer_t* peer(uint32_t rank);  // connects at the first call

  // Progress while waiting: at first without a pause, after many idle rounds it may sleep.
  void idle();
  void busy() { idle_rounds_ = 0; }

  // Returns when all processes have called it.
  void barrier() { (void)slowest(0); }
  // Gives the partner `bytes` bytes, few, and takes as many from it.
  void exchange(const void* mine, void* theirs, size_t bytes);
  // The largest of all processes' values, in all of them.
  double slowest(double mine);

  bool address(uint32_t nid, uint32_t pid, std::vector<std::byte>* out, std::string* why) override;
  bool ids(uint32_t rank, uint32_t* nid, uint32_t* pid) override;

 private:
  void open();
  static size_t find(void* self, uint64_t job, uint32_t rank, void* address, size_t capacity);
  bool find_address(uint32_t rank, std::vector<std::byte>* out, std::string* why);
  void say(uint32_t to, const void* value, size_t bytes);
  void hear(uint32_t from, void* value, size_t bytes);

  BootInfo info_;
  uint64_t others_ = 0;                            // interfaces that this one was the first of
  std::unique_ptr<Boot> boot_;                     // of the first interface
  std::vector<std::vector<std::byte>> addresses_;  // by rank, of another one
  const ProcessMap* map_ = nullptr;
  torii_ni_t* ni_ = nullptr;
  torii_port_t* control_ = nullptr;
  std::vector<torii_peer_t*> peers_;
  uint32_t idle_rounds_ = 0;
};

}  // namespace torii::perf
