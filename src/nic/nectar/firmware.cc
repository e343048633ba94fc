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
// HUBs on the way for the status of their outputs. What it finds unchanged after a time that no
// packet takes is stuck: a connection is closed, a ready bit set. Then it takes down its own
// connections and sends again, by another way if there is one.
#include <algorithm>
#include <deque>
#include <list>
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
constexpr uint64_t kStatusNs = 100000;  // for the status of all outputs on a way
constexpr uint64_t kStuckNs = 1000000;  // longer than the longest packet
constexpr uint64_t kOldNs = 50000000;   // what was seen before says nothing

struct FrameHeader {
  uint32_t kind;
  uint32_t targets;  // that follow
  Name from;
};

}  // namespace

class Firmware final : public Program {
 public:
  Firmware(Cab& cab, bool reliable) : cab_(cab), reliable_(reliable), pairs_(kNodes) {
    cab_.arm_in(kInputAt, kInputBytes);
  }
  uint64_t step() override {
    Entry command;
    if (cab_.has_input_) {
      receive();
    } else if (cab_.processor_.take_command(&command)) {
      accept(command);
    } else if (state_ == State::prepared) {
      transmit();
    } else if (state_ == State::sending && !cab_.out_is_busy()) {
      leave(true);
    } else if (state_ == State::idle) {
      finish();
      expire();
      if (state_ == State::idle) prepare();
      return state_ == State::prepared ? kPacketNs : 0;
    } else if (now_ns() < deadline_ns_) {
      return 0;
    } else {
      look();
    }
    return kStepNs;
  }

  void replied(const HubCommand& reply, uint32_t status) override {
    if (state_ == State::looking) judge({reply.hub, reply.output}, status);
    if (state_ == State::opening && status & kStatusOpened && --missing_ == 0) transmit();
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
  enum FrameKind : uint32_t { kData, kAck };
  struct Target {
    Name to;
    uint32_t sequence;  // of an acknowledgement: the next one that is wanted
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

  uint64_t now_ns() const { return cab_.board_.engine.now_ns(); }
  std::vector<SwitchOutput> way_to(Name to) {
    return cab_.board_.manager.routes().way(cab_.board_.node, endpoint_of(to), choice_);
  }
  // The state is left after that time at the latest.
  void enter(State state, uint64_t at_most_ns) {
    state_ = state;
    deadline_ns_ = now_ns() + at_most_ns;
    cab_.processor_.wake_at(deadline_ns_);
  }

  // --- what the node asks for ------------------------------------------------------------------

  void accept(const Entry& c) {
    if (c.kind == kPostSlot) {
      if (c.slot - kSendSlots < kReceiveSlots && std::ranges::find(free_, c.slot) == free_.end())
        free_.push_back(c.slot);
      return;
    }
    if (c.kind > kSendToGroup || c.slot >= kSendSlots || c.bytes > kFrameMax ||
        std::ranges::find(out_, c.slot, &Out::slot) != out_.end())
      return;
    const bool is_group = c.kind == kSendToGroup;
    Out& out = out_.emplace_back(Out{c.slot, c.bytes, {}});
    for (const Name name : is_group ? cab_.board_.manager.members(c.peer) : std::vector{c.peer})
      if (endpoint_of(name) < kNodes && !(is_group && name == cab_.name_))
        out.targets.push_back({name, pairs_[endpoint_of(name)].number(name)});
  }

  // Nobody waits for processes that are gone, nor for one that acknowledges all before `next`.
  // Frames that have left and that all have are over.
  void finish(Name acknowledger = kNobody, uint32_t next = 0) {
    for (Out& out : out_)
      std::erase_if(out.targets, [&](const Target& target) {
        return (target.to == acknowledger && static_cast<int32_t>(next - target.sequence) > 0) ||
               cab_.board_.manager.life(cab_.board_.node, target.to) != Life::there;
      });
    std::erase_if(out_, [&](const Out& out) {
      const bool over = out.targets.empty() && &out != current_;
      if (over) cab_.processor_.tell({kSent, out.slot, 0, kNobody});
      return over;
    });
  }

  // A frame without an acknowledgement for too long is sent again, with all that follow to the same
  // processes. The second time something may be stuck.
  void expire() {
    const auto late = std::ranges::find_if(out_, [now = now_ns()](const Out& out) {
      return out.deadline_ns && now >= out.deadline_ns;
    });
    if (late == out_.end()) return;
    again_++;
    for (Out& out : out_)
      for (const Target& target : late->targets)
        if (std::ranges::find(out.targets, target.to, &Target::to) != out.targets.end())
          out.deadline_ns = 0;
    if (++late->tries < 2) return;
    current_ = &*late;
    way_ = way_to(late->targets[late->tries % late->targets.size()].to);
    look();
  }

  // --- sending ---------------------------------------------------------------------------------

  void prepare() {
    if (!acks_.empty()) {
      const Sequence& pair = pairs_[acks_.extract(acks_.begin()).value()];
      return build({{pair.from, pair.expected}}, kAck, {});
    }
    const auto next = std::ranges::find(out_, 0u, &Out::deadline_ns);
    if (next == out_.end()) return;
    current_ = &*next;
    build(next->targets, kData, cab_.memory_.subspan(slot_at(next->slot), next->bytes));
  }

  // All connections that lead to the receivers, once each.
  void build(const std::vector<Target>& targets, FrameKind kind, std::span<const std::byte> frame) {
    std::vector<SwitchOutput> tree;
    for (const Target& target : targets) {
      way_ = way_to(target.to);
      for (const SwitchOutput& connection : way_)
        if (std::ranges::find(tree, connection) == tree.end()) tree.push_back(connection);
    }
    const FrameHeader header{kind, static_cast<uint32_t>(targets.size()), cab_.name_};
    Bytes data = make_bytes(header, std::as_bytes(std::span(targets)));
    append(&data, frame);
    opening_ = item_ = {};
    add_packet(&item_, data, true);
    const bool fits = tree.size() * kCommandBytes + item_.size() <= kQueueBytes;
    missing_ = fits ? 0 : tree.size();
    for (const SwitchOutput& c : tree)
      append(&opening_, one_command(fits ? kTestOpenRetry : kOpenRetryReply, c));
    if (fits) item_.insert(item_.begin(), opening_.begin(), opening_.end());
    state_ = State::prepared;
  }

  void transmit() {
    const bool opens = missing_ > 0;
    enter(opens ? State::opening : State::sending, kWaitNs);
    cab_.start_out(std::exchange(opens ? opening_ : item_, {}));
  }

  // The frame is no longer being sent. If it has left it is sent again unless all have it in time,
  // else at once.
  void leave(bool has_left) {
    state_ = State::idle;
    if (Out* const out = std::exchange(current_, nullptr)) {
      out->deadline_ns = has_left ? now_ns() + (kAckNs << std::min(out->tries, kDoublingsMax)) : 0;
      if (has_left) cab_.processor_.wake_at(out->deadline_ns);
      if (!reliable_ && (has_left || ++out->tries > 2)) out->targets.clear();
    }
    finish();
  }

  // --- recovery --------------------------------------------------------------------------------

  // Asks all HUBs on the way, once.
  void look() {
    if (state_ == State::looking) return give_up();
    Bytes item;
    cab_.pending_.clear();
    for (const SwitchOutput& c : way_)
      for (const Opcode opcode : {kStatus, kOpen}) append(&item, one_command(opcode, c));
    missing_ = way_.size();
    if (way_.empty()) return give_up();
    cab_.steal(std::move(item));
    enter(State::looking, kStatusNs);
  }

  void judge(const SwitchOutput& at, uint32_t status) {
    if (std::ranges::find(way_, at) == way_.end()) return;
    Seen& seen = seen_[{at.crossbar, at.port}];
    const uint64_t now = now_ns();
    if (!seen.at_ns || seen.status != status || now - seen.at_ns > kOldNs) seen = {status, now};
    const bool is_stuck = now - seen.at_ns >= kStuckNs;
    const bool is_held = is_stuck && !(status & kOutputMine);
    const bool is_full = is_stuck && !(status & kOutputReady);
    if (is_held) cab_.steal(one_command(kClose, at));
    if (is_full) cab_.steal(one_command(kSetReady, at));
    closed_ += is_held;
    set_ += is_full;
    if (--missing_ == 0) give_up();
  }

  // Takes down all of its connections; then the queue of the first HUB is empty.
  void give_up() {
    cab_.steal(one_command(kCloseEvery));
    cab_.ready_ = true;
    given_up_++;
    choice_++;
    leave(false);
  }

  // --- receiving -------------------------------------------------------------------------------

  void receive() {
    cab_.has_input_ = false;
    const bool is_good = !(cab_.in_.control & kFailed) && cab_.in_.checksum == 0;
    cab_.bad_ += !is_good;
    const std::span<const std::byte> data =
        cab_.memory_.subspan(kInputAt, is_good ? std::min(cab_.in_.length, kInputBytes) : 0);
    const bool has_header = data.size() >= sizeof(FrameHeader);
    const FrameHeader header = has_header ? header_of<FrameHeader>(data) : FrameHeader{};
    const size_t front = sizeof(header) + size_t{header.targets} * sizeof(Target);
    const bool is_whole = front <= data.size() && endpoint_of(header.from) < kNodes;
    for (uint32_t i = 0; is_whole && i < header.targets; i++) {
      const auto target = header_of<Target>(data.subspan(sizeof(header) + i * sizeof(Target)));
      if (target.to != cab_.name_) continue;
      if (header.kind == kAck) finish(header.from, target.sequence);
      if (header.kind == kData) take(header.from, target.sequence, data.subspan(front));
      break;
    }
    cab_.arm_in(kInputAt, kInputBytes);
  }

  void take(Name from, uint32_t sequence, std::span<const std::byte> frame) {
    Sequence& pair = pairs_[endpoint_of(from)];
    if (frame.size() > kFrameMax || (reliable_ && !pair.hears(from))) return;
    if (!reliable_ || sequence == pair.expected) {
      full_ += free_.empty();
      if (free_.empty()) return;  // a reliable one will come again
      const uint32_t slot = free_.front();
      free_.pop_front();
      std::ranges::copy(frame, cab_.memory_.subspan(slot_at(slot), frame.size()).begin());
      cab_.processor_.tell({kReceived, slot, static_cast<uint32_t>(frame.size()), from});
      pair.expected++;
    }
    if (reliable_) acks_.insert(endpoint_of(from));
  }

  Cab& cab_;
  const bool reliable_;
  std::vector<Sequence> pairs_;  // by node
  std::list<Out> out_;           // in the order in which they are to be sent
  std::set<uint32_t> acks_;      // nodes that are owed one
  std::deque<uint32_t> free_;    // slots for what comes
  // The item that is being sent.
  State state_ = State::idle;
  uint64_t deadline_ns_ = 0;  // of the state
  Out* current_ = nullptr;    // of which frame; null: an acknowledgement
  Bytes opening_, item_;      // commands of a circuit; what follows, or the packet
  size_t missing_ = 0;        // replies
  std::vector<SwitchOutput> way_;
  std::map<std::pair<uint32_t, uint32_t>, Seen> seen_;  // by HUB and output
  uint32_t choice_ = 0;                                 // among ways that are as good
  unsigned long long again_ = 0, full_ = 0, given_up_ = 0, closed_ = 0, set_ = 0;
};

std::unique_ptr<Program> make_firmware(Cab& cab, bool reliable) {
  return std::make_unique<Firmware>(cab, reliable);
}

}  // namespace torii::nic::nectar
