// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How the members of a group on several nodes agree: who leads which node, the key of the multicast
// group, and whether all can take part.
#include <sys/random.h>

#include <algorithm>
#include <functional>

#include "core/base/fnv.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/collective/group_team.h"
#include "core/collective/nodes_team.h"

namespace torii {

using multicast::GroupNode;
using team::Letter;
using team::LetterKind;

namespace {

constexpr const char* kKeyPurpose = "torii multicast group";

void mix_with(const SecretKey& pad, SecretKey* key) {
  for (size_t i = 0; i < key->size(); ++i) (*key)[i] ^= pad[i];
}

}  // namespace

NodesTeam::NodesTeam(TeamParts& parts, team::Letters& letters, const Members& members)
    : parts_(parts),
      letters_(letters),
      members_(members.all),
      self_(members.self),
      number_(members.number),
      order_(members.order) {}

// The first member that this process shares memory with; itself, if there is none before it.
uint32_t NodesTeam::find_home() const {
  uint32_t i = 0;
  while (i != self_ && !may_share(*members_[i])) ++i;
  return i;
}

Peer* NodesTeam::other_node_peer() const {
  for (uint32_t i = 0; i < members_.size(); ++i)
    if (i != self_ && !may_share(*members_[i])) return members_[i];
  return nullptr;
}

std::string NodesTeam::why_not() const {
  if (!params().collectives) return "TORII_COLLECTIVES=off";
  if (parts_.multicast_min >= kMulticastNothing) return "TORII_MULTICAST_MIN=1g";
  if (members_.size() > team::kMembersOfNodesMax)
    return format_text("there are %zu members, groups on several nodes have at most %u",
                       members_.size(), team::kMembersOfNodesMax);
  const Peer* const other = other_node_peer();
  if (!other) return "all members share memory with this process, but not with the first one";
  const std::string& driver = parts_.protocol.driver_name(other->rail);
  if (GroupNode::frame_of(parts_.protocol, other->rail) == 0)
    return "driver " + driver + " has no multicast, or its frames are too short for it";
  for (uint32_t i = 0; i < members_.size(); ++i)
    if (i != self_ && !may_share(*members_[i]) && members_[i]->driver != other->driver)
      return format_text("members on other nodes are reached by %s and by %s", driver.c_str(),
                         parts_.protocol.driver_name(members_[i]->rail).c_str());
  return {};
}

Letter NodesTeam::letter(LetterKind kind, Status status, uint32_t about) const {
  Letter out;
  out.kind = kind;
  out.status = status;
  out.member = about;
  out.order = order_;
  return out;
}

Status NodesTeam::tell_all(LetterKind kind, Status status, uint32_t about) {
  for (uint32_t i = 1; i < members_.size(); ++i)
    if (members_[i]->state == PeerState::up)
      letters_.send(*members_[i], letter(kind, status, about));
  return status;
}

// Home and driver are found once. When a member dies later, the set-up goes on by the plan of all,
// and ends with that death.
void NodesTeam::begin_setup() {
  home_ = find_home();
  if (const Peer* const other = other_node_peer()) rail_ = other->rail;
  if (first()) {
    call_roll();
  } else {
    report();
  }
}

void NodesTeam::call_roll() {
  stage_ = Stage::reports;
  keys_ = KeyPair::draw(&mine_);
  (void)tell_all(LetterKind::roll_call, Status::ok, 0);
  for (uint32_t i = 1; i < members_.size(); ++i)
    letters_.receive(i, *members_[i], team::kReportBytes);
}

team::Report NodesTeam::own_report() const {
  team::Report own;
  own.home = home_;
  own.least = parts_.multicast_min;
  if (!mine_.empty()) return own;
  own.frame = uint32_t(GroupNode::frame_of(parts_.protocol, rail_));
  own.driver = fnv1a(parts_.protocol.driver_name(rail_));
  own.network = GroupNode::network_of(parts_.protocol, rail_);
  return own;
}

void NodesTeam::report() {
  stage_ = Stage::plan;
  mine_ = why_not();
  team::Report own = own_report();
  if (mine_.empty() && own.home == self_ && (keys_ = KeyPair::draw(&mine_))) own.key = keys_->own();
  const std::vector<std::byte> body = team::write_report(own);
  Letter out = letter(LetterKind::report, mine_.empty() ? Status::ok : Status::unsupported);
  out.scarce = parts_.scarce;
  out.body = body;
  letters_.receive(0, *members_[0], team::kBodyMax);
  letters_.send(*members_[0], out);
}

// Goes on as far as letters have come.
Status NodesTeam::set_up() {
  for (;;) {
    const Stage before = stage_;
    Status status = Status::pending;
    switch (stage_) {
      case Stage::reports:
        status = take_reports();
        break;
      case Stage::plan:
        status = take_plan();
        break;
      case Stage::node:
        status = set_up_node();
        break;
      case Stage::answers:
        status = take_answers();
        break;
      case Stage::verdict:
        status = take_verdict();
        break;
      case Stage::over:
        return outcome_;
    }
    if (status != Status::pending || stage_ == before) return status;
  }
}

Status NodesTeam::end_setup(Status status, uint32_t about, std::string why) {
  stage_ = Stage::over;
  outcome_ = status;
  reason_ = std::move(why);
  key_ = {};
  keys_.reset();
  const uint64_t now = parts_.now();
  if (status == Status::ok) {
    started_ = true;
    if (group_node_) group_node_->start(now);
    for (uint32_t i = 0; i < members_.size(); ++i)
      if (i != self_ && members_[i]->state != PeerState::up)
        on_peer_down(i, Protocol::down_status(*members_[i]), now);
    return status;
  }
  group_node_.reset();
  if (status == Status::unsupported) return status;
  failure_ = status;
  culprit_ = about;
  reason_ = parts_.protocol.describe(*members_[about]) + ": " + status_text(status);
  return status;
}

// --- the first member -------------------------------------------------------------------------

Status NodesTeam::take_reports() {
  for (uint32_t i = 1; i < members_.size(); ++i)
    if (!letters_.arrived(i)) return Status::pending;
  for (uint32_t i = 1; i < members_.size(); ++i) {
    if (letters_.came(i) || members_[i]->state == PeerState::up) continue;
    return end_setup(tell_all(LetterKind::plan, Protocol::down_status(*members_[i]), i), i, "");
  }
  uint32_t about = 0;
  std::string why = check_reports(&about);
  if (!why.empty())
    return end_setup(tell_all(LetterKind::plan, Status::unsupported, about), about, std::move(why));
  return make_plan();
}

// Empty, or what is in the way, and at whom.
std::string NodesTeam::check_reports(uint32_t* about) {
  if (!mine_.empty()) return mine_;
  reports_.assign(members_.size(), {});
  reports_[0] = own_report();
  scarce_ = parts_.scarce;
  bool one_network = reports_[0].network != 0;
  std::vector<uint32_t> sizes(members_.size());
  uint64_t least = 0;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    team::Report& report = reports_[i];
    Letter said;
    *about = i;
    if (i > 0 && (!letters_.read(i, LetterKind::report, &said) || said.status != Status::ok ||
                  !team::read_report(said.body, &report)))
      return parts_.protocol.describe(*members_[i]) + " cannot take part";
    scarce_ |= said.scarce;
    if (said.order != (i > 0 ? order_ : 0)) return "the members are in another order there";
    if (report.home > i || reports_[report.home].home != report.home)
      return parts_.protocol.describe(*members_[i]) + " shares memory with only some of its node";
    if (++sizes[report.home] > team::kMembersMax)
      return format_text("there are more than %u members on a node", team::kMembersMax);
    if (report.home == i && (report.driver != reports_[0].driver || report.frame == 0))
      return parts_.protocol.describe(*members_[i]) + " is not reached by " +
             parts_.protocol.driver_name(rail_) + " from all nodes";
    least = std::max(least, report.least);
    one_network = one_network && (report.home != i || report.network == reports_[0].network);
  }
  *about = 0;
  if (one_network) return "no message leaves the machine, so that multicast saves nothing";
  if (members_.size() == 2 && least > 0) return "a message to the only other member does as well";
  return {};
}

Status NodesTeam::make_plan() {
  team::Plan plan;
  plan.frame = reports_[0].frame;
  plan.key = keys_->own();
  std::vector<SecretKey> sealed(members_.size());
  if (getrandom(key_.data(), key_.size(), 0) != ssize_t(key_.size()))
    return end_setup(tell_all(LetterKind::plan, Status::unsupported, 0), 0,
                     "getrandom failed; allow it in the seccomp profile");
  for (uint32_t i = 0; i < members_.size(); ++i) {
    const team::Report& report = reports_[i];
    plan.homes.push_back(uint16_t(report.home));
    plan.least = std::max(plan.least, report.least);
    if (report.home != i || i == 0) continue;
    plan.frame = std::min(plan.frame, report.frame);
    PairKeys pair;
    if (!keys_->agree(report.key, kKeyPurpose, &pair))
      return end_setup(
          tell_all(LetterKind::plan, Status::unsupported, i), i,
          parts_.protocol.describe(*members_[i]) + " has no public key, or one of another curve");
    sealed[i] = key_;
    mix_with(pair.to, &sealed[i]);
  }
  for (uint32_t i = 1; i < members_.size(); ++i) {
    plan.sealed = sealed[i];
    const std::vector<std::byte> body = team::write_plan(plan);
    Letter out = letter(LetterKind::plan, Status::ok);
    out.scarce = scarce_;
    out.body = body;
    if (members_[i]->state == PeerState::up) letters_.send(*members_[i], out);
  }
  reports_.clear();
  adopt(plan);
  return Status::pending;
}

// The leaders of the other nodes have to answer.
Status NodesTeam::take_answers() {
  for (uint32_t node = 1; node < nodes(); ++node)
    if (!letters_.arrived(leaders_[node])) return Status::pending;
  Status verdict = mine_.empty() ? Status::ok : Status::unsupported;
  uint32_t about = 0;
  std::string why = mine_;
  if (node_team_ && node_team_->state() == GroupTeam::State::failed) {
    verdict = node_team_->failure();
    about = index_of(node_team_->culprit());
  }
  for (uint32_t node = 1; node < nodes() && verdict == Status::ok; ++node) {
    const uint32_t leader = leaders_[node];
    Letter answer;
    about = leader;
    if (letters_.read(leader, LetterKind::answer, &answer)) {
      verdict = answer.status;
      if (verdict != Status::ok && answer.member < members_.size()) about = answer.member;
    } else {
      verdict = members_[leader]->state == PeerState::up ? Status::unsupported
                                                         : Protocol::down_status(*members_[leader]);
    }
    if (verdict == Status::unsupported)
      why = parts_.protocol.describe(*members_[about]) + " cannot take part";
  }
  return end_setup(tell_all(LetterKind::verdict, verdict, about), about, std::move(why));
}

// --- the others -------------------------------------------------------------------------------

Status NodesTeam::take_plan() {
  if (!letters_.arrived(0)) return Status::pending;
  if (!letters_.came(0) && members_[0]->state != PeerState::up)
    return end_setup(Protocol::down_status(*members_[0]), 0, "");
  Letter said;
  const bool read = letters_.read(0, LetterKind::plan, &said) && said.member < members_.size();
  if (read && said.status != Status::ok && said.status != Status::unsupported)
    return end_setup(said.status, said.member, "");
  team::Plan plan;
  if (!read || said.status != Status::ok || !mine_.empty())
    return end_setup(Status::unsupported, 0,
                     mine_.empty() ? "another member cannot take part" : mine_);
  if (!team::read_plan(said.body, members_.size(), &plan) || plan.homes[self_] != home_)
    return end_setup(Status::unsupported, 0, "the plan of the first member makes no sense");
  scarce_ = said.scarce;
  adopt(plan);
  if (leads() && !unseal_key(plan)) mine_ = "the key of the group cannot be read";
  return Status::pending;
}

bool NodesTeam::unseal_key(const team::Plan& plan) {
  PairKeys pair;
  if (!keys_->agree(plan.key, kKeyPurpose, &pair)) return false;
  key_ = plan.sealed;
  mix_with(pair.from, &key_);
  return true;
}

Status NodesTeam::take_verdict() {
  if (!letters_.arrived(0)) return Status::pending;
  if (!letters_.came(0) && members_[0]->state != PeerState::up)
    return end_setup(Protocol::down_status(*members_[0]), 0, "");
  Letter said;
  if (!letters_.read(0, LetterKind::verdict, &said) || said.member >= members_.size())
    return end_setup(Status::unsupported, 0, "the first member sent no verdict");
  if (said.status == Status::ok && !mine_.empty()) said.status = Status::unsupported;
  return end_setup(said.status, said.member,
                   mine_.empty() ? "another member cannot take part" : mine_);
}

// --- all --------------------------------------------------------------------------------------

uint32_t NodesTeam::index_of(const Peer* peer) const {
  const auto it = std::find(members_.begin(), members_.end(), peer);
  return it == members_.end() ? team::Team::kNobody : uint32_t(it - members_.begin());
}

void NodesTeam::adopt(const team::Plan& plan) {
  stage_ = Stage::node;
  frame_ = plan.frame;
  least_ = plan.least;
  std::vector<uint32_t> sizes;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    const uint32_t home = plan.homes[i];
    if (home == i) {
      leaders_.push_back(i);
      sizes.push_back(0);
    }
    const uint16_t node = home == i ? uint16_t(leaders_.size() - 1) : node_of_[home];
    in_blocks_ = in_blocks_ && (i == 0 || home == i || node == node_of_[i - 1]);
    node_of_.push_back(node);
    place_.push_back(sizes[node]++);
  }
  several_ = members_.size() >= 2 * leaders_.size();
  even_ = std::all_of(sizes.begin(), sizes.end(), [&](uint32_t n) { return n == sizes[0]; });
  node_ = node_of_[self_];
  node_self_ = place_[self_];
  for (uint32_t i = 0; i < members_.size(); ++i)
    if (node_of_[i] == node_) node_members_.push_back(members_[i]);
}

// The segment of this node first; then its leader joins.
Status NodesTeam::set_up_node() {
  if (!alone()) {
    Status status;
    if (!node_team_) {
      const uint64_t tag = number_ ^ (uint64_t{leaders_[node_]} + 1) * 0x9e3779b97f4a7c15u;
      node_team_ = std::make_unique<GroupTeam>(parts_, tag, node_members_, node_self_);
      status = node_team_->begin_setup(nullptr, nullptr);
    } else {
      status = node_team_->set_up();
    }
    if (status == Status::pending) return status;
    if (status != Status::ok) mine_ = node_team_->reason();
  }
  if (leads() && mine_.empty()) mine_ = join();
  if (first()) {
    for (uint32_t node = 1; node < nodes(); ++node)
      letters_.receive(leaders_[node], *members_[leaders_[node]], 0);
    stage_ = Stage::answers;
    return Status::pending;
  }
  letters_.receive(0, *members_[0], 0);
  if (leads()) {
    Letter answer =
        letter(LetterKind::answer, mine_.empty() ? Status::ok : Status::unsupported, self_);
    if (node_team_ && node_team_->state() == GroupTeam::State::failed) {
      answer.status = node_team_->failure();
      answer.member = index_of(node_team_->culprit());
    }
    letters_.send(*members_[0], answer);
  }
  stage_ = Stage::verdict;
  return Status::pending;
}

// Empty, or why not.
std::string NodesTeam::join() {
  if (frame_ < multicast::kLeastFrame || frame_ > GroupNode::frame_of(parts_.protocol, rail_))
    return format_text("the first member asks for frames of %zu bytes", frame_);
  GroupNode::Shape shape;
  shape.number = number_;
  shape.self = node_;
  for (const uint32_t leader : leaders_) shape.nodes.push_back(members_[leader]);
  shape.rail = rail_;
  shape.frame = frame_;
  shape.key = key_;
  shape.scarce = scarce_;
  std::string why;
  group_node_ = GroupNode::join(parts_.protocol, parts_.counters, shape, &why);
  return why;
}

}  // namespace torii
