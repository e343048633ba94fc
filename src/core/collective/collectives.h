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
  explicit Collectives(const TeamParts& parts);
  ~Collectives();
  Collectives(const Collectives&) = delete;

  // As torii_group_prepare; `pending` means that the callback follows.
  Status prepare(Group& group, torii_done_t done, void* arg);
  // The same for the operations.
  [[gnu::hot]] Status start(Group& group, const CollectiveCall& call);
  // The group ends. Operations that are under way end without a word.
  void close(Group& group);

  // Is there something that progress() would go on with now?
  bool active(uint64_t now) const { return !active_.empty() || now >= due_; }
  // When there will be, if nothing arrives before; UINT64_MAX: never.
  uint64_t due() const { return due_; }
  // Goes on with all operations; returns how many ended.
  unsigned progress() {
    if (__builtin_expect(asleep_, 0)) wake_up();
    if (__builtin_expect(!leading_.empty(), 0)) poll_nodes();
    return go_on();
  }
  // This process begins nothing any more, in any group: others are asked to say when they need
  // nothing of it any more.
  void finish();
  // They have, as far as there are such.
  bool settled() const;
  // This process is going to sleep: members that do something wake it. False: something ended.
  bool arm();
  void on_peer_down(Peer& peer, Status why);
  // A frame to a lossy group has arrived: as Upper::on_lossy().
  void on_lossy(uint8_t rail, PeerId group, uint32_t sender, std::span<const std::byte> frame);

  // "rank 3 on n1 (pid 77) by shm" of the member that made operations of the group fail, or empty.
  std::string culprit(const Group& group) const;
  // For reports: "inside the node", or why not.
  std::string describe(const Group& group) const;

 private:
  unsigned go_on();
  void wake_up();
  unsigned advance(GroupTeam& team);
  void prepared(GroupTeam& team);
  static std::string describe(const GroupTeam& team);
  void tell(GroupTeam& team, torii_done_t done, void* arg, Status status, uint64_t bytes);
  void wake(GroupTeam& team);
  void list(GroupTeam& team);
  void sweep();
  void poll_nodes();
  uint64_t round_time();
  void report_path(const GroupTeam& team) const;
  static void take_datagram(void* self, Peer& from, uint64_t tag,
                            std::span<const std::byte> datagram);

  TeamParts parts_;
  std::vector<std::unique_ptr<GroupTeam>> teams_;
  std::vector<std::unique_ptr<GroupTeam>> closing_;
  std::vector<GroupTeam*> active_;
  std::vector<GroupTeam*> leading_;  // those in which this process multicasts to other nodes
  uint64_t due_ = UINT64_MAX;        // the first of their deadlines
  uint32_t timed_round_ = 0;         // of progress, at whose first datagram it was
  uint64_t round_time_ = 0;          // ... so late
  bool asleep_ = false;              // members have been told so
};

}  // namespace torii
