// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A fabric for real processes: they attach to its cards through a socket (channel.h). One thread
// carries out what they write and runs the model; while nothing happens it sleeps.
//
// Time: the model runs as fast as it can. Only where its next event is more than kRunAheadNs away
// does it wait for the real clock. So timers that wait for a process take real time, and the rest
// takes as long as the emulation does.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/descriptor.h"
#include "nic/emulator/channel.h"
#include "nic/emulator/guest.h"
#include "nic/fabric.h"

namespace torii::nic {

class Emulator {
 public:
  static constexpr uint64_t kRunAheadNs = 10000;

  // Null with the reason in *why.
  static std::unique_ptr<Emulator> make(FabricOptions options, std::string* why);

  // The abstract name of the socket, random: for TORII_FABRIC.
  const std::string& socket() const { return name_; }
  Fabric& fabric() { return *fabric_; }
  // Serves until woken() says false; it is called when `wake` is readable.
  void serve(int wake, const std::function<bool()>& woken);
  // The same, until all processes have gone and the model has nothing to do; at most that long.
  void finish(uint64_t most_ns);
  uint64_t attached() const { return attached_; }  // processes, so far
  size_t present() const { return members_.size(); }

 private:
  // A connection before it has a card.
  struct Caller {
    Descriptor socket;
    pid_t pid = 0;
    bool has_said = false;
    channel::Hello hello{};
  };
  struct Member {
    Descriptor socket;
    std::unique_ptr<Guest> guest;
  };

  Emulator() = default;
  bool listen(std::string* why);
  bool run_model();
  bool serve_members();
  bool falls_asleep();
  uint64_t pause_ns() const;
  bool look(int wake, uint64_t pause);
  void accept_all();
  bool hear(Caller& caller);
  bool admit(Caller& caller);
  bool has_ended(Member& member, short events);

  std::unique_ptr<Fabric> fabric_;
  std::string name_;
  Descriptor listener_;
  std::vector<Caller> callers_;
  std::vector<Member> members_;
  std::vector<pollfd> set_;
  uint64_t real_ns_ = 0;  // when the model's clock last followed it
  uint64_t attached_ = 0;
};

}  // namespace torii::nic
