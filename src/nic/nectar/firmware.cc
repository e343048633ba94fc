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
#include <deque>
#include <map>
#include <set>
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
constexpr uint32_t kNoSlot = ~0u;

enum FrameKind : uint32_t { kData, kAck };
struct FrameHeader {
  uint32_t kind;
  uint32_t targets;  // that follow
  Name from;
};
struct Target {
  Name to;
  uint32_t sequence;  // of an acknowledgement: the next one that is wanted
  bool operator==(const Target&) const = default;
};
using Connection = SwitchOutput;

class Protocols final : public Firmware {
 public:
  Protocols(Cab& cab, bool reliable) : cab_(cab), reliable_(reliable), pairs_(kNodes) {
    cab_.arm_in(kInputAt, kInputBytes);
  }
  uint64_t step() override;
  void replied(const HubReply& reply) override {
    if (state_ == State::looking) judge(reply);
    if (state_ == State::opening && reply.status & kStatusOpened && --missing_ == 0) transmit();
  }
  bool idle() const override { return out_.empty() && state_ == State::idle; }
  std::string report() const override {
    return format_text(
        "%llu sent again, %llu without a mailbox, %llu ways given up, %llu connections closed, "
        "%llu ready bits set",
        again_, full_, given_up_, closed_, set_);
  }

 private:
  enum class State { idle, prepared, opening, sending, looking };
  struct Pair {
    Name to = kNobody, from = kNobody;
    uint32_t next = 0, expected = 0;
  };
  struct Out {
    uint32_t slot, bytes;
    std::vector<Target> targets;  // that have still to acknowledge it
    uint64_t deadline_ns = 0;     // 0: it is to be sent
    unsigned tries = 0;
  };
  struct Seen {
    uint32_t status = 0;
    uint64_t at_ns = 0;
  };

  // The state is left after that time at the latest.
  void enter(State state, uint64_t at_most_ns) {
    state_ = state;
    deadline_ns_ = cab_.now_ns() + at_most_ns;
    cab_.wake_at(deadline_ns_);
  }
  void accept(const Entry& command);
  // Nobody waits for processes that are gone.
  void purge(Out* out) {
    std::erase_if(out->targets, [&](const Target& target) {
      return cab_.manager().life(cab_.node(), target.to) != Life::there;
    });
    finish();
  }
  // Frames that have left and that all have.
  void finish() {
    std::erase_if(out_, [&](const Out& out) {
      const bool over = out.targets.empty() && (out.slot != slot_ || state_ == State::idle);
      if (over) cab_.tell({kSent, out.slot, 0, kNobody});
      return over;
    });
  }
  void expire();
  std::vector<Connection> way_to(Name to) {
    return cab_.manager().way(cab_.node(), endpoint_of(to), choice_);
  }
  bool prepare();
  void build(const std::vector<Target>& targets, FrameKind kind, std::span<const std::byte> frame);
  void transmit() {
    const bool opens = missing_ > 0;
    enter(opens ? State::opening : State::sending, kWaitNs);
    cab_.start_out(std::exchange(opens ? opening_ : item_, {}));
  }
  void sent();
  Out* current() {
    const auto it = std::ranges::find(out_, slot_, &Out::slot);
    return slot_ == kNoSlot || it == out_.end() ? nullptr : &*it;
  }
  // Recovery.
  void look() {
    cab_.stop_out();
    at_ = 0;
    ask();
  }
  void ask();
  void command_at_hub(Opcode opcode) {
    Bytes item;
    for (size_t i = 0; i < at_; i++) add_command(&item, kOpen, way_[i].crossbar, way_[i].port);
    add_command(&item, opcode, way_[at_].crossbar, way_[at_].port);
    cab_.steal(std::move(item));
  }
  void judge(const HubReply& reply);
  void give_up();
  // Receiving.
  void receive();
  void acknowledged(Name from, uint32_t next);
  void take(Name from, uint32_t sequence, std::span<const std::byte> frame);
  bool deliver(Name from, std::span<const std::byte> frame);

  Cab& cab_;
  const bool reliable_;
  std::vector<Pair> pairs_;    // by node
  std::deque<Out> out_;        // in the order in which they are to be sent
  std::set<uint32_t> acks_;    // nodes that are owed one
  std::deque<uint32_t> free_;  // slots for what comes
  // The item that is being sent.
  State state_ = State::idle;
  uint64_t deadline_ns_ = 0;  // of the state
  uint32_t slot_ = kNoSlot;   // of which frame; kNoSlot: an acknowledgement
  Bytes opening_, item_;      // commands of a circuit; what follows, or the packet
  size_t missing_ = 0;        // replies
  std::vector<Connection> way_;
  size_t at_ = 0;                                       // on the way: the HUB that is asked
  std::map<std::pair<uint32_t, uint32_t>, Seen> seen_;  // by HUB and output
  uint32_t choice_ = 0;                                 // among ways that are as good
  unsigned long long again_ = 0, full_ = 0, given_up_ = 0, closed_ = 0, set_ = 0;
};

uint64_t Protocols::step() {
  const bool late = cab_.now_ns() >= deadline_ns_;
  Entry command;
  if (cab_.has_input()) {
    receive();
  } else if (cab_.take_command(&command)) {
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

void Protocols::accept(const Entry& c) {
  if (c.kind == kPostSlot) {
    if (c.slot - kSendSlots < kReceiveSlots && std::ranges::find(free_, c.slot) == free_.end())
      free_.push_back(c.slot);
    return;
  }
  if (c.kind > kSendToGroup || c.slot >= kSendSlots || c.bytes > kFrameMax ||
      std::ranges::find(out_, c.slot, &Out::slot) != out_.end())
    return;
  std::vector<Name> names{c.peer};
  if (c.kind == kSendToGroup) names = cab_.manager().members(c.peer);
  Out out{c.slot, c.bytes, {}};
  for (const Name name : names) {
    if (endpoint_of(name) >= kNodes || (c.kind == kSendToGroup && name == cab_.name())) continue;
    Pair& pair = pairs_[endpoint_of(name)];
    if (pair.to != name) pair.to = name, pair.next = 0;
    out.targets.push_back({name, pair.next++});
  }
  out_.push_back(std::move(out));
}

// A frame without an acknowledgement for too long is sent again, with all that follow to the same
// processes. The second time something may be stuck.
void Protocols::expire() {
  const uint64_t now = cab_.now_ns();
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
bool Protocols::prepare() {
  if (!acks_.empty()) {
    const Pair& pair = pairs_[*acks_.begin()];
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
    build(out->targets, kData, cab_.memory(slot_at(slot_), out->bytes));
  return true;
}

// All connections that lead to the receivers, once each.
void Protocols::build(const std::vector<Target>& targets, FrameKind kind,
                      std::span<const std::byte> frame) {
  std::vector<Connection> tree, ends;
  for (const Target& target : targets) {
    way_ = way_to(target.to);
    for (const Connection& connection : way_)
      if (std::ranges::find(tree, connection) == tree.end()) tree.push_back(connection);
    if (!way_.empty()) ends.push_back(way_.back());
  }
  const FrameHeader header{kind, static_cast<uint32_t>(targets.size()), cab_.name()};
  Bytes data;
  add_packet(&data,
             {std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(targets)), frame});
  add_command(&data, kCloseEvery);
  const bool fits = tree.size() * kCommandBytes + data.size() <= kQueueBytes;
  missing_ = fits ? 0 : ends.size();
  item_.clear();
  for (const Connection& c : tree) {
    const bool is_end = std::ranges::find(ends, c) != ends.end();
    const Opcode opcode = fits ? kTestOpenRetry : is_end ? kOpenRetryReply : kOpenRetry;
    add_command(&item_, opcode, c.crossbar, c.port);
  }
  opening_ = fits ? Bytes{} : std::exchange(item_, {});
  item_.insert(item_.end(), data.begin(), data.end());
  state_ = State::prepared;
}

void Protocols::sent() {
  state_ = State::idle;
  Out* const out = current();
  if (!out) return;
  if (!reliable_) out->targets.clear();
  out->deadline_ns = cab_.now_ns() + (kAckNs << std::min(out->tries, kDoublingsMax));
  cab_.wake_at(out->deadline_ns);
  finish();
}

// --- recovery --------------------------------------------------------------------------------

void Protocols::ask() {
  if (at_ == way_.size()) return give_up();
  command_at_hub(kStatus);
  enter(State::looking, kStatusNs);
}

void Protocols::judge(const HubReply& reply) {
  if (Connection{reply.hub, reply.output} != way_[at_]) return;
  const uint64_t now = cab_.now_ns();
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
void Protocols::give_up() {
  cab_.steal(one_command(kCloseEvery));
  cab_.set_ready();
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

void Protocols::receive() {
  const std::span<const std::byte> data = cab_.memory(kInputAt, cab_.take_input());
  FrameHeader header{};
  if (data.size() >= sizeof(header)) std::memcpy(&header, data.data(), sizeof(header));
  const size_t front = sizeof(header) + size_t{header.targets} * sizeof(Target);
  if (front <= data.size() && endpoint_of(header.from) < kNodes) {
    const std::span<const std::byte> frame = data.subspan(front);
    for (uint32_t i = 0; i < header.targets; i++) {
      Target target;
      std::memcpy(&target, &data[sizeof(header) + i * sizeof(target)], sizeof(target));
      if (target.to != cab_.name()) continue;
      if (header.kind == kAck) acknowledged(header.from, target.sequence);
      if (header.kind == kData && frame.size() <= kFrameMax)
        take(header.from, target.sequence, frame);
      break;
    }
  }
  cab_.arm_in(kInputAt, kInputBytes);
}

void Protocols::acknowledged(Name from, uint32_t next) {
  for (Out& out : out_)
    std::erase_if(out.targets, [&](const Target& target) {
      return target.to == from && static_cast<int32_t>(next - target.sequence) > 0;
    });
  finish();
}

void Protocols::take(Name from, uint32_t sequence, std::span<const std::byte> frame) {
  if (!reliable_) {
    deliver(from, frame);
    return;
  }
  Pair& pair = pairs_[endpoint_of(from)];
  if (pair.from != from) {  // a later process of that node; or frames of an earlier one
    if (pair.from && static_cast<int16_t>((from >> 16) - (pair.from >> 16)) < 0) return;
    pair.from = from;
    pair.expected = 0;
  }
  if (sequence == pair.expected) {
    if (!deliver(from, frame)) return;  // it will come again
    pair.expected++;
  }
  acks_.insert(endpoint_of(from));
}

bool Protocols::deliver(Name from, std::span<const std::byte> frame) {
  if (free_.empty()) {
    full_++;
    return false;
  }
  const uint32_t slot = free_.front();
  free_.pop_front();
  std::ranges::copy(frame, cab_.memory(slot_at(slot), frame.size()).begin());
  cab_.tell({kReceived, slot, static_cast<uint32_t>(frame.size()), from});
  return true;
}

}  // namespace

std::unique_ptr<Firmware> make_firmware(Cab& cab, Protocol protocol) {
  return std::make_unique<Protocols>(cab, protocol == kReliableProtocol);
}

}  // namespace torii::nic::nectar
