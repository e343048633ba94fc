// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The cost of one process's first contact with many others, without a network: keys are
// drawn and agreed as in a job, and the first frame to each is acknowledged, over the simulated
// fabric. TORII_LINK_CIPHER counts. Microseconds of processor time for each peer, the medians of
// rounds.
//
//   first_contact [PEERS [ROUNDS]]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/base/param.h"
#include "core/link/link.h"
#include "core/trust/key_pair.h"
#include "drivers/sim/sim.h"
#include "recorder.h"

namespace torii {
namespace {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

[[noreturn]] void fail(const std::string& why) {
  fprintf(stderr, "first_contact: %s\n", why.c_str());
  exit(1);
}

struct Process {
  explicit Process(SimFabric& fabric) {
    std::string why;
    keys = KeyPair::draw(&why);
    if (!keys) fail(why);
    DriverEnv env;
    env.sink = &sink;
    env.counters = &counters;
    env.keys = keys.get();
    env.members = &test::everybody();
    driver = wrap_link([&](const DriverEnv& inner) { return open_sim(fabric, inner); }, env);
    if (!driver) fail("the link does not open");
  }
  test::Recorder sink;
  Counters counters;
  std::unique_ptr<KeyPair> keys;
  std::unique_ptr<Driver> driver;
};

struct Round {
  double agree, connect, exchange;
};

// Work of the others is not counted, but for their part of agreeing, which is the same.
Round one_round(size_t count) {
  SimFabric fabric({.flags = kWait, .inline_max = 4096});
  Process hub(fabric);
  std::vector<std::unique_ptr<Process>> others;
  std::vector<PeerId> peers(count);
  for (size_t i = 0; i < count; i++) others.push_back(std::make_unique<Process>(fabric));
  uint64_t spent[3] = {};
  uint64_t begin = now_ns();
  PairKeys pair;
  for (const auto& other : others)
    if (!hub.keys->agree(other->keys->own(), "another purpose", &pair)) fail("no key");
  spent[0] = now_ns() - begin;
  std::vector<std::byte> address(hub.driver->caps().address_bytes);
  std::string why;
  for (size_t i = 0; i < count; i++) {
    others[i]->driver->address(address.data());
    begin = now_ns();
    if (hub.driver->connect(address, &peers[i], &why) != Status::ok) fail(why);
    spent[1] += now_ns() - begin;
  }
  begin = now_ns();
  for (const PeerId peer : peers) {
    Tx tx;
    tx.peer = peer;
    tx.head = "first";
    tx.head_bytes = 5;
    tx.cookie = 1;
    if (hub.driver->send({&tx, 1}) != 1) fail("a frame is refused");
  }
  spent[2] = now_ns() - begin;
  for (int polls = 0; hub.sink.dones.size() < count; polls++) {
    if (polls > 100000) fail("the first frames do not arrive");
    fabric.advance(100000);
    for (const auto& other : others) other->driver->poll(fabric.now_ns(), 64);
    begin = now_ns();
    hub.driver->poll(fabric.now_ns(), 1 << 20);
    spent[2] += now_ns() - begin;
  }
  const auto each = [&](uint64_t ns) { return static_cast<double>(ns) / 1e3 / double(count); };
  return {each(spent[0]), each(spent[1]), each(spent[2])};
}

double median(std::vector<Round>& rounds, double Round::*what) {
  std::ranges::sort(rounds, {}, what);
  return rounds[rounds.size() / 2].*what;
}

}  // namespace
}  // namespace torii

int main(int argc, char** argv) {
  using namespace torii;
  const long count = argc > 1 ? atol(argv[1]) : 1000, times = argc > 2 ? atol(argv[2]) : 5;
  if (count < 1 || times < 1) {
    fprintf(stderr, "usage: first_contact [PEERS [ROUNDS]]\n");
    return 2;
  }
  std::vector<Round> rounds;
  for (long i = 0; i < times; i++) rounds.push_back(one_round(size_t(count)));
  printf(
      "TORII_LINK_CIPHER=%s, %ld peers, medians of %ld rounds, us of processor time for each "
      "peer\n",
      params().link_cipher.c_str(), count, times);
  printf("%10.1f agreeing on one pair of keys\n", median(rounds, &Round::agree));
  printf("%10.1f connect(), with all keys\n", median(rounds, &Round::connect));
  printf("%10.1f hello, first frame, acknowledgement\n", median(rounds, &Round::exchange));
  return 0;
}
