// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/group.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "core/base/log.h"
#include "core/protocol/express.h"
#include "core/tport/ports.h"

namespace torii {

namespace {

auto key_of(const Identity& id) { return std::tie(id.job, id.rank, id.nid, id.pid, id.os_pid); }

void mix(uint64_t* hash, uint64_t value) {
  *hash = (*hash ^ value) * 0x9e3779b97f4a7c15ull;
  *hash ^= *hash >> 29;
}

// All members make the same number of the same name and members. Another seed gives an independent
// one.
uint64_t group_number(uint64_t seed, std::string_view name, std::span<const Identity> members) {
  uint64_t hash = seed;
  mix(&hash, name.size());
  for (const char c : name) mix(&hash, static_cast<unsigned char>(c));
  for (const Identity& id : members) {
    mix(&hash, id.job);
    mix(&hash, uint64_t{id.rank} << 32 | id.os_pid);
    mix(&hash, uint64_t{id.nid} << 32 | id.pid);
  }
  return hash != kNoGroup ? hash : 1;
}

// In hexadecimal digits, if it is not text.
std::string printable(std::string_view name) {
  if (std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return std::string(name);
  std::string out = "0x";
  for (const char c : name) out += format_text("%02x", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

Groups::Groups(Protocol& protocol, Counters& counters, CompletionQueue& completions, void* owner)
    : protocol_(protocol), counters_(counters), completions_(completions), owner_(owner) {}

Groups::~Groups() {
  while (!groups_.empty()) close(groups_.begin()->second.get());
  sends_.for_each([this](Send* send) { protocol_.buffers().put(send->packed); });
}

Status Groups::open(std::string_view name, std::span<Peer* const> peers, Group** out,
                    std::string* why) {
  std::vector<Identity> members{protocol_.self()};
  auto group = std::make_unique<Group>();
  group->order.assign(peers.begin(), peers.end());
  for (Peer* const& peer : peers) {
    if (key_of(peer->id) == key_of(protocol_.self())) {
      group->self = uint32_t(&peer - peers.data());
      continue;
    }
    group->members.push_back(peer);
    members.push_back(peer->id);
  }
  std::sort(members.begin(), members.end(),
            [](const Identity& a, const Identity& b) { return key_of(a) < key_of(b); });
  for (size_t i = 1; i < members.size(); ++i) {
    if (key_of(members[i - 1]) != key_of(members[i])) continue;
    *why = format_text("rank %u on %s (pid %u) is named twice; name each member once",
                       members[i].rank, members[i].host, members[i].os_pid);
    return Status::invalid;
  }
  // A member that opens the group again must not meet the old one of another member.
  const uint32_t opening = openings_[group_number(0, name, members)]++;
  group->number = group_number(2 * uint64_t{opening} + 1, name, members);
  group->groups = this;
  group->owner = owner_;
  group->name = name;
  group->joined.resize(group->members.size());
  // The driver's name has no room for the members, so it is as long a number as fits.
  const uint64_t words[2] = {wire::little(group->number),
                             wire::little(group_number(2 * uint64_t{opening} + 2, name, members))};
  static_assert(sizeof(words) == 16);
  join(*group, std::as_bytes(std::span(words)));
  *out = group.get();
  groups_.emplace(group->number, std::move(group));
  return Status::ok;
}

// Joins with the driver that reaches all members, and says so to them.
void Groups::join(Group& group, std::span<const std::byte> name) {
  if (group.members.empty()) {
    group.reason = "there is no other member";
    return;
  }
  const Peer& first = *group.members[0];
  const auto elsewhere = std::find_if(group.members.begin(), group.members.end(),
                                      [&](Peer* peer) { return peer->driver != first.driver; });
  const char* driver = protocol_.driver_name(first.rail).c_str();
  if (elsewhere != group.members.end()) {
    group.reason = format_text("members are reached by %s and by %s", driver,
                               protocol_.driver_name((*elsewhere)->rail).c_str());
    return;
  }
  if (!(first.driver->caps().flags & kMulticast)) {
    group.reason = format_text("driver %s has no multicast", driver);
    return;
  }
  const Status status = first.driver->join(name, &group.route);
  if (status != Status::ok) {
    group.reason = format_text("driver %s refused to join (%s)", driver, status_text(status));
    TORII_INFO("%s", describe(group).c_str());
    return;
  }
  group.driver = first.driver;
  for (Peer* peer : group.members) protocol_.tell_joined(*peer, group.number, true);
}

void Groups::close(Group* group) {
  if (group->driver) group->driver->leave(group->route);
  groups_.erase(group->number);
}

// A member that opens the group later has not heard what was said before.
void Groups::on_joined(Peer& peer, uint64_t number, bool asks) {
  const auto it = groups_.find(number);
  if (it == groups_.end()) return;
  Group& group = *it->second;
  const auto member = std::find(group.members.begin(), group.members.end(), &peer);
  if (member == group.members.end()) return;
  group.joined[size_t(member - group.members.begin())] = true;
  if (asks && group.driver) protocol_.tell_joined(peer, number, false);
}

bool Groups::multicast(const Group& group) const {
  if (!group.driver) return false;
  for (size_t i = 0; i < group.members.size(); ++i)
    if (!group.joined[i] && group.members[i]->state == PeerState::up) return false;
  return true;
}

std::string Groups::describe(const Group& group) const {
  std::string text =
      format_text("group %s of %zu: ", printable(group.name).c_str(), group.members.size() + 1);
  if (!group.driver) return text + "one message for each member: " + group.reason;
  const std::string frame = "one frame by " + protocol_.driver_name(group.members[0]->rail);
  if (multicast(group)) return text + frame;
  return text + "one message for each member until all have joined, then " + frame;
}

// --- sending --------------------------------------------------------------------------------

Status Groups::send(Group& group, uint8_t port, uint64_t tag, uint32_t user, const Data& data,
                    torii_done_t done, void* arg) {
  Send* send = sends_.get();
  if (!send) return Status::no_memory;
  send->done = done;
  send->arg = arg;
  send->bytes = data.bytes();
  Data source = data;
  if (!data.has_address()) {  // pack functions run once, however many are to get the message
    send->packed = protocol_.buffers().get(data.bytes());
    if (!send->packed && data.bytes() > 0) {
      sends_.put(send);
      return Status::no_memory;
    }
    data.copy_out(0, send->packed, data.bytes());
    source = Data(send->packed, data.bytes());
  }
  Envelope env;
  env.space = Space::tagged;
  env.index = port;
  env.bits = tag;
  env.hdr_data = user;
  env.length = data.bytes();
  if (!multicast(group) || !protocol_.multicast_now(group.route, group.members, env, source)) {
    ++counters_.group_unicasts;
    return send_each(group, env, source, send);
  }
  for (Peer* peer : group.members)
    if (peer->state != PeerState::up) note(send, *peer, Protocol::down_status(*peer));
  return finish(send);
}

Status Groups::send_each(Group& group, const Envelope& env, const Data& source, Send* send) {
  send->pending = 1;
  for (Peer* peer : group.members) send_to(*peer, env, source, send);
  return --send->pending > 0 ? Status::pending : finish(send);
}

void Groups::send_to(Peer& peer, const Envelope& env, const Data& source, Send* send) {
  const auto user = uint32_t(env.hdr_data);
  iovec pieces[kPieces];
  uint64_t covered = 0;
  const uint32_t count = source.slice(0, source.bytes(), pieces, peer.plan.pieces_max, &covered);
  if (covered == source.bytes() &&
      protocol_.put_now(peer, env.index, env.bits, user, pieces, count, covered))
    return;
  Owner owner;
  owner.notify = &Groups::sent_event;
  owner.object = this;
  owner.argument = send;
  const Status status = protocol_.put(peer, env, source, owner, nullptr);
  if (status == Status::pending) {
    ++send->pending;
  } else if (status != Status::ok) {
    note(send, peer, status);
  }
}

void Groups::note(Send* send, Peer& peer, Status status) {
  if (send->failed) return;
  send->failed = &peer;
  send->status = status;
}

void Groups::sent_event(Op* op, OpEvent, Status status, uint64_t) {
  auto* send = static_cast<Send*>(op->owner.argument);
  if (status != Status::ok) note(send, *op->peer, status);
  if (--send->pending == 0) static_cast<Groups*>(op->owner.object)->complete(send);
}

// No member owes anything. Without an error the caller learns it from the return value.
Status Groups::finish(Send* send) {
  if (send->failed) {
    complete(send);
    return Status::pending;
  }
  release(send);
  return Status::ok;
}

void Groups::complete(Send* send) {
  torii_result_t result{};
  result.code = code_of(send->status);
  result.bytes = send->failed ? 0 : send->bytes;
  result.sent_bytes = send->bytes;
  result.source = reinterpret_cast<torii_peer_t*>(send->failed);
  completions_.push(send->done, send->arg, result);
  release(send);
}

void Groups::release(Send* send) {
  protocol_.buffers().put(send->packed);
  sends_.put(send);
}

}  // namespace torii
