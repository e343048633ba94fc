// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Addresses of the udp driver, made by hand.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "drivers/udp/wire.h"

namespace torii::udp {

using Bytes = std::vector<std::byte>;

inline in6_addr host(const char* text) {
  in6_addr out{};
  const std::string mapped = std::string("::ffff:") + text;
  EXPECT_EQ(inet_pton(AF_INET6, std::strchr(text, ':') ? text : mapped.c_str(), &out), 1) << text;
  return out;
}

inline Address address_of(uint64_t number, uint16_t port,
                          std::initializer_list<const char*> hosts) {
  Address out;
  out.number = number;
  out.port = port;
  for (const char* text : hosts) EXPECT_TRUE(add_host(&out, host(text))) << text;
  return out;
}

inline Bytes written(const Address& address) {
  Bytes out(kAddressBytes);
  write_address(address, out.data());
  return out;
}

}  // namespace torii::udp
