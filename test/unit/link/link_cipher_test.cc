// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Data of the core that is readable below the link, and processes that do not agree on a cipher.
#include <cstring>
#include <set>
#include <vector>

#include "core/base/log.h"
#include "drivers/decorator.h"
#include "unit/link/link_fixture.h"

namespace torii::test {
namespace {

constexpr char kSecret[] = "a word of the user's";

// Below the link: keeps a copy of everything that is sent.
class Wire final : public Decorator {
 public:
  Wire(const OpenBelow& open_below, const DriverEnv& env, std::vector<std::string>* all)
      : Decorator(env), all_(*all) {
    EXPECT_TRUE(open(open_below, env));
  }
  size_t send(std::span<const Tx> batch) override {
    const size_t taken = below_->send(batch);
    for (const Tx& tx : batch.first(taken)) {
      std::string& frame = all_.emplace_back(static_cast<const char*>(tx.head), tx.head_bytes);
      for (const iovec& piece : std::span(tx.pieces, tx.piece_count))
        frame.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
    return taken;
  }

 private:
  std::vector<std::string>& all_;
};

class LinkCipherTest : public LinkTest {
 protected:
  std::unique_ptr<End> heard(std::vector<std::string>* wire, const std::string& faults) {
    return std::make_unique<End>([&](const DriverEnv& env) {
      return wrap_link(
          [&](const DriverEnv& inner) {
            return std::make_unique<Wire>(
                [&](const DriverEnv& middle) {
                  return wrap_fault([&](const DriverEnv& bare) { return open_sim(longer, bare); },
                                    middle, plan_of(faults));
                },
                inner, wire);
          },
          env);
    });
  }
  static std::string words(size_t bytes) {
    std::string out;
    while (out.size() < bytes) out += kSecret;
    out.resize(bytes);
    return out;
  }
  bool lend(End& from, PeerId to, const std::string& body) {
    const iovec piece{const_cast<char*>(body.data()), body.size()};
    Tx tx;
    tx.peer = to;
    tx.head = kSecret;
    tx.head_bytes = sizeof(kSecret);
    tx.pieces = &piece;
    tx.piece_count = 1;
    tx.body_bytes = static_cast<uint32_t>(piece.iov_len);
    tx.cookie = 1;
    tx.lent = true;
    return from.driver->send({&tx, 1}) == 1;
  }

  SimFabric copying{{.flags = kWait, .inline_max = 4096}};
  SimFabric longer{{.flags = kWait,
                    .mtu = 1000,
                    .long_max = 20000,
                    .inline_max = 1000,
                    .latency_min_ns = 1000,
                    .latency_max_ns = 1000}};
};

// Alone, together with others, long, lent, lost and sent again, with other contents: nothing of it
// can be read with a cipher, and all of it without one. No nonce is used twice.
TEST_P(LinkCipherTest, NothingOfTheUsersIsReadable) {
  std::vector<std::string> wires[2];
  const auto a = heard(&wires[0], "drop=10%,seed=5"), b = heard(&wires[1], "drop=10%,seed=6");
  const PeerId to_b = a->connect(*b), to_a = b->connect(*a);
  std::string body = words(900), long_body = words(9000);
  size_t sent = 0;
  for (int i = 0; i < 200; i++) {
    sent += a->send(to_b, kSecret, {}, 1);
    for (int k = 0; k < 3; k++) sent += a->send(to_b, kSecret);
    sent += lend(*a, to_b, body);
    sent += lend(*a, to_b, long_body);
    b->send(to_a, kSecret);
    body[0] = long_body[0] = static_cast<char>('a' + i % 26);
    run({a.get(), b.get()}, now_ns + 300000, 20000);
  }
  for (int i = 0; i < 10000 && b->sink.packets.size() < sent; i++)
    run({a.get(), b.get()}, now_ns + kMs);
  ASSERT_EQ(b->sink.packets.size(), sent);
  for (const auto& packet : b->sink.packets)
    ASSERT_EQ(packet.bytes.compare(0, strlen(kSecret), kSecret), 0);
  EXPECT_GT(a->counters.link_retransmits, 20u);
  for (const auto& wire : wires) {
    size_t frames = 0, readable = 0, longest = 0;
    std::set<std::string> nonces;
    for (const std::string& frame : wire) {
      link::Header header;
      ASSERT_TRUE(parses(frame, &header));
      if (!link::carries_frames(header.kind)) continue;
      frames++;
      longest = std::max(longest, frame.size());
      readable += frame.find(kSecret) != std::string::npos;
      nonces.insert(frame.substr(link::kHeaderBytes - 8, 8));
    }
    EXPECT_GE(frames, 200u);
    EXPECT_EQ(readable, encrypted() ? 0 : frames);
    if (encrypted()) {
      EXPECT_EQ(nonces.size(), frames);
    }
    if (&wire == &wires[0]) {
      EXPECT_GT(longest, 9000u);
    }
  }
}

// Both ends are told of both settings, although answers get lost.
TEST_P(LinkCipherTest, UnequalSettingsAreAnError) {
  for (const char* const other : {"none", "aes-128-gcm", "chacha20-poly1305"}) {
    if (std::string(other) == GetParam()) continue;
    for (const bool connected : {false, true}) {
      const auto a = linked(copying, "");
      use_cipher(other);
      const auto b = linked(copying, "drop#1,drop#2,drop#3");
      use_cipher(GetParam());
      const PeerId to_b = a->connect(*b);
      if (connected) b->connect(*a);
      ASSERT_TRUE(a->send(to_b, kSecret, {}, 7));
      run({a.get(), b.get()}, now_ns + 100 * kMs);
      EXPECT_TRUE(b->sink.packets.empty());
      ASSERT_EQ(a->sink.dones.size(), 1u);
      EXPECT_EQ(a->sink.dones[0].status, Status::peer_dead);
      for (const End* const end : {a.get(), b.get()}) {
        ASSERT_EQ(end->sink.downs.size(), 1u);
        EXPECT_EQ(end->sink.downs[0].status, Status::peer_dead);
        const std::string why = end->driver->paths()->trouble(end->sink.downs[0].peer);
        const std::string own = end == a.get() ? GetParam() : other;
        const std::string theirs = end == a.get() ? other : GetParam();
        EXPECT_NE(why.find("TORII_LINK_CIPHER=" + theirs + ", this process " + own + ";"),
                  std::string::npos)
            << why;
      }
    }
  }
}

// Frames of a member, with the right keys, but not as the cipher wants them.
TEST_P(LinkCipherTest, FramesThatAreNotEncryptedAsTheyOughtToBeAreRefused) {
  const auto a = linked();
  const auto evil = bare();
  const PeerId to_a = reach(*evil, *a);
  for (const char* const other : {"none", "aes-128-gcm", "chacha20-poly1305"}) {
    use_cipher(other);
    const std::string frame = frame_of({link::Kind::data, 0, 0, 0}, "y", key_of(*evil, *a));
    use_cipher(GetParam());
    const uint64_t before = a->counters.link_forged;
    ASSERT_TRUE(evil->send(to_a, frame));
    run({a.get(), evil.get()}, now_ns + kMs);
    const bool same = std::string(other) == GetParam();
    EXPECT_EQ(a->counters.link_forged - before, same ? 0u : 1u) << other;
    EXPECT_EQ(a->sink.packets.size(), same ? 1u : 0u) << other;
    a->sink.packets.clear();
  }
}

TEST_P(LinkCipherTest, ABadNameOpensNothing) {
  use_cipher("aes");
  EXPECT_EQ(linked()->driver, nullptr);
}

TORII_WITH_CIPHERS(LinkCipherTest);

}  // namespace
}  // namespace torii::test
