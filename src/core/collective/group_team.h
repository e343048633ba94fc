// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the members of a group become a team. The first one in their order, the leader, makes the
// segment and sends its key to the others. Each of them maps it and answers; the leader tells all
// whether all have. So all members agree, whatever one of them cannot, and a member that has
// switched collectives off only has to say no. If the leader does not share memory with all, it
// calls them to a team of several nodes instead (nodes_team.h). The caller holds the interface's
// lock.
#pragma once

#include <atomic>
#include <bit>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/collective/letter.h"
#include "core/collective/nodes_team.h"
#include "core/collective/team.h"
#include "core/memory/allocations.h"
#include "core/memory/imports.h"
#include "core/multicast/group.h"
#include "core/tport/ports.h"

namespace torii {

// The parts of the interface that groups need.
struct TeamParts {
  Protocol& protocol;
  Ports& ports;
  Allocations& allocations;
  Exports& exports;
  Imports& imports;
  Counters& counters;
  bool scarce;                       // the node has more processes than processors
  uint64_t multicast_min;            // as in NiConfig
  uint64_t (*clock)(void* context);  // monotonic nanoseconds
  void* clock_context;
  const std::atomic<uint32_t>& rounds;  // of progress

  uint64_t now() const { return clock(clock_context); }
};

// Can memory be shared with it, as far as its driver tells?
bool may_share(const Peer& peer);
// Can a group with it be prepared, as far as its driver tells?
bool may_join(const Peer& peer);
// A number made of the members and their order, the same at all of them.
uint64_t order_of(std::span<Peer* const> members);

class GroupTeam {
 public:
  enum class State : uint8_t { setting_up, ready, refused, failed };

  GroupTeam(TeamParts& parts, const Group& group);
  // The members of one node of a group on several, which share memory or are no team.
  GroupTeam(TeamParts& parts, uint64_t tag, const std::vector<Peer*>& members, uint32_t self);
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
  Peer* culprit() const;
  Status failure() const { return failure_ == Status::ok && nodes_ ? nodes_->failure() : failure_; }
  uint32_t size() const { return uint32_t(members_.size()); }

  // As the functions of Team and NodesTeam; one of the two carries operations out.
  bool serves(const CollectiveCall& call) const;
  void begin(const CollectiveCall& call) { nodes_ ? nodes_->begin(call) : team.begin(call); }
  Status advance() { return nodes_ ? nodes_->advance(parts_.now()) : team.advance(); }
  const CollectiveCall& call() const { return nodes_ ? nodes_->call() : team.call(); }
  void set_asleep(bool asleep);
  // Calls wake(peer) for each member of this node that sleeps and has something to do now.
  template <typename Wake>
  void wake_sleepers(Wake wake);
  // Null: the members are on one node.
  NodesTeam* nodes() const { return nodes_.get(); }

  team::Team team;                     // of members on one node
  std::deque<CollectiveCall> waiting;  // behind the one that the team carries out
  bool running = false;                // the team carries one out
  bool listed = false;                 // among those that are under way

  torii_done_t setup_done = nullptr;
  void* setup_arg = nullptr;

 private:
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
  void receive(uint32_t from) { letters_.receive(from, *members_[from], kExportKeyMax); }
  GroupTeam* node_team() { return nodes_ ? nodes_->node_team() : this; }
  std::unique_ptr<NodesTeam> make_nodes();

  TeamParts& parts_;
  uint64_t number_;             // of the group
  std::vector<Peer*> members_;  // in their order; this process is one of them
  uint32_t self_ = 0;
  uint64_t order_ = 0;     // made of them
  bool one_node_ = false;  // never several
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
  team::Letters letters_;
  std::unique_ptr<NodesTeam> nodes_;
};

template <typename Wake>
void GroupTeam::wake_sleepers(Wake wake) {
  GroupTeam* const here = node_team();
  if (!here) return;
  const auto words = here->team.take_sleepers();
  for (uint32_t word = 0; word < words.size(); ++word)
    for (uint64_t bits = words[word]; bits; bits &= bits - 1) {
      const uint32_t index = word * 64 + uint32_t(std::countr_zero(bits));
      if (index < here->members_.size() && index != here->self_) wake(*here->members_[index]);
    }
}

}  // namespace torii
