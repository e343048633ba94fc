// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The members of a group that are on several nodes, as one of them sees them. Those of a node share
// a segment, as a team of their own. The first of them, the node's leader, multicasts with the
// leaders of the other nodes. An operation is carried out by both, one after the other.
//
// The first member of all finds out who is where, draws the key of the multicast group, and tells
// everybody. So all members agree, whatever one of them cannot. The caller holds the interface's
// lock.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/collective/letter.h"
#include "core/collective/operation.h"
#include "core/collective/team.h"
#include "core/multicast/group_node.h"
#include "core/trust/key_pair.h"

namespace torii {

class GroupTeam;
struct TeamParts;

// TeamParts::multicast_min of a process that multicasts nothing; the most that the parameter can
// be.
inline constexpr uint64_t kMulticastNothing = 1 << 30;

class NodesTeam {
 public:
  // Its parts; the references stay valid.
  struct Members {
    const std::vector<Peer*>& all;  // in their order; this process is one of them
    uint32_t self;
    uint64_t number;  // of the group
    uint64_t order;   // made of them
  };

  NodesTeam(TeamParts& parts, team::Letters& letters, const Members& members);
  ~NodesTeam();
  NodesTeam(const NodesTeam&) = delete;

  // Why this process cannot be of a group on several nodes, as far as it knows by itself; else
  // empty.
  std::string why_not() const;

  // Setting up: of the first member from the beginning, of others when they are called to it.
  void begin_setup();
  // `pending`, or how it ended, the same at all members: `ok`, `unsupported` with reason(), or that
  // culprit() is gone.
  Status set_up();
  const std::string& reason() const { return reason_; }

  // Depends only on what is the same at all members.
  bool serves(const CollectiveCall& call) const;
  // Begins an operation, after the one before; its data stays until it is over.
  void begin(const CollectiveCall& call);
  // `pending`, or how it ended. After an error no operation is carried out.
  Status advance(uint64_t now);
  const CollectiveCall& call() const { return call_; }

  // The member that an error is about, by its index; none: team::Team::kNobody.
  uint32_t culprit() const { return culprit_; }
  Status failure() const { return failure_; }
  void on_peer_down(uint32_t member, Status why, uint64_t now);

  // The members of this node; null: there is no other one, or it was not set up.
  GroupTeam* node_team() const { return node_team_.get(); }
  // A leader has one once all have joined; else null.
  multicast::GroupNode* group_node() const { return group_node_.get(); }
  // Does what is due; once it returns true there is something to tell the members of this node.
  bool poll(uint64_t now);

  // Nothing is begun any more.
  void close(uint64_t now);
  bool ended(uint64_t now);
  // The operations that were begun are over at all nodes, as far as this one has a part in them.
  // Nobody is waited for once one of them is gone.
  bool settled() const;

  // For reports: "by multicast (udp) between 4 nodes: bcast".
  std::string describe() const;

 private:
  enum class Stage : uint8_t { reports, plan, node, answers, verdict, over };

  // A part of an operation, of this node's members or between the leaders.
  struct Step {
    bool between = false;
    bool begun = false;
    CollectiveCall inside;
    multicast::Call outside;
  };

  // nodes_setup.cc
  bool first() const { return self_ == 0; }
  uint32_t find_home() const;
  Peer* other_node_peer() const;
  void call_roll();
  team::Report own_report() const;  // without a key
  void report();
  Status take_reports();
  std::string check_reports(uint32_t* about);
  Status make_plan();
  Status take_plan();
  bool unseal_key(const team::Plan& plan);
  void adopt(const team::Plan& plan);
  uint32_t index_of(const Peer* peer) const;
  Status set_up_node();
  std::string join();
  Status take_answers();
  Status take_verdict();
  Status tell_all(team::LetterKind kind, Status status, uint32_t about);
  Status end_setup(Status status, uint32_t about, std::string why);
  team::Letter letter(team::LetterKind kind, Status status, uint32_t about = 0) const;

  // nodes_team.cc
  bool leads() const { return node_self_ == 0; }
  bool alone() const { return node_members_.size() == 1; }
  uint32_t nodes() const { return uint32_t(leaders_.size()); }
  void inside(Collective what, uint32_t root, const CollectiveCall& like);
  void outside(multicast::What what, uint32_t root, std::byte* at, uint64_t bytes);
  void plan_bcast();
  void plan_reduction();
  void plan_allgather();
  bool stage_data();
  void end_call();
  Status go_on(uint64_t now);
  Status go_on_between(Step& step, uint64_t now);
  Status go_on_inside(Step& step, uint64_t limit);
  Status fail(Status why, uint32_t culprit);
  void learn_of_failure();

  TeamParts& parts_;
  team::Letters& letters_;
  const std::vector<Peer*>& members_;
  const uint32_t self_;
  const uint64_t number_;
  const uint64_t order_;

  // Setting up.
  Stage stage_ = Stage::reports;
  Status outcome_ = Status::pending;
  std::string reason_;
  uint32_t home_ = 0;  // the leader of this node, a member
  uint8_t rail_ = 0;   // index of the driver that reaches the other nodes
  std::unique_ptr<KeyPair> keys_;
  std::vector<team::Report> reports_;  // of the first member
  SecretKey key_{};                    // of the group
  std::string mine_;                   // why this node cannot take part

  // The plan on which all agree.
  std::vector<uint16_t> node_of_;  // by member
  std::vector<uint32_t> leaders_;  // by node: a member
  std::vector<uint32_t> place_;    // by member: among those of its node
  bool in_blocks_ = true;          // the members of each node follow each other
  bool even_ = true;               // each node has as many
  size_t frame_ = 0;
  bool scarce_ = false;   // some have to share their processors
  uint64_t least_ = 0;    // of the plan: 0: all that can be served is
  bool several_ = false;  // the nodes have two members each or more, on average

  // This node.
  uint32_t node_ = 0;
  uint32_t node_self_ = 0;
  std::vector<Peer*> node_members_;
  std::unique_ptr<GroupTeam> node_team_;
  std::unique_ptr<multicast::GroupNode> group_node_;
  bool started_ = false;

  // The operation.
  CollectiveCall call_;
  std::array<Step, 3> steps_;
  uint32_t step_count_ = 0;
  uint32_t step_ = 0;
  bool passes_on_ = false;       // what has arrived between nodes goes on into this one at once
  std::byte* staged_ = nullptr;  // its data in one piece, of a leader; owned
  std::array<std::byte, multicast::kSmallMax> small_;

  Status failure_ = Status::ok;
  uint32_t culprit_ = team::Team::kNobody;
  uint32_t closed_ = team::Team::kNobody;  // a leader that is gone
  uint64_t closed_at_ = 0;
};

}  // namespace torii
