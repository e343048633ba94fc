// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/collective/collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/pause.h"

namespace torii {

namespace {

// Polls before a call says `pending`, where each process has a processor: about the time that a
// line takes from one processor to another.
constexpr unsigned kFirstPolls = 64;

}  // namespace

Collectives::Collectives(const TeamParts& parts) : parts_(parts) {
  parts_.ports.set_datagrams(take_datagram, this);
}

// Memory that others may still read stays.
Collectives::~Collectives() = default;

Status Collectives::prepare(Group& group, torii_done_t done, void* arg) {
  sweep();
  if (group.self >= group.order.size()) return Status::invalid;
  if (!group.team) {
    teams_.push_back(std::make_unique<GroupTeam>(parts_, group));
    group.team = teams_.back().get();
    GroupTeam& team = *group.team;
    const Status status = team.begin_setup(done, arg);
    if (status == Status::pending) {
      list(team);
    } else {
      prepared(team);
    }
    return status;
  }
  switch (group.team->state()) {
    case GroupTeam::State::ready:
      return Status::ok;
    case GroupTeam::State::refused:
      return Status::unsupported;
    case GroupTeam::State::failed:
      return group.team->failure();
    default:
      return Status::invalid;
  }
}

Status Collectives::start(Group& group, const CollectiveCall& call) {
  GroupTeam* const team = group.team;
  if (!team || team->state() != GroupTeam::State::ready) return Status::unsupported;
  if (team->failure() == Status::peer_dead) return Status::peer_dead;
  if (!team->serves(call)) return Status::unsupported;
  const bool carried_out = team->nodes() || team->team.open();
  if (carried_out && call.bytes == 0 && call.what != Collective::barrier) return Status::ok;
  ++parts_.counters.collective_operations;
  if (team->running) {
    team->waiting.push_back(call);
    return Status::pending;
  }
  team->begin(call);
  Status status = team->advance();
  if (status == Status::pending && !parts_.scarce && !team->nodes()) {
    for (unsigned i = 0; i < kFirstPolls && status == Status::pending; ++i) {
      pause_briefly();
      status = team->advance();
    }
  }
  wake(*team);
  if (status != Status::pending) return status;
  team->running = true;
  list(*team);
  return status;
}

void Collectives::list(GroupTeam& team) {
  if (!std::exchange(team.listed, true)) active_.push_back(&team);
}

// Sends an empty frame to those who sleep and have something to do now.
void Collectives::wake(GroupTeam& team) {
  team.wake_sleepers([this](Peer& peer) { parts_.protocol.tell_joined(peer, kNoGroup, false); });
}

void Collectives::tell(GroupTeam& team, torii_done_t done, void* arg, Status status,
                       uint64_t bytes) {
  torii_result_t result{};
  result.code = code_of(status);
  result.bytes = status == Status::ok ? bytes : 0;
  if (status != Status::ok && status != Status::unsupported)
    result.source = reinterpret_cast<torii_peer_t*>(team.culprit());
  if (done == torii_flag) {
    torii_flag(arg, &result);
  } else {
    parts_.ports.completions().push(done, arg, result);
  }
}

// How many operations ended.
unsigned Collectives::advance(GroupTeam& team) {
  unsigned ended = 0;
  if (team.state() == GroupTeam::State::setting_up) {
    const Status status = team.set_up();
    if (status == Status::pending) return 0;
    prepared(team);
    tell(team, team.setup_done, team.setup_arg, status, 0);
    ++ended;
  }
  while (team.running) {
    const Status status = team.advance();
    if (status == Status::pending) break;
    const CollectiveCall over = team.call();
    team.running = !team.waiting.empty();
    if (team.running) {
      team.begin(team.waiting.front());
      team.waiting.pop_front();
    }
    tell(team, over.done, over.arg, status, over.bytes);
    ++ended;
  }
  wake(team);
  return ended;
}

unsigned Collectives::go_on() {
  unsigned ended = 0;
  for (size_t i = 0; i < active_.size();) {
    GroupTeam& team = *active_[i];
    ended += advance(team);
    if (team.running || team.state() == GroupTeam::State::setting_up) {
      ++i;
      continue;
    }
    team.listed = false;
    active_.erase(active_.begin() + ptrdiff_t(i));
  }
  return ended;
}

bool Collectives::arm() {
  asleep_ = !active_.empty();
  for (GroupTeam* team : active_)
    if (team->running) team->set_asleep(true);
  return go_on() == 0;
}

void Collectives::wake_up() {
  asleep_ = false;
  for (GroupTeam* team : active_) team->set_asleep(false);
}

void Collectives::on_peer_down(Peer& peer, Status why) {
  if (!active_.empty()) (void)progress();  // what is complete needs nobody any more
  for (auto& team : teams_) team->on_peer_down(peer, why);
  for (auto& team : closing_) team->on_peer_down(peer, why);
}

void Collectives::close(Group& group) {
  GroupTeam* const team = std::exchange(group.team, nullptr);
  if (!team) return;
  std::erase(active_, team);
  const auto it = std::find_if(teams_.begin(), teams_.end(),
                               [team](const auto& each) { return each.get() == team; });
  team->close();
  due_ = leading_.empty() ? UINT64_MAX : 0;
  closing_.push_back(std::move(*it));
  *it = std::move(teams_.back());
  teams_.pop_back();
  sweep();
}

void Collectives::sweep() {
  std::erase_if(closing_, [this](const auto& team) {
    if (!team->ended()) return false;
    std::erase(leading_, team.get());
    return true;
  });
}

// --- between nodes --------------------------------------------------------------------------

void Collectives::poll_nodes() {
  const uint64_t now = parts_.now();
  bool closing = false;
  for (GroupTeam* team : leading_) {
    NodesTeam& nodes = *team->nodes();
    if (nodes.poll(now)) wake(*team);
    if (!nodes.group_node()) continue;
    if (nodes.group_node()->path_changed()) report_path(*team);
    closing |= nodes.group_node()->member().state(now) == multicast::State::gone;
  }
  if (closing) sweep();
  due_ = UINT64_MAX;
  for (const GroupTeam* team : leading_)
    if (const auto* node = team->nodes()->group_node()) due_ = std::min(due_, node->deadline());
}

// The time is read once for what arrives in one round of progress.
uint64_t Collectives::round_time() {
  const uint32_t round = parts_.rounds.load(std::memory_order_relaxed);
  if (std::exchange(timed_round_, round) != round) round_time_ = parts_.now();
  return round_time_;
}

void Collectives::on_lossy(uint8_t rail, PeerId group, uint32_t sender,
                           std::span<const std::byte> frame) {
  for (const GroupTeam* team : leading_) {
    multicast::GroupNode* const node = team->nodes()->group_node();
    if (!node || !node->is(rail, group)) continue;
    node->on_lossy(sender, frame, round_time());
    due_ = std::min(due_, node->deadline());
    return;
  }
}

// The others of a group may begin while this process still hears that all can take part.
void Collectives::take_datagram(void* self, Peer& from, uint64_t tag,
                                std::span<const std::byte> datagram) {
  auto* const own = static_cast<Collectives*>(self);
  const auto take = [&](const GroupTeam* team) {
    multicast::GroupNode* const node = team->nodes() ? team->nodes()->group_node() : nullptr;
    if (!node || node->number() != tag) return false;
    node->on_datagram(from, datagram, own->round_time());
    if (team->state() != GroupTeam::State::setting_up)
      own->due_ = std::min(own->due_, node->deadline());
    return true;
  };
  if (std::ranges::none_of(own->leading_, take)) (void)std::ranges::any_of(own->active_, take);
}

void Collectives::finish() {
  for (const GroupTeam* team : leading_) team->nodes()->close(parts_.now());
  due_ = leading_.empty() ? UINT64_MAX : 0;
}

bool Collectives::settled() const {
  return std::all_of(leading_.begin(), leading_.end(),
                     [](const GroupTeam* team) { return team->nodes()->settled(); });
}

void Collectives::report_path(const GroupTeam& team) const {
  if (!params().report) return;
  print_line("torii report: rank %u: collective operations of a group of %u go on %s",
             parts_.protocol.self().rank, team.size(), describe(team).c_str());
}

// --- reports --------------------------------------------------------------------------------

std::string Collectives::culprit(const Group& group) const {
  const GroupTeam* const team = group.team;
  return team && team->culprit() ? parts_.protocol.describe(*team->culprit()) : std::string();
}

std::string Collectives::describe(const Group& group) const {
  return group.team ? describe(*group.team) : "not prepared";
}

std::string Collectives::describe(const GroupTeam& team) {
  if (team.state() == GroupTeam::State::setting_up) return "being prepared";
  if (team.state() == GroupTeam::State::ready && team.nodes()) return team.nodes()->describe();
  if (team.state() == GroupTeam::State::ready)
    return format_text("by memory that %u members on this node share", team.size());
  return "not served: " + team.reason();
}

// It is known what serves the group, or why nothing does.
void Collectives::prepared(GroupTeam& team) {
  if (team.nodes() && team.nodes()->group_node()) {
    leading_.push_back(&team);
    due_ = 0;
  }
  if (!params().report) return;
  print_line("torii report: rank %u: collective operations of a group of %u: %s",
             parts_.protocol.self().rank, team.size(), describe(team).c_str());
}

}  // namespace torii
