// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/header.h"

#include "core/base/little_endian.h"

namespace torii::multicast {
namespace {

// The fields that a kind may carry. Others are 0.
struct Form {
  uint16_t flags;
  size_t least, most;  // bytes of payload
  size_t unit;         // they are a multiple of it
  bool pos, op, check, arg;
};

constexpr size_t kAny = SIZE_MAX;
constexpr uint16_t kCopy = kForward | kUnicast;

constexpr Form kForms[kKinds + 1] = {
    {},
    {kAsk | kCopy, 1, kAny, 1, true, true, false, false},            // data
    {kAsk, 1, kAny, 1, true, true, false, false},                    // repair
    {kAsk | kCopy, 0, 0, 1, true, true, false, false},               // heartbeat
    {kWaiting | kPart, 0, kHolesBytes, 8, true, true, false, true},  // nack
    {0, 0, 0, 1, true, true, false, true},                           // status
    {kCopy, 0, 0, 1, true, false, false, true},                      // release
    {kAsk | kCopy, 0, kSmallMax, 1, false, true, true, true},        // contribution
    {kCopy, 0, kSmallMax, 1, false, true, true, false},              // result
    {kAsk | kCopy | kHeard | kDeaf | kVerdict, 0, kNodesMax / 8, 8, false, true, false, true},
    {kCopy, 0, 0, 1, false, true, true, true},  // failed
};

bool well_formed(const Header& header, uint32_t low, size_t payload) {
  const Form& form = kForms[static_cast<size_t>(header.kind)];
  if (header.flags & ~form.flags) return false;
  if (payload < form.least || payload > form.most || payload % form.unit) return false;
  if (header.kind == Kind::nack && (payload == 0) != bool(header.flags & kPart)) return false;
  return (form.pos || !low) && (form.op || !header.op) && (form.check || !header.check) &&
         (form.arg || !header.arg);
}

}  // namespace

uint32_t writer_of(std::span<const std::byte> datagram) {
  return load_little<uint16_t>(datagram.data() + 4);
}

Kind kind_of(std::span<const std::byte> header) {
  return static_cast<Kind>(load_little<uint8_t>(header.data() + 3));
}

uint64_t whole_position(uint64_t near, uint32_t low) {
  const auto at = static_cast<int64_t>(near / kGranule);
  const int64_t granule = at + static_cast<int32_t>(low - static_cast<uint32_t>(at));
  return granule < 0 ? 0 : static_cast<uint64_t>(granule) * kGranule;
}

void encode(const Header& header, HeaderBytes* out) {
  std::byte* const bytes = out->data();
  store_little<uint16_t>(bytes, kMagic);
  store_little<uint8_t>(bytes + 2, kVersion);
  store_little<uint8_t>(bytes + 3, static_cast<uint8_t>(header.kind));
  store_little<uint16_t>(bytes + 4, header.node);
  store_little<uint16_t>(bytes + 6, header.flags);
  store_little<uint32_t>(bytes + 8, low_half(header.pos));
  store_little<uint32_t>(bytes + 12, header.op);
  store_little<uint32_t>(bytes + 16, header.check);
  store_little<uint32_t>(bytes + 20, header.arg);
}

bool decode(std::span<const std::byte> datagram, uint64_t near, Header* out) {
  if (datagram.size() < kHeaderBytes) return false;
  const std::byte* const bytes = datagram.data();
  const auto kind = load_little<uint8_t>(bytes + 3);
  if (load_little<uint16_t>(bytes) != kMagic || load_little<uint8_t>(bytes + 2) != kVersion ||
      kind < 1 || kind > kKinds)
    return false;
  const auto low = load_little<uint32_t>(bytes + 8);
  out->kind = static_cast<Kind>(kind);
  out->node = load_little<uint16_t>(bytes + 4);
  out->flags = load_little<uint16_t>(bytes + 6);
  out->op = load_little<uint32_t>(bytes + 12);
  out->check = load_little<uint32_t>(bytes + 16);
  out->arg = load_little<uint32_t>(bytes + 20);
  if (!well_formed(*out, low, datagram.size() - kHeaderBytes)) return false;
  out->pos = kForms[kind].pos ? whole_position(near, low) : 0;
  return true;
}

}  // namespace torii::multicast
