// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/group_node.h"

#include <algorithm>

#include "core/base/inplace_vector.h"
#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "core/protocol/express.h"
#include "core/tport/ports.h"
#include "core/trust/key_pair.h"

namespace torii::multicast {

size_t GroupNode::frame_of(const Protocol& protocol, uint8_t rail) {
  Driver& driver = *protocol.drivers()[rail];
  if (!driver.lossy_groups()) return 0;
  const choice::Plan plan = protocol.plan(rail);
  const size_t frame =
      std::min({size_t{driver.caps().mtu}, size_t{plan.small_max}, size_t{plan.alone_min - 1}});
  return frame >= kLeastFrame ? frame : 0;
}

std::unique_ptr<GroupNode> GroupNode::join(Protocol& protocol, Counters& counters,
                                           const Shape& shape, std::string* why) {
  std::unique_ptr<GroupNode> node(new GroupNode(protocol, counters, shape));
  const char* const driver = protocol.driver_name(shape.rail).c_str();
  LossyMember membership;
  membership.number = shape.self;
  membership.members = static_cast<uint32_t>(shape.nodes.size());
  SecretKey tags;
  if (!derive_key(shape.key, "multicast channel", &membership.key) ||
      !derive_key(shape.key, "multicast datagrams", &tags)) {
    *why = "libcrypto made no key for the group";
    return nullptr;
  }
  std::copy_n(tags.begin(), node->secret_.key.size(), node->secret_.key.begin());
  node->secret_.group = load_little<uint32_t>(tags.data() + node->secret_.key.size());
  const Status status = protocol.join_lossy(shape.rail, membership, &node->route_);
  if (status == Status::ok) return node;
  node->route_ = kNoPeer;
  *why = status == Status::no_memory
             ? format_text("%s is in %zu multicast groups already, which is the most", driver,
                           LossyGroups::kGroupsMax)
             : format_text("%s cannot join a multicast group (%s)", driver, status_text(status));
  return nullptr;
}

GroupNode::~GroupNode() {
  if (route_ != kNoPeer) protocol_.leave_lossy(shape_.rail, route_);
}

void GroupNode::start(uint64_t now) {
  Identity identity;
  identity.self = shape_.self;
  identity.nodes = static_cast<uint32_t>(shape_.nodes.size());
  identity.secret = secret_;
  ring_ = std::make_unique_for_overwrite<std::byte[]>(Member::kRing);
  Channel& channel = *this;
  member_ = std::make_unique<Member>(channel, identity, std::span(ring_.get(), Member::kRing), now);
}

// --- sending ----------------------------------------------------------------------------------

size_t GroupNode::largest_burst() const {
  return std::clamp<size_t>(protocol_.drivers()[shape_.rail]->caps().batch_max, 1, kBurst);
}

size_t GroupNode::multicast(std::span<const Datagram> datagrams) {
  Driver& driver = *protocol_.drivers()[shape_.rail];
  size_t taken = 0;
  while (taken < datagrams.size()) {
    const auto some = datagrams.subspan(taken, std::min(kBurst, datagrams.size() - taken));
    std::array<iovec, kBurst> bodies;
    InplaceVector<Tx, kBurst> frames;
    for (size_t i = 0; i < some.size(); ++i) {
      const Datagram& datagram = some[i];
      bodies[i] = {const_cast<std::byte*>(datagram.body.data()), datagram.body.size()};
      Tx& tx = frames.emplace_back();
      tx.peer = route_;
      tx.head = datagram.head.data();
      tx.head_bytes = static_cast<uint32_t>(datagram.head.size());
      tx.pieces = &bodies[i];
      tx.piece_count = !datagram.body.empty();
      tx.body_bytes = static_cast<uint32_t>(datagram.body.size());
    }
    const size_t count = driver.send(frames);
    counters_.multicast_datagrams += count;
    counters_.frames_sent += count;
    this->count(some.first(count));
    taken += count;
    if (count < some.size()) break;
  }
  return taken;
}

// A datagram for a leader that is gone counts as sent: nobody misses it.
size_t GroupNode::send(uint32_t node, std::span<const Datagram> datagrams) {
  Peer& peer = *shape_.nodes[node];
  if (peer.state != PeerState::up) return datagrams.size();
  // The first words to a process are a hello.
  if (!peer.hello_sent) protocol_.tell_joined(peer, shape_.number, false);
  size_t taken = 0;
  while (taken < datagrams.size()) {
    const auto some = datagrams.subspan(taken, std::min(kBurst, datagrams.size() - taken));
    std::array<std::array<iovec, 2>, kBurst> pieces;
    InplaceVector<Protocol::Body, kBurst> bodies;
    for (size_t i = 0; i < some.size(); ++i) {
      const auto [head, body] = some[i];
      pieces[i][0] = {const_cast<std::byte*>(head.data()), head.size()};
      pieces[i][1] = {const_cast<std::byte*>(body.data()), body.size()};
      bodies.emplace_back(pieces[i].data(), body.empty() ? 1u : 2u, head.size() + body.size());
    }
    const size_t count = protocol_.put_now(peer, kDatagramPort, shape_.number, 0, bodies);
    taken += count;
    if (count < some.size()) break;
  }
  counters_.multicast_unicasts += taken;
  count(datagrams.first(taken));
  return taken;
}

void GroupNode::count(std::span<const Datagram> sent) {
  for (const Datagram& datagram : sent)
    counters_.multicast_repairs += kind_of(datagram.head) == Kind::repair;
}

// --- receiving --------------------------------------------------------------------------------

// Where the driver does not know who has sent a frame, the writer's word is taken: the tag proves
// only that it is one of the members.
void GroupNode::on_lossy(uint32_t sender, std::span<const std::byte> datagram, uint64_t now) {
  if (datagram.size() < kHeaderBytes) return;
  receive(sender == kNoSender ? writer_of(datagram) : sender, datagram, now);
}

void GroupNode::on_datagram(const Peer& from, std::span<const std::byte> datagram, uint64_t now) {
  const auto it = std::find(shape_.nodes.begin(), shape_.nodes.end(), &from);
  if (it != shape_.nodes.end())
    receive(static_cast<uint32_t>(it - shape_.nodes.begin()), datagram, now);
}

void GroupNode::receive(uint32_t from, std::span<const std::byte> datagram, uint64_t now) {
  if (member_) member_->receive(from, datagram, now);
}

void GroupNode::poll(uint64_t now) {
  if (!member_) return;
  if (now >= member_->deadline()) member_->poll(now);
  counters_.multicast_gaps += member_->requests() - requests_;
  requests_ = member_->requests();
}

bool GroupNode::path_changed() {
  if (!member_ || member_->outgoing().path() == path_) return false;
  path_ = member_->outgoing().path();
  counters_.multicast_fallbacks += path_ != Path::multicast;
  return true;
}

}  // namespace torii::multicast
