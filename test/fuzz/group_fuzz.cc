// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames to a group from somebody who knows its key: their tags are right, or they are
// encrypted as they ought to be, with senders, numbers and contents that are nearly right or
// arbitrary. The link hands up what was in a frame, once, and from its sender.
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/little_endian.h"
#include "core/base/param.h"
#include "core/link/crc32c.h"
#include "core/link/group_header.h"
#include "core/trust/key_pair.h"
#include "drivers/sim/sim.h"
#include "fuzz/below.h"
#include "fuzz/input.h"
#include "trust.h"

using namespace torii;
using fuzz::Below;
using fuzz::link_over;
using fuzz::require;

namespace {

constexpr uint32_t kMembers = 4;
constexpr uint32_t kMtu = 600;
constexpr size_t kMark = 12;  // sender and number, before the payload

struct Victim final : Sink {
  void packet(PeerId, std::span<const std::byte>) override { require(false, "who has sent it?"); }
  void packets(std::span<Packet> all) override {
    for (const Packet& one : all) {
      require(one.from == group && one.sender < kMembers && one.sender != 0, "a member's");
      require(one.frame.size() >= kMark, "what was sent");
      const auto sender = load_little<uint32_t>(one.frame.data());
      const auto number = load_little<uint64_t>(one.frame.data() + 4);
      require(sender == one.sender, "from its sender");
      require(seen.emplace(sender, number).second, "once");
      for (const std::byte b : one.frame) sum += static_cast<uint8_t>(b);
      if (leaves_after && !--leaves_after) driver->leave(std::exchange(group, kNoPeer));
    }
  }
  void done(uint64_t cookie, Status) override { require(sent.erase(cookie) == 1, "ends once"); }
  void peer_down(PeerId, Status) override { require(false, "there is no peer"); }

  Driver* driver = nullptr;
  PeerId group = kNoPeer;
  unsigned leaves_after = 0;
  std::set<std::pair<uint32_t, uint64_t>> seen;
  std::set<uint64_t> sent;
  uint64_t sum = 0;
};

class World {
 public:
  explicit World(fuzz::Input& in) : in_(in) {
    std::string why;
    cipher_ = static_cast<Cipher>(in_.byte() % 3);
    require(param_set("link_cipher", cipher_name(cipher_), "fuzzer", &why) == Status::ok);
    DriverEnv env;
    env.sink = &victim_;
    env.counters = &counters_;
    env.keys = &keys_;
    driver_ = link_over(fabric_, env, &below_);
    require(driver_ != nullptr);
    victim_.driver = driver_.get();
    SecretKey key{}, own, secret;
    const uint8_t how = in_.byte();
    require(driver_->lossy_groups()->join_lossy({key, 0, kMembers, how < 240}, &victim_.group) ==
            Status::ok);
    group_ = victim_.group;
    victim_.leaves_after = how % 32;
    require(derive_key(key, "link  group", &own));
    std::copy_n(own.begin(), sizeof(TagKey), key_.tag.begin());
    name_ = load_little<uint32_t>(own.data() + sizeof(TagKey));
    if (cipher_ == Cipher::none) return;
    SealKey from;
    seal_ = std::make_unique<CipherSeal>(cipher_);
    require(derive_key(key, std::string("link  group ") + cipher_name(cipher_), &secret) &&
            seal_->add_group_keys(secret, 1, &key_, &from));
  }

  void step() {
    if (in_.byte() % 8 == 0 && victim_.group != kNoPeer) send();
    for (unsigned count = in_.byte() % 20; count && !in_.empty(); count--) lie();
    driver_->poll(now_ns_ += 1000, 1 + in_.byte() % 8);
  }
  void end() {
    driver_->poll(now_ns_ += 1000, 1000);
    require(victim_.sent.empty(), "what was sent has ended");
  }

 private:
  void send() {
    std::string bytes = in_.text(driver_->caps().mtu);
    const size_t head = std::min<size_t>(bytes.size(), in_.byte() % (kHeadMax + 1));
    const iovec body{bytes.data() + head, bytes.size() - head};
    Tx tx;
    tx.peer = victim_.group;
    tx.head = bytes.data();
    tx.head_bytes = static_cast<uint32_t>(head);
    tx.pieces = &body;
    tx.piece_count = 1;
    tx.body_bytes = static_cast<uint32_t>(body.iov_len);
    tx.cookie = ++cookie_;
    victim_.sent.insert(cookie_);
    if (driver_->send({&tx, 1}) == 0) victim_.sent.erase(cookie_);
  }

  void lie() {
    const uint8_t how = in_.byte();
    link::GroupHeader header;
    header.sender = how < 8 ? in_.take<uint32_t>() : how % (kMembers + 1);
    header.number = how < 16 ? in_.take<uint64_t>() : 1 + in_.byte();
    header.group = how == 17 ? name_ + 1 : name_;
    const uint8_t flags = in_.byte();
    header.whole = !seal_ && flags & 1;
    header.sealed = seal_ ? flags >= 8 : flags < 4;
    std::string payload(kMark, '\0');
    store_little<uint32_t>(reinterpret_cast<std::byte*>(payload.data()), header.sender);
    store_little<uint64_t>(reinterpret_cast<std::byte*>(payload.data()) + 4, header.number);
    payload += in_.text(400);
    std::string frame(link::kGroupHeaderBytes, '\0');
    auto* const head = reinterpret_cast<std::byte*>(frame.data());
    link::write_group_header(header, crc32c(0, payload.data(), payload.size()), head);
    Sealing sealing;
    sealing.head = head;
    sealing.key = &key_;
    sealing.body = std::as_bytes(std::span(payload));
    sealing.whole = header.whole;
    std::string sealed(payload.size() + kCipherGrowth, '\0');
    sealing.out = reinterpret_cast<std::byte*>(sealed.data());
    const bool encrypts = seal_ && header.sealed;
    if (encrypts) {
      seal_->seal({&sealing, 1});
    } else {
      TagSeal().seal({&sealing, 1});
    }
    frame += encrypts ? sealed : payload;
    if (in_.byte() < 8) frame[in_.below(static_cast<uint32_t>(frame.size()))] ^= 1;
    if (in_.byte() < 4) frame.resize(in_.below(static_cast<uint32_t>(frame.size() + 1)));
    // After it was left the driver below gives nothing in its name.
    if (victim_.group == group_) below_->add(group_, frame);
  }

  fuzz::Input& in_;
  SimFabric fabric_{{.flags = kWait, .mtu = kMtu, .inline_max = kMtu}};
  Victim victim_;
  Counters counters_;
  test::PlainKeys keys_;
  Below* below_ = nullptr;
  std::unique_ptr<Driver> driver_;
  Cipher cipher_ = Cipher::none;
  std::unique_ptr<CipherSeal> seal_;
  SealKey key_;
  uint32_t name_ = 0;
  PeerId group_ = kNoPeer;
  uint64_t now_ns_ = 1000000, cookie_ = 0;
};

void check_parser(std::span<const std::byte> bytes) {
  link::GroupHeader header;
  if (!link::parse_group_header(bytes, &header)) return;
  std::byte again[link::kGroupHeaderBytes];
  link::write_group_header(header, 0, again);
  constexpr size_t kChecksumAt = 4, kAfter = 8, kTagAt = kSealedHeadBytes;
  require(std::memcmp(again, bytes.data(), kChecksumAt) == 0 &&
              std::memcmp(again + kAfter, bytes.data() + kAfter, kTagAt - kAfter) == 0,
          "a header is what it says");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  check_parser(exact);
  fuzz::Input in(data, size);
  World world(in);
  for (int steps = 0; steps < 200 && !in.empty(); steps++) world.step();
  world.end();
  return 0;
}
