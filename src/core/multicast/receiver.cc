// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/multicast/receiver.h"

#include <algorithm>
#include <utility>

namespace torii::multicast {

Receiver::Receiver(Outgoing& outgoing, Ring& ring, Silence& silence, uint64_t seed)
    : outgoing_(outgoing), ring_(ring), silence_(silence), random_(seed) {}

bool Receiver::on_bytes(const Header& header, std::span<const std::byte> payload, uint64_t done,
                        uint64_t now) {
  const Ring::Place place = ring_.place(header.pos, payload, done);
  if (place == Ring::Place::outside) {
    outside_++;
    return false;
  }
  const bool repaired = header.kind == Kind::repair;
  if (place == Ring::Place::fresh && repaired &&
      silence_.on_repair(writer_of(header.pos), header.node, now))
    lost_ += static_cast<uint32_t>(whole_granules(payload.size()) / kGranule);
  // A repair does not come from who wrote the bytes.
  learn_end(repaired ? revealer_ : header.node, header.pos + whole_granules(payload.size()));
  schedule(place == Ring::Place::fresh && repaired, now);
  return place == Ring::Place::fresh;
}

void Receiver::on_written(uint32_t node, uint64_t end, uint64_t now) {
  learn_end(node, end);
  schedule(false, now);
}

void Receiver::learn_end(uint32_t node, uint64_t end) {
  if (end <= known_end_) return;
  known_end_ = std::min(end, ring_.placed() + ring_.size());
  revealer_ = node;
}

void Receiver::expect(const Interval& interval, uint64_t now) {
  expected_ = interval;
  attempts_ = 0;
  ask_at_ = UINT64_MAX;
  schedule(false, now);
}

// After something has arrived or changed: when to ask. `repaired`: what was asked for comes.
void Receiver::schedule(bool repaired, uint64_t now) {
  if (!gap()) {
    attempts_ = 0;
    ask_at_ = waits() ? now + first_wait() : UINT64_MAX;
  } else if (ring_.placed() >= asked_end_) {
    attempts_ = 0;
    // Several may write at a time: then what another one has written shows no loss.
    uint64_t delay = kOtherWriterNs;
    if (writer_of(ring_.placed()) == revealer_)
      delay = kGapNs + outgoing_.self() % kPeersFirst * kGapStepNs;
    ask_at_ = std::min(ask_at_, now + delay);
  } else if (repaired || ask_at_ == UINT64_MAX) {
    attempts_ = 0;
    ask_at_ = now + kRepeatNs;
  }
}

uint32_t Receiver::writer_of(uint64_t pos) const {
  if (pos < expected_.start || pos >= expected_.end) return revealer_;
  if (!expected_.stride) return expected_.root;
  return static_cast<uint32_t>((pos - expected_.start) / expected_.stride);
}

// Another node than this one and, if there are three, than `node`.
uint32_t Receiver::other_than(uint32_t node) {
  const uint32_t nodes = outgoing_.nodes(), self = outgoing_.self();
  auto other = static_cast<uint32_t>(random_.between(0, nodes - 1));
  while (other == self || (other == node && nodes > 2)) other = (other + 1) % nodes;
  return other;
}

void Receiver::ask(uint64_t now) {
  const bool silence = !gap();
  const uint64_t base = silence ? first_wait() : kRepeatNs;
  ask_at_ = now + std::min(base << attempts_, silence ? kWaitMostNs : kRepeatMostNs);
  const uint64_t from = ring_.placed();
  const uint64_t to =
      std::min(silence ? expected_.end : known_end_, from + kHolesBytes * 8 * kGranule);
  const uint32_t writer = writer_of(from);
  const bool others_first = !silence && outgoing_.nodes() >= kPeersFirst;
  const bool ask_writer = (attempts_ % 2 == 0) != others_first;
  attempts_ = std::min(attempts_ + 1, 8u);
  if (writer == outgoing_.self()) return;  // this node is going to write it
  std::byte bitmap[kHolesBytes];
  uint32_t count;
  const size_t used = ring_.missing(from, to, bitmap, &count);
  Header header;
  header.kind = Kind::nack;
  header.flags = silence ? kWaiting : 0;
  header.pos = from;
  outgoing_.to_one(ask_writer ? writer : other_than(writer), header, {bitmap, used});
  asked_end_ = silence ? from : to;
  silence_.on_request(writer);
  requests_++;
}

void Receiver::poll(uint64_t now) {
  if (now < ask_at_) return;
  if (gap() || waits()) {
    ask(now);
  } else {
    ask_at_ = UINT64_MAX;
  }
}

uint32_t Receiver::take_lost() { return std::exchange(lost_, 0); }

}  // namespace torii::multicast
