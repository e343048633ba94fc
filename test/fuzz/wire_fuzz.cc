// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// wire::parse: whatever it takes lies inside the frame, and encodes to the same bytes.
#include <vector>

#include "core/protocol/wire.h"
#include "drivers/driver.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() || (part.data() >= whole.data() && part.size() <= whole.size() &&
                          size_t(part.data() - whole.data()) <= whole.size() - part.size());
}

size_t encode(const wire::Frame& frame, std::byte* out) {
  switch (frame.kind) {
    case wire::Kind::hello:
      return wire::encode(frame.hello, out);
    case wire::Kind::tagged:
      return wire::encode(frame.tagged, out);
    case wire::Kind::tagged_announce:
      return wire::encode(frame.announced, out);
    case wire::Kind::put:
    case wire::Kind::puts:
    case wire::Kind::put_announce:
    case wire::Kind::get:
    case wire::Kind::getput:
      return wire::encode(frame.request, out);
    case wire::Kind::update:
      return wire::encode(frame.update, out);
    case wire::Kind::updated:
      return wire::encode(frame.updated, out);
    default:
      return wire::encode(frame.control, out);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  wire::Frame frame;
  wire::Tagged tagged;
  const bool small = wire::parse_tagged(bytes, &tagged);
  if (!wire::parse(bytes, &frame)) {
    require(!small);
    return 0;
  }
  require(small == (frame.kind == wire::Kind::tagged));
  require(inside(frame.key, bytes) && inside(frame.payload, bytes));
  require(frame.key.size() <= kKeyMax);
  std::byte head[kHeadMax];
  const size_t n = encode(frame, head);
  require(n + frame.key.size() + frame.payload.size() == size);
  require(std::memcmp(head, data, n) == 0);
  return 0;
}
