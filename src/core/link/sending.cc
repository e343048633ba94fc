// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/link/crc32c.h"
#include "core/link/link_driver.h"

namespace torii::link {
namespace {

constexpr uint64_t kLateAck = 4;      // delays of an acknowledgement, after which it is late
constexpr int32_t kOvertakenMax = 3;  // later frames that may arrive before one is missed
constexpr uint32_t kAtOnce = 2;       // frames under way up to which one is sent by send() itself
constexpr uint32_t kAcksPerWindow = 2;
constexpr uint32_t kAskedLeast = 4;      // frames that share a question, if the window has room
constexpr size_t kBatches = 4;           // in a window that is used in whole batches
constexpr uint32_t kDoublingsMost = 12;  // of the time between hellos
constexpr uint64_t kMs = 1000000;        // in nanoseconds
constexpr uint64_t kShunNs = 200000000;
constexpr uint64_t kBurstNs = 50000;  // longer between two frames: they are no burst

}  // namespace

// Returns the end.
std::byte* LinkDriver::append(const Tx& tx, std::byte* out, bool body) {
  std::memcpy(out, tx.head, tx.head_bytes);
  out += tx.head_bytes;
  for (const iovec& piece : std::span(tx.pieces, body ? tx.piece_count : 0)) {
    std::memcpy(out, piece.iov_base, piece.iov_len);
    out += piece.iov_len;
  }
  return out;
}

void LinkDriver::fill(const Tx& tx, Sent* out) {
  Sent& frame = *out;
  frame.cookie = tx.cookie;
  frame.memory = pool_.get();
  const bool lent = tx.lent && tx.piece_count == 1 && caps_.lend_min;
  if (lent) {
    frame.lent = tx.pieces[0].iov_base;
    frame.lent_bytes = tx.body_bytes;
  }
  frame.memory->size =
      static_cast<uint32_t>(kHeaderBytes + tx.head_bytes + (lent ? 0 : tx.body_bytes));
  append(tx, frame.memory->bytes + kHeaderBytes, !lent);
  frame.open = !tx.cookie && !lent && tx.head_bytes + tx.body_bytes <= caps_.mtu / 2;
  if (!frame.open && !lent) set_crc(&frame);
}

// Each part has a number, and its place in the core's memory, from where it is sent and sent again.
void LinkDriver::fill_long(const Tx& tx, Peer& peer) {
  const size_t count = numbers_of(tx);
  const auto* body = static_cast<const std::byte*>(tx.pieces[0].iov_base);
  // All parts have one length, so that drivers and cards can send many at once.
  const size_t each = (tx.head_bytes + tx.body_bytes + count - 1) / count;
  size_t left = tx.body_bytes;
  for (size_t i = 0; i < count; i++) {
    Sent& frame = peer.sent.emplace_back();
    frame.part = true;
    size_t room = each;
    if (i == 0) {
      frame.parts = static_cast<uint8_t>(count);
      frame.memory = pool_.get();
      append(tx, frame.memory->bytes + kHeaderBytes + kPartsBytes, false);
      frame.memory->size = static_cast<uint32_t>(kHeaderBytes + kPartsBytes + tx.head_bytes);
      room -= tx.head_bytes;
    }
    frame.lent = body;
    frame.lent_bytes = static_cast<uint32_t>(std::min(left, room));
    body += frame.lent_bytes;
    left -= frame.lent_bytes;
  }
  peer.sent.back().ends = true;
  peer.sent.back().cookie = tx.cookie;
}

size_t LinkDriver::numbers_of(const Tx& tx) const {
  const size_t bytes = tx.head_bytes + tx.body_bytes;
  return bytes <= caps_.mtu ? 1 : (bytes + part_max() - 1) / part_max();
}

// Short frames that wait share one of the link's, and with it the way through two kernels. False:
// this one does not join the last one that was taken.
bool LinkDriver::join(Peer& peer, const Tx& tx) {
  if (peer.sent.empty() || !peer.sent.back().open || tx.cookie) return false;
  Sent& last = peer.sent.back();
  const size_t bytes = tx.head_bytes + tx.body_bytes, used = last.memory->size - kHeaderBytes;
  const size_t lengths = last.several ? kLengthBytes : 2 * kLengthBytes;
  if (bytes > caps_.mtu / 2 || used + bytes + lengths > caps_.mtu) return false;
  std::byte* const first = last.memory->bytes + kHeaderBytes;
  if (!std::exchange(last.several, true)) {
    std::memmove(first + kLengthBytes, first, used);
    write_length(used, first);
  }
  std::byte* out = first + used + lengths - kLengthBytes;
  write_length(bytes, out);
  out = append(tx, out + kLengthBytes);
  last.memory->size = static_cast<uint32_t>(out - last.memory->bytes);
  return true;
}

// A cipher needs none.
void LinkDriver::set_crc(Sent* frame) const {
  if (cipher_) return;
  const FrameMemory& memory = *frame->memory;
  frame->payload_crc = crc32c(0, memory.bytes + kHeaderBytes, memory.size - kHeaderBytes);
  if (frame->lent) frame->payload_crc = crc32c(frame->payload_crc, frame->lent, frame->lent_bytes);
}

// Exported memory may change at any time, also between its checksum and the driver's look at it:
// such a frame is lost, so from the second time on a copy goes.
void LinkDriver::read_lent(Sent* frame) {
  if (frame->transmissions > 0) {
    FrameMemory& memory = *frame->memory;
    std::memcpy(memory.bytes + memory.size, frame->lent, frame->lent_bytes);
    memory.size += frame->lent_bytes;
    frame->lent = nullptr;
    frame->lent_bytes = 0;
  }
  set_crc(frame);
}

size_t LinkDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  while (taken < batch.size()) {
    const PeerId id = batch[taken].peer;
    size_t end = taken + 1;
    while (end < batch.size() && batch[end].peer == id) end++;
    const auto run = batch.subspan(taken, end - taken);
    LossyGroup* const group = lossy_group(id);
    taken += group ? send_lossy(*group, run) : send_to(id, run);
    if (taken < end) break;
  }
  return taken;
}

// Little is under way, or nothing has left for a while: then this is no burst, and the next poll
// may be far away.
bool LinkDriver::leaves_at_once(Peer& peer) {
  const bool little = peer.flying < kAtOnce;
  const bool all_left = peer.next == peer.first + peer.sent.size();
  if (!little && !all_left) return false;
  look_at_clock();
  return little || now_ns_ - peer.sent.back().sent_ns >= kBurstNs;
}

// Frames that come together leave together: at once, or the next poll sends them with others.
size_t LinkDriver::send_to(PeerId id, std::span<const Tx> batch) {
  Peer& peer = peer_of(id);
  if (peer.down != Status::ok) {
    for (const Tx& tx : batch)
      if (tx.cookie) completed_.push_back({tx.cookie, peer.down});
    return batch.size();
  }
  const bool at_once = leaves_at_once(peer);
  if (peer.sent.empty()) peer.waiting_since_ns = now_ns_;
  peer.refused = false;
  size_t taken = 0;
  const size_t before = peer.sent.size();
  for (const Tx& tx : batch) {
    const size_t numbers = numbers_of(tx);
    TORII_ASSERT(tx.head_bytes <= kHeadMax);
    TORII_ASSERT(numbers == 1 || (tx.lent && tx.piece_count == 1 && tx.cookie &&
                                  tx.head_bytes + tx.body_bytes <= caps_.long_max));
    if (numbers > 1 || !join(peer, tx)) {
      peer.refused = peer.sent.size() + numbers > window_;
      if (peer.refused) break;
      if (numbers > 1) {
        fill_long(tx, peer);
      } else {
        fill(tx, &peer.sent.emplace_back());
      }
      if (tx.awaited) peer.awaited = peer.first + peer.sent.size();
    }
    taken++;
  }
  if (taken == 0) return 0;
  if (at_once) send_waiting(id, peer, std::max<size_t>(peer.sent.size() - before, 1));
  activate(id, peer);
  return taken;
}

Header LinkDriver::header_for(const Peer& peer, Kind kind, uint64_t seq) const {
  Header header;
  header.kind = kind;
  header.seq = seq;
  header.ack = peer.expected;
  header.sack = peer.slots.bits(peer.expected + 1);
  header.whole = whole_tags_;
  return header;
}

// A long frame that may leave as one?
bool LinkDriver::starts_long(Peer& peer, const Rail& rail, size_t at) const {
  const Sent& frame = peer.sent[at];
  return frame.parts && !frame.transmissions && rail.long_frames.may_go(now_ns_);
}

// How many frames from `at` on may go. While more is to come and something is under way, a wide
// window is used in whole batches, and one of twice a long frame in whole long frames.
size_t LinkDriver::room_for(Peer& peer, const Rail& rail, size_t at) const {
  const uint32_t window = rail.window.frames();
  const size_t waiting = peer.sent.size() - at;
  size_t room = std::min<size_t>(waiting, window > rail.flying ? window - rail.flying : 0);
  if (room && starts_long(peer, rail, at)) {
    const size_t parts = peer.sent[at].parts;
    return rail.flying && room < parts && window >= 2 * parts ? 0 : room;
  }
  const bool more = peer.refused || room < waiting;
  if (more && rail.flying && !peer.lost && window >= kBatches * batch_) room -= room % batch_;
  return room;
}

// Says who this process is. The peer may not be listening yet. After the deadline it is asked to
// say so if it will never be.
void LinkDriver::greet(PeerId id, Peer& peer) {
  if (greeting_rest(peer) > 0) return;
  const auto now_ms = static_cast<uint32_t>(now_ns_ / kMs);
  const bool in_vain = peer.greetings && now_ms - peer.unheard_ms >= deadline_ns_ / kMs;
  if (!send_control(id, peer, Kind::hello, static_cast<uint8_t>(peer.greetings % kRailsMax),
                    in_vain))
    return;
  if (peer.greetings++ == 0) peer.unheard_ms = now_ms;
  peer.greeted_ns = now_ns_;
}

// How long the next hello can wait: each time twice as long.
uint64_t LinkDriver::greeting_rest(const Peer& peer) const {
  if (!peer.greetings) return 0;
  const uint32_t doublings = std::min<uint32_t>(peer.greetings - 1, kDoublingsMost);
  const uint64_t end_ns =
      peer.greeted_ns + std::min(greeting_gap_ns_ << doublings, deadline_ns_ / kTriesPerDeadline);
  return end_ns > now_ns_ ? end_ns - now_ns_ : 0;
}

// Sends frames that wait, at most `most`, as far as the window allows. None before the peer has
// answered: it would not know whose they are.
void LinkDriver::send_waiting(PeerId id, Peer& peer, size_t most) {
  if (!peer.heard) return greet(id, peer);
  size_t at = first_waiting(peer);
  while (most > 0 && at < peer.sent.size()) {
    size_t indices[kBatchMax], count = 0;
    const uint8_t number = rail_for(id, peer, peer.sent.size() - at);
    Rail& rail = peer.rails[number];
    const size_t room = std::min<size_t>(most, room_for(peer, rail, at));
    const size_t limit = std::min(room, batch_);
    for (; at < peer.sent.size() && count < limit; at++) {
      const Sent& frame = peer.sent[at];
      if (frame.stage != Sent::Stage::waiting) continue;
      if (count && count + frame.parts > limit && starts_long(peer, rail, at)) break;
      // The driver below may still read an earlier transmission.
      if (!frame.memory || frame.memory->users == 1) indices[count++] = at;
    }
    if (room == 0 && peer.first + peer.sent.size() > peer.next) rail.held_back = true;
    if (count == 0 || transmit(id, peer, number, {indices, count}) < count) return;
    most -= std::min(count, most);
  }
}

// How many of these frames leave in one of the driver's below: parts of a long one, the first time.
size_t LinkDriver::group_at(Peer& peer, Rail& rail, std::span<const size_t> indices) const {
  if (!peer.sent[indices[0]].part || !rail.long_frames.may_go(now_ns_)) return 1;
  size_t count = 0;
  while (count < indices.size() && indices[count] == indices[0] + count) {
    const Sent& frame = peer.sent[indices[count]];
    if (!frame.part || frame.transmissions || (frame.parts && count)) break;
    count++;
    if (frame.ends) break;
  }
  return std::max<size_t>(count, 1);
}

// The frames as they leave: a header in the first one's memory, and a body that is in the rest of
// that memory, and maybe lent.
Sealing LinkDriver::prepare(Peer& peer, const Rail& rail, const Group& group) {
  Sent& frame = peer.sent[group.first];
  const Sent& last = peer.sent[group.first + group.count - 1];
  if (frame.part && !frame.memory) {
    frame.memory = pool_.get();
    frame.memory->size = kHeaderBytes + kPartsBytes;
  }
  std::byte* bytes = frame.memory->bytes;
  if (frame.part)
    write_parts({static_cast<uint8_t>(group.count), frame.parts > 0, last.ends},
                bytes + kHeaderBytes);
  uint32_t crc = frame.payload_crc;
  size_t lent_bytes = frame.lent_bytes;
  if (group.count > 1) {
    lent_bytes = static_cast<size_t>(static_cast<const std::byte*>(last.lent) -
                                     static_cast<const std::byte*>(frame.lent)) +
                 last.lent_bytes;
    if (!cipher_) {
      crc = crc32c(0, bytes + kHeaderBytes, frame.memory->size - kHeaderBytes);
      crc = crc32c(crc, frame.lent, lent_bytes);
    }
  } else if (frame.lent) {
    read_lent(&frame);
    crc = frame.payload_crc;
    lent_bytes = frame.lent_bytes;
  } else if (std::exchange(frame.open, false)) {
    set_crc(&frame);
    crc = frame.payload_crc;
  }
  const Kind kind = frame.part ? Kind::part : frame.several ? Kind::several : Kind::data;
  Header header = header_for(peer, kind, peer.first + group.first);
  // Twice in a window the sender has to hear what has arrived. In a small one that is when it
  // is full: who is answered has one frame under way, and its answer tells that it came.
  const uint32_t window = rail.window.frames();
  const uint32_t part = std::max(window / kAcksPerWindow, std::min(window, kAskedLeast));
  const uint64_t end = header.seq + group.count;
  const bool awaited = peer.awaited > peer.asked && peer.awaited <= end;
  header.ask = frame.transmissions > 0 || (awaited && end == peer.first + peer.sent.size()) ||
               (group.count > 1 && !rail.long_frames.proven()) ||
               (end - peer.first >= part && end - peer.asked >= part);
  if (header.ask) peer.asked = std::max(peer.asked, end);
  header.sealed = cipher_ != nullptr;
  write_unsealed(header, crc, bytes);
  Sealing out;
  out.head = bytes;
  out.unsent = unsent_of(header);
  out.key = &peer.process->to;
  out.body = {bytes + kHeaderBytes, frame.memory->size - kHeaderBytes};
  if (frame.lent) out.rest = {static_cast<const std::byte*>(frame.lent), lent_bytes};
  out.whole = whole_tags_;
  return out;
}

// Hands frames of the window to the driver below; returns how many it took.
size_t LinkDriver::transmit(PeerId id, Peer& peer, uint8_t number,
                            std::span<const size_t> indices) {
  auto& [batch, groups, sealings, pieces, sealed] = *outgoing_;
  batch.clear();
  groups.clear();
  sealings.clear();
  Rail& rail = peer.rails[number];
  const DriverCaps& below = below_->caps();
  const uint64_t asked = peer.asked;
  std::byte* room = sealed.get();
  for (size_t i = 0; i < indices.size();) {
    Group& group = groups.emplace_back(indices[i], group_at(peer, rail, indices.subspan(i)));
    i += group.count;
    if (group.count > 1) rail.long_frames.left();
    Sealing& one = sealings.emplace_back(prepare(peer, rail, group));
    group.asked = peer.asked;
    one.out = room;
    if (cipher_) room += one.body.size() + one.rest.size() + cipher_->growth();
  }
  seal().seal(sealings);
  for (size_t at = 0; at < groups.size(); at++) {
    const Sealing& one = sealings[at];
    // A body that is sealed in its place follows the header, or is lent.
    const size_t head =
        cipher_ ? kHeaderBytes : std::min<size_t>(kHeaderBytes + one.body.size(), kHeadMax);
    if (cipher_) {
      pieces[at] = {one.out, one.body.size() + one.rest.size() + cipher_->growth()};
    } else if (one.rest.data()) {
      pieces[at] = {const_cast<std::byte*>(one.rest.data()), one.rest.size()};
    } else {
      pieces[at] = {one.head + head, kHeaderBytes + one.body.size() - head};
    }
    Tx& tx = batch.emplace_back();
    tx.peer = id;
    tx.head = one.head;
    tx.head_bytes = static_cast<uint32_t>(head);
    tx.pieces = &pieces[at];
    tx.piece_count = pieces[at].iov_len ? 1 : 0;
    tx.body_bytes = static_cast<uint32_t>(pieces[at].iov_len);
    tx.rail = number;
    if (groups[at].count == 1 && tx.body_bytes > below.inline_max) tx.cookie = next_operation_++;
  }
  const size_t taken = below_->send(batch);
  peer.asked = taken ? groups[taken - 1].asked : asked;
  size_t numbers = 0;
  for (size_t i = 0; i < taken; i++) {
    if (batch[i].cookie) {
      FrameMemory* const memory = peer.sent[groups[i].first].memory;
      operations_[batch[i].cookie] = {id, 0, memory};
      memory->users++;
    }
    has_left(peer, number, groups[i]);
    numbers += groups[i].count;
  }
  if (taken < batch.size() && !rail.long_frames.proven()) rail.long_frames.refused();
  return numbers;
}

void LinkDriver::has_left(Peer& peer, uint8_t number, const Group& group) {
  Rail& rail = peer.rails[number];
  const bool on_trial = group.count > 1 && !rail.long_frames.proven();
  for (size_t at = group.first; at < group.first + group.count; at++) {
    Sent& frame = peer.sent[at];
    if (frame.transmissions++) {
      counters_.link_retransmits++;
      peer.lost--;
    }
    frame.stage = Sent::Stage::flying;
    frame.sent_ns = now_ns_;
    frame.rail = number;
    frame.delivered = rail.delivered;
    frame.turn = ++rail.turns;
    frame.together = 0;
    frame.on_trial = on_trial;
  }
  peer.sent[group.first + group.count - 1].together = static_cast<uint8_t>(group.count);
  rail.flying += static_cast<uint32_t>(group.count);
  peer.flying += static_cast<uint32_t>(group.count);
  peer.next = std::max(peer.next, peer.first + group.first + group.count);
  acknowledgement_left(peer);
}

// A frame that goes to the peer tells it what has arrived.
void LinkDriver::acknowledgement_left(Peer& peer) { peer.owes_ack = peer.ack_at_once = false; }

// An ack tells of all frames that have arrived, also of those far behind a missing one. A peer that
// was never heard may not know this process, but answers a hello as it does a probe.
bool LinkDriver::send_control(PeerId id, Peer& peer, Kind kind, uint8_t rail, bool ask) {
  if (!peer.process) return false;
  if (kind == Kind::probe && !peer.heard) kind = Kind::hello;
  std::byte bytes[kHeaderBytes + std::max(kSackMoreBytes, kHelloBytes + kAddressMax)];
  std::byte* const payload = bytes + kHeaderBytes;
  Header header = header_for(peer, kind, ++peer.words_sent);
  header.ask = ask;
  size_t size = kHeaderBytes;
  if (kind == Kind::hello) {
    write_hello(members_ ? members_->self() : Who{}, own_cipher(), payload);
    address(payload + kHelloBytes);
    size += kHelloBytes + caps_.address_bytes;
    header.whole = true;
  }
  if (kind == Kind::ack && peer.slots.any()) {
    MoreSack more;
    for (size_t i = 0; i < more.size(); i++) more[i] = peer.slots.bits(peer.expected + 65 + 64 * i);
    more.back() &= ~uint64_t{0} >> 1;  // the last one is beyond the window
    if (std::any_of(more.begin(), more.end(), [](uint64_t word) { return word != 0; })) {
      write_more(more, payload);
      size += kSackMoreBytes;
      header.whole = true;
    }
  }
  const uint32_t crc = crc32c(0, payload, size - kHeaderBytes);
  write_header(header, crc, peer.process->to.tag, std::span(bytes, size).subspan(kHeaderBytes),
               bytes);
  Tx tx;
  tx.peer = id;
  tx.head = bytes;
  tx.head_bytes = static_cast<uint32_t>(size);
  tx.rail = rail;
  // A first word and its answer need no way that was found before.
  tx.anywhere = kind == Kind::hello || kind == Kind::ack || kind == Kind::bye;
  return below_->send({&tx, 1}) == 1;
}

// Not yet, if a frame may soon go there that tells it: who answers saves a frame. One that was so
// late is not polling while it waits for something to say; its next ones do not wait.
bool LinkDriver::ack_is_due(const Peer& peer) const {
  return peer.ack_at_once || peer.prompt_acks > 0 || now_ns_ - peer.owes_since_ns >= ack_delay_ns_;
}

void LinkDriver::send_ack(PeerId id, Peer& peer) {
  // By the way by which the peer reached us: another one may be broken.
  if (!send_control(id, peer, Kind::ack, kHeardRail)) return;
  if (now_ns_ - peer.owes_since_ns >= kLateAck * ack_delay_ns_) {
    peer.prompt_acks = Peer::kPromptAcks;
  } else if (peer.prompt_acks > 0) {
    peer.prompt_acks--;
  }
  acknowledgement_left(peer);
}

void LinkDriver::lost(Peer& peer, Sent& frame) {
  if (frame.together > 1) peer.rails[frame.rail].long_frames.lost(now_ns_);
  frame.stage = Sent::Stage::waiting;
  peer.rails[frame.rail].flying--;
  peer.flying--;
  peer.lost++;
}

// Which frames have to go again? Those that later ones have overtaken, and after the timeout first
// the newest, for the answer itself may be late or lost, then all. Those may be too long for the
// path, so a probe asks whether the peer polls.
void LinkDriver::find_losses(PeerId id, Peer& peer) {
  if (!peer.flying) return;
  look_at_rails(id, peer);
  if (peer.has_gaps) find_overtaken(peer);
  for (uint8_t i = 0; i < peer.rails.size(); i++)
    if (peer.rails[i].flying && time_out(peer, i) && send_control(id, peer, Kind::probe, i))
      counters_.link_probes++;
}

void LinkDriver::find_overtaken(Peer& peer) {
  const auto under_way = static_cast<size_t>(peer.next - peer.first);
  for (size_t i = 0; i < under_way; i++) {
    Sent& frame = peer.sent[i];
    if (frame.stage != Sent::Stage::flying) continue;
    Rail& rail = peer.rails[frame.rail];
    // Frames by other rails overtake nobody.
    const auto later = static_cast<int32_t>(rail.arrived - frame.turn);
    const auto after = static_cast<int32_t>(rail.arrived_left - coarse(frame.sent_ns));
    const bool much_later =
        later > 0 && after > 0 && static_cast<uint32_t>(after) > coarse(rail.timer.smoothed_ns());
    if (later < kOvertakenMax && !much_later) continue;
    const uint64_t age_ns = now_ns_ - frame.sent_ns;
    // Its own second try may still be on its way.
    if (age_ns <= (frame.transmissions == 1 ? 1 : 2) * rail.timer.smoothed_ns()) continue;
    lost(peer, frame);
    // That says nothing about other traffic.
    if (!frame.on_trial) rail.window.lost(peer.first + i, peer.next);
  }
}

// First the newest goes again, for the peer may only be late, and nothing else overtakes the last
// frames of a burst: its answer tells what is missing before it (RFC 8985, 7). True: all go again.
bool LinkDriver::time_out(Peer& peer, uint8_t number) {
  Rail& rail = peer.rails[number];
  const Sent& oldest = peer.sent[oldest_flying(peer, number)];
  if (now_ns_ - std::max(oldest.sent_ns, rail.restarted_ns) < rail.timer.timeout_ns()) return false;
  size_t newest = newest_flying(peer, number);
  // Whether a long frame arrived is told by its last part: another one goes.
  if (peer.sent[newest].together > 1 && newest > 0 &&
      peer.sent[newest - 1].stage == Sent::Stage::flying)
    newest--;
  lost(peer, peer.sent[newest]);
  rail.restarted_ns = now_ns_;
  rail.shunned_ns = now_ns_ + kShunNs;
  if (rail.timer.timed_out() <= 1) return false;
  lose_all(peer, number);
  rail.window.stalled(peer.next);
  return true;
}

}  // namespace torii::link
