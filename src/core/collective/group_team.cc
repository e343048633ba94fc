// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/collective/group_team.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/interfaces.h"

namespace torii {

using team::Letter;
using team::LetterKind;

namespace {

void ignore_end(void*, const torii_result_t*) {}

}  // namespace

// A peer that is gone counts as one that may: its end is to be told, not this.
bool may_share(const Peer& peer) {
  return peer.state != PeerState::up || (peer.driver && peer.driver->mapped_memory());
}

bool may_join(const Peer& peer) {
  return may_share(peer) ||
         (peer.driver && (peer.driver->lossy_groups() || peer.driver->caps().flags & kMulticast));
}

uint64_t order_of(std::span<Peer* const> members) {
  uint64_t hash = members.size();
  for (const Peer* peer : members) {
    hash = (hash ^ peer->id.job) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
    hash = (hash ^ (uint64_t{peer->id.rank} << 32 | peer->id.os_pid)) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

GroupTeam::GroupTeam(TeamParts& parts, const Group& group)
    : GroupTeam(parts, group.number, group.order, group.self) {
  one_node_ = false;
}

GroupTeam::GroupTeam(TeamParts& parts, uint64_t tag, const std::vector<Peer*>& members,
                     uint32_t self)
    : parts_(parts),
      number_(tag),
      members_(members),
      self_(self),
      order_(order_of(members)),
      one_node_(true),
      scarce_(parts.scarce),
      letters_(parts.ports, tag, members.size()) {}

GroupTeam::~GroupTeam() {
  if (import_) parts_.imports.end(import_);
}

// --- setting up -----------------------------------------------------------------------------

Status GroupTeam::begin_setup(torii_done_t done, void* arg) {
  setup_done = done;
  setup_arg = arg;
  state_ = State::setting_up;
  if (members_.size() < 2) return refuse("there is no other member");
  if (!leads()) {
    receive(0);
    return set_up();
  }
  if (const bool apart = !std::all_of(members_.begin() + 1, members_.end(),
                                      [](const Peer* peer) { return may_share(*peer); });
      apart && !one_node_) {
    auto nodes = make_nodes();
    reason_ = nodes->why_not();
    if (reason_.empty()) {
      nodes_ = std::move(nodes);
      nodes_->begin_setup();
      return set_up();
    }
  }
  Letter offer;
  offer.kind = LetterKind::offer;
  offer.order = order_;
  offer.scarce = scarce_;
  std::string why = reason_.empty() ? why_not() : reason_;
  if (why.empty()) why = make_segment(&offer);
  if (!why.empty()) offer.status = Status::unsupported;
  for (uint32_t i = 1; i < members_.size(); ++i) {
    letters_.send(*members_[i], offer);
    if (why.empty()) receive(i);
  }
  return why.empty() ? set_up() : refuse(std::move(why));
}

std::unique_ptr<NodesTeam> GroupTeam::make_nodes() {
  return std::make_unique<NodesTeam>(parts_, letters_,
                                     NodesTeam::Members{members_, self_, number_, order_});
}

Status GroupTeam::set_up() {
  if (!nodes_) return leads() ? lead() : follow();
  const Status status = nodes_->set_up();
  if (status == Status::pending) return status;
  if (status == Status::ok) {
    state_ = State::ready;
  } else if (status == Status::unsupported) {
    return refuse(nodes_->reason());
  } else {
    return lose(*members_[nodes_->culprit()], status);
  }
  return status;
}

Status GroupTeam::refuse(std::string why) {
  state_ = State::refused;
  reason_ = std::move(why);
  if (!import_) return Status::unsupported;
  parts_.imports.end(import_);
  import_ = nullptr;
  return Status::unsupported;
}

Status GroupTeam::lose(Peer& peer, Status why) {
  state_ = State::failed;
  culprit_ = &peer;
  failure_ = why;
  reason_ = parts_.protocol.describe(peer) + ": " + status_text(why);
  return why;
}

// The obstacle that this process knows by itself; empty: there is none.
std::string GroupTeam::why_not() const {
  if (!params().collectives) return "TORII_COLLECTIVES=off";
  if (members_.size() > team::kMembersMax)
    return format_text("there are %zu members, a node serves %u", members_.size(),
                       team::kMembersMax);
  for (uint32_t i = 0; i < members_.size(); ++i) {
    const Peer& peer = *members_[i];
    if (i != self_ && !may_share(peer))
      return parts_.protocol.describe(peer) + " shares no memory with this process";
  }
  return {};
}

// Empty, or why there is none.
std::string GroupTeam::make_segment(Letter* offer) {
  const auto count = uint32_t(members_.size());
  const uint64_t bytes = team::Segment::bytes(count, team::kRingBytes);
  if (parts_.allocations.alloc(bytes, team::kPageBytes, &memory_) != Status::ok) {
    memory_ = nullptr;
    return format_text("no memory for the segment of %zu bytes", size_t(bytes));
  }
  base_ = static_cast<std::byte*>(memory_);
  team::Segment(base_, count, team::kRingBytes).clear();
  const Status status = parts_.exports.make(base_, bytes, kMayRead | kMayWrite, number_, &export_);
  if (status != Status::ok) {
    export_ = nullptr;
    return std::string("the segment cannot be shared: ") + status_text(status);
  }
  offer->body = export_->key;
  return {};
}

// The leader waits until all have answered.
Status GroupTeam::lead() {
  for (uint32_t i = 1; i < members_.size(); ++i)
    if (!letters_.arrived(i)) return Status::pending;
  Status verdict = Status::ok;
  uint32_t about = 0;
  for (uint32_t i = 1; i < members_.size() && verdict == Status::ok; ++i) {
    Letter answer;
    const Status peer =
        members_[i]->state == PeerState::up ? Status::ok : Protocol::down_status(*members_[i]);
    verdict = peer != Status::ok                              ? peer
              : letters_.read(i, LetterKind::answer, &answer) ? answer.status
                                                              : Status::unsupported;
    about = i;
  }
  return decide(verdict, about);
}

Status GroupTeam::decide(Status status, uint32_t member) {
  Letter verdict;
  verdict.kind = LetterKind::verdict;
  verdict.order = order_;
  verdict.status = status;
  verdict.member = member;
  for (uint32_t i = 1; i < members_.size(); ++i)
    if (members_[i]->state == PeerState::up) letters_.send(*members_[i], verdict);
  if (status == Status::ok) return become_ready();
  if (status != Status::unsupported) return lose(*members_[member], status);
  return refuse(parts_.protocol.describe(*members_[member]) + " cannot take part");
}

Status GroupTeam::follow() {
  if (!letters_.arrived(0)) return Status::pending;
  if (members_[0]->state != PeerState::up && !letters_.came(0))
    return lose(*members_[0], Protocol::down_status(*members_[0]));
  Letter letter;
  if (!mapped_) {
    if (!one_node_ && letters_.read(0, LetterKind::roll_call, &letter)) {
      nodes_ = make_nodes();
      nodes_->begin_setup();
      return set_up();
    }
    if (!letters_.read(0, LetterKind::offer, &letter)) return refuse("the leader sent no offer");
    if (letter.status != Status::ok)
      return refuse("the first member can neither share memory with all nor multicast to them");
    scarce_ = letter.scarce;
    reason_ = map(letter);
    mapped_ = true;
    Letter answer;
    answer.kind = LetterKind::answer;
    answer.order = order_;
    answer.status = reason_.empty() ? Status::ok : Status::unsupported;
    receive(0);
    letters_.send(*members_[0], answer);
    return letters_.arrived(0) ? follow() : Status::pending;
  }
  if (!letters_.read(0, LetterKind::verdict, &letter)) return refuse("the leader sent no verdict");
  const bool known = letter.member < members_.size();
  if (letter.status == Status::ok && reason_.empty()) return become_ready();
  if (letter.status == Status::unsupported || !known)
    return refuse(reason_.empty() ? "another member cannot take part" : reason_);
  return lose(*members_[letter.member], letter.status);
}

// Empty, or why it is not mapped.
std::string GroupTeam::map(const Letter& offer) {
  const std::string why = why_not();
  if (!why.empty()) return why;
  if (offer.order != order_) return "the members are in another order at the leader";
  if (parts_.imports.make(*members_[0], offer.body, number_, &import_) != Status::ok) {
    import_ = nullptr;
    return "the leader's key makes no sense";
  }
  const uint64_t bytes = team::Segment::bytes(size(), team::kRingBytes);
  base_ = import_->direct(0, bytes, kMayRead);
  if (base_ && import_->direct(0, bytes, kMayWrite)) return {};
  base_ = nullptr;
  return "the leader's memory cannot be mapped";
}

Status GroupTeam::become_ready() {
  team.open(team::Segment(base_, size(), team::kRingBytes), size(), self_, scarce_);
  state_ = State::ready;
  for (uint32_t i = 0; i < members_.size(); ++i)
    if (i != self_ && members_[i]->state != PeerState::up)
      on_peer_down(*members_[i], Protocol::down_status(*members_[i]));
  return Status::ok;
}

// --- operations ---------------------------------------------------------------------------

bool GroupTeam::serves(const CollectiveCall& call) const {
  return nodes_ ? nodes_->serves(call) : !team.open() || team.serves(call);
}

void GroupTeam::set_asleep(bool asleep) {
  GroupTeam* const here = node_team();
  if (here && here->team.open()) here->team.set_asleep(asleep);
}

Peer* GroupTeam::culprit() const {
  if (culprit_ || !nodes_ || nodes_->culprit() >= members_.size()) return culprit_;
  return members_[nodes_->culprit()];
}

// --- the end --------------------------------------------------------------------------------

// After the leader's end its memory is not touched any more.
void GroupTeam::on_peer_down(Peer& peer, Status why) {
  const auto it = std::find(members_.begin(), members_.end(), &peer);
  if (it == members_.end() || state_ != State::ready) return;
  if (nodes_) return nodes_->on_peer_down(uint32_t(it - members_.begin()), why, parts_.now());
  const bool leader = it == members_.begin();
  if (!culprit_ || (failure_ == Status::peer_closed && why == Status::peer_dead)) {
    culprit_ = &peer;
    failure_ = why;
    team.fail(why);
  }
  if (leader) team.detach();
}

void GroupTeam::close() {
  if (nodes_) nodes_->close(parts_.now());
  if (!team.open()) return;
  team.leave();
  if (!leads()) team.detach();
}

bool GroupTeam::ended() {
  const bool nodes_ended = !nodes_ || nodes_->ended(parts_.now());
  if (!letters_.quiet() || !nodes_ended) return false;
  if (!leads()) return true;
  for (uint32_t i = 1; team.open() && i < members_.size(); ++i)
    if (members_[i]->state == PeerState::up && !team.has_left(i)) return false;
  if (export_) (void)parts_.exports.end(export_, ignore_end, nullptr);
  if (memory_) parts_.allocations.free(memory_);
  export_ = nullptr;
  memory_ = nullptr;
  return true;
}

}  // namespace torii
