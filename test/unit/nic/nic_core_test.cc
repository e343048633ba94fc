// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The core over an emulated card: what it makes of the card's groups.
#include "nic_cards.h"
#include "world.h"

namespace torii::test {
namespace {

constexpr unsigned kMembers = 4;

// Interfaces of one job, one a node, that know each other.
struct Job {
  Job() : fabric(make_cards("tnet", {.nodes = kMembers})) {
    for (unsigned i = 0; i < kMembers; i++) {
      NiConfig config;
      config.self = own_identity();
      config.self.job = 77;
      config.self.rank = i;
      config.self.nid = i;
      config.self.pid = 1;
      config.size = kMembers;
      config.clock = [](void* f) { return static_cast<nic::Fabric*>(f)->engine().now_ns(); };
      config.clock_context = fabric.get();
      nis.push_back(std::make_unique<Ni>(config));
      DriverEnv env;
      env.sink = nis[i]->protocol().next_sink();
      env.counters = &nis[i]->counters();
      nis[i]->protocol().add_driver("tnet", open_card("tnet", *fabric, i, env));
      EXPECT_EQ(torii_port_open(handle(i), 0, &ports[i]), TORII_OK);
    }
    for (unsigned i = 0; i < kMembers; i++) {
      for (unsigned k = 0; k < kMembers; k++) {
        std::byte address[Protocol::kAddressBytes];
        const size_t bytes = nis[k]->protocol().address(address, sizeof(address));
        Peer* found = nullptr;
        std::string why;
        EXPECT_EQ(nis[i]->connect({address, bytes}, &found, &why), Status::ok) << why;
        peers[i][k] = pub(found);
      }
    }
  }
  torii_ni_t* handle(unsigned i) { return reinterpret_cast<torii_ni_t*>(nis[i].get()); }
  // Rounds of 1 us.
  void run(int rounds) {
    for (int i = 0; i < rounds; i++) {
      fabric->engine().run_to(fabric->engine().now_ns() + 1000);
      for (unsigned k = 0; k < kMembers; k++) torii_progress(handle(k));
    }
  }

  std::unique_ptr<nic::Fabric> fabric;
  std::vector<std::unique_ptr<Ni>> nis;
  torii_port_t* ports[kMembers] = {};
  torii_peer_t* peers[kMembers][kMembers] = {};
};

TEST(NicCore, AMessageToAGroupLeavesTheCardOnce) {
  constexpr size_t kBytes = 3000;
  constexpr uint64_t kMessages = 20;
  Job job;
  torii_group_t* groups[kMembers] = {};
  for (unsigned i = 0; i < kMembers; i++)
    ASSERT_EQ(torii_group_open(job.handle(i), "all", 3, job.peers[i], kMembers, &groups[i]),
              TORII_OK);
  job.run(1000);
  const uint64_t before = job.fabric->link(0, false).counts().packets;
  for (unsigned message = 0; message < kMessages; message++) {
    std::vector<uint8_t> out = pattern(kBytes, message);
    std::vector<uint8_t> in[kMembers];
    torii_data_t data = flat(out.data(), kBytes);
    Outcome sent, received[kMembers];
    const int code = torii_group_send(groups[0], job.ports[0], 3, 9, &data, note, &sent);
    ASSERT_TRUE(code == TORII_OK || code == TORII_PENDING) << code;
    for (unsigned i = 1; i < kMembers; i++) {
      in[i].resize(kBytes);
      torii_data_t to = flat(in[i].data(), kBytes);
      torii_result_t now{};
      received[i].calls = torii_recv(job.ports[i], job.peers[i][0], 3, 0, &to, note, &received[i],
                                     nullptr, &now) == TORII_OK;
    }
    job.run(300);
    for (unsigned i = 1; i < kMembers; i++) {
      ASSERT_EQ(received[i].calls, 1) << message << " at " << i;
      EXPECT_EQ(std::memcmp(in[i].data(), out.data(), kBytes), 0) << message << " at " << i;
    }
    EXPECT_TRUE(code == TORII_OK || sent.calls == 1);
  }
  EXPECT_EQ(job.nis[0]->counters().multicast_frames, kMessages);
  EXPECT_EQ(job.nis[0]->counters().group_unicasts, 0u);
  // 27 packets are one frame of that length; beside them go credits.
  const uint64_t packets = job.fabric->link(0, false).counts().packets - before;
  EXPECT_GE(packets, kMessages * 27);
  EXPECT_LT(packets, 2 * kMessages * 27);
}

}  // namespace
}  // namespace torii::test
