// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The firmware: mailboxes, and the protocols `reliable` and `datagram`. A frame that fits into the
// queue of a HUB is switched as a packet, a longer one gets a circuit. Each pair of processes
// numbers its frames, also those to groups: so all stay in order, and a member that has lost a
// frame gets it again.
//
// Recovery is ours, but for the first step of each circuit, which the report has. Without a reply,
// without an acknowledgement, or with a HUB that is not ready for too long the firmware asks the
// HUBs on the way, one after the other, for the status of the output. What it finds unchanged after
// a time that no packet takes is stuck: a connection is closed, a ready bit set. Then it takes down
// its own connections and sends again, by another way if there is one.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "nic/nectar/model.h"

namespace torii::nic::nectar {
namespace {

constexpr uint64_t kPacketNs = 9100;  // of a packet: 90 Mbit/s with packets of 1 kB
constexpr uint64_t kAckNs = 2000000;  // for an acknowledgement; doubled with each try
constexpr unsigned kDoublingsMax = 3;
constexpr uint64_t kWaitNs = 1500000;   // for a reply, for a HUB to be ready
constexpr uint64_t kStatusNs = 100000;  // for the status of an output
constexpr uint64_t kStuckNs = 1000000;  // longer than the longest packet
constexpr uint64_t kOldNs = 50000000;   // what was seen before says nothing

struct FrameHeader {
  uint32_t kind;
  uint32_t targets;  // that follow
  Name from;
};

}  // namespace

std::string Firmware::report() const {
  return format_text(
      "%llu sent again, %llu without a mailbox, %llu ways given up, %llu connections closed, "
      "%llu ready bits set",
      again_, full_, given_up_, closed_, set_);
}

// The state is left after that time at the latest.
void Firmware::enter(State state, uint64_t at_most_ns) {
  state_ = state;
  deadline_ns_ = now_ns() + at_most_ns;
  cab_.processor_.wake_at(deadline_ns_);
}

uint64_t Firmware::step() {
  const bool late = now_ns() >= deadline_ns_;
  Entry command;
  if (cab_.has_input_) {
    receive();
  } else if (cab_.processor_.take_command(&command)) {
    accept(command);
  } else if (state_ == State::prepared) {
    transmit();
  } else if (state_ == State::sending && !cab_.out_is_busy()) {
    sent();
  } else if (state_ == State::idle) {
    expire();
    return state_ == State::idle && prepare() ? kPacketNs : 0;
  } else if (!late) {
    return 0;
  } else if (state_ == State::looking) {
    give_up();
  } else {
    look();
  }
  return kStepNs;
}

// --- what the node asks for ----------------------------------------------------------------------

void Firmware::accept(const Entry& c) {
  if (c.kind == kPostSlot) {
    if (c.slot - kSendSlots < kReceiveSlots && std::ranges::find(free_, c.slot) == free_.end())
      free_.push_back(c.slot);
    return;
  }
  if (c.kind > kSendToGroup || c.slot >= kSendSlots || c.bytes > kFrameMax ||
      std::ranges::find(out_, c.slot, &Out::slot) != out_.end())
    return;
  std::vector<Name> names{c.peer};
  if (c.kind == kSendToGroup) names = cab_.board_.manager.members(c.peer);
  Out out{c.slot, c.bytes, {}};
  for (const Name name : names) {
    if (endpoint_of(name) >= kNodes || (c.kind == kSendToGroup && name == cab_.name_)) continue;
    out.targets.push_back({name, pairs_[endpoint_of(name)].number(name)});
  }
  out_.push_back(std::move(out));
}

// Frames that have left and that all have are over.
void Firmware::finish() {
  std::erase_if(out_, [&](const Out& out) {
    const bool over = out.targets.empty() && (out.slot != slot_ || state_ == State::idle);
    if (over) cab_.processor_.tell({kSent, out.slot, 0, kNobody});
    return over;
  });
}

// Nobody waits for processes that are gone.
void Firmware::purge(Out* out) {
  std::erase_if(out->targets, [&](const Target& target) {
    return cab_.board_.manager.life(cab_.board_.node, target.to) != Life::there;
  });
  finish();
}

Firmware::Out* Firmware::current() {
  const auto it = std::ranges::find(out_, slot_, &Out::slot);
  return slot_ == kNoSlot || it == out_.end() ? nullptr : &*it;
}

// A frame without an acknowledgement for too long is sent again, with all that follow to the same
// processes. The second time something may be stuck.
void Firmware::expire() {
  const uint64_t now = now_ns();
  const auto late = std::ranges::find_if(
      out_, [&](const Out& out) { return out.deadline_ns && now >= out.deadline_ns; });
  if (late == out_.end()) return;
  again_++;
  late->tries++;
  late->deadline_ns = 0;
  for (Out& out : out_)
    for (const Target& target : late->targets)
      if (std::ranges::find(out.targets, target.to, &Target::to) != out.targets.end())
        out.deadline_ns = 0;
  if (late->tries < 2) return;
  slot_ = late->slot;
  purge(&*late);
  const Out* const out = current();
  if (!out) return;
  way_ = way_to(out->targets[out->tries % out->targets.size()].to);
  look();
}

// --- sending ---------------------------------------------------------------------------------

// False: there is nothing to send.
bool Firmware::prepare() {
  if (!acks_.empty()) {
    const Sequence& pair = pairs_[*acks_.begin()];
    acks_.erase(acks_.begin());
    slot_ = kNoSlot;
    build({{pair.from, pair.expected}}, kAck, {});
    return true;
  }
  const auto next = std::ranges::find_if(out_, [](const Out& out) { return out.deadline_ns == 0; });
  if (next == out_.end()) return false;
  slot_ = next->slot;
  purge(&*next);
  if (const Out* const out = current())
    build(out->targets, kData, cab_.memory_.subspan(slot_at(slot_), out->bytes));
  return true;
}

// All connections that lead to the receivers, once each.
void Firmware::build(const std::vector<Target>& targets, FrameKind kind,
                     std::span<const std::byte> frame) {
  std::vector<SwitchOutput> tree, ends;
  for (const Target& target : targets) {
    way_ = way_to(target.to);
    for (const SwitchOutput& connection : way_)
      if (std::ranges::find(tree, connection) == tree.end()) tree.push_back(connection);
    if (!way_.empty()) ends.push_back(way_.back());
  }
  const FrameHeader header{kind, static_cast<uint32_t>(targets.size()), cab_.name_};
  Bytes data;
  add_packet(&data,
             {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(targets)), frame});
  add_command(&data, kCloseEvery);
  const bool fits = tree.size() * kCommandBytes + data.size() <= kQueueBytes;
  missing_ = fits ? 0 : ends.size();
  item_.clear();
  for (const SwitchOutput& c : tree) {
    const bool is_end = std::ranges::find(ends, c) != ends.end();
    const Opcode opcode = fits ? kTestOpenRetry : is_end ? kOpenRetryReply : kOpenRetry;
    add_command(&item_, opcode, c.crossbar, c.port);
  }
  opening_ = fits ? Bytes{} : std::exchange(item_, {});
  item_.insert(item_.end(), data.begin(), data.end());
  state_ = State::prepared;
}

void Firmware::transmit() {
  const bool opens = missing_ > 0;
  enter(opens ? State::opening : State::sending, kWaitNs);
  cab_.start_out(std::exchange(opens ? opening_ : item_, {}));
}

void Firmware::replied(const HubReply& reply) {
  if (state_ == State::looking) judge(reply);
  if (state_ == State::opening && reply.status & kStatusOpened && --missing_ == 0) transmit();
}

void Firmware::sent() {
  state_ = State::idle;
  Out* const out = current();
  if (!out) return;
  if (!reliable_) out->targets.clear();
  out->deadline_ns = now_ns() + (kAckNs << std::min(out->tries, kDoublingsMax));
  cab_.processor_.wake_at(out->deadline_ns);
  finish();
}

// --- recovery --------------------------------------------------------------------------------

void Firmware::look() {
  cab_.pending_.clear();
  at_ = 0;
  ask();
}

void Firmware::command_at_hub(Opcode opcode) {
  Bytes item;
  for (size_t i = 0; i < at_; i++) add_command(&item, kOpen, way_[i].crossbar, way_[i].port);
  add_command(&item, opcode, way_[at_].crossbar, way_[at_].port);
  cab_.steal(std::move(item));
}

void Firmware::ask() {
  if (at_ == way_.size()) return give_up();
  command_at_hub(kStatus);
  enter(State::looking, kStatusNs);
}

void Firmware::judge(const HubReply& reply) {
  if (SwitchOutput{reply.hub, reply.output} != way_[at_]) return;
  const uint64_t now = now_ns();
  Seen& seen = seen_[{reply.hub, reply.output}];
  if (seen.at_ns && seen.status == reply.status && now - seen.at_ns <= kOldNs) {
    const bool stuck = now - seen.at_ns >= kStuckNs;
    if (stuck && !(reply.status & kOutputMine)) command_at_hub(kClose), closed_++;
    if (stuck && !(reply.status & kOutputReady)) command_at_hub(kSetReady), set_++;
  } else {
    seen = {reply.status, now};
  }
  at_++;
  ask();
}

// Takes down all of its connections; then the queue of the first HUB is empty.
void Firmware::give_up() {
  cab_.steal(one_command(kCloseEvery));
  cab_.ready_ = true;
  given_up_++;
  choice_++;
  state_ = State::idle;
  Out* const out = current();
  if (!out) return;
  out->deadline_ns = 0;
  if (!reliable_ && ++out->tries > 2) out->targets.clear();
  finish();
}

// --- receiving -------------------------------------------------------------------------------

void Firmware::receive() {
  cab_.has_input_ = false;
  const bool is_good = !(cab_.in_.control & kFailed) && cab_.in_.checksum == 0;
  cab_.bad_ += !is_good;
  const std::span<const std::byte> data =
      cab_.memory_.subspan(kInputAt, is_good ? std::min(cab_.in_.length, kInputBytes) : 0);
  FrameHeader header{};
  if (data.size() >= sizeof(header)) std::memcpy(&header, data.data(), sizeof(header));
  const size_t front = sizeof(header) + size_t{header.targets} * sizeof(Target);
  if (front <= data.size() && endpoint_of(header.from) < kNodes) {
    const std::span<const std::byte> frame = data.subspan(front);
    for (uint32_t i = 0; i < header.targets; i++) {
      Target target;
      std::memcpy(&target, &data[sizeof(header) + i * sizeof(target)], sizeof(target));
      if (target.to != cab_.name_) continue;
      if (header.kind == kAck) acknowledged(header.from, target.sequence);
      if (header.kind == kData && frame.size() <= kFrameMax)
        take(header.from, target.sequence, frame);
      break;
    }
  }
  cab_.arm_in(kInputAt, kInputBytes);
}

void Firmware::acknowledged(Name from, uint32_t next) {
  for (Out& out : out_)
    std::erase_if(out.targets, [&](const Target& target) {
      return target.to == from && static_cast<int32_t>(next - target.sequence) > 0;
    });
  finish();
}

void Firmware::take(Name from, uint32_t sequence, std::span<const std::byte> frame) {
  if (!reliable_) {
    deliver(from, frame);
    return;
  }
  Sequence& pair = pairs_[endpoint_of(from)];
  if (!pair.hears(from)) return;
  if (sequence == pair.expected) {
    if (!deliver(from, frame)) return;  // it will come again
    pair.expected++;
  }
  acks_.insert(endpoint_of(from));
}

bool Firmware::deliver(Name from, std::span<const std::byte> frame) {
  if (free_.empty()) {
    full_++;
    return false;
  }
  const uint32_t slot = free_.front();
  free_.pop_front();
  std::ranges::copy(frame, cab_.memory_.subspan(slot_at(slot), frame.size()).begin());
  cab_.processor_.tell({kReceived, slot, static_cast<uint32_t>(frame.size()), from});
  return true;
}

}  // namespace torii::nic::nectar
