// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/collective/nodes_team.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/collective/group_team.h"

namespace torii {

using multicast::What;
using team::Team;

namespace {

// Something may still come from others after a process has closed its interface.
constexpr uint64_t kClosedNs = 1'000'000'000;

// A signal of one byte, of which nobody uses the value.
void keep_any(void*, const void*, void*, uint64_t) {}

}  // namespace

NodesTeam::~NodesTeam() { parts_.protocol.buffers().put(staged_); }

// --- operations -------------------------------------------------------------------------------

bool NodesTeam::serves(const CollectiveCall& call) const {
  if (call.root >= members_.size()) return false;
  // Where nodes have several members, their leaders alone need fewer messages; but a reduction to
  // one member takes its messages while the next operation begins.
  const bool most = several_ || least_ == 0;
  switch (call.what) {
    case Collective::bcast:
      return several_ || call.bytes >= least_;
    case Collective::barrier:
      return most;
    case Collective::reduce:
      return least_ == 0 && in_blocks_ && call.bytes <= multicast::kSmallMax;
    case Collective::allreduce:
      return most && in_blocks_ && call.bytes <= multicast::kSmallMax;
    case Collective::allgather:
      return most && in_blocks_ && even_;
    default:
      return false;
  }
}

// The next step: what the members of this node do, if there are several.
void NodesTeam::inside(Collective what, uint32_t root, const CollectiveCall& like) {
  if (alone()) return;
  Step& step = steps_[step_count_++];
  step.between = step.begun = false;
  step.inside = like;
  step.inside.what = what;
  step.inside.root = root;
}

// The next step: what the leaders do.
void NodesTeam::outside(What what, uint32_t root, std::byte* at, uint64_t bytes) {
  if (!leads()) return;
  Step& step = steps_[step_count_++];
  step.between = true;
  step.begun = false;
  step.outside = {};
  step.outside.what = what;
  step.outside.root = root;
  step.outside.bytes = bytes;
  step.outside.in = at;
  step.outside.out = at;
  step.outside.reduction.combine = call_.reduction.combine;
  step.outside.reduction.context = call_.reduction.context;
}

void NodesTeam::begin(const CollectiveCall& call) {
  call_ = call;
  step_count_ = 0;
  step_ = 0;
  passes_on_ = false;
  if (failure_ != Status::ok) return;
  if (call.lacks_memory) {
    (void)fail(Status::no_memory, self_);
    return;
  }
  CollectiveCall signal;
  signal.bytes = 1;
  signal.out = small_.data();
  signal.reduction.combine = keep_any;
  switch (call.what) {
    case Collective::barrier:
      inside(Collective::reduce, 0, signal);
      outside(What::barrier, 0, nullptr, 0);
      signal.data = Data(small_.data(), 1);
      inside(Collective::bcast, 0, signal);
      break;
    case Collective::bcast:
      plan_bcast();
      break;
    case Collective::reduce:
    case Collective::allreduce:
      plan_reduction();
      break;
    case Collective::allgather:
      plan_allgather();
      break;
    case Collective::alltoall:
      break;
  }
}

// Gives a leader the data of a broadcast in one piece. False: there is no memory for it.
bool NodesTeam::stage_data() {
  if (!leads() || call_.data.contiguous()) return true;
  staged_ = parts_.protocol.buffers().get(call_.bytes);
  if (!staged_) return false;
  if (self_ == call_.root) call_.data.copy_out(0, staged_, call_.bytes);
  return true;
}

// In the root's node its leader may have to get the data first.
void NodesTeam::plan_bcast() {
  if (!stage_data()) {
    (void)fail(Status::no_memory, self_);
    return;
  }
  CollectiveCall here = call_;
  if (staged_) here.data = Data(staged_, call_.bytes);
  std::byte* const at = leads() ? here.data.at(0) : nullptr;
  const uint32_t node = node_of_[call_.root];
  const bool from_here = node == node_, from_leader = place_[call_.root] == 0;
  if (!from_here || from_leader) outside(What::bcast, node, at, call_.bytes);
  inside(Collective::bcast, from_here ? place_[call_.root] : 0, here);
  passes_on_ = !from_here && leads() && !alone();
  if (from_here && !from_leader) outside(What::bcast, node, at, call_.bytes);
}

// In the order of ranks, because the members of a node follow each other, and nodes are numbered in
// the order of their leaders.
void NodesTeam::plan_reduction() {
  const bool to_all = call_.what == Collective::allreduce;
  const bool keeps = to_all || self_ == call_.root;
  std::byte* const result = keeps ? call_.out : small_.data();
  CollectiveCall here = call_;
  if (!here.in) here.in = call_.out;
  here.out = result;
  if (alone() && here.in != result) copy_bytes(result, here.in, call_.bytes);
  inside(Collective::reduce, 0, here);
  outside(What::allreduce, 0, result, call_.bytes);
  here.data = Data(result, call_.bytes);
  const bool root_is_here = node_of_[call_.root] == node_ && place_[call_.root] != 0;
  if (to_all || root_is_here) inside(Collective::bcast, 0, here);
}

void NodesTeam::plan_allgather() {
  const uint64_t members = node_members_.size(), part = call_.bytes;
  std::byte* const own = call_.out + self_ * part;
  std::byte* const of_node = call_.out + leaders_[node_] * part;
  CollectiveCall here = call_;
  if (!here.in) here.in = own;
  here.out = of_node;
  if (alone() && here.in != own) copy_bytes(own, here.in, part);
  inside(Collective::allgather, 0, here);
  outside(What::allgather, 0, of_node, members * part);
  if (leads()) steps_[step_count_ - 1].outside.out = call_.out;
  here.bytes = members_.size() * part;
  here.data = Data(call_.out, here.bytes);
  inside(Collective::bcast, 0, here);
}

Status NodesTeam::advance(uint64_t now) {
  const Status status = go_on(now);
  if (status != Status::pending) end_call();
  return status;
}

void NodesTeam::end_call() {
  if (!staged_) return;
  if (failure_ == Status::ok && self_ != call_.root) call_.data.copy_in(0, staged_, call_.bytes);
  parts_.protocol.buffers().put(staged_);
  staged_ = nullptr;
}

Status NodesTeam::go_on(uint64_t now) {
  while (failure_ == Status::ok && step_ < step_count_) {
    Step& step = steps_[step_];
    const Status status =
        step.between ? go_on_between(step, now) : go_on_inside(step, step.inside.bytes);
    if (status == Status::pending && step.between && passes_on_)
      (void)go_on_inside(steps_[step_ + 1], group_node_->member().arrived());
    if (status == Status::pending) return failure_ == Status::ok ? status : failure_;
    ++step_;
  }
  return failure_;
}

Status NodesTeam::go_on_between(Step& step, uint64_t now) {
  multicast::Member& member = group_node_->member();
  const Status status = step.begun ? member.status() : member.begin(step.outside, now);
  step.begun = true;
  if (status == Status::pending && closed_ != Team::kNobody && now >= closed_at_ + kClosedNs)
    return fail(Status::peer_closed, closed_);
  if (status != Status::pending && status != Status::ok) learn_of_failure();
  return status;
}

// `limit`: bytes that a broadcast from here may take.
Status NodesTeam::go_on_inside(Step& step, uint64_t limit) {
  Team& inside = node_team_->team;
  if (!step.begun) inside.begin(step.inside);
  step.begun = true;
  inside.limit(limit);
  const Status status = inside.advance();
  if (status != Status::pending && status != Status::ok) {
    const Peer* const peer = node_team_->culprit();
    (void)fail(status, peer ? index_of(peer) : inside.culprit());
  }
  return status;
}

// --- failure ----------------------------------------------------------------------------------

// Everybody hears of it who may wait for this member.
Status NodesTeam::fail(Status why, uint32_t culprit) {
  if (failure_ != Status::ok) return failure_;
  failure_ = why;
  culprit_ = culprit < members_.size() && culprit != self_ ? culprit : Team::kNobody;
  if (why == Status::peer_dead && culprit_ != Team::kNobody &&
      members_[culprit_]->state == PeerState::up)
    TORII_ERROR(
        "%s died, other members of a group say; its collective operations end with an error",
        parts_.protocol.describe(*members_[culprit_]).c_str());
  if (node_team_) node_team_->team.break_off(why, culprit);
  if (group_node_ && started_) {
    const uint32_t node = culprit < members_.size() ? node_of_[culprit] : node_;
    group_node_->member().give_up(why, node, culprit);
  }
  return why;
}

// The failure that leaders of other nodes have found out.
void NodesTeam::learn_of_failure() {
  const multicast::Member& member = group_node_->member();
  const uint32_t detail =
      member.failure() == Status::invalid ? Team::kNobody : member.failed_detail();
  (void)fail(member.failure(), detail);
}

void NodesTeam::on_peer_down(uint32_t member, Status why, uint64_t now) {
  if (node_team_) node_team_->on_peer_down(*members_[member], why);
  if (why == Status::peer_dead) {
    (void)fail(why, member);
  } else if (place_[member] == 0 && node_of_[member] != node_ && closed_ == Team::kNobody) {
    closed_ = member;
    closed_at_ = now;
  }
}

bool NodesTeam::poll(uint64_t now) {
  if (!group_node_ || !started_) return false;
  group_node_->poll(now);
  if (group_node_->member().failure() == Status::ok || failure_ != Status::ok) return false;
  learn_of_failure();
  return true;
}

void NodesTeam::close(uint64_t now) {
  if (node_team_) node_team_->close();
  if (group_node_ && started_) group_node_->member().close(now);
}

bool NodesTeam::ended(uint64_t now) {
  if (group_node_ && (!started_ || group_node_->member().state(now) == multicast::State::gone))
    group_node_.reset();
  return (!node_team_ || node_team_->ended()) && !group_node_;
}

bool NodesTeam::settled() const {
  return !group_node_ || !started_ || closed_ != Team::kNobody || group_node_->member().settled();
}

std::string NodesTeam::describe() const {
  std::string text = format_text("between %u nodes ", nodes());
  if (group_node_) text += path_text(group_node_->member().outgoing().path());
  if (!group_node_) text += "by its leader";
  text += " (" + parts_.protocol.driver_name(rail_) + "): ";
  if (least_ == 1 && !several_) {
    text += "bcast";
  } else if (least_ > 0 && !several_) {
    text += format_text("bcast of at least %llu bytes", static_cast<unsigned long long>(least_));
  } else {
    text += "barrier, bcast";
    if (in_blocks_) text += least_ > 0 ? ", short allreduce" : ", short reduce and allreduce";
    if (in_blocks_ && even_) text += ", allgather";
  }
  if (alone()) return text;
  return text +
         format_text("; inside this one by memory that %zu members share", node_members_.size());
}

}  // namespace torii
