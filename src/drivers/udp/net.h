// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The system's side: interfaces and sockets.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace torii::udp {

struct Interface {
  unsigned index = 0;
  std::string name;
  uint32_t mtu = 0;
  bool loopback = false;
  std::vector<in6_addr> ipv4;        // as ::ffff:1.2.3.4
  std::vector<in6_addr> ipv6;        // global and unique local ones
  std::vector<in6_addr> link_local;  // IPv6
  bool has_ipv6() const { return !ipv6.empty() || !link_local.empty(); }
};

// The interfaces to use: those named in `wanted` (separated by commas), or all that are up, or, if
// there are none, loopback. Empty, with the reason and the remedy in *why.
std::vector<Interface> usable_interfaces(const std::string& wanted, std::string* why);

// Equal in processes that share one system's network interfaces; 0: /proc does not tell.
uint64_t network_stack();

// A socket that sleeps never and is closed in children of this process. All addresses are
// sockaddr_in6; on a system without IPv6 the socket is an IPv4 one, and `ipv6` false.
struct Socket {
  int fd = -1;
  bool ipv6 = false;
};

void close_socket(Socket* socket);  // fd becomes -1; nothing happens if it is

// Opens a socket at a port of the system's choice; fd -1 and the reason in *why.
Socket open_socket(uint16_t* port, std::string* why);
// Opens one that sends to groups, as far as routers, and receives what is sent to this one on these
// interfaces, if there are any; fd -1 and errno if that fails.
Socket open_group_socket(const sockaddr_in6& group, std::span<const Interface> interfaces);
// Opens one more at the port of `at_port`, all that are there, which is connected: what comes from
// `to` arrives at it only, and sending costs the system no search for the way. fd -1 if that fails.
Socket open_connected_socket(std::span<const Socket> at_port, uint16_t port,
                             const sockaddr_in6& to);
// Opens a TCP socket at this port, 0: at none yet; fd -1 and errno if that fails.
Socket open_stream_socket(bool ipv6, uint16_t port);
// The kernel asks the other end for a sign of life when so long nothing came, and goes on asking.
void keep_alive(const Socket& socket, int seconds);
Socket accept_stream(const Socket& listener);  // fd -1: nobody has connected

// Takes only what comes by these interfaces, or from this node. False and errno: the system cannot.
bool keep_to(const Socket& socket, const std::vector<Interface>& interfaces);
// Datagrams to groups leave by this interface.
void set_multicast_interface(const Socket& socket, unsigned index);
// They arrive on this node, too, or not.
void set_multicast_loop(const Socket& socket, bool on);
// The kernel puts datagrams that arrive together into one buffer. False: it cannot.
bool enable_gro(const Socket& socket);

// An address in the form that the socket needs; *length is its length.
struct NativeAddress {
  union {
    sockaddr_in6 ipv6;
    sockaddr_in ipv4;
  };
  socklen_t length;
};
void to_native(const sockaddr_in6& address, bool ipv6, NativeAddress* out);
sockaddr_in6 from_native(const NativeAddress& native);

inline bool is_ipv4(const sockaddr_in6& a) { return IN6_IS_ADDR_V4MAPPED(&a.sin6_addr); }
bool same_place(const sockaddr_in6& a, const sockaddr_in6& b);
std::string to_text(const sockaddr_in6& address);  // host and port

// How the system reaches an address; false if it knows no way.
struct Route {
  in6_addr source{};
  unsigned interface = 0;  // its index; 0: unknown
  uint32_t path_mtu = 0;   // bytes of an IP packet
};
bool find_route(const sockaddr_in6& to, Route* out);

}  // namespace torii::udp
