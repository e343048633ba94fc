// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "core/ni/ni.h"
#include "nic/timed.h"
#include "trust.h"

namespace torii::figures {
namespace {

constexpr unsigned kIdlePolls = 4;
constexpr uint64_t kPollNs = 50;              // a look at memory
constexpr uint64_t kGreetingNs = 1000;        // a look whether the other one is there
constexpr uint64_t kDeadlineNs = 1000000000;  // then something is wrong
constexpr size_t kRounds = 8;                 // that are counted; one before them is not
constexpr size_t kShort = 4;                  // bytes of an acknowledgement

// Cards whose completions are in the host's memory; those of Myrinet and Nectar are on the card.
bool polls_memory(const Setup& setup) {
  return !setup.card.starts_with("myrinet") && setup.card != "nectar";
}

class Sides {
 public:
  explicit Sides(const Setup& setup) {
    nic::FabricOptions options;
    options.card = setup.card.substr(0, setup.card.find('/'));
    options.parameters = setup.parameters;
    std::string why;
    fabric_ = nic::Fabric::make(options, &why);
    if (!fabric_) std::fprintf(stderr, "%s\n", why.c_str());
  }
  // Runs the program on both hosts. It says when it began and ended to count.
  using Program = std::function<void(nic::Fabric&, nic::Host&, uint32_t side, Sides&)>;
  double run(const Program& program, double ways) {
    if (!fabric_) return 0;
    nic::Hosts hosts(fabric_->engine());
    for (const uint32_t side : {0u, 1u})
      hosts.add([&, side](nic::Host& host) { program(*fabric_, host, side, *this); });
    std::string why;
    if (!hosts.run(&why)) std::fprintf(stderr, "%s\n", why.c_str());
    // The drivers close on hosts that have ended: their cards must not take time any more.
    over = true;
    for (const nic::Name name : names) fabric_->kill(name);
    closing.clear();
    return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) / ways : 0;
  }

  // False: the other one is not going to be there.
  bool await_other(nic::Host& host, uint32_t side) const {
    while (addresses[1 - side].empty() && host.now_ns() < kDeadlineNs) host.spend(kGreetingNs);
    return !addresses[1 - side].empty();
  }

  bool over = false;
  std::array<nic::Name, 2> names{};
  std::array<std::vector<std::byte>, 2> addresses;  // empty: not open yet
  uint64_t begin_ns = 0, end_ns = 0;
  std::vector<std::shared_ptr<void>> closing;

 private:
  std::unique_ptr<nic::Fabric> fabric_;
};

nic::Name name_in(std::span<const std::byte> address) {
  nic::Name name;
  std::memcpy(&name, address.data() + sizeof(uint64_t), sizeof(name));
  return name;
}

// --- frames ------------------------------------------------------------------------------------

// A process that reads frames where they are wanted: by DMA if the card does that.
struct Reader final : Sink {
  void packet(PeerId, std::span<const std::byte> frame) override {
    const Advice* const advice = driver->advice();
    if (advice && frame.size() >= advice->take_min)
      driver->take(memory.data(), frame.data(), frame.size());
    else if (!frame.empty())
      std::memcpy(memory.data(), frame.data(), frame.size());
    frames++;
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}

  std::vector<std::byte> memory = std::vector<std::byte>(1 << 16);
  Counters counters{};
  std::unique_ptr<Driver> driver;
  size_t frames = 0;
};

double frames_ns(const Setup& setup, size_t bytes, size_t back, double ways) {
  Sides sides(setup);
  return sides.run(
      [&](nic::Fabric& fabric, nic::Host& host, uint32_t side, Sides& all) {
        const auto me = std::make_shared<Reader>();
        DriverEnv env;
        env.sink = me.get();
        env.counters = &me->counters;
        me->driver = Timed::open(setup, fabric, side, host, all.over, env);
        if (!me->driver) return;
        all.closing.push_back(me);
        std::vector<std::byte> address(me->driver->caps().address_bytes);
        me->driver->address(address.data());
        all.names[side] = name_in(address);
        all.addresses[side] = address;
        if (!all.await_other(host, side)) return;
        PeerId to = kNoPeer;
        std::string why;
        if (me->driver->connect(all.addresses[1 - side], &to, &why) != Status::ok) return;
        std::vector<std::byte> body(side == 0 ? bytes : back);
        const iovec piece{body.data(), body.size()};
        Tx tx;
        tx.peer = to;
        tx.pieces = &piece;
        tx.piece_count = 1;
        tx.body_bytes = static_cast<uint32_t>(body.size());
        const auto poll = [&] {
          return me->driver->poll(host.now_ns(), 1) > 0 ||
                 (polls_memory(setup) ? host.poll_memory(kPollNs) : host.now_ns() < kDeadlineNs);
        };
        const auto send = [&](size_t round) {
          tx.cookie = round + 1;
          while (me->driver->send({&tx, 1}) == 0)
            if (!poll()) return;
        };
        for (size_t round = 0; round <= kRounds; round++) {
          if (side == 0 && round == 1) all.begin_ns = host.now_ns();
          if (side == 0) send(round);
          while (me->frames == round)
            if (!poll()) return;
          if (side == 1) send(round);
        }
        if (side == 0) all.end_ns = host.now_ns();
        // Data that the card is still to read leaves when its driver polls.
        while (!polls_memory(setup) && all.end_ns == 0 && poll()) continue;
      },
      ways);
}

// --- messages ----------------------------------------------------------------------------------

struct Process {
  static NiConfig config(nic::Host& host, uint32_t side) {
    NiConfig out;
    out.self = own_identity();
    out.self.job = 77;
    out.self.rank = side;
    out.self.nid = side;
    out.self.pid = 1;
    out.size = 2;
    out.clock = [](void* h) { return static_cast<nic::Host*>(h)->now_ns(); };
    out.clock_context = &host;
    return out;
  }
  Process(nic::Host& host, uint32_t side) : ni(config(host, side)) {}
  torii_ni_t* handle() { return reinterpret_cast<torii_ni_t*>(&ni); }

  Ni ni;
  torii_port_t* port = nullptr;
  int sent = 0, received = 0;
};

void count(void* arg, const torii_result_t*) { ++*static_cast<int*>(arg); }

}  // namespace

double frame_ns(const Setup& setup, size_t bytes) {
  return frames_ns(setup, bytes, bytes, 2 * kRounds);
}

double acknowledged_ns(const Setup& setup, size_t bytes) {
  return frames_ns(setup, bytes, kShort, kRounds);
}

double message_ns(const Setup& setup, size_t bytes) {
  Sides sides(setup);
  return sides.run(
      [&](nic::Fabric& fabric, nic::Host& host, uint32_t side, Sides& all) {
        const auto me = std::make_shared<Process>(host, side);
        DriverEnv env;
        env.sink = me->ni.protocol().next_sink();
        env.counters = &me->ni.counters();
        env.members = &test::everybody();
        std::unique_ptr<Driver> driver = Timed::open(setup, fabric, side, host, all.over, env);
        if (!driver) return;
        std::byte own[kAddressMax];
        driver->address(own);
        all.names[side] = name_in(own);
        me->ni.protocol().add_driver("timed", std::move(driver));
        all.closing.push_back(me);
        if (torii_port_open(me->handle(), 0, &me->port) != TORII_OK) return;
        std::byte address[Protocol::kAddressBytes];
        const size_t length = me->ni.protocol().address(address, sizeof(address));
        all.addresses[side].assign(address, address + length);
        if (!all.await_other(host, side)) return;
        Peer* found = nullptr;
        std::string why;
        if (me->ni.connect(all.addresses[1 - side], &found, &why) != Status::ok) return;
        auto* const peer = reinterpret_cast<torii_peer_t*>(found);
        std::vector<std::byte> out(bytes), in(bytes);
        torii_data_t from{}, to{};
        from.layout = to.layout = TORII_CONTIGUOUS;
        from.bytes = to.bytes = bytes;
        from.base = out.data();
        to.base = in.data();
        // The core puts off some work to a poll that finds nothing.
        const auto wait = [&](const int& counter, int until) {
          for (unsigned idle = 0; counter < until;) {
            if (torii_progress(me->handle()) != 0) {
              idle = 0;
            } else if (polls_memory(setup) && ++idle % kIdlePolls == 0) {
              if (!host.poll_memory(kPollNs)) return false;
            } else if (polls_memory(setup)) {
              host.spend(kPollNs);
            } else if (host.now_ns() >= kDeadlineNs) {
              return false;
            }
          }
          return true;
        };
        const auto send = [&] {
          host.spend(setup.software.message_ns);
          if (torii_send(me->port, peer, TORII_STANDARD, 1, 0, &from, count, &me->sent, nullptr) !=
              TORII_PENDING)
            me->sent++;
        };
        for (int round = 0; round <= static_cast<int>(kRounds); round++) {
          if (side == 0 && round == 1) all.begin_ns = host.now_ns();
          torii_result_t now{};
          if (torii_recv(me->port, peer, 1, 0, &to, count, &me->received, nullptr, &now) !=
              TORII_PENDING)
            me->received++;
          if (side == 0) send();
          if (!wait(me->received, round + 1)) return;
          host.spend(setup.software.message_ns + bytes * setup.software.copy_ns);
          if (side == 1) send();
          if (!wait(me->sent, round + 1)) return;
        }
        if (side == 0) all.end_ns = host.now_ns();
      },
      2 * kRounds);
}

}  // namespace torii::figures
