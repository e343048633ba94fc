// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The clock and what is built on it: order of events, traces, hosts whose programs take time.
#include <gtest/gtest.h>

#include "nic/engine.h"
#include "nic/hosts.h"
#include "nic/trace.h"

namespace torii::nic {
namespace {

TEST(NicEngine, EventsOfOneTimeHappenInTheOrderInWhichTheyWereAsked) {
  Engine engine(1);
  std::string order;
  engine.at(20, [&] { order += 'c'; });
  engine.at(10, [&] {
    order += 'a';
    engine.at(5, [&] { order += 'b'; });  // past: now
    engine.after(10, [&] { order += 'd'; });
  });
  engine.at(10, [&] { order += 'x'; });
  EXPECT_EQ(engine.next_ns(), 10u);
  engine.run_to(19);
  EXPECT_EQ(order, "axb");
  EXPECT_EQ(engine.now_ns(), 19u);
  engine.run_to(5);
  EXPECT_EQ(engine.now_ns(), 19u) << "the clock went back";
  engine.run_to(1000);
  EXPECT_EQ(order, "axbcd");
  EXPECT_EQ(engine.next_ns(), ~uint64_t{0});
}

TEST(NicTrace, ALineForEachEvent) {
  std::string text;
  nic::Trace trace(nic::TraceFormat::text, [&](std::string_view part) { text += part; });
  trace.record(1234567, 1056, "cable3a", "packet 128 bytes");
  trace.record(1235000, 0, "bus0", "interrupt 0");
  trace.record(1236000, 7, "cable3a", "packet 128 bytes");
  EXPECT_EQ(text,
            "     1234567     1056 cable3a    packet 128 bytes\n"
            "     1235000        0 bus0       interrupt 0\n"
            "     1236000        7 cable3a    packet 128 bytes\n");
}

TEST(NicTrace, ChromeFormatHasARowForEachUnit) {
  std::string text;
  {
    nic::Trace trace(nic::TraceFormat::chrome, [&](std::string_view part) { text += part; });
    trace.record(1234567, 1056, "cable3a", "packet");
    trace.record(1235000, 0, "bus0", "interrupt 0");
  }
  EXPECT_EQ(text,
            "[\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,\"args\":{\"name\":"
            "\"cable3a\"}},\n{\"ph\":\"X\",\"name\":\"packet\",\"pid\":0,\"tid\":0,\"ts\":1234.567,"
            "\"dur\":1.056},\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":1,\"args\":"
            "{\"name\":\"bus0\"}},\n{\"ph\":\"X\",\"name\":\"interrupt 0\",\"pid\":0,\"tid\":1,"
            "\"ts\":1235.000,\"dur\":0.000}\n]\n");
}

TEST(NicHosts, ProgramsTakeTimeOneAtATime) {
  Engine engine(1);
  nic::Hosts hosts(engine);
  std::string order;
  uint64_t ended[2] = {};
  for (const int i : {0, 1}) {
    hosts.add([&, i](nic::Host& host) {
      for (int round = 0; round < 3; round++) {
        order += static_cast<char>('a' + i);
        host.spend(i == 0 ? 100 : 150);
      }
      ended[i] = host.now_ns();
    });
  }
  std::string why;
  ASSERT_TRUE(hosts.run(&why)) << why;
  EXPECT_EQ(order, "ababab");
  EXPECT_EQ(ended[0], 300u);
  EXPECT_EQ(ended[1], 450u);
}

TEST(NicHosts, APollSeesAChangeAtItsNextInterval) {
  Engine engine(1);
  nic::Hosts hosts(engine);
  std::vector<uint64_t> seen;
  nic::Host& host = hosts.add([&](nic::Host& h) {
    h.spend(10);
    for (int i = 0; i < 2; i++) {
      EXPECT_TRUE(h.poll_memory(30));
      seen.push_back(h.now_ns());
    }
  });
  engine.at(5, [&] { host.changed(); });  // while it does not poll
  engine.at(105, [&] { host.changed(); });
  std::string why;
  ASSERT_TRUE(hosts.run(&why)) << why;
  EXPECT_EQ(seen, (std::vector<uint64_t>{40, 130}));
}

TEST(NicHosts, ProgramsThatWaitForEverAreToldApart) {
  Engine engine(1);
  nic::Hosts hosts(engine);
  bool stopped = false;
  hosts.add([&](nic::Host& host) { stopped = !host.poll_memory(30); });
  hosts.add([](nic::Host& host) { host.spend(70); });
  std::string why;
  EXPECT_FALSE(hosts.run(&why));
  EXPECT_EQ(why, "1 of 2 hosts waited at 70 ns for what never happens");
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace torii::nic
