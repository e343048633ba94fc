// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A process of the same node writes into the ring of the shm driver and into the words beside
// it: requests to put and get, nearly right or arbitrary, and answers to what it was asked for.
// Nothing outside of the exported region changes, and what was asked for ends exactly once.
#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "drivers/interfaces.h"
#include "drivers/shm/arena.h"
#include "drivers/shm/ring.h"
#include "drivers/shm/segment.h"
#include "drivers/shm/shm.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

constexpr uint64_t kBytes = 100;  // of the region, in the middle of thrice as many

struct Counter final : Sink {
  void packet(PeerId, std::span<const std::byte>) override {}
  void done(uint64_t, Status) override { ++dones; }
  void peer_down(PeerId, Status) override { down = true; }
  uint64_t dones = 0;
  bool down = false;
};

struct End {
  End() {
    std::string why;
    env.sink = &sink;
    env.counters = &counters;
    driver = open_shm(env, &why);
    require(driver != nullptr, why.c_str());
  }
  shm::Address address() const {
    shm::Address out;
    driver->address(reinterpret_cast<std::byte*>(&out));
    return out;
  }
  std::span<const std::byte> key(const Region& region) const {
    return std::span(region.key).first(driver->caps().key_bytes);
  }
  Counter sink;
  Counters counters;
  DriverEnv env;
  std::unique_ptr<Driver> driver;
};

PeerId connect(End& from, const End& to) {
  const shm::Address address = to.address();
  PeerId peer = kNoPeer;
  std::string why;
  require(from.driver->connect(std::as_bytes(std::span(&address, 1)), &peer, &why) == Status::ok,
          why.c_str());
  return peer;
}

class World {
 public:
  World() {
    std::string why;
    const shm::Address target = owner_.address();
    require(owner_.driver->reg(memory_ + kBytes, kBytes,
                               kRemoteRead | kRemoteWrite | kRemoteUpdate | kGuarded,
                               &region_) == Status::ok);
    require(liar_.driver->reg(theirs_, kBytes,
                              kRemoteRead | kRemoteWrite | kRemoteUpdate | kGuarded,
                              &their_region_) == Status::ok);
    connect(liar_, owner_);
    peer_ = connect(owner_, liar_);
    owner_.driver->poll(1, 64);
    liar_.driver->poll(1, 64);
    require(owner_.driver->import(peer_, liar_.key(their_region_), &remote_) == Status::ok);
    require(shm::open_segment(target, liar_.address(), &segment_, &why) == Status::ok, why.c_str());
    require(shm::open_segment(liar_.address(), target, &own_, &why) == Status::ok, why.c_str());
    require(segment_.map_ring(0, &ring_));
    ring_end_.base = ring_.base();
    ring_end_.lines = static_cast<uint32_t>(segment_.ring_bytes / shm::kLine);
    stale_.resize(ring_end_.lines / 64);
    ring_end_.stale = stale_.data();
    ring_end_.released = &segment_.claim(0).released;
    ring_end_.position = ring_end_.consumed = segment_.claim(0).start + shm::kFirstPosition;
    ring_end_.room = ring_end_.lines;
    std::memcpy(&guard_, region_.key.data() + owner_.driver->caps().key_bytes - sizeof(guard_),
                sizeof(guard_));
  }
  ~World() {
    liar_.driver.reset();
    for (uint64_t now = 1; !owner_.sink.down && now < 100; now++)
      owner_.driver->poll(now * 100'000'000, 64);
    require(owner_.sink.down && owner_.sink.dones == pending_, "an operation has not ended");
  }

  void step(fuzz::Input& in) {
    switch (in.byte() % 8) {
      case 0:
        return word(in, own_.claim(0));  // of what the owner asked for
      case 1:
        segment_.claim(0).cancelled.store(in.take<uint64_t>());
        return;
      case 2:
      case 3:
        return ask_liar(in);
      default:
        return frame(in);
    }
  }
  void look() {
    if (!owner_.sink.down) owner_.driver->advice()->look(peer_);
    owner_.driver->poll(1, 64);
    for (uint64_t i = 0; i < 3 * kBytes; i++)
      require(i / kBytes == 1 || memory_[i] == 0, "written outside of the region");
  }
  bool cut_off() const { return owner_.sink.down; }

 private:
  static void word(fuzz::Input& in, shm::Claim& claim) {
    std::atomic<uint64_t>* const words[] = {&claim.applied, &claim.taking, &claim.seen};
    const uint64_t value = in.byte() & 1 ? in.take<uint64_t>() : in.byte();
    words[in.below(3)]->store(value);
  }
  // The owner puts to the liar or gets from it; lent memory has just its length.
  void ask_liar(fuzz::Input& in) {
    const bool write = in.byte() & 1;
    const uint64_t bytes = 1 + in.below(kBytes);
    lent_.push_back(std::make_unique<char[]>(bytes));
    const iovec piece{lent_.back().get(), bytes};
    const Rma rma{peer_,        remote_, in.below(unsigned(kBytes - bytes + 1)), &piece, 1, bytes,
                  lent_.size(), false};
    if ((write ? owner_.driver->put(rma) : owner_.driver->get(rma)) == Status::pending) ++pending_;
  }
  void frame(fuzz::Input& in) {
    shm::Request ask{};
    const uint8_t right = in.byte();
    const uint8_t kind = in.byte();
    ask.kind = static_cast<shm::RequestKind>(kind % 5);
    ask.of_many = kind >> 7;
    ask.valid = right & 1 ? guard_.serial : in.take<uint64_t>();
    ask.slot = right & 2 ? guard_.slot : in.take<uint32_t>();
    ask.offset = right & 4 ? in.below(2 * kBytes) : in.take<uint64_t>();
    std::string data = in.text(3 * kBytes);
    ask.bytes = right & 8 ? static_cast<uint32_t>(data.size()) : in.take<uint32_t>();
    if (ask.kind == shm::RequestKind::get && right & 16) {
      ask.bytes = static_cast<uint32_t>(data.size());
      data.clear();
    }
    ask.number = right & 32 ? number_ + 1 : in.take<uint32_t>();
    if (ask.kind == shm::RequestKind::answer && right & 16) {
      ask.slot = 1 + in.below(4);
      ask.number = 1 + in.below(8);
    }
    if (ask.kind == shm::RequestKind::atomic && right & 16) {
      shm::AtomicRequest atomic{in.take<uint64_t>(),
                                in.take<uint64_t>(),
                                AtomicOp(in.byte() % 8),
                                uint8_t(in.byte() % 6),
                                {}};
      ask.bytes = right & 8 ? 8 : 4;
      data.assign(reinterpret_cast<const char*>(&atomic), sizeof(atomic));
    }
    if (ask.kind != shm::RequestKind::answer) ++number_;
    data.insert(0, reinterpret_cast<const char*>(&ask), shm::head_bytes(ask.kind));
    if (right & 64) data.resize(in.below(unsigned(data.size() + 1)));
    std::byte* const to = ring_end_.reserve(static_cast<uint32_t>(data.size()));
    if (!to) return;
    std::memcpy(to, data.data(), data.size());
    ring_end_.publish(static_cast<uint32_t>(data.size()), 0, shm::kKindRequest);
  }

  char memory_[3 * kBytes] = {};
  char theirs_[kBytes] = {};
  End owner_, liar_;
  Region region_, their_region_;
  PeerId peer_ = kNoPeer;
  uint32_t remote_ = 0;
  shm::Segment segment_, own_;  // the owner's; the liar's
  Mapping ring_;
  shm::RingSender ring_end_;
  std::vector<uint64_t> stale_;
  shm::ArenaKey guard_{};
  uint32_t number_ = 0;
  std::vector<std::unique_ptr<char[]>> lent_;
  uint64_t pending_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::error);
  fuzz::Input in(data, size);
  World world;
  while (!in.empty() && !world.cut_off()) {
    world.step(in);
    world.look();
  }
  return 0;
}
