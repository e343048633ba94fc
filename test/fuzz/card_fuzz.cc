// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// All that a process may say to the emulator of its card: its hello, records in its ring, right,
// nearly right or arbitrary, and whatever it writes into the memory that is lent to the card. A
// second process of the same fabric says nothing; it must not be cut off.
#include <memory>

#include "core/base/log.h"
#include "fuzz/input.h"
#include "nic/emulator/guest.h"

using namespace torii;
using namespace torii::nic;
using fuzz::require;

namespace {

constexpr pid_t kNobodysPid = -1;  // the card reaches no memory but what is lent to it

channel::Hello hello_for(const Fabric& fabric, uint32_t node) {
  channel::Hello hello{};
  hello.magic = channel::kMagic;
  hello.node = node;
  std::snprintf(hello.card, sizeof(hello.card), "%s", fabric.kind().name);
  return hello;
}

class World {
 public:
  explicit World(const char* card) {
    FabricOptions options;
    options.card = card;
    std::string why;
    fabric_ = Fabric::make(options, &why);
    require(fabric_ != nullptr, "a fabric");
    quiet_ = open(hello_for(*fabric_, 1));
    require(quiet_ != nullptr, "a quiet process");
    enter();
  }

  void step(fuzz::Input& in) {
    switch (in.byte() % 8) {
      case 0:
        return say_hello(in);
      case 1:
        return move_tail(in.take<uint32_t>());
      case 2:
        return scribble(in);
      case 3: {
        const std::string bytes = in.text(200);
        write(bytes.data(), static_cast<uint32_t>(bytes.size()));
        return move_tail(static_cast<uint32_t>(bytes.size()));
      }
      default:
        return record(in);
    }
  }
  void look() {
    static_cast<void>(guest_->serve(64));
    for (int i = 0; i < 200 && fabric_->engine().next_ns() != ~uint64_t{0}; i++)
      fabric_->engine().step();
    static_cast<void>(quiet_->serve(64));
    require(quiet_->state() == Guest::State::open, "a process that said nothing is cut off");
    if (guest_->state() != Guest::State::open) enter();
  }

 private:
  std::unique_ptr<Guest> open(const channel::Hello& hello) {
    std::string why;
    bool later = false;
    std::unique_ptr<Guest> guest = Guest::open(*fabric_, hello, kNobodysPid, &why, &later);
    require(guest || later || !why.empty(), "a refusal without a reason");
    return guest;
  }
  // The process comes, or comes again.
  void enter() {
    guest_.reset();
    for (int i = 0; i < 100000 && !guest_; i++) {
      guest_ = open(hello_for(*fabric_, 0));
      if (!guest_ && fabric_->engine().next_ns() != ~uint64_t{0}) fabric_->engine().step();
    }
    require(guest_ != nullptr, "a context that never becomes free");
    const auto descriptors = guest_->descriptors();
    lent_bytes_ = liveness_bytes(fabric_->endpoints()) + fabric_->kind().shared_bytes;
    require(channel_.map(descriptors[channel::kChannelFd], 0, sizeof(channel::Memory)) &&
                lent_.map(descriptors[channel::kLentFd], 0, lent_bytes_),
            "its memory");
    tail_ = 0;
  }

  channel::Memory& memory() { return *reinterpret_cast<channel::Memory*>(channel_.base()); }
  void write(const void* bytes, uint32_t count) {
    channel::ring_write(memory().ring, tail_, bytes, count);
  }
  void move_tail(uint32_t by) { memory().tail = tail_ += by; }

  void say_hello(fuzz::Input& in) {
    channel::Hello hello = hello_for(*fabric_, in.below(4));
    const uint8_t wrong = in.byte();
    if (wrong & 1) hello.magic = in.take<uint32_t>();
    if (wrong & 2) hello.node = in.take<uint32_t>();
    if (wrong & 4)
      for (char& c : hello.card) c = static_cast<char>(in.byte());
    hello.cookie_at = in.take<uint64_t>();
    open(hello);  // and leaves at once
  }
  void scribble(fuzz::Input& in) {
    const std::string bytes = in.text(64);
    const size_t at = in.take<uint32_t>() % (lent_bytes_ - bytes.size());
    std::memcpy(lent_.base() + at, bytes.data(), bytes.size());
  }
  void record(fuzz::Input& in) {
    const uint8_t right = in.byte();
    channel::Record record{};
    record.kind = static_cast<channel::Kind>(in.byte() % (right & 1 ? 6 : 7));
    record.question = in.byte();
    record.at = right & 2 ? in.byte() * 4u : in.take<uint32_t>();
    std::string payload;
    if (record.kind == channel::Kind::control) {
      Control control{};
      control.call = in.byte() % 12;
      for (uint64_t& word : control.words) word = right & 4 ? in.byte() : in.take<uint64_t>();
      payload.assign(reinterpret_cast<const char*>(&control), sizeof(control));
    } else if (record.kind == channel::Kind::map || record.kind == channel::Kind::unmap) {
      const channel::MapCall call{in.take<uint64_t>(), in.take<uint64_t>(), in.byte(),
                                  in.take<uint64_t>()};
      payload.assign(reinterpret_cast<const char*>(&call), sizeof(call));
    } else if (record.kind == channel::Kind::store) {
      payload = in.text(64);
      if (right & 8) payload.resize(payload.size() / 4 * 4);
    }
    record.bytes = right & 16 ? static_cast<uint32_t>(payload.size()) : in.take<uint16_t>();
    if (record.kind == channel::Kind::load) record.bytes = in.byte() * 4u;
    payload.resize(channel::padded(static_cast<uint32_t>(payload.size())));
    write(&record, sizeof(record));
    tail_ += static_cast<uint32_t>(sizeof(record));
    write(payload.data(), static_cast<uint32_t>(payload.size()));
    move_tail(static_cast<uint32_t>(payload.size()));
  }

  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Guest> quiet_, guest_;
  Mapping channel_, lent_;
  size_t lent_bytes_ = 0;
  uint32_t tail_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::error);
  fuzz::Input in(data, size);
  constexpr const char* kCards[] = {"skeleton", "tnet", "myrinet", "qsnet", "nectar", "sci"};
  World world(kCards[in.byte() % std::size(kCards)]);
  while (!in.empty()) {
    world.step(in);
    world.look();
  }
  return 0;
}
