// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Random messages to single peers and to groups that are opened meanwhile: between each two
// processes all arrive, unchanged and in order, and all credit comes back.
#include <algorithm>
#include <cstring>
#include <random>

#include "party.h"
#include "sanitized.h"

namespace torii {
namespace {

using test::flat;
using test::note;
using test::Outcome;
using test::Party;
using test::pattern;
using test::sim_options;
using test::Tap;

struct Network {
  const char* name;
  SimOptions options;
  uint32_t job_size;
  bool multicast;
};

const Network kNetworks[] = {
    {"multicast", sim_options(), 64, true},
    {"backpressure", sim_options(300000, 4), 64, true},
    {"tiny_window", sim_options(0, 8), 1 << 20, true},
    {"one_by_one", sim_options(100000), 64, false},
};

class GroupTraffic : public ::testing::TestWithParam<Network> {};

struct Message {
  std::vector<uint8_t> bytes;
  Outcome outcome;
  torii_result_t now{};
  int code = 0;
};
using Messages = std::vector<std::shared_ptr<Message>>;

constexpr unsigned kCount = 5;
// The members of each group.
const std::vector<unsigned> kGroups[] = {{0, 1, 2, 3, 4}, {0, 2, 4}, {1, 2, 3, 4}};

class Traffic {
 public:
  Traffic(const Network& network, uint64_t seed)
      : random_(seed),
        p_(std::vector<Tap>(kCount, Tap{0, network.multicast, Status::ok}),
           with_seed(network.options, seed), network.job_size) {}
  static SimOptions with_seed(SimOptions options, uint64_t seed) {
    options.seed = seed;
    return options;
  }

  void run() {
    for (int i = 0; i < 600; ++i) {
      if (i % 20 == 0) open_somewhere();
      const auto a = unsigned(random_() % kCount), b = unsigned(random_() % kCount);
      const auto g = unsigned(random_() % std::size(kGroups));
      if (random_() % 2) {
        receive(b, a);
      } else if (groups_[g][a] && random_() % 2) {
        send_group(g, a);
      } else {
        send(a, b);
      }
      if (random_() % 3 == 0) p_.world.step();
    }
    for (unsigned a = 0; a < kCount; ++a)
      for (unsigned b = 0; b < kCount; ++b)
        while (received_[b][a].size() < sent_[a][b].size()) receive(b, a);
    p_.world.run();
  }
  void check() {
    for (unsigned a = 0; a < kCount; ++a)
      for (unsigned b = 0; b < kCount; ++b)
        for (size_t i = 0; i < sent_[a][b].size(); ++i) {
          const Message& s = *sent_[a][b][i];
          const Message& r = *received_[b][a][i];
          const torii_result_t& result = r.code == TORII_OK ? r.now : r.outcome.result;
          ASSERT_EQ(r.outcome.calls, r.code == TORII_PENDING);
          ASSERT_EQ(s.outcome.calls, s.code == TORII_PENDING);
          ASSERT_EQ(s.outcome.result.code, TORII_OK);
          ASSERT_EQ(result.bytes, s.bytes.size()) << a << " to " << b << ", message " << i;
          ASSERT_EQ(0, std::memcmp(s.bytes.data(), r.bytes.data(), s.bytes.size()))
              << a << " to " << b << ", message " << i;
        }
    // A receive that is posted and not matched holds no credit.
    p_.expect_credit_adds_up();
  }
  uint64_t multicast_frames() {
    uint64_t sum = 0;
    for (unsigned i = 0; i < kCount; ++i) sum += p_.counters(i).multicast_frames;
    return sum;
  }

 private:
  // One more member opens one more group.
  void open_somewhere() {
    for (unsigned g = 0; g < std::size(kGroups); ++g) {
      for (const unsigned i : kGroups[g]) {
        if (groups_[g][i]) continue;
        std::vector<torii_peer_t*> members;
        for (const unsigned k : kGroups[g])
          if (k != i || random_() % 2) members.push_back(p_.peers[i][k]);
        std::shuffle(members.begin(), members.end(), random_);
        const char name = char(g);
        ASSERT_EQ(TORII_OK, torii_group_open(p_.world.handle(i), &name, 1, members.data(),
                                             members.size(), &groups_[g][i]));
        return;
      }
    }
  }
  std::shared_ptr<Message> message() {
    const size_t bytes = random_() % 4 ? random_() % 300 : random_() % 60000;
    auto m = std::make_shared<Message>();
    m->bytes = pattern(bytes, unsigned(random_()));
    m->bytes.resize(bytes);
    return m;
  }
  void send(unsigned a, unsigned b) {
    auto m = message();
    torii_data_t d = flat(m->bytes.data(), m->bytes.size());
    m->code =
        torii_send(p_.ports[a], p_.peers[a][b], random_() % 4 ? TORII_STANDARD : TORII_SYNCHRONOUS,
                   0, 0, &d, note, &m->outcome, nullptr);
    ASSERT_GE(m->code, 0);
    sent_[a][b].push_back(m);
  }
  void send_group(unsigned g, unsigned a) {
    auto m = message();
    torii_data_t d = flat(m->bytes.data(), m->bytes.size());
    m->code = torii_group_send(groups_[g][a], p_.ports[a], 0, 0, &d, note, &m->outcome);
    ASSERT_GE(m->code, 0);
    for (const unsigned b : kGroups[g])
      if (b != a) sent_[a][b].push_back(m);
  }
  void receive(unsigned at, unsigned from) {
    auto m = std::make_shared<Message>();
    m->bytes.resize(60000);
    torii_data_t d = flat(m->bytes.data(), m->bytes.size());
    m->code =
        torii_recv(p_.ports[at], p_.peers[at][from], 0, 0, &d, note, &m->outcome, nullptr, &m->now);
    ASSERT_GE(m->code, 0);
    received_[at][from].push_back(m);
  }

  std::mt19937_64 random_;
  Party p_;
  torii_group_t* groups_[std::size(kGroups)][kCount] = {};
  Messages sent_[kCount][kCount], received_[kCount][kCount];
};

TEST_P(GroupTraffic, KeepsOrderAndContent) {
  uint64_t frames = 0;
  const uint64_t seeds = test::in_short() ? 10 : 40;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Traffic traffic(GetParam(), seed);
    traffic.run();
    traffic.check();
    frames += traffic.multicast_frames();
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(frames > 0, GetParam().multicast) << frames << " multicast frames";
}

INSTANTIATE_TEST_SUITE_P(Networks, GroupTraffic, ::testing::ValuesIn(kNetworks),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace torii
