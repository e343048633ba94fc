// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Protocol::connect: addresses of another process, over the real drivers of one machine. The
// input is an address, or (first byte odd) changes to this process's own.
#include <memory>

#include "core/base/param.h"
#include "core/ni/ni.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

constexpr unsigned kInputsPerNi = 256;  // peers are never forgotten

NiPointer open_ni() {
  std::string why;
  require(param_set("drivers", "self,shm,sim", "fuzzer", &why) == Status::ok);
  NiConfig config;
  config.self = own_identity();
  config.self.job = 1;
  config.self.rank = 0;
  config.size = config.local_size = 2;
  auto ni = Ni::open(config, &why);
  require(ni != nullptr);
  return ni;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static NiPointer ni;
  static unsigned used = 0;
  if (used++ % kInputsPerNi == 0) ni = open_ni();

  fuzz::Input in(data, size);
  std::string address;
  if (in.byte() & 1) {
    std::byte own[Protocol::kAddressBytes];
    address.assign(reinterpret_cast<const char*>(own), ni->protocol().address(own, sizeof(own)));
    for (unsigned changes = in.byte() % 16; changes > 0 && !in.empty(); --changes)
      address[in.below(uint32_t(address.size()))] ^= char(in.byte());
    address.resize(address.size() - std::min<size_t>(address.size(), in.byte() % 8));
    address += in.rest();
  } else {
    address = in.rest();
  }
  // An allocation of the exact size, so that nobody reads beyond it.
  const std::vector<char> exact(address.begin(), address.end());
  Peer* peer = nullptr;
  std::string why;
  const Status status = ni->connect(std::as_bytes(std::span(exact)), &peer, &why);
  const bool gone = status == Status::peer_dead || status == Status::peer_closed;
  require((status == Status::ok || gone) == (peer != nullptr));
  require(status == Status::ok || !why.empty());
  if (!peer) return 0;
  Peer* again = nullptr;
  require(ni->connect(std::as_bytes(std::span(exact)), &again, &why) == status);
  require(again == peer && !ni->protocol().describe(*peer).empty());
  return 0;
}
