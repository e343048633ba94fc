// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Which addresses of a peer are right? It has published them; what comes from elsewhere adds none,
// and nothing changes for a datagram that does not prove to be the peer's. Several nodes may have
// the same address on a bridge of their own, an interface may be dead, a network may be another one
// of the same number. So the first frame for a peer begins a round: pings of several lengths to all
// its addresses. The first answer is the first way; each of our interfaces by which an answer comes
// is a rail. When a rail has been silent for a while, or one is missing, something that is sent
// begins another round. An address that is silent while another one answers is given up after some
// rounds: where there are more processes than processors, a peer may read one of two pings long
// before the other.
#include <errno.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/udp/nic.h"

namespace torii::udp {
namespace {

constexpr uint64_t kFirstGapNs = 10000000;
constexpr uint64_t kLongestGapNs = 1000000000;
constexpr uint64_t kQuietNs = 100000000;          // then a rail is doubted
constexpr uint64_t kGraceNs = 50000000;           // to answer in when another one did
constexpr uint64_t kLongestRestNs = 30000000000;  // where an address has never answered
constexpr uint64_t kWantedNs = 10000000000;       // pings go on without anything to be sent
constexpr uint8_t kRoundsMost = 3;  // in a row without an answer, then a rail is given up
constexpr uint64_t kForeverNs = ~uint64_t{0};

}  // namespace

void UdpDriver::add_candidate(Peer& peer, const sockaddr_in6& where) {
  if (!is_ipv4(where) && !socket_.ipv6) return;
  if (peer.candidates.size() >= kCandidatesMax) return;
  const auto same = [&](const Candidate& other) { return same_place(where, other.where); };
  if (std::any_of(peer.candidates.begin(), peer.candidates.end(), same)) return;
  peer.candidates.push_back({where});
  peer.rest_ns = 0;
}

// Begins a round, if none is under way.
void UdpDriver::look_for(PeerId id) {
  Peer& peer = peers_[id];
  peer.wanted_ns = now_ns_;
  if (peer.probing) return;
  peer.probing = true;
  peer.rounds = 0;
  peer.doubted_ns = now_ns_;
  probing_.push_back(id);
  begin_round(id);
}

// The first words to a peer go to all its addresses, and pings behind them: who did not know this
// process before answers those.
void UdpDriver::introduce(const Tx& tx) {
  Peer& peer = peers_[tx.peer];
  Header header;
  header.to = tag_of(peer.number);
  header.from = own_.number;
  std::vector<std::byte> datagram(kHeaderBytes + tx.head_bytes + tx.body_bytes);
  std::byte* out = datagram.data() + write_header(header, datagram.data());
  std::memcpy(out, tx.head, tx.head_bytes);
  out += tx.head_bytes;
  for (const iovec& piece : std::span(tx.pieces, tx.piece_count)) {
    std::memcpy(out, piece.iov_base, piece.iov_len);
    out += piece.iov_len;
  }
  for (const Candidate& one : peer.candidates)
    if (may_use(one.where)) send_small(one.where, datagram);
  if (peer.probing) ping(tx.peer);
  look_for(tx.peer);
}

void UdpDriver::begin_round(PeerId id) {
  Peer& peer = peers_[id];
  peer.round_at = peer.pings + 1;
  peer.rounds++;
  peer.answered_ns = 0;
  peer.gap_ns = kFirstGapNs;
  for (Candidate& one : peer.candidates) one.answered = false;
  ping(id);
}

// Each address is one that answers, or the reserve of a rail that does.
bool UdpDriver::complete(const Peer& peer) {
  return std::all_of(peer.candidates.begin(), peer.candidates.end(), [&](const Candidate& one) {
    return std::any_of(peer.rails.begin(), peer.rails.end(), [&](const Rail& rail) {
      return rail.answers && rail.interface == one.interface;
    });
  });
}

// Something is sent: has this rail been silent for long, or may another one be there by now?
void UdpDriver::doubt(PeerId id, Peer& peer, const Rail& rail) {
  const uint64_t since_ns = now_ns_ - peer.pinged_ns;
  if (now_ns_ - rail.heard_ns < kQuietNs && since_ns < peer.rest_ns) return;
  if (since_ns >= std::min(kQuietNs, peer.rest_ns)) look_for(id);
}

void UdpDriver::ping(PeerId id) {
  Peer& peer = peers_[id];
  for (size_t i = 0; i < peer.candidates.size(); i++)
    if (!peer.candidates[i].answered && may_use(peer.candidates[i].where))
      send_pings(id, i, datagram_max_);
  peer.pinged_ns = now_ns_;
}

// Tries all lengths up to that. One that the system would cut into several packets proves nothing.
void UdpDriver::send_pings(PeerId id, size_t candidate, uint32_t most) {
  Peer& peer = peers_[id];
  const sockaddr_in6& where = peer.candidates[candidate].where;
  Header header;
  header.kind = Kind::ping;
  header.to = tag_of(peer.number);
  header.from = own_.number;
  header.candidate = static_cast<uint8_t>(candidate);
  std::vector<std::byte> datagram(datagram_max_);
  uint32_t path_mtu = 0;
  interface_to(where, &path_mtu);
  const PathSize::Sizes sizes = PathSize::sizes(datagram_max_);
  uint32_t before = 0;
  for (const uint32_t size : sizes) {
    const bool fits = size == sizes.back() || path_mtu == 0 || size + kIpBytes <= path_mtu;
    if (size > most || size == before || !fits) continue;
    before = size;
    header.number = ++peer.pings;
    header.size = size;
    if (write_tagged(id, header, datagram.data()))
      send_small(where, std::span(datagram).first(size));
  }
}

// Is the length of datagrams on this path still what it was, or may they be longer by now?
void UdpDriver::ask_for_size(PeerId id, Rail& rail) {
  const Peer& peer = peers_[id];
  const auto candidate =
      std::find_if(peer.candidates.begin(), peer.candidates.end(),
                   [&](const Candidate& one) { return same_place(one.where, rail.path); });
  if (candidate == peer.candidates.end()) return;
  const uint32_t before = rail.size.bytes();
  const uint32_t most = rail.size.ask(now_ns_, rail.heard_ns);
  if (rail.size.bytes() < before)
    TORII_WARN(
        "udp: packets of %u bytes to process %016llx by %s do not arrive any more, shorter ones "
        "are used; look for an MTU that was changed there or on the way (ip link show)",
        before + kIpBytes, static_cast<unsigned long long>(peer.number), name_of(rail).c_str());
  send_pings(id, static_cast<size_t>(candidate - peer.candidates.begin()), most);
}

void UdpDriver::ping_again() {
  for (size_t i = 0; i < probing_.size();) {
    const PeerId id = probing_[i];
    Peer& peer = peers_[id];
    const bool all = std::all_of(peer.candidates.begin(), peer.candidates.end(),
                                 [](const Candidate& one) { return one.answered; });
    if (all || (peer.answered_ns && now_ns_ - peer.answered_ns >= kGraceNs)) {
      end_round(id);
    } else if (!peer.has_path() && now_ns_ - peer.wanted_ns >= kWantedNs) {
      peer.probing = false;
    }
    if (!peer.probing) {
      probing_[i] = probing_.back();
      probing_.pop_back();
      continue;
    }
    i++;
    if (now_ns_ - peer.pinged_ns < peer.gap_ns) continue;
    if (!peer.answered_ns) peer.gap_ns = std::min(2 * peer.gap_ns, kLongestGapNs);
    // A socket has an address of this node for its own, and that may be the trouble.
    for (Rail& rail : peer.rails)
      if (rail.heard_ns < peer.doubted_ns) retire_direct(rail);
    ping(id);
  }
}

// Has the peer made this ping or pong? It may have been sent again since, by somebody else.
bool UdpDriver::is_genuine(PeerId id, const Header& header,
                           std::span<const std::byte> datagram) const {
  return id != kNoPeer &&
         (!trust_ || trust_->is_right(id, datagram.first(kTaggedBytes), header.tag));
}

// The answer goes to where the question came from, or is said to have come from: it is not longer,
// and of no use to anybody else.
void UdpDriver::take_ping(const Header& header, std::span<const std::byte> datagram,
                          const sockaddr_in6& from) {
  const PeerId id = known(header.from);
  if (trust_ && !is_genuine(id, header, datagram)) {
    counters_.udp_refused++;
    return;
  }
  if (!may_use(from)) return;
  Header pong = header;
  pong.kind = Kind::pong;
  pong.to = tag_of(header.from);
  pong.from = own_.number;
  std::byte bytes[kPingBytes];
  if (write_tagged(id, pong, bytes)) send_small(from, bytes);
  if (id == kNoPeer) return;
  for (Candidate& one : peers_[id].candidates) one.asked |= same_place(one.where, from);
}

void UdpDriver::take_pong(const Header& header, std::span<const std::byte> datagram) {
  const PeerId id = known(header.from);
  const PathSize::Sizes sizes = PathSize::sizes(datagram_max_);
  if (!is_genuine(id, header, datagram) || header.number > peers_[id].pings ||
      header.candidate >= peers_[id].candidates.size() ||
      std::find(sizes.begin(), sizes.end(), header.size) == sizes.end() ||
      !peers_[id].pongs.add(header.number)) {
    counters_.udp_refused++;
    return;
  }
  Peer& peer = peers_[id];
  const bool in_time = header.number >= peer.round_at;
  Candidate& one = peer.candidates[header.candidate];
  if (in_time && !one.answered) {
    one.answered = true;
    one.interface = interface_to(one.where, nullptr);
    if (!peer.answered_ns) {
      peer.answered_ns = now_ns_;
      peer.gap_ns = kFirstGapNs;
    }
    answers(peer, one.where, one.interface);
  }
  for (Rail& rail : peer.rails) {
    if (!same_place(rail.path, one.where)) continue;
    rail.heard_ns = now_ns_;  // also of an earlier round: it is slow, not silent
    if (in_time) rail.size.answered(header.size);
  }
}

// All have had their time. A rail whose address was silent in all rounds goes on by another one of
// the same interface, or ends, if there are others.
void UdpDriver::end_round(PeerId id) {
  Peer& peer = peers_[id];
  const auto is_silent = [&](const Rail& rail) {
    return rail.answers && rail.heard_ns < peer.doubted_ns && now_ns_ - rail.heard_ns >= kQuietNs;
  };
  if (peer.rounds < kRoundsMost && std::any_of(peer.rails.begin(), peer.rails.end(), is_silent))
    return begin_round(id);
  peer.probing = false;
  for (Rail& rail : peer.rails) {
    if (!is_silent(rail)) continue;
    const auto other = std::find_if(
        peer.candidates.begin(), peer.candidates.end(),
        [&](const Candidate& one) { return one.answered && one.interface == rail.interface; });
    if (other == peer.candidates.end()) {
      silent(peer, rail);
      continue;
    }
    const std::string before = name_of(rail);
    retire_direct(rail);
    rail = rail_at(other->where, rail.interface);
    TORII_WARN("udp: process %016llx does not answer by %s any more, but by %s, which is used now",
               static_cast<unsigned long long>(peer.number), before.c_str(), name_of(rail).c_str());
  }
  const bool silence = std::any_of(peer.rails.begin(), peer.rails.end(),
                                   [](const Rail& rail) { return !rail.answers; });
  peer.rest_ns = complete(peer) ? kForeverNs
                                : std::clamp(2 * std::min(peer.rest_ns, kLongestRestNs), kQuietNs,
                                             silence ? kLongestGapNs : kLongestRestNs);
}

// The peer was heard by this way, and hears us.
void UdpDriver::answers(Peer& peer, const sockaddr_in6& path, size_t interface) {
  const auto rail = std::find_if(peer.rails.begin(), peer.rails.end(),
                                 [&](const Rail& one) { return one.interface == interface; });
  if (rail != peer.rails.end()) {
    if (rail->answers && !same_place(rail->path, path)) return;
    const bool back = !rail->answers;
    rail->heard_ns = now_ns_;
    if (!back) return;
    *rail = rail_at(path, interface);
    set_first(peer);
    counters_.udp_rails_back++;
    TORII_WARN("udp: process %016llx answers by %s again",
               static_cast<unsigned long long>(peer.number), name_of(*rail).c_str());
    return;
  }
  if (peer.rails.size() == kRailsMax) return;
  if (peer.rails.empty() && interface != kNoInterface) {
    paths_by_interface_[interface]++;
    const auto most = std::max_element(paths_by_interface_.begin(), paths_by_interface_.end());
    prefer_interface(interfaces_[static_cast<size_t>(most - paths_by_interface_.begin())].index);
  }
  peer.rails.push_back(rail_at(path, interface));
  set_first(peer);
  uint32_t path_mtu = 0;
  interface_to(path, &path_mtu);
  TORII_INFO("udp: process %016llx answers at %s by %s, path MTU %u",
             static_cast<unsigned long long>(peer.number), to_text(path).c_str(),
             interface == kNoInterface ? "?" : interfaces_[interface].name.c_str(), path_mtu);
}

// No frames go by this rail until it answers again. The last one stays.
void UdpDriver::silent(Peer& peer, Rail& rail) {
  rail.answers = false;
  retire_direct(rail);
  set_first(peer);
  if (!peer.has_path()) {
    rail.answers = true;
    set_first(peer);
    return;
  }
  peer.rest_ns = 0;
  counters_.udp_rails_lost++;
  TORII_WARN("udp: process %016llx does not answer by %s any more, but by %s",
             static_cast<unsigned long long>(peer.number), name_of(rail).c_str(),
             name_of(peer.rails[peer.first]).c_str());
}

void UdpDriver::set_first(Peer& peer) {
  peer.first = kNoRail;
  for (size_t i = peer.rails.size(); i-- > 0;)
    if (peer.rails[i].answers) peer.first = static_cast<uint8_t>(i);
}

uint32_t UdpDriver::rails(PeerId id) const {
  uint32_t bits = 0;
  for (size_t i = 0; i < peers_[id].rails.size(); i++)
    bits |= static_cast<uint32_t>(peers_[id].rails[i].answers) << i;
  return bits;
}

std::vector<PeerAddress> UdpDriver::addresses(PeerId id) const {
  std::vector<PeerAddress> out;
  if (id >= peers_.size() || !peers_[id].used) return out;
  const Peer& peer = peers_[id];
  for (const Candidate& one : peer.candidates) {
    PeerAddress& way = out.emplace_back();
    way.address = to_text(one.where);
    const size_t interface = interface_to(one.where, &way.mtu);
    if (interface != kNoInterface) way.interface = interfaces_[interface].name;
    for (size_t i = 0; i < peer.rails.size(); i++)
      if (peer.rails[i].answers && same_place(peer.rails[i].path, one.where))
        way.rail = static_cast<int>(i);
    way.answers = one.answered || way.rail >= 0;
    way.asked = one.asked;
  }
  return out;
}

// By which rail the datagram came, if it is this peer's.
uint8_t UdpDriver::rail_from(const Peer& peer, const sockaddr_in6& from) {
  const auto came_by = [&](const Rail& one) { return same_place(one.path, from); };
  if (peer.heard < peer.rails.size() && came_by(peer.rails[peer.heard])) return peer.heard;
  const auto rail = std::find_if(peer.rails.begin(), peer.rails.end(), came_by);
  return rail == peer.rails.end() ? kNoRail : static_cast<uint8_t>(rail - peer.rails.begin());
}

// A datagram that was the peer's.
void UdpDriver::heard_from(PeerId id, uint8_t rail) {
  if (id >= peers_.size() || rail >= peers_[id].rails.size()) return;
  peers_[id].heard = rail;
  peers_[id].rails[rail].heard_ns = now_ns_;
}

// The interface by which the system sends there. The source address tells it only if the system
// names none: it may be another interface's, where that of this one is not settled yet.
size_t UdpDriver::interface_to(const sockaddr_in6& path, uint32_t* path_mtu) const {
  Route route;
  if (!find_route(path, &route)) return kNoInterface;
  if (path_mtu) *path_mtu = route.path_mtu;
  const auto first = [&](const auto& wanted) {
    const auto found = std::find_if(interfaces_.begin(), interfaces_.end(), wanted);
    return found == interfaces_.end() ? kNoInterface
                                      : static_cast<size_t>(found - interfaces_.begin());
  };
  const size_t outgoing = first([&](const Interface& one) { return one.index == route.interface; });
  if (outgoing != kNoInterface) return outgoing;
  return first([&](const Interface& one) {
    const auto has = [&](const std::vector<in6_addr>& hosts) {
      return std::any_of(hosts.begin(), hosts.end(), [&](const in6_addr& host) {
        return std::memcmp(&host, &route.source, sizeof(host)) == 0;
      });
    };
    return has(one.ipv4) || has(one.ipv6) || has(one.link_local);
  });
}

// A user who names interfaces wants no others used.
bool UdpDriver::may_use(const sockaddr_in6& path) const {
  return params().udp_interfaces.empty() || interface_to(path, nullptr) != kNoInterface;
}

std::string UdpDriver::name_of(const Rail& rail) const {
  return (rail.interface == kNoInterface ? "?" : interfaces_[rail.interface].name) + " to " +
         to_text(rail.path);
}

std::string UdpDriver::text(PeerId id) const {
  if (id >= peers_.size() || !peers_[id].used) return {};
  const Peer& peer = peers_[id];
  std::string out;
  for (const Rail& rail : peer.rails)
    if (rail.answers) out += (out.empty() ? "" : " and ") + name_of(rail);
  if (!out.empty()) return out;
  for (const Candidate& one : peer.candidates)
    out += (out.empty() ? "" : ", ") + to_text(one.where);
  return "none of its addresses answered: " + out;
}

std::string UdpDriver::trouble(PeerId id) const {
  if (id >= peers_.size() || !peers_[id].has_path()) return {};
  std::string out;
  for (const Rail& rail : peers_[id].rails)
    if (rail.answers)
      out += format_text("%spackets of up to %u bytes by %s", out.empty() ? "" : ", ",
                         rail.size.bytes() + kIpBytes, name_of(rail).c_str());
  return out +
         " seem to be dropped; look for what drops them there or on the way, or set "
         "TORII_UDP_MTU to the length that arrives";
}

// False: there is no key for this peer (yet).
bool UdpDriver::write_tagged(PeerId id, const Header& header, std::byte* out) const {
  uint64_t tag = 0;
  write_header(header, out);
  if (trust_ && !trust_->tag(id, {out, kTaggedBytes}, &tag)) return false;
  write_tag(tag, out);
  return true;
}

// May be lost, like any other datagram.
void UdpDriver::send_small(const sockaddr_in6& to, std::span<const std::byte> datagram) {
  NativeAddress native;
  to_native(to, socket_.ipv6, &native);
  sendto(socket_.fd, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<sockaddr*>(&native.ipv6), native.length);
}

}  // namespace torii::udp
