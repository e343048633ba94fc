// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Hosts whose programs take time on the virtual clock, for figures. Each is a thread of its own,
// and one of them runs at a time, or the engine: a host that spends time gives way until the engine
// has reached the end of it. So a run is the same each time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "nic/engine.h"

namespace torii::nic {

class Host {
 public:
  uint64_t now_ns() const { return engine_.now_ns(); }
  // Called in the host's program only. The program computes, or waits for the bus.
  void spend(uint64_t ns) { spend_until(now_ns() + ns); }
  void spend_until(uint64_t ns);
  // The program polls memory at this interval until changed() is called; once, if that was while it
  // was spending time. False: nothing is going to happen any more on the fabric, and the program
  // must end.
  bool poll_memory(uint64_t interval_ns);
  // The host's memory, which its program polls, has changed.
  void changed();

 private:
  friend class Hosts;
  explicit Host(Engine& engine) : engine_(engine) {}
  void run();       // of the engine: until the host gives way
  void give_way();  // of the host

  Engine& engine_;
  std::binary_semaphore go_{0}, back_{0};
  uint64_t polling_ns_ = 0;  // the interval, while it polls
  uint64_t polling_since_ns_ = 0;
  bool changed_ = false;  // while it did not poll
  bool stopped_ = false;
  bool done_ = false;
  std::thread thread_;
};

class Hosts {
 public:
  explicit Hosts(Engine& engine) : engine_(engine) {}
  ~Hosts();  // after run()
  // Another host, which begins when run() is called.
  Host& add(std::function<void(Host& host)> program);
  // Runs until all programs have ended. False with the reason in *why: some waited for what never
  // happens.
  bool run(std::string* why);

 private:
  Engine& engine_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace torii::nic
