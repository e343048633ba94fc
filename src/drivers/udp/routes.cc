// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "drivers/udp/net.h"

namespace torii::udp {
namespace {

constexpr size_t kAnswerMax = 2048;

struct RouteRequest {
  nlmsghdr header;
  rtmsg route;
  std::byte attributes[RTA_SPACE(sizeof(in6_addr)) + RTA_SPACE(sizeof(uint32_t))];
};

void add_attribute(RouteRequest* request, uint16_t type, const void* value, size_t bytes) {
  std::byte* const at = reinterpret_cast<std::byte*>(request) + request->header.nlmsg_len;
  rtattr attribute{};
  attribute.rta_type = type;
  attribute.rta_len = static_cast<uint16_t>(RTA_LENGTH(bytes));
  std::memcpy(at, &attribute, sizeof(attribute));
  std::memcpy(at + RTA_LENGTH(0), value, bytes);
  request->header.nlmsg_len += static_cast<uint32_t>(RTA_SPACE(bytes));
}

RouteRequest request_for(const sockaddr_in6& to) {
  RouteRequest out{};
  const bool ipv6 = !is_ipv4(to);
  const size_t bytes = ipv6 ? sizeof(in6_addr) : sizeof(in_addr);
  out.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
  out.header.nlmsg_type = RTM_GETROUTE;
  out.header.nlmsg_flags = NLM_F_REQUEST;
  out.route.rtm_family = ipv6 ? AF_INET6 : AF_INET;
  out.route.rtm_dst_len = static_cast<uint8_t>(8 * bytes);
  add_attribute(&out, RTA_DST, to.sin6_addr.s6_addr + (ipv6 ? 0 : 12), bytes);
  const uint32_t scope = to.sin6_scope_id;
  if (scope) add_attribute(&out, RTA_OIF, &scope, sizeof(scope));
  return out;
}

// The attribute RTA_OIF of the answer; 0: none.
unsigned interface_in(const std::byte* answer, size_t bytes) {
  nlmsghdr header;
  if (bytes < NLMSG_LENGTH(sizeof(rtmsg))) return 0;
  std::memcpy(&header, answer, sizeof(header));
  if (header.nlmsg_type != RTM_NEWROUTE) return 0;
  const size_t end = std::min<size_t>(bytes, header.nlmsg_len);
  for (size_t at = NLMSG_SPACE(sizeof(rtmsg)); at + sizeof(rtattr) <= end;) {
    rtattr attribute;
    std::memcpy(&attribute, answer + at, sizeof(attribute));
    if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > end - at) return 0;
    uint32_t index = 0;
    if (attribute.rta_type == RTA_OIF && attribute.rta_len == RTA_LENGTH(sizeof(index))) {
      std::memcpy(&index, answer + at + RTA_LENGTH(0), sizeof(index));
      return index;
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return 0;
}

// By which interface does the system send there? 0: it does not say.
unsigned interface_to(const sockaddr_in6& to) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return 0;
  const RouteRequest request = request_for(to);
  std::byte answer[kAnswerMax];
  // The kernel has answered when send() returns.
  ssize_t bytes = send(fd, &request, request.header.nlmsg_len, 0);
  if (bytes >= 0) bytes = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
  close(fd);
  return bytes > 0 ? interface_in(answer, static_cast<size_t>(bytes)) : 0;
}

}  // namespace

bool find_route(const sockaddr_in6& to, Route* out) {
  const bool ipv6 = !is_ipv4(to);
  const int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  NativeAddress native;
  to_native(to, ipv6, &native);
  bool good = connect(fd, reinterpret_cast<sockaddr*>(&native.ipv6), native.length) == 0;
  NativeAddress own;
  own.length = sizeof(own.ipv6);
  good = good && getsockname(fd, reinterpret_cast<sockaddr*>(&own.ipv6), &own.length) == 0;
  int mtu = 0;
  socklen_t length = sizeof(mtu);
  good = good && getsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_MTU : IP_MTU, &mtu,
                            &length) == 0;
  close(fd);
  if (good) *out = {from_native(own).sin6_addr, interface_to(to), static_cast<uint32_t>(mtu)};
  return good;
}

}  // namespace torii::udp
