// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/log.h"
#include "core/link/link_driver.h"

namespace torii::link {

// False: it is no frame of a link. Nothing in the header may be believed yet.
bool LinkDriver::readable(const Packet& packet, Header* header) {
  if (!parse_header(packet.frame, header)) {
    counters_.link_corrupt++;
    forget_later(packet.from);
    return false;
  }
  const Peer* peer = find(packet.from);
  const uint64_t next = !peer                          ? 0
                        : carries_frames(header->kind) ? peer->expected
                                                       : peer->words_heard;
  header->seq = whole_number(next, static_cast<uint32_t>(header->seq));
  header->ack = whole_number(peer ? peer->first : 0, static_cast<uint32_t>(header->ack));
  return true;
}

// Is the frame from who it says it is from, and as it was sent? Nothing is kept for one that is
// not. `tag`: what it ought to be, but for a payload under it, or null.
bool LinkDriver::genuine(Packet& packet, Header* header, const uint64_t* tag,
                         std::span<const std::byte>* payload) {
  const std::span<const std::byte> frame = packet.frame;
  *payload = frame.subspan(kHeaderBytes);
  const bool whole = header->sealed || checksum_is_right(frame);
  if (whole) {
    const Peer* const peer = find(packet.from);
    const bool known = peer && peer->process;
    if (known ? proves(frame, header, *peer->process, tag, payload)
              : header->kind == Kind::hello && introduces(packet, *header))
      return true;
  }

  // Damage is commoner than malice; under a cipher nobody can tell one from the other.
  if (whole) {
    counters_.link_forged++;
  } else {
    counters_.link_corrupt++;
  }
  forget_later(packet.from);
  return false;
}

// Is it sealed as this link's frames are, by that process? *payload becomes what was encrypted.
bool LinkDriver::proves(std::span<const std::byte> frame, Header* header, const Process& process,
                        const uint64_t* tag, std::span<const std::byte>* payload) {
  if (header->sealed != (cipher_ && carries_frames(header->kind))) return false;
  if (whole_tags_ && !header->whole) return false;
  if (tag && !header->whole) return TagSeal::has(frame.data(), *tag);
  Opening opening = opening_of(frame, *header, process.from);
  if (!header->sealed) return tag_.open(opening);
  opening.out = opened_.get();
  if (payload->size() > opened_max_ || !cipher_->open(opening)) return false;
  *payload = {opened_.get(), payload->size() - cipher_->growth()};
  return parse_payload(*payload, header);
}

// A sender without a right tag leaves nothing behind.
void LinkDriver::forget_later(PeerId from) {
  if (from != kNoPeer && !find(from)) strangers_.push_back(from);
}

void LinkDriver::packet(PeerId from, std::span<const std::byte> frame) {
  Packet one{from, frame};
  packets({&one, 1});
}

void LinkDriver::packets(std::span<Packet> all) {
  const uint32_t disconnected = disconnected_;
  while (!all.empty()) {
    LossyGroup* const group = lossy_group(all[0].from);
    size_t count = 1;
    while (count < std::min(all.size(), kSipLanes) && lossy_group(all[count].from) == group)
      count++;
    if (group) {
      take_lossy(*group, all.first(count));
    } else if (count == 1) {
      take_one(all[0]);
    } else {
      take_together(all.first(count));
    }
    // The driver below may have given a number of these to somebody else.
    if (disconnected != disconnected_) return;
    all = all.subspan(count);
  }
}

void LinkDriver::take_one(Packet& packet) {
  Header header;
  std::span<const std::byte> payload;
  if (readable(packet, &header) && genuine(packet, &header, nullptr, &payload))
    take_genuine(packet, header, payload);
}

// At most kSipLanes. Their tags are computed side by side, which takes little longer than one.
void LinkDriver::take_together(std::span<Packet> all) {
  Packet* packets[kSipLanes];
  Header headers[kSipLanes];
  const uint64_t* right[kSipLanes] = {};
  Opening openings[kSipLanes];
  uint64_t tags[kSipLanes];
  size_t count = 0, known = 0;
  for (Packet& packet : all) {
    Header& header = headers[count];
    if (!readable(packet, &header)) continue;
    const Peer* const peer = find(packet.from);
    if (peer && peer->process && !whole_tags_ && !header.sealed) {
      openings[known] = opening_of(packet.frame, header, peer->process->from);
      right[count] = &tags[known++];
    }
    packets[count++] = &packet;
  }
  if (known > 0) TagSeal::expect({openings, known}, tags);
  const uint32_t disconnected = disconnected_;
  for (size_t i = 0; i < count && disconnected == disconnected_; i++) {
    std::span<const std::byte> payload;
    if (genuine(*packets[i], &headers[i], right[i], &payload))
      take_genuine(*packets[i], headers[i], payload);
  }
}

void LinkDriver::take_genuine(Packet& packet, const Header& header,
                              std::span<const std::byte> payload) {
  const PeerId from = packet.from;
  if (!looked_at_clock_) look_at_clock();
  Peer& peer = *find(from);
  if (peer.down != Status::ok) return;
  // Nobody acknowledges what was never sent.
  if (header.ack > peer.next && header.ack - peer.next < ~uint64_t{0} / 2) {
    counters_.link_corrupt++;
    return;
  }
  // A frame that was recorded and sent again is no sign of life.
  const bool news = is_new(peer, header), first = !peer.heard;
  if (news) {
    packet.genuine = peer.heard = true;
    peer.waiting_since_ns = peer.heard_ns = now_ns_;
    peer.gone_since = 0;
  }
  if (header.kind == Kind::hello && !agrees(from, peer, read_hello(payload))) return;
  if (!carries_frames(header.kind)) {
    if (!news) {
      counters_.link_duplicates++;
      return;
    }
    peer.words_heard = header.seq;
    peer.probed |= header.kind == Kind::probe;
  }
  if (header.ack - peer.first <= kWindow) acknowledged(peer, header, read_more(payload));
  // Frames that have arrived are reported before the peer's next words, which may be its last.
  if (!completed_.empty()) told_ += tell_completed();
  if (header.kind == Kind::probe || header.kind == Kind::hello) owe_ack(peer, true);
  if (carries_frames(header.kind)) {
    watch(peer);
    owe_ack(peer, header.ask);
    if (news) {
      received(from, peer, header, payload);
    } else {
      counters_.link_duplicates++;
      peer.ack_at_once = true;
    }
  }
  if (header.kind == Kind::bye) {
    // The peer was told that these have arrived.
    const unsigned left = std::exchange(budget_, static_cast<unsigned>(kWindow));
    hand_up_waiting(from, peer);
    budget_ = left;
    if (header.ask)
      troubles_.emplace_back(
          from, first ? "it does not know this process: its launcher names another address of this "
                        "rank, or none; its own message says more"
                      : "its frames do not arrive here, and its own message says more");
    end(from, peer, header.ask ? Status::peer_dead : Status::peer_closed);
  }
  if (peer.down != Status::ok || peer.owes_ack || !peer.sent.empty()) activate(from, peer);
}

// Parts that came together are all new: if one of them is missing, all go again, one by one.
bool LinkDriver::is_new(const Peer& peer, const Header& header) {
  if (!carries_frames(header.kind)) return header.seq - peer.words_heard - 1 < ~uint64_t{0} / 2;
  const uint64_t distance = header.seq - peer.expected;
  const uint32_t count = header.parts.count;
  return distance < kWindow && distance + count <= kWindow &&
         !peer.slots.has_any(header.seq, count);
}

void LinkDriver::acknowledged(Peer& peer, const Header& header, const MoreSack& more) {
  uint32_t news[kRailsMax] = {};
  const uint64_t first_before = peer.first;
  const auto arrived = [&](Sent& frame) {
    if (frame.stage == Sent::Stage::arrived) return;
    news[frame.rail]++;
    retire(peer, frame);
  };
  for (; peer.first != header.ack; peer.first++) {
    arrived(peer.sent.front());
    if (peer.sent.front().cookie) completed_.push_back({peer.sent.front().cookie, Status::ok});
    peer.sent.pop_front();
  }
  const size_t under_way = static_cast<size_t>(peer.next - peer.first);
  peer.has_gaps = header.sack != 0;
  const auto look_at = [&](uint64_t bits, size_t first) {
    for (; bits; bits &= bits - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(bits)) + first;
      if (i >= under_way) break;
      arrived(peer.sent[i]);
    }
  };
  look_at(header.sack, 1);
  if (header.kind == Kind::ack)
    for (size_t i = 0; i < more.size(); i++) look_at(more[i], 65 + 64 * i);
  // Known to be there is enough: nothing would make the peer say so again.
  while (!peer.sent.empty() && peer.sent.front().stage == Sent::Stage::arrived) {
    if (peer.sent.front().cookie) completed_.push_back({peer.sent.front().cookie, Status::ok});
    peer.sent.pop_front();
    peer.first++;
  }
  for (size_t i = 0; i < peer.rails.size(); i++) {
    if (!news[i]) continue;
    peer.rails[i].restarted_ns = now_ns_;
    peer.rails[i].timer.answered();
    if (std::exchange(peer.rails[i].held_back, false)) peer.rails[i].window.arrived(news[i]);
  }
  examine_oldest(peer, first_before, header.kind);
}

// After a second transmission nobody knows which one was answered. Nor when the answer came, if
// this process has not polled for most of the time: a pause of the application is no round trip.
bool LinkDriver::measures(const Sent& sent) const {
  const uint64_t passed_ns = now_ns_ - sent.sent_ns;
  return sent.transmissions == 1 &&
         (passed_ns < RetransmitTimer::kFirstNs || 2 * silence_ns_ <= passed_ns);
}

// The frame has arrived. It stays in the window until those before it have, too: not before that
// can it be handed up there.
void LinkDriver::retire(Peer& peer, Sent& sent) {
  Rail& rail = peer.rails[sent.rail];
  const bool flying = sent.stage == Sent::Stage::flying;
  if (flying) {
    peer.flying--;
    rail.flying--;
  } else {
    peer.lost--;
    if (sent.transmissions == 1) rail.window.was_late();
  }
  if (sent.transmissions == 1 && sent.together > 1) rail.long_frames.arrived();
  sent.stage = Sent::Stage::arrived;
  rail.delivered++;
  // An acknowledgement that comes too soon for the last transmission answers an earlier one.
  const bool last = sent.transmissions == 1 || now_ns_ - sent.sent_ns >= rail.speed.least_ns();
  if (last && static_cast<int32_t>(sent.turn - rail.arrived) > 0) {
    rail.arrived = sent.turn;
    rail.arrived_left = coarse(sent.sent_ns);
  }
  if (sent.together && measures(sent)) {
    rail.timer.measured(now_ns_ - sent.sent_ns);
    // A frame that was taken for lost tells of the peer, which was late, not of the rail.
    if (flying)
      rail.speed.measured(now_ns_, now_ns_ - sent.sent_ns, rail.delivered - sent.delivered);
  }
  if (sent.memory) pool_.put(std::exchange(sent.memory, nullptr));
}

// Something arrived that is to be acknowledged: with the next frame that goes there anyway, or by a
// frame of its own, now or after a while.
void LinkDriver::owe_ack(Peer& peer, bool at_once) {
  if (!std::exchange(peer.owes_ack, true)) peer.owes_since_ns = now_ns_;
  peer.ack_at_once |= at_once || peer.slots.any();
}

// A frame that is_new().
void LinkDriver::received(PeerId from, Peer& peer, const Header& header,
                          std::span<const std::byte> payload) {
  const uint64_t seq = header.seq;
  const uint32_t count = header.parts.count;
  if (seq == peer.expected) {
    peer.expected += count;
    hand_up(from, peer, header.kind, header.parts, payload);
    if (peer.slots.any()) hand_up_waiting(from, peer);
    return;
  }
  peer.slots.put(seq, header.kind, header.parts, payload);
  peer.ack_at_once = true;
}

void LinkDriver::hand_up_waiting(PeerId from, Peer& peer) {
  for (; peer.slots.has(peer.expected) && budget_; budget_--) {
    const Slots::Frame frame = peer.slots.take(peer.expected);
    peer.expected += frame.parts.count;
    owe_ack(peer, false);  // a frame sent by an earlier upcall did not tell of this one
    hand_up(from, peer, frame.kind, frame.parts, frame.payload);
  }
}

void LinkDriver::hand_up(PeerId from, Peer& peer, Kind kind, const Parts& parts,
                         std::span<const std::byte> payload) {
  // Only who does not keep to the rules leaves a long frame unfinished.
  if (peer.assembly && (kind != Kind::part || parts.begins)) {
    counters_.link_corrupt++;
    peer.assembly.reset();
  }
  if (kind == Kind::data) return upper_.packet(from, payload);
  if (kind == Kind::several) return hand_up_several(from, payload);
  hand_up_parts(from, peer, parts, payload.subspan(kPartsBytes));
}

void LinkDriver::hand_up_parts(PeerId from, Peer& peer, const Parts& parts,
                               std::span<const std::byte> payload) {
  if (parts.begins && parts.ends) return upper_.packet(from, payload);
  if (parts.begins) {
    peer.assembly = std::move(spare_assembly_);
    if (!peer.assembly) peer.assembly = std::make_unique<std::vector<std::byte>>();
  }
  if (!peer.assembly || peer.assembly->size() + payload.size() > kLongMax) {
    counters_.link_corrupt++;
    peer.assembly.reset();
    return;
  }
  peer.assembly->insert(peer.assembly->end(), payload.begin(), payload.end());
  if (!parts.ends) return;
  auto whole = std::move(peer.assembly);  // upcalls may end the peer
  upper_.packet(from, *whole);
  whole->clear();
  spare_assembly_ = std::move(whole);
}

void LinkDriver::hand_up_several(PeerId from, std::span<const std::byte> payload) {
  while (payload.size() >= kLengthBytes) {
    const size_t bytes = read_length(payload.data());
    if (bytes > payload.size() - kLengthBytes) break;
    upper_.packet(from, payload.subspan(kLengthBytes, bytes));
    payload = payload.subspan(kLengthBytes + bytes);
  }
  if (!payload.empty()) counters_.link_corrupt++;
}

}  // namespace torii::link
