// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Collective operations of groups: which are under way, and who is told. The caller holds the
// interface's lock.
#pragma once

#include <memory>
#include <vector>

#include "core/collective/group_team.h"

namespace torii {

class Collectives {
 public:
  Collectives(Protocol& protocol, Ports& ports, Allocations& allocations, Exports& exports,
              Imports& imports, Counters& counters, bool scarce)
      : parts_{protocol, ports, allocations, exports, imports, scarce}, counters_(counters) {}
  ~Collectives();
  Collectives(const Collectives&) = delete;

  // As torii_group_prepare; `pending` means that the callback follows.
  Status prepare(Group& group, torii_done_t done, void* arg);
  // The same for the operations.
  [[gnu::hot]] Status start(Group& group, const CollectiveCall& call);
  // The group ends. Operations that are under way end without a word.
  void close(Group& group);

  // Is there something that progress() would go on with?
  bool active() const { return !active_.empty(); }
  // Goes on with all operations; returns how many ended.
  unsigned progress() {
    if (__builtin_expect(asleep_, 0)) wake_up();
    return go_on();
  }
  // This process is going to sleep: members that do something wake it. False: something ended.
  bool arm();
  void on_peer_down(Peer& peer, Status why);

  // "rank 3 on n1 (pid 77) by shm" of the member that made operations of the group fail, or empty.
  std::string culprit(const Group& group) const;
  // For reports: "inside the node", or why not.
  std::string describe(const Group& group) const;

 private:
  unsigned go_on();
  void wake_up();
  unsigned advance(GroupTeam& team);
  void report(const GroupTeam& team) const;
  static std::string describe(const GroupTeam& team);
  void tell(GroupTeam& team, torii_done_t done, void* arg, Status status, uint64_t bytes);
  void wake(GroupTeam& team);
  void list(GroupTeam& team);
  void sweep();

  TeamParts parts_;
  Counters& counters_;
  std::vector<std::unique_ptr<GroupTeam>> teams_;
  std::vector<std::unique_ptr<GroupTeam>> closing_;
  std::vector<GroupTeam*> active_;
  bool asleep_ = false;  // members have been told so
};

}  // namespace torii
