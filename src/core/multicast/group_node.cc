// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/group_node.h"

#include <algorithm>
#include <cstring>

#include "core/base/inplace_vector.h"
#include "core/base/log.h"
#include "core/protocol/express.h"
#include "core/tport/ports.h"

namespace torii::multicast {
namespace {

bool is_reliable(const Driver& driver) { return driver.caps().flags & kMulticast; }

}  // namespace

size_t GroupNode::frame_of(const Protocol& protocol, uint8_t rail) {
  Driver& driver = *protocol.drivers()[rail];
  if (!is_reliable(driver) && !driver.lossy_groups()) return 0;
  const choice::Plan plan = protocol.plan(rail);
  const size_t frame =
      std::min({size_t{driver.caps().mtu}, size_t{plan.small_max}, size_t{plan.alone_min - 1}});
  return frame >= kLeastFrame ? frame : 0;
}

uint64_t GroupNode::network_of(const Protocol& protocol, uint8_t rail) {
  Driver& driver = *protocol.drivers()[rail];
  return is_reliable(driver) ? 0 : driver.lossy_groups()->network();
}

GroupNode::GroupNode(Protocol& protocol, Counters& counters, const Shape& shape)
    : protocol_(protocol),
      counters_(counters),
      shape_(shape),
      driver_(*protocol.drivers()[shape.rail]),
      reliable_(is_reliable(driver_)) {
  for (uint32_t node = 0; node < shape.nodes.size(); ++node)
    if (node != shape.self) others_.push_back(shape.nodes[node]);
  if (protocol.plan(shape.rail).pieces_max < 2)
    packed_ = std::make_unique_for_overwrite<std::byte[]>(shape.frame);
}

std::unique_ptr<GroupNode> GroupNode::join(Protocol& protocol, Counters& counters,
                                           const Shape& shape, std::string* why) {
  std::unique_ptr<GroupNode> node(new GroupNode(protocol, counters, shape));
  const Status status = node->reliable_ ? node->join_reliable() : node->join_lossy();
  // Others may begin before this process has heard that it may.
  if (status == Status::ok && node->reliable_) node->open(0);
  if (status == Status::ok) return node;
  node->route_ = kNoPeer;
  const char* const driver = protocol.driver_name(shape.rail).c_str();
  *why = format_text("%s cannot join a multicast group (%s)", driver, status_text(status));
  if (status == Status::no_memory)
    *why = node->reliable_ ? format_text("%s has no room for another multicast group", driver)
                           : format_text("%s is in %zu multicast groups already, which is the most",
                                         driver, LossyGroups::kGroupsMax);
  return nullptr;
}

// The name is known to the members only.
Status GroupNode::join_reliable() {
  return driver_.join(std::span(shape_.key).first(kNameBytes), &route_);
}

Status GroupNode::join_lossy() {
  LossyMember membership;
  membership.key = shape_.key;
  membership.number = shape_.self;
  membership.members = static_cast<uint32_t>(shape_.nodes.size());
  return protocol_.join_lossy(shape_.rail, membership, &route_);
}

GroupNode::~GroupNode() {
  if (route_ == kNoPeer) return;
  if (reliable_) {
    driver_.leave(route_);
  } else {
    protocol_.leave_lossy(shape_.rail, route_);
  }
}

void GroupNode::start(uint64_t now) {
  if (!member_) open(now);
  for (Peer* peer : others_) greet(*peer);
}

void GroupNode::open(uint64_t now) {
  Identity identity;
  identity.self = shape_.self;
  identity.nodes = static_cast<uint32_t>(shape_.nodes.size());
  identity.scarce = shape_.scarce;
  identity.seed = shape_.number;
  ring_ = std::make_unique_for_overwrite<std::byte[]>(Member::kRing);
  Channel& channel = *this;
  member_ = std::make_unique<Member>(channel, identity, std::span(ring_.get(), Member::kRing), now);
}

// --- sending ----------------------------------------------------------------------------------

size_t GroupNode::largest_burst() const {
  return std::clamp<size_t>(driver_.caps().batch_max, 1, kBurst);
}

// The first words to a process are a hello.
void GroupNode::greet(Peer& peer) {
  if (peer.state == PeerState::up && !peer.hello_sent)
    protocol_.tell_joined(peer, shape_.number, false);
}

// A body for the driver, until the next one is made if it takes one piece only.
Protocol::Body GroupNode::body_of(const Datagram& datagram, std::array<iovec, 2>* pieces) {
  const auto [head, body] = datagram;
  if (packed_ && !body.empty()) {
    std::memcpy(packed_.get(), head.data(), head.size());
    std::memcpy(packed_.get() + head.size(), body.data(), body.size());
    (*pieces)[0] = {packed_.get(), head.size() + body.size()};
    return {pieces->data(), 1, head.size() + body.size()};
  }
  (*pieces)[0] = {const_cast<std::byte*>(head.data()), head.size()};
  (*pieces)[1] = {const_cast<std::byte*>(body.data()), body.size()};
  return {pieces->data(), body.empty() ? 1u : 2u, head.size() + body.size()};
}

size_t GroupNode::multicast(std::span<const Datagram> datagrams) {
  const size_t taken = reliable_ ? multicast_reliable(datagrams) : multicast_lossy(datagrams);
  counters_.multicast_datagrams += taken;
  count(datagrams.first(taken));
  return taken;
}

// The driver has room for it at all of them, or takes none.
size_t GroupNode::multicast_reliable(std::span<const Datagram> datagrams) {
  Envelope env;
  env.space = Space::tagged;
  env.index = kDatagramPort;
  env.bits = shape_.number;
  size_t taken = 0;
  for (; taken < datagrams.size(); ++taken) {
    std::array<iovec, 2> pieces;
    const Protocol::Body body = body_of(datagrams[taken], &pieces);
    env.length = body.bytes;
    const Data data(body.pieces, body.piece_count, body.bytes);
    if (!protocol_.multicast_now(route_, others_, env, data)) break;
  }
  return taken;
}

size_t GroupNode::multicast_lossy(std::span<const Datagram> datagrams) {
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
    const size_t count = driver_.send(frames);
    counters_.frames_sent += count;
    taken += count;
    if (count < some.size()) break;
  }
  return taken;
}

// A datagram for a leader that is gone counts as sent: nobody misses it.
size_t GroupNode::send(uint32_t node, std::span<const Datagram> datagrams) {
  Peer& peer = *shape_.nodes[node];
  if (peer.state != PeerState::up) return datagrams.size();
  greet(peer);
  const size_t most = packed_ ? 1 : kBurst;
  size_t taken = 0;
  while (taken < datagrams.size()) {
    const auto some = datagrams.subspan(taken, std::min(most, datagrams.size() - taken));
    std::array<std::array<iovec, 2>, kBurst> pieces;
    InplaceVector<Protocol::Body, kBurst> bodies;
    for (size_t i = 0; i < some.size(); ++i) bodies.emplace_back(body_of(some[i], &pieces[i]));
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

// A driver without a link, whose network can be trusted, may not know who has sent a frame: then
// the writer's word is taken.
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
