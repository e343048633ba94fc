// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// As Myricom's API: frames go from the copy block to the wire and from the wire to the copy block,
// one at a time each way. What has no buffer there, or a bad CRC, is lost.
#include "core/base/log.h"
#include "nic/myrinet/model.h"

namespace torii::nic::myrinet {
namespace {

struct RawHeader {
  Name to, from;
  uint32_t bytes, unused;
};
constexpr uint32_t kOutAt = kSlots, kInAt = kSlots + 0x4000;
constexpr uint32_t kOutFrame = kOutAt + sizeof(RawHeader), kInFrame = kInAt + sizeof(RawHeader);

class Raw final : public ControlProgram {
 public:
  explicit Raw(Lanai& lanai) : l_(lanai) {
    l_.set(kMyrinet, kCrcEnable);
    arm();
  }
  bool step() override {
    const bool moves = !l_.is(kDmaInt);
    if (out_ == State::moves && !moves) return loaded();
    if (in_ == State::moves && !moves) return stored();
    if (l_.is(kRecvInt)) return receive();
    if (in_ == State::full && out_ != State::moves) {
      in_ = State::moves;
      l_.move(true, posts_.front().address, kInFrame, in_header_.bytes);
    } else if (out_ == State::full && l_.is(kSendInt)) {
      out_ = State::empty;
      l_.store(kOutAt, RawHeader{sending_.to, l_.name(), sending_.bytes, 0});
      l_.send(sending_.to, kOutAt, sizeof(RawHeader) + sending_.bytes);
    } else if (out_ == State::empty && in_ != State::moves && l_.is(kSendInt) && !sends_.empty()) {
      out_ = State::moves;
      sending_ = sends_.front();
      sends_.pop_front();
      l_.move(false, sending_.address, kOutFrame, sending_.bytes);
    } else {
      return accept();
    }
    return true;
  }
  bool idle() const override { return sends_.empty() && out_ == State::empty; }
  std::string report() const override {
    return format_text("%llu without a buffer, %llu bad", full_, bad_);
  }

 private:
  enum class State { empty, moves, full };

  void arm() { l_.arm_receive(kInAt, 0x4000); }

  bool accept() {
    Command c;
    if (!l_.processor().take_command(&c)) return false;
    std::deque<Command>& queue = c.kind == kPostSlot ? posts_ : sends_;
    if (c.kind > kPostSlot || c.bytes > kRawFrameMax || endpoint_of(c.to) >= kNodes ||
        queue.size() == kRawSlots) {
      bad_++;
    } else {
      queue.push_back(c);
    }
    return true;
  }
  // The frame is in the SRAM; its buffer is the host's again.
  bool loaded() {
    out_ = l_.get(kDmaSts) ? State::empty : State::full;
    bad_ += l_.get(kDmaSts) != 0;
    l_.processor().tell({kSent, sending_.slot, sending_.bytes, sending_.to});
    return true;
  }
  bool stored() {
    const uint32_t bytes = l_.get(kDmaSts) ? 0 : in_header_.bytes;
    l_.processor().tell({kReceived, posts_.front().slot, bytes, in_header_.from});
    posts_.pop_front();
    in_ = State::empty;
    arm();
    return true;
  }
  bool receive() {
    const bool whole = !l_.is(kBuffInt);
    l_.clear(kRecvInt | kTailInt | kBuffInt);
    if (in_ != State::empty) return true;  // the host has armed the engine
    const uint32_t bytes = l_.get(kRmp) - kInAt;
    in_header_ = l_.load<RawHeader>(kInAt);
    const bool good = whole && bytes >= sizeof(RawHeader) + 4 && bytes <= 0x4000 &&
                      l_.load<uint32_t>(kInAt + bytes - 4) == 0 && in_header_.to == l_.name() &&
                      in_header_.bytes <= bytes - sizeof(RawHeader) - 4;
    bad_ += !good;
    full_ += good && posts_.empty();
    if (good && !posts_.empty()) {
      in_ = State::full;
    } else {
      arm();
    }
    return true;
  }

  Lanai& l_;
  std::deque<Command> sends_, posts_;
  State out_ = State::empty, in_ = State::empty;
  Command sending_{};
  RawHeader in_header_{};
  unsigned long long full_ = 0, bad_ = 0;
};

}  // namespace

std::unique_ptr<ControlProgram> make_raw(Lanai& lanai) { return std::make_unique<Raw>(lanai); }

}  // namespace torii::nic::myrinet
