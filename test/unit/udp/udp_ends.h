// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Ends of the udp driver over loopback, under a clock of the test's, and sockets of somebody else.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/param.h"
#include "drivers/udp/udp.h"
#include "recorder.h"
#include "unit/udp/udp_kit.h"

namespace torii::udp {

using test::End;

class Udp : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_EQ(param_set("udp_interfaces", "lo", "test", &why), Status::ok) << why;
    ASSERT_EQ(param_set("udp_mtu", "0", "test", &why), Status::ok) << why;
  }

  static std::unique_ptr<Driver> open(const DriverEnv& env) {
    std::string why;
    auto driver = open_udp(env, &why);
    EXPECT_TRUE(driver) << why;
    return driver;
  }

  void poll(std::initializer_list<End*> ends, int times = 50, uint64_t step_ns = 1000000) {
    for (int i = 0; i < times; i++) {
      now_ns += step_ns;
      for (End* end : ends) end->driver->poll(now_ns, 64);
    }
  }

  // Sends until a frame has arrived.
  bool reaches(End& from, PeerId to, End& target, int times = 200) {
    const size_t before = target.sink.packets.size();
    for (int i = 0; i < times && target.sink.packets.size() == before; i++) {
      from.send(to, "hello");
      poll({&from, &target}, 1);
    }
    return target.sink.packets.size() > before;
  }

  static Address parsed(const End& end) {
    Address out;
    EXPECT_TRUE(parse_address(end.address(), &out));
    return out;
  }

  static PeerId connect(End& end, const Address& address) {
    PeerId peer = kNoPeer;
    std::string why;
    EXPECT_EQ(end.driver->connect(written(address), &peer, &why), Status::ok) << why;
    return peer;
  }

  uint64_t now_ns = 1000000000;
};

// A socket of somebody else.
class Stranger {
 public:
  // At an address of loopback, 127.0.0.`last`, and a port; 0: any.
  explicit Stranger(uint32_t last = 1, uint16_t at_port = 0)
      : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last);
    own.sin_port = htons(at_port);
    socklen_t length = sizeof(own);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), length), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length);
    port = ntohs(own.sin_port);
  }
  ~Stranger() { close(fd_); }
  void send(uint16_t to, std::span<const std::byte> bytes) {
    sockaddr_in target{};
    target.sin_family = AF_INET;
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target.sin_port = htons(to);
    sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&target),
           sizeof(target));
  }
  // To a group, by loopback.
  void send(const sockaddr_in6& group, std::span<const std::byte> bytes) {
    sockaddr_in target{};
    target.sin_family = AF_INET;
    std::memcpy(&target.sin_addr, group.sin6_addr.s6_addr + 12, sizeof(target.sin_addr));
    target.sin_port = group.sin6_port;
    in_addr loopback{htonl(INADDR_LOOPBACK)};
    setsockopt(fd_, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof(loopback));
    EXPECT_EQ(sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&target),
                     sizeof(target)),
              static_cast<ssize_t>(bytes.size()));
  }
  // The datagrams that have arrived.
  std::vector<Bytes> received() {
    std::vector<Bytes> out;
    Bytes buffer(65536);
    for (ssize_t n; (n = recv(fd_, buffer.data(), buffer.size(), 0)) >= 0;)
      out.emplace_back(buffer.begin(), buffer.begin() + n);
    return out;
  }
  uint16_t port;

 private:
  int fd_;
};

}  // namespace torii::udp
