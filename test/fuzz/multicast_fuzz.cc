// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Datagrams to a node from another one: they are of every kind, and their fields are nearly right
// or arbitrary, between the node's calls and the passing of time. And arbitrary bytes. The node
// stays in its memory; a datagram that it takes encodes to the same bytes; what it sends is
// well-formed.
#include <memory>
#include <string>
#include <vector>

#include "core/multicast/member.h"
#include "fuzz/input.h"

using namespace torii;
using fuzz::require;

namespace {

constexpr uint64_t kRingBytes = 1 << 15;

multicast::Identity identity_of(uint32_t nodes, uint32_t self) {
  multicast::Identity identity;
  identity.self = self;
  identity.nodes = nodes;
  identity.seed = 3;
  return identity;
}

class Below final : public multicast::Channel {
 public:
  explicit Below(const multicast::Identity& identity) : identity_(identity) {}
  size_t largest_frame() const override { return 1456; }
  size_t largest_burst() const override { return 8; }
  size_t multicast(std::span<const multicast::Datagram> datagrams) override {
    return take(datagrams);
  }
  size_t send(uint32_t node, std::span<const multicast::Datagram> datagrams) override {
    require(node < identity_.nodes && node != identity_.self, "a node to send to");
    return take(datagrams);
  }
  unsigned room = 0;
  uint64_t near = 0;

 private:
  size_t take(std::span<const multicast::Datagram> datagrams) {
    size_t taken = 0;
    for (const auto& one : datagrams) {
      if (taken >= room) break;
      std::vector<std::byte> bytes(one.head.begin(), one.head.end());
      bytes.insert(bytes.end(), one.body.begin(), one.body.end());
      require(bytes.size() <= largest_frame(), "a datagram fits");
      multicast::Header header;
      require(multicast::decode(bytes, near, &header), "it is well-formed");
      taken++;
    }
    return taken;
  }

  multicast::Identity identity_;
};

multicast::Header header_from(fuzz::Input& in, uint32_t nodes, uint64_t near) {
  multicast::Header header;
  header.kind = static_cast<multicast::Kind>(1 + in.below(multicast::kKinds));
  header.node = static_cast<uint16_t>(in.below(nodes));
  header.flags = static_cast<uint16_t>(in.byte() & 1 ? 1u << in.below(8) : 0);
  // Near to where the node is, in most cases.
  const uint64_t granule = near / multicast::kGranule;
  header.pos =
      (in.byte() & 3 ? granule + in.below(80) : granule + in.below(2000)) * multicast::kGranule;
  if (in.byte() & 1) header.pos -= std::min<uint64_t>(header.pos, in.below(64) * 64);
  header.op = in.byte() & 3 ? in.below(6) : in.take<uint32_t>();
  header.check = in.byte() & 1 ? 0 : in.take<uint32_t>();
  header.arg = in.byte() & 3 ? in.below(nodes) : in.take<uint32_t>();
  using multicast::Kind;
  // Fields that this kind does not have would be found at once.
  if (header.kind >= Kind::contribution) header.pos = 0;
  if (header.kind == Kind::data || header.kind == Kind::repair) header.arg = 0;
  if (header.kind <= Kind::heartbeat) header.op += multicast::low_half(near);
  if (header.kind != Kind::contribution && header.kind != Kind::result) header.check = 0;
  if (header.kind == Kind::heartbeat || header.kind == Kind::result) header.arg = 0;
  if (header.kind == Kind::release) header.op = 0;
  return header;
}

void combine(void*, const void* in, void* inout, uint64_t bytes) {
  const auto* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(inout);
  for (uint64_t i = 0; i < bytes; i++) to[i] ^= from[i];
}

// The node under attack, and its user.
class Victim {
 public:
  Victim(uint32_t nodes, uint32_t self)
      : nodes_(nodes),
        below_(identity_of(nodes, self)),
        ring_(kRingBytes),
        member_(below_, identity_of(nodes, self), ring_, 0) {}

  void step(fuzz::Input& in) {
    below_.room = in.byte() & 7;
    below_.near = member_.placed();
    switch (in.below(8)) {
      case 0:
        call(in);
        break;
      case 1:
        now_ += uint64_t{1000} << in.below(20);
        member_.poll(now_);
        break;
      case 2: {
        const std::string text = in.text(200);
        member_.receive(in.below(nodes_ + 1), std::as_bytes(std::span(text)), now_);
        break;
      }
      default:
        arrive(in);
    }
    require(member_.placed() >= placed_, "the stream goes on");
    placed_ = member_.placed();
  }

 private:
  void call(fuzz::Input& in) {
    if (member_.status() == Status::pending) return;
    multicast::Call call;
    call.what = static_cast<multicast::What>(in.below(4));
    call.root = in.below(nodes_);
    call.bytes = in.below(in.byte() & 1 ? 100 : 3000);
    in_.assign(call.bytes, std::byte{5});
    out_.assign(call.what == multicast::What::allgather ? call.bytes * nodes_ : call.bytes,
                std::byte{});
    call.in = in_.data();
    call.out = out_.data();
    call.reduction.combine = combine;
    if (member_.begin(call, now_) == Status::unsupported)
      require(call.bytes > multicast::kSmallMax, "it is too long");
  }

  void arrive(fuzz::Input& in) {
    const multicast::Header header = header_from(in, nodes_, member_.placed());
    std::string payload = in.text(in.byte() & 1 ? 1400 : 64);
    using multicast::Kind;
    if (header.kind == Kind::nack || header.kind == Kind::hello)
      payload.resize(payload.size() / 8 * 8);
    if (header.kind == Kind::heartbeat || header.kind == Kind::status ||
        header.kind == Kind::release || header.kind == Kind::failed)
      payload.clear();
    const auto body = std::as_bytes(std::span(payload));
    multicast::HeaderBytes head;
    multicast::encode(header, &head);
    // The buffer has the exact size, so that a read behind it is seen.
    std::vector<std::byte> bytes;
    bytes.reserve(head.size() + body.size());
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.insert(bytes.end(), body.begin(), body.end());
    multicast::Header read;
    if (multicast::decode(bytes, member_.placed(), &read)) {
      multicast::HeaderBytes again;
      multicast::encode(read, &again);
      require(head == again, "what is taken encodes to the same");
    }
    member_.receive(in.byte() & 3 ? header.node : in.below(nodes_ + 1), bytes, now_);
  }

  uint32_t nodes_;
  uint64_t now_ = 0;
  uint64_t placed_ = 0;
  Below below_;
  std::vector<std::byte> ring_, in_, out_;
  multicast::Member member_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const uint32_t nodes = in.byte() & 1 ? 2 + in.below(15) : 2 + in.below(100);
  const auto victim = std::make_unique<Victim>(nodes, in.below(nodes));
  while (!in.empty()) victim->step(in);
  return 0;
}
