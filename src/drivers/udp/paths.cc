// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which address of a peer is the right one? Several nodes may have the same address on a bridge of
// their own, an interface may be dead, a network may be another one of the same number. So the
// first frame for a peer makes pings to all its addresses, as long as the longest frame; the first
// answer decides. A peer that has not been heard for a while when something is sent is looked for
// again.
#include <errno.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "drivers/udp/nic.h"

namespace torii::udp {
namespace {

constexpr uint64_t kFirstGapNs = 10000000;
constexpr uint64_t kLongestGapNs = 1000000000;
constexpr uint64_t kQuietNs = 100000000;  // then the path is doubted
constexpr uint64_t kGraceNs = 30000000;   // that it has to answer when another one did

}  // namespace

void UdpDriver::add_candidate(Peer& peer, const sockaddr_in6& where) {
  if (!is_ipv4(where) && !socket_.ipv6) return;
  if (peer.candidates.size() >= kCandidatesMax) return;
  const auto same = [&](const sockaddr_in6& other) { return same_place(where, other); };
  if (std::none_of(peer.candidates.begin(), peer.candidates.end(), same))
    peer.candidates.push_back(where);
}

// Begins to look for a path, if that has not begun.
void UdpDriver::look_for(PeerId id) {
  Peer& peer = peers_[id];
  if (peer.probing) return;
  peer.probing = true;
  peer.nonce = random_.next();
  peer.rescue_ns = 0;
  peer.gap_ns = kFirstGapNs;
  probing_.push_back(id);
  ping(id, peer);
}

// Something is sent: has the peer been silent for long?
void UdpDriver::doubt(PeerId id, Peer& peer) {
  if (peer.group || now_ns_ - peer.heard_ns < kQuietNs || now_ns_ - peer.pinged_ns < kQuietNs)
    return;
  look_for(id);
}

void UdpDriver::ping(PeerId, Peer& peer) {
  std::vector<std::byte> datagram(datagram_max_);
  Header header;
  header.kind = Kind::ping;
  header.to = tag_of(peer.number);
  header.from = own_.number;
  header.nonce = peer.nonce;
  for (size_t i = 0; i < peer.candidates.size(); i++) {
    header.candidate = static_cast<uint8_t>(i);
    write_header(header, datagram.data());
    send_small(peer.candidates[i], datagram);
  }
  peer.pinged_ns = now_ns_;
}

void UdpDriver::ping_again() {
  for (size_t i = 0; i < probing_.size();) {
    const PeerId id = probing_[i];
    Peer& peer = peers_[id];
    const bool over = !peer.probing || peer.candidates.empty();
    if (over) {
      peer.probing = false;
      probing_[i] = probing_.back();
      probing_.pop_back();
      continue;
    }
    i++;
    if (peer.rescue_ns && now_ns_ - peer.rescue_ns >= kGraceNs) change_path(id);
    if (!peer.probing || now_ns_ - peer.pinged_ns < peer.gap_ns) continue;
    peer.gap_ns = std::min(2 * peer.gap_ns, kLongestGapNs);
    retire_direct(id);  // it has an address of this node for its own, and that may be the trouble
    ping(id, peer);
  }
}

// Nothing is kept for whoever asks; a process that is known may have another address to try.
void UdpDriver::answer_ping(const Header& header, size_t size, const sockaddr_in6& from) {
  std::byte bytes[kPongBytes];
  Header pong;
  pong.kind = Kind::pong;
  pong.to = tag_of(header.from);
  pong.from = own_.number;
  pong.nonce = header.nonce;
  pong.candidate = header.candidate;
  pong.size = static_cast<uint32_t>(size);
  write_header(pong, bytes);
  send_small(from, bytes);
  if (const PeerId id = known(header.from); id != kNoPeer) add_candidate(peers_[id], from);
}

void UdpDriver::take_pong(const Header& header) {
  const PeerId id = known(header.from);
  if (id != kNoPeer && !peers_[id].probing && header.nonce == peers_[id].nonce) return;  // late
  if (id == kNoPeer || !peers_[id].probing || header.nonce != peers_[id].nonce ||
      header.candidate >= peers_[id].candidates.size() || header.size != datagram_max_) {
    counters_.udp_foreign++;
    return;
  }
  Peer& peer = peers_[id];
  const sockaddr_in6& where = peer.candidates[header.candidate];
  if (peer.has_path && !same_place(peer.path, where)) {
    if (peer.rescue_ns) return;
    peer.rescue_ns = now_ns_;
    peer.rescue = header.candidate;
    return;
  }
  peer.heard_ns = now_ns_;
  peer.probing = false;  // the first one decides
  if (!peer.has_path) chose(id, where);
}

// The way that frames went is silent, and another one answers.
void UdpDriver::change_path(PeerId id) {
  Peer& peer = peers_[id];
  const std::string before = path_text(id);
  peer.probing = false;
  peer.heard_ns = now_ns_;
  chose(id, peer.candidates[peer.rescue]);
  TORII_WARN("udp: process %016llx does not answer by %s any more, but by %s, which is used now",
             static_cast<unsigned long long>(peer.number), before.c_str(), path_text(id).c_str());
}

void UdpDriver::chose(PeerId id, const sockaddr_in6& path) {
  Peer& peer = peers_[id];
  retire_direct(id);
  peer.segments = segments_;
  peer.path = path;
  peer.has_path = true;
  peer.interface = kNoInterface;
  Route route;
  if (!find_route(path, &route)) return;
  std::string by = "?";
  for (size_t i = 0; i < interfaces_.size(); i++) {
    const Interface& one = interfaces_[i];
    const auto has = [&](const std::vector<in6_addr>& hosts) {
      return std::any_of(hosts.begin(), hosts.end(), [&](const in6_addr& host) {
        return std::memcmp(&host, &route.source, sizeof(host)) == 0;
      });
    };
    if (!has(one.ipv4) && !has(one.ipv6) && !has(one.link_local)) continue;
    by = one.name;
    peer.interface = i;
    paths_by_interface_[i]++;
    const auto most = std::max_element(paths_by_interface_.begin(), paths_by_interface_.end());
    set_multicast_interface(
        socket_, interfaces_[static_cast<size_t>(most - paths_by_interface_.begin())].index);
    break;
  }
  TORII_INFO("udp: process %016llx answers at %s by %s, path MTU %u",
             static_cast<unsigned long long>(peer.number), to_text(path).c_str(), by.c_str(),
             route.path_mtu);
}

std::string UdpDriver::path_text(PeerId id) const {
  if (id >= peers_.size() || !peers_[id].used) return {};
  const Peer& peer = peers_[id];
  if (peer.has_path)
    return (peer.interface == kNoInterface ? "?" : interfaces_[peer.interface].name) + " to " +
           to_text(peer.path);
  std::string out;
  for (const sockaddr_in6& where : peer.candidates)
    out += (out.empty() ? "" : ", ") + to_text(where);
  return "none of its addresses answered: " + out;
}

// May be lost, like any other datagram.
void UdpDriver::send_small(const sockaddr_in6& to, std::span<const std::byte> datagram) {
  NativeAddress native;
  to_native(to, socket_.ipv6, &native);
  sendto(socket_.fd, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<sockaddr*>(&native.ipv6), native.length);
}

}  // namespace torii::udp
