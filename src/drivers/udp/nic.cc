// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/udp/outbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "core/base/log.h"
#include "core/base/param.h"
#include "drivers/udp/udp.h"

namespace torii {

std::unique_ptr<Driver> open_udp(const DriverEnv& env, std::string* why) {
  std::vector<udp::Interface> interfaces = udp::usable_interfaces(params().udp_interfaces, why);
  if (interfaces.empty()) return nullptr;
  auto driver = std::make_unique<udp::UdpDriver>(env, std::move(interfaces));
  if (!driver->open(why)) return nullptr;
  return driver;
}

namespace udp {
namespace {

constexpr uint32_t kDatagramMax = 9216 - kIpBytes;  // longer ones on loopback gain nothing
constexpr uint32_t kDatagramMin = 512 + 64 + kHeaderBytes;
constexpr uint32_t kPeersMax = 1 << 20;
constexpr int kPortsTried = 16;

// A number by which nobody else is taken for this process; 0, with errno: the system gives none.
uint64_t draw_number() {
  uint64_t number = 0;
  do {
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return 0;
  } while (tag_of(number) == 0);
  return number;
}

}  // namespace

UdpDriver::UdpDriver(const DriverEnv& env, std::vector<Interface> interfaces)
    : sink_(*env.sink),
      counters_(*env.counters),
      trust_(env.trust),
      take_turns_(env.take_turns),
      interfaces_(std::move(interfaces)),
      paths_by_interface_(interfaces_.size()),
      outbox_(std::make_unique<Outbox>(*this)) {}

UdpDriver::~UdpDriver() {
  for (const PeerId id : groups_) udp::close_socket(&peers_[id].group_socket);
  for (const auto& [id, rail] : direct_) udp::close_socket(&peers_[id].rails[rail].direct);
  for (Source& one : retired_) udp::close_socket(&one.socket);
  if (sleep_fd_ >= 0) close(sleep_fd_);
  udp::close_socket(&socket_);
}

// The TCP port of the same number may be taken.
bool UdpDriver::open_sockets(std::string* why) {
  for (int i = 0; i < kPortsTried; i++) {
    udp::close_socket(&socket_);
    socket_ = open_socket(&own_.port, why);
    if (socket_.fd < 0) return false;
    own_.listens = lifelines_.listen(socket_.ipv6, own_.port);
    if (own_.listens) break;
  }
  keep_to_interfaces(socket_);
  if (own_.listens) keep_to_interfaces(lifelines_.listener());
  return true;
}

// A user who names interfaces wants no others used.
void UdpDriver::keep_to_interfaces(const Socket& socket) const {
  if (params().udp_interfaces.empty() || keep_to(socket, interfaces_)) return;
  TORII_WARN(
      "udp: the system refuses a filter (%s), so packets of peers are taken from all interfaces, "
      "not only from TORII_UDP_INTERFACES=%s",
      std::strerror(errno), params().udp_interfaces.c_str());
}

// Frames fit all of them, but not those with less than every IP network has to carry: there the
// system cuts packets.
bool UdpDriver::open(std::string* why) {
  const auto smallest = std::min_element(
      interfaces_.begin(), interfaces_.end(), [](const Interface& a, const Interface& b) {
        return std::tuple(a.mtu < kPacketLeast, a.mtu) < std::tuple(b.mtu < kPacketLeast, b.mtu);
      });
  const uint32_t limit = params().udp_mtu ? static_cast<uint32_t>(params().udp_mtu) : ~0u;
  const uint32_t packet = std::min(smallest->mtu, limit);
  if (packet < kDatagramMin + kIpBytes) {
    *why = format_text(
        "udp: packets of %u bytes (interface %s) are too small, %u is the least; "
        "use others (TORII_UDP_INTERFACES)",
        packet, smallest->name.c_str(), kDatagramMin + kIpBytes);
    return false;
  }
  datagram_max_ = std::min(packet - kIpBytes, kDatagramMax);
  if (!open_sockets(why)) return false;
  list_sources();
  own_.number = draw_number();
  if (own_.number == 0) {
    *why = format_text("udp: getrandom failed: %s; allow it in the seccomp profile",
                       std::strerror(errno));
    return false;
  }
  for (const Interface& one : interfaces_)
    if (!one.ipv4.empty()) add_host(&own_, one.ipv4[0]);
  for (const Interface& one : interfaces_) {
    if (!socket_.ipv6 || !one.has_ipv6()) continue;
    // Addresses of a link mean something only on it: last choice.
    if (!one.ipv6.empty()) add_host(&own_, one.ipv6[0]);
    if (one.ipv6.empty() && one.ipv4.empty()) add_host(&own_, one.link_local[0]);
  }
  for (const Interface& one : interfaces_)
    for (size_t i = 1; i < one.ipv4.size(); i++) add_host(&own_, one.ipv4[i]);
  if (own_.count == 0) {
    *why =
        "udp: the interfaces have IPv6 addresses only, and the system opens no IPv6 socket; "
        "allow IPv6 or give them IPv4 addresses";
    return false;
  }
  segments_ = enable_gro(socket_);
  group_interface_ = interfaces_[0].index;
  has_neighbour_ = interfaces_[0].loopback;
  caps_.flags = kWait;
  caps_.mtu = datagram_max_ - kHeaderBytes;
  // In datagrams as many as the kernel cuts a buffer into.
  if (segments_)
    caps_.long_max =
        std::min(kBufferMax, kBatchMax * datagram_max_) - static_cast<uint32_t>(kLongerBytes);
  caps_.inline_max = caps_.mtu;
  caps_.pieces_max = 16;
  caps_.batch_max = std::min<uint32_t>(kBufferMax / datagram_max_, kBatchMax);
  caps_.address_bytes = kAddressBytes;
  caps_.peers_max = kPeersMax;
  caps_.eager_advice = 8 << 10;
  return true;
}

// --- peers
// ----------------------------------------------------------------------------------------

UdpDriver::Peer& UdpDriver::peer_at(PeerId id) {
  TORII_ASSERT(id < peers_.size() && peers_[id].used);
  return peers_[id];
}

PeerId UdpDriver::known(uint64_t number) const {
  const auto it = by_number_.find(number);
  return it == by_number_.end() ? kNoPeer : it->second;
}

// kNoPeer: the table is full.
PeerId UdpDriver::new_peer(uint64_t number) {
  PeerId id = kNoPeer;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (peers_.size() < kPeersMax) {
    id = static_cast<PeerId>(peers_.size());
    peers_.emplace_back();
  } else {
    return kNoPeer;
  }
  peers_[id].used = true;
  peers_[id].number = number;
  return id;
}

void UdpDriver::forget(PeerId id) {
  std::erase(probing_, id);
  for (Rail& rail : peers_[id].rails) end_socket(&rail.direct);
  if (std::erase_if(direct_, [&](const auto& one) { return one.first == id; })) list_sources();
  if (last_sender_ == id) last_sender_ = kNoPeer;
  lifelines_.forget(id);
  peers_[id] = Peer{};
  free_.push_back(id);
}

Status UdpDriver::connect(std::span<const std::byte> address, PeerId* out, std::string* why) {
  Address theirs;
  if (!parse_address(address, &theirs)) {
    *why = format_text(
        "udp: %zu bytes are no address of this driver; all processes of a job must "
        "use the same version",
        address.size());
    return Status::invalid;
  }
  PeerId id = known(theirs.number);
  if (id == kNoPeer) {
    id = new_peer(theirs.number);
    if (id == kNoPeer) {
      *why = format_text("udp: all %u peers are in use; disconnect some", kPeersMax);
      return Status::no_memory;
    }
    by_number_[theirs.number] = id;
  }
  peers_[id].listens = theirs.listens;
  for (size_t i = 0; i < theirs.count; i++) {
    if (!has_neighbour_ && has_host(own_, theirs.hosts[i])) found_neighbour();
    sockaddr_in6 where{};
    where.sin6_family = AF_INET6;
    where.sin6_port = htons(theirs.port);
    where.sin6_addr = theirs.hosts[i];
    if (!IN6_IS_ADDR_LINKLOCAL(&where.sin6_addr)) {
      add_candidate(peers_[id], where);
      continue;
    }
    for (const Interface& one : interfaces_) {
      if (one.link_local.empty()) continue;
      where.sin6_scope_id = one.index;
      add_candidate(peers_[id], where);
    }
  }
  if (peers_[id].candidates.empty() && !peers_[id].has_path()) {
    by_number_.erase(theirs.number);
    forget(id);
    *why =
        "udp: this process has IPv6 addresses only, and here is no IPv6; allow it on both nodes "
        "or on none";
    return Status::unreachable;
  }
  *out = id;
  return Status::ok;
}

Life UdpDriver::life(PeerId id) {
  const Peer& peer = peer_at(id);
  if (!peer.listens || !peer.has_path()) return Life::unknown;
  return lifelines_.ask(id, peer.rails[peer.first].path, now_ns_);
}

void UdpDriver::disconnect(PeerId id) {
  TORII_ASSERT(!peer_at(id).group);
  by_number_.erase(peers_[id].number);
  forget(id);
}

}  // namespace udp
}  // namespace torii
