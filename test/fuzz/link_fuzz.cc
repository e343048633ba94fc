// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Frames to the link of a process from another one that knows the key: their tags are right, or
// they are encrypted as they ought to be, and their numbers, acknowledgements and contents are
// nearly right or arbitrary. All that the link hands up lies inside of what arrived, and each frame
// that it was given to send ends exactly once.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/param.h"
#include "drivers/sim/sim.h"
#include "fuzz/below.h"
#include "fuzz/input.h"
#include "unit/link/link_kit.h"

using namespace torii;
using fuzz::Below;
using fuzz::link_over;
using fuzz::require;

namespace {

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kDeadlineMs = 1000;
constexpr uint32_t kMtu = 600;

// The sink of the process under attack.
struct Victim final : Sink {
  void packet(PeerId from, std::span<const std::byte> frame) override {
    require(from != kNoPeer && frame.size() <= link::kLongMax, "a frame of a peer");
    for (const std::byte b : frame) sum += static_cast<uint8_t>(b);
  }
  void done(uint64_t cookie, Status) override {
    require(sent.erase(cookie) == 1, "what was sent ends once");
  }
  void peer_down(PeerId, Status) override {
    require(!std::exchange(down, true), "a peer ends once");
  }

  std::map<uint64_t, std::string> sent;  // what the link may still read, by cookie
  uint64_t sum = 0;
  bool down = false;
};

// The sink of the other process: learns how much the victim has sent.
struct Liar final : Sink {
  void packet(PeerId, std::span<const std::byte> frame) override {
    link::Header header;
    require(link::parse_header(frame, &header), "the link sends frames of the link");
    if (link::carries_frames(header.kind)) next = std::max(next, header.seq + header.parts.count);
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}

  uint64_t next = 0;
};

class World {
 public:
  explicit World(fuzz::Input& in) : in_(in) {
    std::string why;
    require(param_set("peer_deadline_ms", std::to_string(kDeadlineMs), "fuzzer", &why) ==
            Status::ok);
    const auto cipher = static_cast<Cipher>(in_.byte() % 3);
    require(param_set("link_cipher", cipher_name(cipher), "fuzzer", &why) == Status::ok);
    DriverEnv env;
    env.sink = &victim_;
    env.counters = &counters_;
    env.keys = &keys_;
    env.members = &members_;
    driver_ = link_over(fabric_, env, &below_);
    env.sink = &liar_;
    env.counters = &liars_counters_;
    liars_driver_ = open_sim(fabric_, env);
    require(driver_ && liars_driver_);

    std::vector<std::byte> address(driver_->caps().address_bytes);
    driver_->address(address.data());
    address.resize(address.size() - kPublicKeyBytes);
    liars_driver_->address(address.data());
    liars_address_ = address;
    address.insert(address.end(), liars_keys_.own().begin(), liars_keys_.own().end());
    require(driver_->connect(address, &to_liar_, &why) == Status::ok);
  }

  void step() {
    switch (in_.byte() % 8) {
      case 0:
        send();
        break;
      case 1:
        wait(in_.below(60) * kMs);
        break;
      default:
        for (unsigned count = in_.byte() % 12 + 1; count && !in_.empty(); count--) lie();
        break;
    }
    poll(1 + in_.byte() % 8);
  }

  // From here on the other process is silent.
  void end() {
    for (uint64_t ms = 0; ms < 4 * kDeadlineMs; ms += 20) wait(20 * kMs);
    require(victim_.sent.empty(), "what was sent has ended");
  }

 private:
  void poll(unsigned budget) {
    driver_->poll(now_ns_ += 1000, budget);
    liars_driver_->poll(now_ns_, 1000);
  }
  void wait(uint64_t ns) {
    now_ns_ += ns;
    poll(100);
  }

  void send() {
    const uint64_t cookie = ++cookie_;
    std::string& bytes = victim_.sent[cookie] = in_.text(driver_->caps().long_max);
    const size_t head = std::min<size_t>(bytes.size(), in_.byte() % 32);
    const iovec body{bytes.data() + head, bytes.size() - head};
    Tx tx;
    tx.peer = to_liar_;
    tx.head = bytes.data();
    tx.head_bytes = static_cast<uint32_t>(head);
    tx.pieces = &body;
    tx.piece_count = 1;
    tx.body_bytes = static_cast<uint32_t>(body.iov_len);
    tx.cookie = cookie;
    tx.lent = in_.byte() & 1 || bytes.size() > driver_->caps().mtu;
    if (driver_->send({&tx, 1}) == 0) victim_.sent.erase(cookie);
  }

  // Near to `value`, mostly.
  uint64_t about(uint64_t value) {
    const uint8_t how = in_.byte();
    if (how < 16) return in_.take<uint64_t>();
    return how < 128 ? value : value + in_.byte() - 64;
  }

  // Frames behind their lengths; some lengths are wrong.
  std::string several() {
    std::string out;
    while (!in_.empty() && in_.byte() % 8) {
      const std::string frame = in_.text(40);
      std::byte length[link::kLengthBytes];
      const uint8_t lie = in_.byte();
      link::write_length(lie < 4    ? in_.below(0x10000)
                         : lie < 24 ? frame.size() + in_.below(4)
                                    : frame.size(),
                         length);
      out.append(reinterpret_cast<const char*>(length), sizeof(length));
      out += frame;
    }
    return out;
  }

  // Writes what is before parts, mostly as it ought to be.
  link::Parts some_parts(std::string* payload) {
    link::Parts parts;
    const uint8_t how = in_.byte();
    parts.count = how < 8 ? in_.byte() : how < 128 ? 1 : 1 + how % 24;
    parts.begins = how & 1;
    parts.ends = how & 2;
    std::byte head[link::kPartsBytes];
    link::write_parts(parts, head);
    if (how == 9) head[2] = std::byte{1};
    payload->insert(0, reinterpret_cast<const char*>(head), sizeof(head));
    return parts;
  }

  void lie() {
    link::Header header;
    header.kind = static_cast<link::Kind>(in_.byte() % 9);
    const bool data = link::carries_frames(header.kind);
    header.seq = about(data ? next_ : words_);
    header.ack = about(liar_.next);
    header.sack = in_.byte() < 128 ? 0 : in_.take<uint64_t>();
    const uint8_t flags = in_.byte();
    header.whole = flags & 2;
    header.ask = flags & 4;
    std::string payload = header.kind == link::Kind::several ? several() : in_.text(400);
    if (header.kind == link::Kind::ack && (flags & 8)) payload.resize(link::kSackMoreBytes);
    payload.resize(std::min<size_t>(payload.size(), kMtu - link::kHeaderBytes - kCipherGrowth));
    link::Parts parts;
    if (header.kind == link::Kind::part) parts = some_parts(&payload);
    if (data && header.seq == next_) next_ += parts.count;
    if (!data && header.seq == words_) words_++;
    const test::FrameKey key = test::key_between(liars_keys_, keys_);
    std::string frame = flags & 16 ? test::readable_frame_of(header, payload, key)
                                   : test::frame_of(header, payload, key);
    if (header.kind == link::Kind::hello && (flags & 8))
      frame = test::hello_of(liars_address_, liars_keys_, keys_, header.seq);
    if (in_.byte() < 4) frame[in_.below(static_cast<uint32_t>(frame.size()))] ^= 1;
    below_->add(in_.byte() < 240 ? to_liar_ : kNoPeer, frame);
  }

  fuzz::Input& in_;
  SimFabric fabric_{{.flags = kWait, .mtu = kMtu, .long_max = 8 * kMtu, .inline_max = kMtu}};
  Victim victim_;
  Liar liar_;
  Counters counters_, liars_counters_;
  test::PlainKeys keys_, liars_keys_;
  test::Everybody members_;
  Below* below_ = nullptr;
  std::unique_ptr<Driver> driver_, liars_driver_;
  std::vector<std::byte> liars_address_;
  PeerId to_liar_ = kNoPeer;
  uint64_t now_ns_ = kMs, next_ = 0, words_ = 1, cookie_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  World world(in);
  for (int steps = 0; steps < 400 && !in.empty(); steps++) world.step();
  world.end();
  return 0;
}
