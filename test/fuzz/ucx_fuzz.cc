// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Addresses and keys that others publish for the ucx driver, and their hellos: arbitrary bytes, or
// right ones that were changed. UCX itself checks nothing, so an address or a key is taken only if
// it is written back to the same bytes, and one that was changed never is.
#include <algorithm>
#include <cstring>
#include <vector>

#include "drivers/ucx/wire.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

using Bytes = std::vector<std::byte>;

void check_address(const Bytes& bytes) {
  ucx::AddressHead head;
  if (!ucx::parse_address(bytes, &head)) return;
  const auto worker = std::span(bytes).subspan(sizeof(head));
  require(!worker.empty() && worker.size() <= ucx::kWorkerMax, "UCX is given an address");
  require(ucx::seal(head, worker) == bytes, "an address is what it says");
}

void check_key(const Bytes& bytes) {
  ucx::KeyHead head;
  if (!ucx::parse_key(bytes, &head)) return;
  require(head.bytes <= ~head.base, "a key names memory");
  require(!(head.access & ~(kRemoteRead | kRemoteWrite)), "a key gives rights that there are");
  const auto again = ucx::seal(head, std::span(bytes).subspan(sizeof(head)));
  require(std::ranges::equal(again, bytes), "a key is what it says");
}

void check_hello(const Bytes& bytes) {
  ucx::Hello hello;
  ucx::AddressHead head;
  if (!ucx::parse_hello(bytes, &hello, &head)) return;
  require(hello.magic == ucx::Hello{}.magic, "a hello is for nobody's frames");
  const auto address = std::span(bytes).subspan(sizeof(hello));
  check_address(Bytes(address.begin(), address.end() - ucx::kTagBytes));
}

Bytes make_address(fuzz::Input& in) {
  ucx::AddressHead head;
  head.version = in.take<uint16_t>();
  head.key = in.take<PublicKey>();
  const std::string worker = 'w' + in.text(ucx::kWorkerMax - 1);
  return ucx::seal(head, std::as_bytes(std::span(worker)));
}

Bytes make_key(fuzz::Input& in) {
  ucx::KeyHead head;
  head.access = in.byte() & (kRemoteRead | kRemoteWrite);
  head.base = in.take<uint64_t>();
  head.bytes = in.take<uint64_t>() % (~head.base + 1 ? ~head.base + 1 : 1);
  const std::string rkey = in.text(ucx::kRkeyMax);
  const auto key = ucx::seal(head, std::as_bytes(std::span(rkey)), kKeyMax);
  return {key.begin(), key.end()};
}

Bytes make_hello(fuzz::Input& in) {
  auto hello = in.take<ucx::Hello>();
  hello.magic = ucx::Hello{}.magic;
  hello.zero = 0;
  const Bytes address = make_address(in);
  Bytes out(sizeof(hello) + address.size() + ucx::kTagBytes);
  std::memcpy(out.data(), &hello, sizeof(hello));
  std::ranges::copy(address, out.begin() + sizeof(hello));
  return out;
}

// Bits, and bytes at the end. False: they are the same as before.
bool change(Bytes* bytes, fuzz::Input& in) {
  const Bytes before = *bytes;
  for (unsigned changes = in.byte() % 8; changes > 0; --changes)
    (*bytes)[in.below(static_cast<uint32_t>(bytes->size()))] ^= std::byte(in.byte());
  bytes->resize(bytes->size() - std::min<size_t>(bytes->size(), in.byte() % 4));
  bytes->shrink_to_fit();  // so that nobody reads beyond it
  return *bytes != before;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const unsigned what = in.byte() % 4;
  if (what == 0) {
    const std::string text = in.rest();
    const auto arbitrary = std::as_bytes(std::span(text));
    const Bytes bytes(arbitrary.begin(), arbitrary.end());
    check_address(bytes);
    check_key(bytes);
    check_hello(bytes);
    return 0;
  }
  ucx::Hello hello;
  ucx::AddressHead address;
  ucx::KeyHead key;
  Bytes bytes = what == 1 ? make_address(in) : what == 2 ? make_key(in) : make_hello(in);
  const auto taken = [&] {
    return what == 1   ? ucx::parse_address(bytes, &address)
           : what == 2 ? ucx::parse_key(bytes, &key)
                       : ucx::parse_hello(bytes, &hello, &address);
  };
  require(taken(), "what is right is taken");
  const bool changed = change(&bytes, in);
  require(!changed || what == 3 || !taken(), "what was changed is not taken");
  if (what == 3) check_hello(bytes);  // the tag covers the rest of it
  return 0;
}
