// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Datagrams that others send to the udp driver, over loopback, arbitrary or nearly right, and
// addresses to connect to. Bytes that are taken for an address are written back unchanged.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "core/base/param.h"
#include "drivers/interfaces.h"
#include "drivers/udp/udp.h"
#include "drivers/udp/wire.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

constexpr unsigned kInputsPerDriver = 4096;

struct Counter final : Sink {
  void packet(PeerId, std::span<const std::byte> frame) override {
    for (const std::byte b : frame) sum += static_cast<uint8_t>(b);
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override { require(false, "udp hears of no end"); }
  uint64_t sum = 0;
};

class World {
 public:
  World() {
    std::string why;
    require(param_set("udp_interfaces", "lo", "fuzzer", &why) == Status::ok);
    DriverEnv env;
    env.sink = &sink_;
    env.counters = &counters_;
    driver_ = open_udp(env, &why);
    require(driver_ != nullptr, why.c_str());
    std::byte bytes[udp::kAddressBytes];
    driver_->address(bytes);
    require(udp::parse_address(bytes, &own_));
    fd_ = socket(AF_INET, SOCK_DGRAM, 0);
    LossyMember membership;
    std::memcpy(membership.key.data(), &own_.number, sizeof(own_.number));
    PeerId group;
    require(driver_->lossy_groups()->join_lossy(membership, &group) == Status::ok);
    in_addr loopback{htonl(INADDR_LOOPBACK)};
    setsockopt(fd_, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof(loopback));
  }
  ~World() { close(fd_); }

  void step(fuzz::Input& in) {
    const uint8_t what = in.byte();
    std::string bytes = in.text(200);
    if (what & 1) {  // a good beginning
      udp::Header header;
      header.kind = static_cast<udp::Kind>(1 + what / 2 % 6);
      header.to = udp::tag_of(own_.number);
      header.from = 1 + what / 8 % 4;
      header.number = what / 64;
      header.size = driver_->caps().mtu + udp::kHeaderBytes;
      if (header.kind == udp::Kind::ping)
        header.size = static_cast<uint32_t>(udp::kPingBytes + bytes.size());
      if (header.kind == udp::Kind::longer)
        header.size = static_cast<uint32_t>(bytes.size() + what / 16 % 3);
      if (header.kind == udp::Kind::piece) {
        header.count = 2;
        header.index = what / 32 % 2;
        header.number = what / 64;
        header.size = static_cast<uint32_t>(2 * bytes.size() - what / 16 % 2);
      }
      std::byte good[udp::kPingBytes];
      const size_t size = udp::write_header(header, good);
      bytes.insert(0, reinterpret_cast<const char*>(good), size);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(own_.port);
    if (what & 128) {  // to the group, which has the number of the process
      const sockaddr_in6 group = udp::group_address(own_.number, false);
      std::memcpy(&to.sin_addr, group.sin6_addr.s6_addr + 12, sizeof(to.sin_addr));
      to.sin_port = group.sin6_port;
    }
    sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to));
    driver_->poll(now_ns_ += 1000000, 64);
  }

 private:
  Counter sink_;
  Counters counters_;
  std::unique_ptr<Driver> driver_;
  udp::Address own_;
  int fd_;
  uint64_t now_ns_ = 1;
};

void check_parsers(std::span<const std::byte> bytes) {
  udp::Address address;
  if (udp::parse_address(bytes, &address)) {
    std::byte again[udp::kAddressBytes];
    udp::write_address(address, again);
    require(std::memcmp(again, bytes.data(), sizeof(again)) == 0, "an address is what it says");
  }
  udp::Header header;
  if (udp::parse_header(bytes, &header)) {
    std::byte again[udp::kPingBytes];
    const size_t size = udp::write_header(header, again);
    require(size <= bytes.size() && std::memcmp(again, bytes.data(), size) == 0,
            "a header is what it says");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::unique_ptr<World> world;
  static unsigned used = 0;
  if (used++ % kInputsPerDriver == 0) {
    world.reset();
    world = std::make_unique<World>();
  }
  // An allocation of the exact size, so that nobody reads beyond it.
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  check_parsers(exact);
  fuzz::Input in(data, size);
  for (int steps = 0; steps < 8 && !in.empty(); steps++) world->step(in);
  return 0;
}
