// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/host_name.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/processors.h"
#include "core/base/small_file.h"
#include "core/tools/machine.h"

namespace torii::check {
namespace {

constexpr int kWantedBuffer = 4 << 20;  // what the udp driver asks for

std::string link_of(const char* path) {
  char text[64] = "";
  return readlink(path, text, sizeof text - 1) < 0 ? "?" : text;
}

// The name of one start of one machine, one network, one numbering of processes, and one user.
std::string name_of_place() {
  std::string boot;
  if (!read_beginning("/proc/sys/kernel/random/boot_id", 36, &boot)) boot = host_name();
  return boot + " " + link_of("/proc/self/ns/net") + " " + link_of("/proc/self/ns/pid") + " " +
         std::to_string(geteuid());
}

uint32_t receive_buffer() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  int bytes = kWantedBuffer;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  socklen_t length = sizeof bytes;
  if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length) != 0) bytes = 0;
  close(fd);
  return static_cast<uint32_t>(bytes) / 2;  // the system tells twice what it gives
}

uint32_t mtu_of(int fd, const std::string& name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), sizeof(request.ifr_name) - 1);
  return ioctl(fd, SIOCGIFMTU, &request) == 0 ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

// Empty: not one that another node could reach.
std::string text_of_address(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& host = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&host)) inet_ntop(AF_INET6, &host, text, sizeof text);
  }
  return text;
}

bool is_wanted(const std::string& name) {
  const std::string& wanted = params().udp_interfaces;
  return wanted.empty() || ("," + wanted + ",").find("," + name + ",") != std::string::npos;
}

std::vector<Interface> list_interfaces() {
  std::vector<Interface> all;
  ifaddrs* list = nullptr;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || getifaddrs(&list) != 0) {
    if (fd >= 0) close(fd);
    return all;
  }
  for (const ifaddrs* a = list; a; a = a->ifa_next) {
    if (a->ifa_flags & IFF_LOOPBACK) continue;
    auto one = std::find_if(all.begin(), all.end(),
                            [&](const Interface& other) { return other.name == a->ifa_name; });
    if (one == all.end()) {
      one = all.insert(all.end(), Interface{});
      one->name = a->ifa_name;
      one->mtu = mtu_of(fd, one->name);
      one->up = a->ifa_flags & IFF_UP;
      one->carrier = a->ifa_flags & IFF_RUNNING;
      one->bridge = access(("/sys/class/net/" + one->name + "/bridge").c_str(), F_OK) == 0;
      one->wanted = is_wanted(one->name);
    }
    if (!a->ifa_addr) continue;
    if (const std::string text = text_of_address(a->ifa_addr); !text.empty())
      one->addresses.push_back(text);
  }
  freeifaddrs(list);
  close(fd);
  return all;
}

}  // namespace

Facts gather_facts() {
  Facts facts;
  if (getrandom(facts.dice.data(), facts.dice.size(), 0) !=
      static_cast<ssize_t>(facts.dice.size())) {
    TORII_ERROR("torii-check: the system gives no random bytes: %m");
    _exit(1);
  }
  facts.host = host_name();
  facts.place = name_of_place();
  facts.pid = static_cast<uint32_t>(getpid());
  facts.processors = static_cast<uint32_t>(std::max(1.0, usable_processors()));
  facts.attach = attach_fact();
  struct statvfs disk;
  if (statvfs("/dev/shm", &disk) == 0) {
    facts.shared_bytes = uint64_t{disk.f_frsize} * disk.f_blocks;
    facts.shared_free = uint64_t{disk.f_frsize} * disk.f_bavail;
  }
  facts.receive_buffer = receive_buffer();
  facts.interfaces = list_interfaces();
  return facts;
}

}  // namespace torii::check
