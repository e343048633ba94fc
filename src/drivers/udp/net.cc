// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/udp/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/fnv.h"
#include "core/base/forked.h"
#include "core/base/log.h"
#include "core/base/small_file.h"

namespace torii::udp {
namespace {

constexpr int kBufferBytes = 4 << 20;  // asked for; the system gives what it allows

in6_addr mapped(in_addr ipv4) {
  in6_addr out{};
  out.s6_addr[10] = out.s6_addr[11] = 0xff;
  std::memcpy(out.s6_addr + 12, &ipv4, 4);
  return out;
}

uint32_t mtu_of(const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool good = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0;
  if (fd >= 0) close(fd);
  return good ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

Interface& interface_named(std::vector<Interface>& all, const char* name, unsigned flags) {
  for (Interface& one : all)
    if (one.name == name) return one;
  Interface& added = all.emplace_back();
  added.name = name;
  added.index = if_nametoindex(name);
  added.mtu = mtu_of(name);
  added.loopback = flags & IFF_LOOPBACK;
  return added;
}

// Those that are up and have an address.
std::vector<Interface> live_interfaces() {
  std::vector<Interface> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* a = list; a; a = a->ifa_next) {
    constexpr unsigned kLive = IFF_UP | IFF_RUNNING;
    if (!a->ifa_addr || (a->ifa_flags & kLive) != kLive) continue;
    if (a->ifa_addr->sa_family == AF_INET) {
      const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(a->ifa_addr);
      interface_named(all, a->ifa_name, a->ifa_flags).ipv4.push_back(mapped(ipv4->sin_addr));
    } else if (a->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& host = reinterpret_cast<const sockaddr_in6*>(a->ifa_addr)->sin6_addr;
      Interface& one = interface_named(all, a->ifa_name, a->ifa_flags);
      (IN6_IS_ADDR_LINKLOCAL(&host) ? one.link_local : one.ipv6).push_back(host);
    }
  }
  freeifaddrs(list);
  std::erase_if(all, [](const Interface& one) { return one.index == 0 || one.mtu == 0; });
  return all;
}

bool set_int(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

// Not yet bound. An IPv6 socket serves IPv4 as well.
Socket open_any(bool want_ipv6) {
  Socket out;
  const int kind = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (want_ipv6) out.fd = socket(AF_INET6, kind, 0);
  out.ipv6 = out.fd >= 0 && set_int(out.fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!out.ipv6) {
    if (out.fd >= 0) close(out.fd);
    out.fd = socket(AF_INET, kind, 0);
  }
  if (out.fd < 0) return out;
  close_in_children(out.fd);
  for (const auto& [forced, plain] :
       {std::pair{SO_RCVBUFFORCE, SO_RCVBUF}, std::pair{SO_SNDBUFFORCE, SO_SNDBUF}}) {
    if (!set_int(out.fd, SOL_SOCKET, forced, kBufferBytes))
      set_int(out.fd, SOL_SOCKET, plain, kBufferBytes);
  }
  // Learn the path's MTU; what is longer than a path turns out to carry is fragmented.
  set_int(out.fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT);
  if (out.ipv6) set_int(out.fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT);
  return out;
}

bool bind_to(const Socket& s, const sockaddr_in6& where) {
  NativeAddress native;
  to_native(where, s.ipv6, &native);
  return bind(s.fd, reinterpret_cast<sockaddr*>(&native.ipv6), native.length) == 0;
}

}  // namespace

std::vector<Interface> usable_interfaces(const std::string& wanted, std::string* why) {
  std::vector<Interface> all = live_interfaces(), out;
  std::string known;
  for (const Interface& one : all) known += (known.empty() ? "" : ", ") + one.name;
  for (size_t at = 0; at < wanted.size();) {
    const size_t comma = std::min(wanted.find(',', at), wanted.size());
    const std::string name = wanted.substr(at, comma - at);
    at = comma + 1;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Interface& one) { return one.name == name; });
    if (found == all.end()) {
      *why = format_text(
          "udp: no interface '%s' is up with an address (TORII_UDP_INTERFACES=%s); there are: %s",
          name.c_str(), wanted.c_str(), known.empty() ? "none" : known.c_str());
      return {};
    }
    out.push_back(*found);
  }
  if (!wanted.empty()) return out;
  for (const bool loopback : {false, true}) {
    for (const Interface& one : all)
      if (one.loopback == loopback) out.push_back(one);
    if (!out.empty()) return out;
  }
  *why = "udp: no interface is up with an address; bring one up (ip link set DEVICE up)";
  return out;
}

uint64_t network_stack() {
  std::string text;
  struct stat space;
  if (!read_beginning("/proc/sys/kernel/random/boot_id", 64, &text) || text.empty() ||
      stat("/proc/self/ns/net", &space) != 0)
    return 0;
  return fnv1a(text + " " + std::to_string(space.st_ino));
}

void close_socket(Socket* socket) {
  if (socket->fd < 0) return;
  forget_in_children(socket->fd);
  close(std::exchange(socket->fd, -1));
}

Socket open_socket(uint16_t* port, std::string* why) {
  Socket out = open_any(true);
  sockaddr_in6 anywhere{};
  anywhere.sin6_family = AF_INET6;
  NativeAddress native;
  native.length = sizeof(native.ipv6);
  if (out.fd < 0 || !bind_to(out, anywhere) ||
      getsockname(out.fd, reinterpret_cast<sockaddr*>(&native.ipv6), &native.length) != 0) {
    *why = format_text("udp: no UDP socket can be opened: %s; %s", std::strerror(errno),
                       errno == EMFILE ? "raise the limit of open files (ulimit -n)"
                                       : "allow it, or leave udp out of TORII_DRIVERS");
    close_socket(&out);
    return out;
  }
  *port = ntohs(from_native(native).sin6_port);
  return out;
}

// The sockets have SO_REUSEPORT only while another one is bound, for with it any process of the
// user could have the port as well.
Socket open_connected_socket(std::span<const Socket> at_port, uint16_t port,
                             const sockaddr_in6& to) {
  Socket out = open_any(!is_ipv4(to));
  if (out.fd < 0) return out;
  sockaddr_in6 here{};
  here.sin6_family = AF_INET6;
  here.sin6_port = htons(port);
  if (!out.ipv6) here.sin6_addr = mapped(in_addr{INADDR_ANY});
  NativeAddress native;
  to_native(to, out.ipv6, &native);
  for (const Socket& one : at_port) set_int(one.fd, SOL_SOCKET, SO_REUSEPORT, 1);
  const bool good = set_int(out.fd, SOL_SOCKET, SO_REUSEPORT, 1) && bind_to(out, here) &&
                    connect(out.fd, reinterpret_cast<sockaddr*>(&native.ipv6), native.length) == 0;
  for (const Socket& one : at_port) set_int(one.fd, SOL_SOCKET, SO_REUSEPORT, 0);
  set_int(out.fd, SOL_SOCKET, SO_REUSEPORT, 0);
  if (!good) close_socket(&out);
  return out;
}

Socket open_group_socket(const sockaddr_in6& group, std::span<const Interface> interfaces) {
  constexpr int kHops = 1;
  Socket out = open_any(!is_ipv4(group));
  if (out.fd < 0) return out;
  set_int(out.fd, IPPROTO_IP, IP_MULTICAST_TTL, kHops);
  if (out.ipv6) set_int(out.fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kHops);
  if (interfaces.empty()) return out;
  set_int(out.fd, SOL_SOCKET, SO_REUSEADDR, 1);  // every process of the node has the port
  // Only what is sent to the group, and only on interfaces that have joined it.
  set_int(out.fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
  if (out.ipv6) set_int(out.fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  bool joined = false;
  for (const Interface& one : interfaces) {
    if (is_ipv4(group)) {
      ip_mreqn request{};
      std::memcpy(&request.imr_multiaddr, group.sin6_addr.s6_addr + 12, 4);
      request.imr_ifindex = static_cast<int>(one.index);
      if (!one.ipv4.empty())
        joined |= setsockopt(out.fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request)) == 0;
    } else {
      const ipv6_mreq request{group.sin6_addr, one.index};
      if (one.has_ipv6())
        joined |= setsockopt(out.fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof(request)) == 0;
    }
  }
  if (!joined || !bind_to(out, group)) close_socket(&out);
  return out;
}

Socket open_stream_socket(bool ipv6, uint16_t port) {
  Socket out;
  out.fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  out.ipv6 = ipv6;
  if (out.fd < 0) return out;
  close_in_children(out.fd);
  if (port == 0) return out;
  if (ipv6) set_int(out.fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set_int(out.fd, SOL_SOCKET, SO_REUSEADDR, 1);  // connections that ended may still be remembered
  sockaddr_in6 here{};
  here.sin6_family = AF_INET6;
  here.sin6_port = htons(port);
  if (!ipv6) here.sin6_addr = mapped(in_addr{INADDR_ANY});
  if (!bind_to(out, here)) close_socket(&out);
  return out;
}

void keep_alive(const Socket& socket, int seconds) {
  constexpr int kProbesMost = 127;
  set_int(socket.fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(socket.fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_int(socket.fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_int(socket.fd, IPPROTO_TCP, TCP_KEEPCNT, kProbesMost);
}

Socket accept_stream(const Socket& listener) {
  Socket out;
  out.fd = accept4(listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  out.ipv6 = listener.ipv6;
  if (out.fd >= 0) close_in_children(out.fd);
  return out;
}

// A filter of the kernel's: what it drops costs this process nothing.
bool keep_to(const Socket& socket, const std::vector<Interface>& interfaces) {
  constexpr uint32_t kLoopback = 1;  // its index in every network namespace
  std::vector<uint32_t> wanted = {kLoopback};
  for (const Interface& one : interfaces) wanted.push_back(one.index);
  errno = E2BIG;
  if (wanted.size() > UINT8_MAX) return false;  // jumps are short
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_IFINDEX))};
  for (size_t left = wanted.size(); left > 0; left--)
    code.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted[left - 1], static_cast<uint8_t>(left), 0));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, ~uint32_t{0}));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return setsockopt(socket.fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

void set_multicast_interface(const Socket& socket, unsigned index) {
  ip_mreqn request{};
  request.imr_ifindex = static_cast<int>(index);
  setsockopt(socket.fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof(request));
  if (socket.ipv6) set_int(socket.fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(index));
}

void set_multicast_loop(const Socket& socket, bool on) {
  set_int(socket.fd, IPPROTO_IP, IP_MULTICAST_LOOP, on);
  if (socket.ipv6) set_int(socket.fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on);
}

bool enable_gro(const Socket& socket) { return set_int(socket.fd, SOL_UDP, UDP_GRO, 1); }

void to_native(const sockaddr_in6& address, bool ipv6, NativeAddress* out) {
  if (ipv6) {
    out->ipv6 = address;
    out->length = sizeof(out->ipv6);
    return;
  }
  out->ipv4 = {};
  out->ipv4.sin_family = AF_INET;
  out->ipv4.sin_port = address.sin6_port;
  std::memcpy(&out->ipv4.sin_addr, address.sin6_addr.s6_addr + 12, 4);
  out->length = sizeof(out->ipv4);
}

sockaddr_in6 from_native(const NativeAddress& native) {
  if (native.ipv6.sin6_family == AF_INET6) return native.ipv6;
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = native.ipv4.sin_port;
  out.sin6_addr = mapped(native.ipv4.sin_addr);
  return out;
}

bool same_place(const sockaddr_in6& a, const sockaddr_in6& b) {
  return a.sin6_port == b.sin6_port && a.sin6_scope_id == b.sin6_scope_id &&
         std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof(a.sin6_addr)) == 0;
}

std::string to_text(const sockaddr_in6& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  const auto port = static_cast<unsigned>(ntohs(address.sin6_port));
  if (is_ipv4(address)) {
    inet_ntop(AF_INET, address.sin6_addr.s6_addr + 12, host, sizeof(host));
    return format_text("%s:%u", host, port);
  }
  inet_ntop(AF_INET6, &address.sin6_addr, host, sizeof(host));
  return format_text("[%s]:%u", host, port);
}

}  // namespace torii::udp
