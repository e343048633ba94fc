// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the members of a group become a team. The first one in their order, the leader, makes the
// segment and sends its key to the others. Each of them maps it and answers; the leader tells all
// whether all have. So all members agree, whatever one of them cannot, and a member that has
// switched collectives off only has to say no. The caller holds the interface's lock.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/collective/letter.h"
#include "core/collective/team.h"
#include "core/memory/allocations.h"
#include "core/memory/imports.h"
#include "core/multicast/group.h"
#include "core/tport/ports.h"

namespace torii {

// What groups need of the interface.
struct TeamParts {
  Protocol& protocol;
  Ports& ports;
  Allocations& allocations;
  Exports& exports;
  Imports& imports;
  bool scarce;  // the node has more processes than processors
};

// Can memory be shared with it, as far as its driver tells?
bool may_share(const Peer& peer);

class GroupTeam {
 public:
  enum class State : uint8_t { setting_up, ready, refused, failed };

  GroupTeam(TeamParts& parts, const Group& group);
  ~GroupTeam();
  GroupTeam(const GroupTeam&) = delete;

  // Begins; `ok`, or what end_setup() would say.
  Status begin_setup(torii_done_t done, void* arg);
  // Goes on: `pending`, or how it ended, the same at all members: `ok`, `unsupported`, or that a
  // member is gone.
  Status set_up();
  State state() const { return state_; }
  // For reports.
  const std::string& reason() const { return reason_; }

  // Nothing is begun any more. True: nothing keeps it alive either.
  void close();
  bool ended();

  void on_peer_down(Peer& peer, Status why);
  // The member whose end fails operations, and how it ended; null: none.
  Peer* culprit() const { return culprit_; }
  Status failure() const { return failure_; }
  Peer* member(uint32_t index) const {
    return index < members_.size() && index != self_ ? members_[index] : nullptr;
  }
  uint32_t size() const { return uint32_t(members_.size()); }

  team::Team team;
  std::deque<CollectiveCall> waiting;  // behind the one that the team carries out
  bool running = false;                // the team carries one out
  bool listed = false;                 // among those that are under way

  torii_done_t setup_done = nullptr;
  void* setup_arg = nullptr;

 private:
  // A message that is sent or received.
  struct Post {
    torii_flag_t flag{};
    team::LetterBytes bytes;
  };

  bool leads() const { return self_ == 0; }
  Status refuse(std::string why);
  Status lose(Peer& peer, Status why);
  std::string why_not() const;
  std::string make_segment(team::Letter* offer);
  Status lead();
  Status decide(Status status, uint32_t member);
  Status follow();
  std::string map(const team::Letter& offer);
  Status become_ready();
  void send(Peer& peer, const team::Letter& letter);
  void receive(uint32_t from);
  bool arrived(uint32_t from) const;
  bool read(uint32_t from, team::LetterKind kind, team::Letter* out) const;

  TeamParts& parts_;
  uint64_t number_;             // of the group
  std::vector<Peer*> members_;  // in their order; this process is one of them
  uint32_t self_ = 0;
  uint64_t order_ = 0;  // made of them
  State state_ = State::setting_up;
  bool mapped_ = false;  // of one that follows: it has answered
  bool scarce_ = false;
  std::string reason_;
  Peer* culprit_ = nullptr;
  Status failure_ = Status::ok;

  void* memory_ = nullptr;  // of the leader
  Export* export_ = nullptr;
  Import* import_ = nullptr;  // of the others
  std::byte* base_ = nullptr;
  std::vector<std::unique_ptr<Post>> received_;  // by member
  std::vector<std::unique_ptr<Post>> sent_;
};

}  // namespace torii
