// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/proof.h"

#include <algorithm>
#include <iterator>

#include "core/base/little_endian.h"

namespace torii::multicast {

Proof::Proof(Outgoing& outgoing, uint64_t now)
    : outgoing_(outgoing), silent_(outgoing.nodes()), began_at_(now), next_at_(now + kAskNs) {
  if (outgoing_.channel().reliable()) {
    over_ = true;
    next_at_ = UINT64_MAX;
  }
  if (over_ || outgoing_.self() != 0) return;
  for (uint32_t node = 1; node < outgoing_.nodes(); node++) silent_.add(node);
  next_at_ = now;
}

// By multicast, whatever the path is.
void Proof::say_hello() {
  std::byte bitmap[kNodesMax / 8];
  const auto words = silent_.words();
  for (size_t i = 0; i < words.size(); i++) store_little<uint64_t>(bitmap + 8 * i, words[i]);
  Header header;
  header.kind = Kind::hello;
  header.op = number_;
  const std::span<const std::byte> payload(bitmap, 8 * words.size());
  HeaderBytes head;
  outgoing_.encode(header, &head);
  const Datagram datagram{head, payload};
  outgoing_.channel().multicast({&datagram, 1});
}

void Proof::tell(uint32_t node) {
  Header header;
  header.kind = Kind::hello;
  header.flags = kVerdict | kUnicast;
  header.arg = outgoing_.path() == Path::tree;
  outgoing_.to_one(node, header);
}

void Proof::on_hello(uint32_t from, const Header& header, std::span<const std::byte> payload,
                     uint64_t now) {
  if (header.flags & kDeaf) {
    const bool served = outgoing_.path() != Path::multicast;
    outgoing_.set_deaf(from, true);
    if (!served && over_) {
      wait_ns_ = kAgainNs;
      try_again_later(now);
    }
  } else if (header.flags & kHeard) {
    if (header.op != number_) return;
    silent_.remove(from);
    if (over_) outgoing_.set_deaf(from, false);
    if (!over_ && silent_.count() == 0) conclude(now);
  } else if (header.flags & kAsk) {
    if (over_ && outgoing_.self() == 0) tell(from);
  } else if (header.flags & kVerdict) {
    if (over_ || header.node != 0) return;
    over_ = true;
    next_at_ = UINT64_MAX;
    if (!header.arg) return;
    outgoing_.set_all_deaf();
    wait_ns_ = kAgainNs;
    try_again_later(now);
  } else {
    const uint32_t self = outgoing_.self();
    if (payload.size() <= self / 8) return;
    if (!(static_cast<unsigned>(payload[self / 8]) >> (self % 8) & 1)) return;
    Header answer;
    answer.kind = Kind::hello;
    answer.flags = kHeard;
    answer.op = header.op;
    outgoing_.to_one(from, answer);
  }
}

// Node 0: the first proof is over.
void Proof::conclude(uint64_t now) {
  over_ = true;
  for (uint32_t node = silent_.next(0); node < outgoing_.nodes(); node = silent_.next(node + 1))
    outgoing_.set_deaf(node, true);
  wait_ns_ = kAgainNs;
  try_again_later(now);
  Header header;
  header.kind = Kind::hello;
  header.flags = kVerdict;
  header.arg = outgoing_.path() == Path::tree;
  outgoing_.to_all(header);
}

void Proof::try_again_later(uint64_t now) {
  next_at_ = outgoing_.path() == Path::multicast ? UINT64_MAX : now + wait_ns_;
  wait_ns_ = std::min(2 * wait_ns_, kAgainMostNs);
}

void Proof::poll(uint64_t now) {
  if (now < next_at_) return;
  if (over_) {
    if (outgoing_.path() == Path::multicast) {
      next_at_ = UINT64_MAX;
      return;
    }
    if (!outgoing_.take_use()) {
      next_at_ = now + wait_ns_;
      return;
    }
    number_++;
    silent_ = outgoing_.deaf();
    say_hello();
    try_again_later(now);
  } else if (outgoing_.self() != 0) {
    Header header;
    header.kind = Kind::hello;
    header.flags = kAsk;
    // Another node does not know it before, but it knows if the group has failed.
    const uint32_t other = (outgoing_.self() + ++hellos_) % outgoing_.nodes();
    outgoing_.to_one(hellos_ % 2 || other == outgoing_.self() ? 0 : other, header);
    next_at_ = now + wait_ns_;
    wait_ns_ = std::min(2 * wait_ns_, kAskMostNs);
  } else if (hellos_ == std::size(kHelloNs)) {
    conclude(now);
  } else {
    say_hello();
    hellos_++;
    next_at_ = began_at_ + (hellos_ < std::size(kHelloNs) ? kHelloNs[hellos_] : kVerdictNs);
  }
}

}  // namespace torii::multicast
