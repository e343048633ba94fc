// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Lossy groups: each is an IP multicast group with a socket of its own.
#include <errno.h>

#include <algorithm>
#include <cstring>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "drivers/udp/nic.h"

namespace torii::udp {
Status UdpDriver::join_lossy(const LossyMember& membership, PeerId* out) {
  if (!is_valid(membership)) return Status::invalid;
  const auto number = load_little<uint64_t>(membership.key.data());
  const auto is_it = [&](PeerId id) { return peers_[id].number == number; };
  if (std::any_of(groups_.begin(), groups_.end(), is_it)) return Status::invalid;
  if (groups_.size() == kGroupsMax) return Status::no_memory;
  const bool ipv6 = std::none_of(interfaces_.begin(), interfaces_.end(),
                                 [](const Interface& one) { return !one.ipv4.empty(); });
  const sockaddr_in6 where = group_address(number, ipv6);
  const std::span<const Interface> all(interfaces_);
  Socket socket = open_group_socket(where, all.first(membership.hears ? all.size() : 0));
  const PeerId id = socket.fd >= 0 ? new_peer(number) : kNoPeer;
  if (id == kNoPeer) {
    TORII_INFO("udp: joining the group %s failed: %s", to_text(where).c_str(),
               std::strerror(errno));
    close_socket(&socket);
    return Status::io_error;
  }
  keep_to_interfaces(socket);
  set_multicast_interface(socket, group_interface_);
  set_multicast_loop(socket, has_neighbour_);
  if (segments_) enable_gro(socket);
  Peer& peer = peers_[id];
  peer.group = true;
  peer.hears = membership.hears;
  peer.group_socket = socket;
  // Members are no farther than the next router: packets of the interface's length arrive.
  peer.rails.push_back(rail_at(where, kNoInterface));
  peer.rails[0].size.answered(datagram_max_);
  peer.first = 0;
  groups_.push_back(id);
  list_sources();
  *out = id;
  return Status::ok;
}

void UdpDriver::leave(PeerId id) {
  TORII_ASSERT(peer_at(id).group);
  std::erase(groups_, id);
  end_socket(&peers_[id].group_socket);
  list_sources();
  forget(id);
}

// Without one the system need not bring back what this process sends.
void UdpDriver::found_neighbour() {
  has_neighbour_ = true;
  for (const PeerId id : groups_) set_multicast_loop(peers_[id].group_socket, true);
}

void UdpDriver::prefer_interface(unsigned index) {
  if (index == group_interface_) return;
  group_interface_ = index;
  for (const PeerId id : groups_) set_multicast_interface(peers_[id].group_socket, index);
}

// Takes a frame that came to the group's socket. True: it is to be handed up.
bool UdpDriver::take_group(std::span<const std::byte> frame, const Header& header) {
  const PeerId id = inbox_.group();
  if (header.from == own_.number) {
    counters_.udp_own++;
    return false;
  }
  if (id >= peers_.size() || !peers_[id].group || tag_of(peers_[id].number) != header.to) {
    counters_.udp_foreign++;
    return false;
  }
  came_by_[packet_count_] = kNoRail;
  packets_[packet_count_++] = {id, frame};
  return true;
}

}  // namespace torii::udp
