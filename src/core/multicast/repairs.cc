// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/repairs.h"

#include <algorithm>

#include "core/base/little_endian.h"

namespace torii::multicast {

void Repairs::answer(uint32_t from, uint64_t pos, std::span<const std::byte> bitmap, bool silence,
                     uint64_t now) {
  const uint64_t end = pos + bitmap.size() * 8 * kGranule;
  const auto wanted = [&](uint64_t at) {
    const uint64_t i = (at - pos) / kGranule;
    const auto byte = static_cast<unsigned>(bitmap[i / 8]);
    return (byte >> (i % 8) & 1) && ring_.has(at);
  };
  size_t frames = 0;
  for (uint64_t at = pos; at < end && frames < kMostFrames;) {
    if (!wanted(at)) {
      at += kGranule;
      continue;
    }
    uint64_t stop = at;
    while (stop < end && stop - at < outgoing_.piece_bytes() && wanted(stop)) stop += kGranule;
    stop = at + ring_.at(at, stop - at).size();
    if (!repair(from, at, stop - at, silence, now)) return;
    frames++;
    at = stop;
  }
}

// False: the channel has no room.
bool Repairs::repair(uint32_t from, uint64_t pos, uint64_t bytes, bool silence, uint64_t now) {
  Recent& last = recent_[pos / kGranule % kRecent];
  const bool again = last.at && last.pos == pos && now - last.at < kLingerNs;
  if (again && last.to_all && !silence) return true;
  const bool to_all = again && !silence && last.node != from && outgoing_.path() == Path::multicast;
  Header header;
  header.kind = Kind::repair;
  header.pos = pos;
  // The piece that asked for a release may be the one that was lost.
  if (releases_.asked() > releases_.released()) {
    header.flags = kAsk;
    header.op = low_half(releases_.asked());
  }
  const auto body = ring_.at(pos, bytes);
  if (to_all) {
    outgoing_.to_all(header, body);
  } else if (!outgoing_.to_one(from, header, body)) {
    return false;
  }
  last = {pos, now, from, to_all};
  return true;
}

}  // namespace torii::multicast
