// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Tagged ports over the protocol over simulated networks: every way a message can travel.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/param.h"
#include "core/link/link.h"
#include "world.h"

namespace torii {
namespace {

using test::flat;
using test::note;
using test::Outcome;
using test::pattern;
using test::pub;
using test::World;

struct Network {
  const char* name;
  SimOptions options;
  uint32_t job_size;  // decides the eager window
};

SimOptions options_with(uint32_t flags, bool pending = false, uint32_t again = 0,
                        uint32_t depth = 64) {
  SimOptions o;
  o.flags = kReliable | kPeerDown | kWait | flags;
  o.pending_rma = pending;
  o.again_ppm = again;
  o.depth = depth;
  o.latency_min_ns = 100;
  o.latency_max_ns = 5000;
  return o;
}

// Where little memory can be registered at a time, and all that the card reaches has to be.
SimOptions registers_with(uint32_t flags, uint32_t regions_max) {
  SimOptions o = options_with(kNeedsReg | flags, true);
  o.registers_local = true;
  o.once_min = 1;
  o.regions_max = regions_max;
  return o;
}

SimOptions with_card_memory() {
  SimOptions o = options_with(0);
  o.card_take_min = 100;
  return o;
}

const Network kNetworks[] = {
    {"frames", options_with(0), 64},
    {"get", options_with(kGet), 64},
    {"put", options_with(kPut), 64},
    {"get_put_pending", options_with(kGet | kPut, true), 64},
    {"put_pending", options_with(kPut, true, 100000), 64},
    {"backpressure", options_with(kGet, false, 300000, 2), 64},
    {"card_memory", with_card_memory(), 64},
    {"registers", registers_with(kGet | kPut, 2), 64},
    {"registers_frames", registers_with(0, 1), 64},
    {"tiny_window", options_with(0, false, 0, 4), 1 << 20},
};

struct NetworkWorld : World {
  NetworkWorld(const Network& network, unsigned count, uint64_t seed = 1)
      : World(with_seed(network.options, seed), count, network.job_size) {}
  static SimOptions with_seed(SimOptions options, uint64_t seed) {
    options.seed = seed;
    return options;
  }
};

// An operation that returned `code` with this outcome is over, with these bytes.
void expect_over(int code, const Outcome& o, const torii_result_t& now, uint64_t bytes) {
  if (code == TORII_OK) {
    EXPECT_EQ(o.calls, 0);
    EXPECT_EQ(now.bytes, bytes);
  } else {
    EXPECT_EQ(code, TORII_PENDING);
    EXPECT_EQ(o.calls, 1);
    EXPECT_EQ(o.result.code, TORII_OK);
    EXPECT_EQ(o.result.bytes, bytes);
  }
}

class PortsOver : public ::testing::TestWithParam<Network> {};

TEST_P(PortsOver, EverySizePostedAndUnexpected) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  Peer* from = w.peer(1, 0);
  torii_port_t* out = w.port(0);
  torii_port_t* in = w.port(1);
  for (size_t bytes : {0, 1, 40, 64, 255, 1000, 4080, 4096, 5000, 20000, 70000, 300000}) {
    for (bool posted_first : {true, false}) {
      for (torii_mode_t mode : {TORII_STANDARD, TORII_SYNCHRONOUS}) {
        auto source = pattern(bytes, unsigned(bytes) + posted_first);
        std::vector<uint8_t> target(bytes + 1, 0xee);
        torii_data_t s = flat(source.data(), bytes), t = flat(target.data(), bytes);
        Outcome sent, received;
        torii_result_t now{};
        int rc = 0, sc = 0;
        const auto receive = [&] {
          rc = torii_recv(in, pub(from), 5, 0, &t, note, &received, nullptr, &now);
        };
        if (posted_first) receive();
        sc = torii_send(out, pub(to), mode, 5, 9, &s, note, &sent, nullptr);
        ASSERT_GE(sc, 0);
        if (!posted_first) {
          w.run();
          if (mode == TORII_SYNCHRONOUS) {
            EXPECT_EQ(sent.calls, 0) << "complete before the match";
          }
          receive();
        }
        w.run();
        expect_over(rc, received, now, bytes);
        EXPECT_EQ(sent.calls, sc == TORII_PENDING);
        EXPECT_EQ(0, std::memcmp(source.data(), target.data(), bytes)) << bytes;
        EXPECT_EQ(target[bytes], 0xee);
        const torii_result_t& r = rc == TORII_OK ? now : received.result;
        EXPECT_EQ(r.user, 9u);
        EXPECT_EQ(r.tag, 5u);
        EXPECT_EQ(r.source, pub(from));
      }
    }
  }
  EXPECT_EQ(w.ni(0).protocol().ops().used(), 0u) << "operations leaked";
  EXPECT_EQ(w.ni(1).protocol().ops().used(), 0u) << "operations leaked";
  EXPECT_EQ(w.ni(1).counters().bad_frames, 0u);
}

// The short way leaves a message alone that it cannot send, and keeps to the order of the others.
TEST_P(PortsOver, SendNowSendsAllOrNothing) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  torii_port_t* out = w.port(0);
  torii_port_t* in = w.port(1);
  w.peer(1, 0);
  const auto source = pattern(1 << 20, 5);
  EXPECT_EQ(torii_send_now(nullptr, pub(to), 1, 2, source.data(), 8), TORII_EMPTY);
  EXPECT_EQ(torii_send_now(out, nullptr, 1, 2, source.data(), 8), TORII_EMPTY);
  EXPECT_EQ(torii_send_now(out, pub(to), 1, 2, nullptr, 8), TORII_EMPTY);
  EXPECT_EQ(torii_send_now(out, pub(to), 1, 2, source.data(), source.size()), TORII_EMPTY);
  EXPECT_EQ(torii_send_now(out, pub(to), 1, 2, source.data(), ~0ull), TORII_EMPTY);
  w.run();
  torii_result_t result;
  EXPECT_EQ(torii_probe(in, nullptr, 0, ~0ull, &result), TORII_EMPTY) << "half a message was sent";

  Outcome sent;  // greets the peer
  torii_data_t nothing = flat(nullptr, 0);
  ASSERT_GE(torii_send(out, pub(to), TORII_STANDARD, 0, 0, &nothing, note, &sent, nullptr), 0);
  w.run();
  unsigned now = 0, later = 0;
  const unsigned kMessages = 4000;  // more than a window
  for (unsigned i = 1; i < kMessages; ++i) {
    const size_t bytes = i % 300;
    if (torii_send_now(out, pub(to), i, i + 1, source.data() + i, bytes) == TORII_OK) {
      ++now;
      continue;
    }
    torii_data_t s = flat(const_cast<uint8_t*>(source.data()) + i, bytes);
    ASSERT_GE(torii_send(out, pub(to), TORII_STANDARD, i, i + 1, &s, note, &sent, nullptr), 0);
    ++later;
  }
  EXPECT_GT(now, 0u);
  EXPECT_GT(later, 0u) << "the window of " << kMessages << " messages was never full";
  for (unsigned i = 0; i < kMessages; ++i) {
    std::vector<uint8_t> target(400, 0xee);
    torii_data_t t = flat(target.data(), target.size());
    Outcome received;
    const int code = torii_recv(in, nullptr, 0, ~0ull, &t, note, &received, nullptr, &result);
    w.run();
    if (code == TORII_PENDING) result = received.result;
    ASSERT_EQ(result.code, TORII_OK);
    ASSERT_EQ(result.tag, i) << "out of order";
    ASSERT_EQ(result.user, i ? i + 1 : 0);
    ASSERT_EQ(result.bytes, i % 300);
    ASSERT_EQ(0, std::memcmp(target.data(), source.data() + i, i % 300));
  }
}

// Whoever waits for a flag learns the same as whoever gives a callback.
TEST_P(PortsOver, AFlagIsSetWithTheResult) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  Peer* from = w.peer(1, 0);
  for (size_t bytes : {0, 1, 64, 4096, 300000}) {
    for (size_t room : {bytes, bytes / 2}) {
      auto source = pattern(bytes, unsigned(bytes));
      std::vector<uint8_t> target(bytes + 1, 0xee);
      torii_data_t s = flat(source.data(), bytes), t = flat(target.data(), room);
      torii_flag_t sent{}, received{};
      ASSERT_EQ(torii_recv(w.port(1), pub(from), 5, 0, &t, torii_flag, &received, nullptr,
                           &received.result),
                TORII_PENDING);
      const int code =
          torii_send(w.port(0), pub(to), TORII_STANDARD, 5, 9, &s, torii_flag, &sent, nullptr);
      ASSERT_GE(code, 0);
      w.run();
      EXPECT_EQ(sent.done, code == TORII_PENDING);
      ASSERT_EQ(received.done, 1);
      EXPECT_EQ(received.result.code, room < bytes ? TORII_ERR_TRUNCATED : TORII_OK);
      EXPECT_EQ(received.result.bytes, room);
      EXPECT_EQ(received.result.sent_bytes, bytes);
      EXPECT_EQ(received.result.user, 9u);
      EXPECT_EQ(received.result.tag, 5u);
      EXPECT_EQ(received.result.source, pub(from));
      EXPECT_EQ(0, std::memcmp(source.data(), target.data(), room));
      EXPECT_EQ(target[room], 0xee);
    }
  }
  // A cancelled one is told as well.
  torii_flag_t never{};
  torii_request_t request = 0;
  torii_data_t t = flat(nullptr, 0);
  ASSERT_EQ(torii_recv(w.port(1), pub(from), 6, 0, &t, torii_flag, &never, &request, &never.result),
            TORII_PENDING);
  EXPECT_EQ(torii_cancel(w.handle(1), request), TORII_OK);
  EXPECT_EQ(never.done, 1);
  EXPECT_EQ(never.result.code, TORII_ERR_CANCELED);
}

TEST_P(PortsOver, TruncationDeliversThePrefix) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  torii_port_t* out = w.port(0);
  torii_port_t* in = w.port(1);
  for (size_t bytes : {100, 9000, 200000}) {
    auto source = pattern(bytes, 3);
    std::vector<uint8_t> target(bytes, 0xee);
    torii_data_t s = flat(source.data(), bytes), t = flat(target.data(), bytes / 2);
    Outcome sent, received;
    torii_result_t now{};
    ASSERT_EQ(TORII_PENDING, torii_recv(in, nullptr, 0, ~0ull, &t, note, &received, nullptr, &now));
    ASSERT_GE(torii_send(out, pub(to), TORII_STANDARD, 1, 0, &s, note, &sent, nullptr), 0);
    w.run();
    ASSERT_EQ(received.calls, 1);
    EXPECT_EQ(received.result.code, TORII_ERR_TRUNCATED);
    EXPECT_EQ(received.result.bytes, bytes / 2);
    EXPECT_EQ(received.result.sent_bytes, bytes);
    EXPECT_EQ(0, std::memcmp(source.data(), target.data(), bytes / 2));
    EXPECT_EQ(target[bytes / 2], 0xee);
  }
}

struct Strided {
  uint8_t* base;
  uint64_t expected = 0;  // the next offset allowed
};

// Element i of the packed message is byte 2*i of memory.
void pack(void* context, uint64_t offset, void* buffer, size_t bytes) {
  auto* s = static_cast<Strided*>(context);
  EXPECT_EQ(offset, s->expected);
  for (size_t i = 0; i < bytes; ++i) static_cast<uint8_t*>(buffer)[i] = s->base[2 * (offset + i)];
  s->expected = offset + bytes;
}
void unpack(void* context, uint64_t offset, const void* buffer, size_t bytes) {
  auto* s = static_cast<Strided*>(context);
  EXPECT_EQ(offset, s->expected);
  for (size_t i = 0; i < bytes; ++i)
    s->base[2 * (offset + i)] = static_cast<const uint8_t*>(buffer)[i];
  s->expected = offset + bytes;
}

TEST_P(PortsOver, PackAndUnpackFunctionsRunOnceInOrder) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  torii_port_t* out = w.port(0);
  torii_port_t* in = w.port(1);
  for (size_t bytes : {0, 10, 3000, 50000, 200000}) {
    for (int kinds = 1; kinds < 4; ++kinds) {
      auto source = pattern(2 * bytes, 1);
      std::vector<uint8_t> target(2 * bytes + 1);
      Strided from{source.data()}, into{target.data()};
      torii_data_t s{}, t{};
      s.layout = t.layout = TORII_FUNCTIONS;
      s.bytes = t.bytes = bytes;
      s.base = &from;
      t.base = &into;
      s.pack = pack;
      t.unpack = unpack;
      if (!(kinds & 1)) s = flat(source.data(), bytes);
      if (!(kinds & 2)) t = flat(target.data(), bytes);
      Outcome sent, received;
      torii_result_t now{};
      ASSERT_EQ(TORII_PENDING, torii_recv(in, nullptr, 4, 0, &t, note, &received, nullptr, &now));
      ASSERT_GE(torii_send(out, pub(to), TORII_STANDARD, 4, 0, &s, note, &sent, nullptr), 0);
      w.run();
      ASSERT_EQ(received.calls, 1);
      for (size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(source[kinds & 1 ? 2 * i : i], target[kinds & 2 ? 2 * i : i]) << i;
    }
  }
}

// Random traffic between four processes; every pair's messages must match in order.
TEST_P(PortsOver, RandomTrafficKeepsOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    constexpr unsigned kCount = 4;
    NetworkWorld w(GetParam(), kCount, seed);
    std::mt19937_64 random(seed);
    struct Message {
      std::vector<uint8_t> bytes;
      Outcome outcome;
      torii_result_t now{};
      int code = 0;
    };
    std::vector<std::unique_ptr<Message>> sends[kCount][kCount], receives[kCount][kCount];
    Peer* peers[kCount][kCount];
    torii_port_t* ports[kCount];
    for (unsigned i = 0; i < kCount; ++i) {
      ports[i] = w.port(i);
      for (unsigned k = 0; k < kCount; ++k) peers[i][k] = w.peer(i, k);
    }
    const auto receive = [&](unsigned at, unsigned from) {
      auto m = std::make_unique<Message>();
      m->bytes.resize(100000);
      torii_data_t d = flat(m->bytes.data(), m->bytes.size());
      m->code = torii_recv(ports[at], pub(peers[at][from]), 0, 0, &d, note, &m->outcome, nullptr,
                           &m->now);
      ASSERT_GE(m->code, 0);
      receives[at][from].push_back(std::move(m));
    };
    for (int i = 0; i < 400; ++i) {
      const unsigned a = random() % kCount, b = random() % kCount;
      if (random() % 2) {
        const size_t bytes = random() % 3 ? random() % 200 : random() % 100000;
        auto m = std::make_unique<Message>();
        m->bytes = pattern(bytes, unsigned(random()));
        m->bytes.resize(bytes);
        torii_data_t d = flat(m->bytes.data(), bytes);
        m->code = torii_send(ports[a], pub(peers[a][b]),
                             random() % 4 ? TORII_STANDARD : TORII_SYNCHRONOUS, 0, 0, &d, note,
                             &m->outcome, nullptr);
        ASSERT_GE(m->code, 0);
        sends[a][b].push_back(std::move(m));
      } else {
        receive(a, b);
      }
      if (random() % 4 == 0) w.step();
    }
    for (unsigned a = 0; a < kCount; ++a)
      for (unsigned b = 0; b < kCount; ++b) {
        while (receives[b][a].size() < sends[a][b].size()) receive(b, a);
      }
    w.run();
    for (unsigned a = 0; a < kCount; ++a)
      for (unsigned b = 0; b < kCount; ++b)
        for (size_t i = 0; i < sends[a][b].size(); ++i) {
          const Message& s = *sends[a][b][i];
          const Message& r = *receives[b][a][i];
          const torii_result_t& result = r.code == TORII_OK ? r.now : r.outcome.result;
          ASSERT_EQ(r.outcome.calls, r.code == TORII_PENDING) << "seed " << seed;
          ASSERT_EQ(s.outcome.calls, s.code == TORII_PENDING) << "seed " << seed;
          ASSERT_EQ(result.bytes, s.bytes.size()) << "seed " << seed;
          ASSERT_EQ(0, std::memcmp(s.bytes.data(), r.bytes.data(), s.bytes.size()));
        }
    for (unsigned i = 0; i < kCount; ++i) {
      ASSERT_EQ(w.ni(i).protocol().ops().used(), 0u);
      ASSERT_EQ(w.ni(i).counters().bad_frames, 0u);
    }
  }
}

TEST_P(PortsOver, MatchedProbeCancelAndReady) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  torii_port_t* out = w.port(0);
  torii_port_t* in = w.port(1);
  auto source = pattern(6000, 2);
  std::vector<uint8_t> target(6000);
  torii_data_t s = flat(source.data(), 6000), t = flat(target.data(), 6000);
  Outcome sent, received;
  torii_result_t r{};
  EXPECT_EQ(TORII_EMPTY, torii_probe(in, nullptr, 0, ~0ull, &r));
  ASSERT_GE(torii_send(out, pub(to), TORII_READY, 8, 1, &s, note, &sent, nullptr), 0);
  w.run();
  EXPECT_EQ(w.ni(1).counters().ready_unexpected, 1u);
  EXPECT_EQ(TORII_EMPTY, torii_probe(in, nullptr, 7, 0, &r));
  ASSERT_EQ(TORII_OK, torii_probe(in, nullptr, 0, ~0ull, &r));
  EXPECT_EQ(r.sent_bytes, 6000u);
  torii_message_t* message = nullptr;
  ASSERT_EQ(TORII_OK, torii_mprobe(in, nullptr, 8, 0, &message, &r));
  EXPECT_EQ(TORII_EMPTY, torii_probe(in, nullptr, 8, 0, &r));
  const int code = torii_mrecv(in, message, &t, note, &received, nullptr, &r);
  w.run();
  expect_over(code, received, r, 6000);
  EXPECT_EQ(0, std::memcmp(source.data(), target.data(), 6000));

  Outcome canceled;
  torii_request_t request = 0;
  ASSERT_EQ(TORII_PENDING, torii_recv(in, nullptr, 9, 0, &t, note, &canceled, &request, &r));
  EXPECT_EQ(TORII_OK, torii_cancel(w.handle(1), request));
  EXPECT_EQ(canceled.calls, 1);
  EXPECT_EQ(canceled.result.code, TORII_ERR_CANCELED);
  EXPECT_EQ(TORII_EMPTY, torii_cancel(w.handle(1), request)) << "twice";
}

TEST_P(PortsOver, DeathOfAPeerEndsEverythingWithIt) {
  NetworkWorld w(GetParam(), 3);
  Peer* to = w.peer(0, 1);
  torii_port_t* port = w.port(0);
  w.port(1);
  auto source = pattern(200000, 2);
  std::vector<uint8_t> target(100);
  torii_data_t s = flat(source.data(), 200000), t = flat(target.data(), 100);
  Outcome sent, received, anyone;
  torii_result_t r{};
  ASSERT_EQ(TORII_PENDING,
            torii_send(port, pub(to), TORII_SYNCHRONOUS, 1, 0, &s, note, &sent, nullptr));
  ASSERT_EQ(TORII_PENDING, torii_recv(port, pub(to), 1, 0, &t, note, &received, nullptr, &r));
  ASSERT_EQ(TORII_PENDING, torii_recv(port, nullptr, 1, 0, &t, note, &anyone, nullptr, &r));
  w.run();
  EXPECT_EQ(sent.calls + received.calls + anyone.calls, 0);
  w.kill(1);
  w.run();
  for (const Outcome* o : {&sent, &received, &anyone}) {
    EXPECT_EQ(o->calls, 1);
    EXPECT_EQ(o->result.code, TORII_ERR_PEER_DEAD);
  }
  EXPECT_EQ(TORII_ERR_PEER_DEAD,
            torii_send(port, pub(to), TORII_STANDARD, 1, 0, &t, note, &sent, nullptr));
  EXPECT_EQ(TORII_ERR_PEER_DEAD, torii_recv(port, pub(to), 1, 0, &t, note, &sent, nullptr, &r));
  EXPECT_EQ(w.ni(0).protocol().ops().used(), 0u);
}

// One process finds a malformed frame: both learn of an error, and each names the other once.
TEST(Ports, AMalformedFrameEndsTheReceivesOfBothSides) {
  World w(SimOptions{}, 2, 2);
  torii_port_t* const ports[] = {w.port(0), w.port(1)};
  Peer* const others[] = {w.peer(0, 1), w.peer(1, 0)};
  uint8_t byte = 0;
  torii_data_t d = flat(&byte, 1);
  Outcome sent, received[2];
  torii_result_t r{};
  for (unsigned i = 0; i < 2; ++i) {  // another message brings the hello
    EXPECT_GE(torii_send(ports[i], pub(others[i]), TORII_STANDARD, 2, 0, &d, note, &sent, nullptr),
              0);
    EXPECT_EQ(torii_recv(ports[i], pub(others[i]), 1, 0, &d, note, &received[i], nullptr, &r),
              TORII_PENDING);
  }
  w.run();
  ::testing::internal::CaptureStderr();
  w.ni(1).protocol().bad_frame(others[1], "malformed header", "kind", 7);
  w.run();
  const std::string text = ::testing::internal::GetCapturedStderr();
  for (const Outcome& o : received) {
    EXPECT_EQ(o.calls, 1);
    EXPECT_EQ(o.result.code, TORII_ERR_PEER_DEAD);
  }
  const size_t first = text.find("rank 0 on "), second = text.find("rank 1 on ");
  ASSERT_TRUE(first != std::string::npos && second != std::string::npos) << text;
  EXPECT_NE(text.find(" is cut off: malformed header (kind 7); operations", first),
            std::string::npos);
  EXPECT_NE(text.find(" is cut off: it has cut this process off", second), std::string::npos);
  EXPECT_EQ(text.find("rank", second + 1), std::string::npos) << text;
}

// A receiver that never looks keeps bounded memory; nothing is lost when it does look.
TEST_P(PortsOver, FloodOfUnexpectedMessagesIsBounded) {
  NetworkWorld w(GetParam(), 2);
  Peer* to = w.peer(0, 1);
  Peer* from = w.peer(1, 0);
  torii_port_t* out = w.port(0);
  torii_port_t* in = w.port(1);
  constexpr unsigned kMessages = 3000, kBytes = 1000;
  std::vector<Outcome> sent(kMessages);
  std::vector<uint32_t> sources(kMessages * (kBytes / 4));
  for (unsigned i = 0; i < kMessages; ++i) {
    sources[i * (kBytes / 4)] = i;
    torii_data_t s = flat(&sources[i * (kBytes / 4)], kBytes);
    ASSERT_GE(torii_send(out, pub(to), TORII_STANDARD, 0, 0, &s, note, &sent[i], nullptr), 0);
    if (i % 16 == 0) w.step();
  }
  w.run();
  const uint64_t window = w.ni(1).protocol().peers()[0]->window * wire::kCreditUnit;
  EXPECT_LE(w.ni(1).counters().unexpected_bytes, window);
  for (unsigned i = 0; i < kMessages; ++i) {
    std::vector<uint32_t> target(kBytes / 4, ~0u);
    torii_data_t t = flat(target.data(), kBytes);
    Outcome received;
    torii_result_t now{};
    const int code = torii_recv(in, pub(from), 0, 0, &t, note, &received, nullptr, &now);
    w.run(20);
    expect_over(code, received, now, kBytes);
    ASSERT_EQ(target[0], i);
  }
  EXPECT_EQ(w.ni(0).protocol().ops().used(), 0u);
}

// While both send more than the network takes at once, long messages are read; later no more.
TEST(PortsCrossing, LongMessagesThatMeetAreRead) {
  constexpr unsigned kMessages = 16;
  World w(options_with(kGet, false, 0, 4), 2, 2);
  torii_peer_t* const peer[2] = {pub(w.peer(0, 1)), pub(w.peer(1, 0))};
  torii_port_t* const port[2] = {w.port(0), w.port(1)};
  const size_t bytes = w.ni(0).protocol().peers()[0]->plan.eager_max;
  const std::vector<uint8_t> out = pattern(bytes, 5);
  std::vector<std::vector<uint8_t>> in(2 * kMessages);
  std::vector<Outcome> received(2 * kMessages), sent(2 * kMessages);
  // Messages of these processes, all at once; how many of those of process 0 were announced.
  const auto window = [&](std::initializer_list<unsigned> senders, unsigned messages) {
    const uint64_t before = w.ni(0).counters().rendezvous_sent;
    for (unsigned from : senders) {
      for (unsigned i = from * kMessages; i < from * kMessages + messages; ++i) {
        in[i].assign(bytes + 1, 0);
        received[i] = {};
        torii_data_t d = flat(in[i].data(), bytes);
        torii_result_t now{};
        EXPECT_EQ(TORII_PENDING, torii_recv(port[1 - from], peer[1 - from], 0, 0, &d, note,
                                            &received[i], nullptr, &now));
      }
      for (unsigned i = from * kMessages; i < from * kMessages + messages; ++i) {
        torii_data_t d = flat(const_cast<uint8_t*>(out.data()), bytes);
        EXPECT_GE(
            torii_send(port[from], peer[from], TORII_STANDARD, 0, 0, &d, note, &sent[i], nullptr),
            0);
      }
    }
    w.run();
    for (unsigned from : senders)
      for (unsigned i = from * kMessages; i < from * kMessages + messages; ++i) {
        EXPECT_EQ(received[i].calls, 1);
        EXPECT_EQ(std::memcmp(in[i].data(), out.data(), bytes), 0);
      }
    return w.ni(0).counters().rendezvous_sent - before;
  };
  EXPECT_EQ(window({0}, kMessages), 0u);
  EXPECT_EQ(window({0}, 1), 0u);
  window({0, 1}, kMessages);
  EXPECT_EQ(window({0, 1}, kMessages), kMessages);
  EXPECT_EQ(window({0, 1}, kMessages), kMessages);
  for (int i = 0; i < 2; ++i) window({0}, kMessages);
  EXPECT_EQ(window({0}, kMessages), 0u);
  window({0, 1}, kMessages);
  window({0, 1}, kMessages);
  for (int i = 0; i < 2; ++i) window({0}, 1);
  EXPECT_EQ(window({0}, 1), 0u);
}

// The driver has no news of dead peers, and nothing is under way that would miss an answer.
TEST(PortsOverSilence, AReceiveEndsWhenItsSenderVanishes) {
  constexpr uint64_t kDeadlineMs = 100;
  std::string why;
  ASSERT_EQ(param_set("peer_deadline_ms", std::to_string(kDeadlineMs), "test", &why), Status::ok);
  SimOptions options = options_with(kGet);
  options.flags &= ~kPeerDown;
  World w(options, 3, 64, [](unsigned, const OpenBelow& sim, const DriverEnv& env) {
    return open_with_link(sim, env);
  });
  torii_port_t* port = w.port(0);
  char byte = 0;
  torii_data_t d = flat(&byte, 1);
  Outcome ignored, connected, talked_to, anyone;
  torii_result_t r{};
  ASSERT_GE(torii_send(port, pub(w.peer(0, 1)), TORII_STANDARD, 1, 0, &d, note, &ignored, nullptr),
            0);
  w.run();
  ASSERT_EQ(TORII_PENDING,
            torii_recv(port, pub(w.peer(0, 1)), 1, 0, &d, note, &talked_to, nullptr, &r));
  ASSERT_EQ(TORII_PENDING,
            torii_recv(port, pub(w.peer(0, 2)), 1, 0, &d, note, &connected, nullptr, &r));
  const auto pass = [&](uint64_t ms) {
    for (uint64_t i = 0; i < ms; ++i) {
      w.advance(1000000);
      w.step();
    }
  };
  pass(20 * kDeadlineMs);
  EXPECT_EQ(talked_to.calls + connected.calls, 0) << "they live";
  EXPECT_GT(w.ni(0).counters().link_probes, 0u);
  w.kill(1);
  w.kill(2);
  ASSERT_EQ(TORII_PENDING, torii_recv(port, nullptr, 1, 0, &d, note, &anyone, nullptr, &r));
  pass(2 * kDeadlineMs);
  for (const Outcome* o : {&talked_to, &connected, &anyone}) {
    EXPECT_EQ(o->calls, 1);
    EXPECT_EQ(o->result.code, TORII_ERR_PEER_DEAD);
  }
  ASSERT_EQ(param_set("peer_deadline_ms", "30000", "test", &why), Status::ok) << why;
}

INSTANTIATE_TEST_SUITE_P(Networks, PortsOver, ::testing::ValuesIn(kNetworks),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace torii
