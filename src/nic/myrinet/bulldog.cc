// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// BullDog: each pair of processes numbers its packets. The receiving card acknowledges those that
// come in order and have a place; the sending card keeps them until then, and sends again.
#include <algorithm>

#include "core/base/log.h"
#include "nic/myrinet/model.h"

namespace torii::nic::myrinet {
namespace {

constexpr uint64_t kAckTimeoutNs = 150000;  // for an acknowledgement
constexpr uint32_t kNoSlot = ~0u;
constexpr uint32_t kAckAt = kSlots - kHeaderBytes;
static_assert(sizeof(Shared) <= kAckAt);

struct BulldogHeader {
  uint32_t is_ack;
  Name to, from;
  uint32_t sequence;  // of an acknowledgement: the next one that is wanted
  uint32_t bytes, unused;
};
static_assert(sizeof(BulldogHeader) == kHeaderBytes);

class Bulldog final : public ControlProgram {
 public:
  explicit Bulldog(Lanai& lanai) : l_(lanai), pairs_(kNodes) { l_.set(kMyrinet, kCrcEnable); }

  bool step() override {
    Command command;
    if (l_.is(kRecvInt)) {
      receive();
    } else if (l_.is(kTimeInt)) {
      on_timeout();
    } else if (l_.processor().take_command(&command)) {
      accept(command);
    } else {
      return l_.is(kSendInt) && send_next();
    }
    return true;
  }
  bool idle() const override { return out_.empty(); }
  std::string report() const override {
    return format_text("%llu sent again, %llu without a place, %llu bad", again_, full_, bad_);
  }

 private:
  struct Out {
    uint32_t slot, bytes;
    Name to;
    uint32_t sequence;
    uint64_t sent_ns;  // 0: it is to be sent
  };

  void arm() { l_.arm_receive(frame_at(armed_) - kHeaderBytes, kSlotBytes); }

  void accept(const Command& c) {
    if (c.kind == kPostSlot && c.slot - kSendSlots < kReceiveSlots && c.slot != armed_ &&
        std::ranges::find(free_, c.slot) == free_.end()) {
      free_.push_back(c.slot);
      if (armed_ != kNoSlot) return;
      next_slot();
      arm();
    } else if (c.kind == kSendFrame && c.slot < kSendSlots && c.bytes <= kFrameMax &&
               endpoint_of(c.to) < kNodes &&
               std::ranges::find(out_, c.slot, &Out::slot) == out_.end()) {
      const uint32_t number = pairs_[endpoint_of(c.to)].number(c.to);
      const BulldogHeader header{0, c.to, l_.name(), number, c.bytes, 0};
      l_.store(frame_at(c.slot) - kHeaderBytes, header);
      out_.push_back({c.slot, c.bytes, c.to, number, 0});
    } else {
      bad_++;
    }
  }

  bool send_next() {
    if (!acks_.empty()) {
      const Sequence& pair = pairs_[acks_.front()];
      acks_.pop_front();
      l_.store(kAckAt, BulldogHeader{1, pair.from, l_.name(), pair.expected, 0, 0});
      l_.send(pair.from, kAckAt, kHeaderBytes);
      return true;
    }
    const auto it = std::ranges::find(out_, 0u, &Out::sent_ns);
    if (it == out_.end()) return false;
    it->sent_ns = l_.now_ns();
    start_timer();
    l_.send(it->to, frame_at(it->slot) - kHeaderBytes, kHeaderBytes + it->bytes);
    return true;
  }

  void start_timer() {
    if (!std::exchange(timing_, true)) l_.set(kIt, kAckTimeoutNs / kTickNs);
  }

  // Frames without an acknowledgement for too long are sent again, with all that follow.
  void on_timeout() {
    l_.clear(kTimeInt);
    timing_ = false;
    std::erase_if(out_, [&](const Out& out) {
      const Name last = l_.route(out.to).gone;
      const bool gone = last && !is_earlier(last, out.to);
      if (gone) l_.processor().tell({kGone, out.slot, out.bytes, out.to});
      return gone;
    });
    for (Out& late : out_) {
      if (late.sent_ns == 0 || l_.now_ns() - late.sent_ns < kAckTimeoutNs) continue;
      for (Out& out : out_)
        if (out.to == late.to) out.sent_ns = 0;
      again_++;
    }
    if (!out_.empty()) start_timer();
  }

  void receive() {
    const bool whole = !l_.is(kBuffInt);
    l_.clear(kRecvInt | kTailInt | kBuffInt);
    if (armed_ == kNoSlot) return;  // the host has armed the engine
    const uint32_t at = frame_at(armed_) - kHeaderBytes, n = l_.get(kRmp) - at;
    const auto header = l_.load<BulldogHeader>(at);
    if (!whole || n < kHeaderBytes + 4 || n > kSlotBytes || l_.load<uint32_t>(at + n - 4) != 0 ||
        header.to != l_.name() || endpoint_of(header.from) >= kNodes ||
        header.bytes > n - kHeaderBytes - 4) {
      bad_++;
    } else if (header.is_ack) {
      std::erase_if(out_, [&](const Out& out) {
        const bool is_there =
            out.to == header.from && static_cast<int32_t>(header.sequence - out.sequence) > 0;
        if (is_there) l_.processor().tell({kSent, out.slot, out.bytes, out.to});
        return is_there;
      });
    } else {
      take(header);
    }
    arm();
  }

  void take(const BulldogHeader& header) {
    const uint32_t node = endpoint_of(header.from);
    Sequence& pair = pairs_[node];
    if (!pair.hears(header.from)) return;
    if (header.sequence == pair.expected) {
      if (free_.empty()) {  // it will come again
        full_++;
        return;
      }
      pair.expected++;
      l_.processor().tell({kReceived, armed_, header.bytes, header.from});
      next_slot();
    }
    if (std::ranges::find(acks_, node) == acks_.end()) acks_.push_back(node);
  }

  void next_slot() {
    armed_ = free_.front();
    free_.pop_front();
  }

  Lanai& l_;
  std::vector<Sequence> pairs_;  // by node
  std::deque<Out> out_;          // in the order in which they are to be sent
  std::deque<uint32_t> acks_;    // nodes that are owed one
  std::deque<uint32_t> free_;    // slots for what comes
  uint32_t armed_ = kNoSlot;     // the one that the next packet goes to
  bool timing_ = false;
  unsigned long long again_ = 0, full_ = 0, bad_ = 0;
};

}  // namespace

std::unique_ptr<ControlProgram> make_bulldog(Lanai& lanai) {
  return std::make_unique<Bulldog>(lanai);
}

}  // namespace torii::nic::myrinet
