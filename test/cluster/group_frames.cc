// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A member of a lossy group over udp and the link. It sends frames for some seconds, alone and in
// batches, and checks those of the others: from whom, once, and every byte.
//
//   group_frames FOLDER RANK MEMBERS SECONDS
//
// Members find each other by files in the folder, which they share.
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/link/link.h"
#include "core/trust/key_pair.h"
#include "trust.h"

namespace torii {
namespace {

constexpr uint64_t kMs = 1000000;
constexpr uint64_t kGapNs = 2 * kMs;     // between two sends
constexpr uint64_t kFindMs = 20000;      // for the others to appear
constexpr uint64_t kLastNs = 500 * kMs;  // for the last frames to arrive
constexpr size_t kHeardLeast = 100;      // frames of each
constexpr size_t kBatch = 8;
constexpr size_t kSizeLeast = 100, kSizes = 1200;

[[noreturn]] void fail(const std::string& why) {
  fprintf(stderr, "group_frames: %s\n", why.c_str());
  exit(1);
}

uint64_t clock_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

void put(const std::string& file, std::span<const std::byte> bytes) {
  std::ofstream(file + ".new", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (rename((file + ".new").c_str(), file.c_str()) != 0) fail("cannot write " + file);
}

std::vector<std::byte> wait_for(const std::string& file) {
  for (uint64_t ms = 0; ms < kFindMs; ms += 10, usleep(10000)) {
    std::ifstream in(file, std::ios::binary);
    if (!in) continue;
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  fail("nobody has written " + file);
}

// The frame of this number of a member, all of it.
std::string frame_of(uint32_t rank, uint64_t number) {
  std::string out(kSizeLeast + number * 37 % kSizes, '\0');
  for (size_t i = 0; i < out.size(); i++)
    out[i] = static_cast<char>((number + rank * 101 + i * 7) % 251);
  std::memcpy(out.data(), &rank, sizeof(rank));
  std::memcpy(out.data() + sizeof(rank), &number, sizeof(number));
  return out;
}

struct Hearer final : Sink {
  explicit Hearer(size_t members) : heard(members) {}
  void packet(PeerId, std::span<const std::byte>) override { wrong++; }
  void packets(std::span<Packet> all) override {
    for (const Packet& one : all) {
      uint32_t rank = 0;
      uint64_t number = 0;
      const std::string bytes(reinterpret_cast<const char*>(one.frame.data()), one.frame.size());
      if (bytes.size() < kSizeLeast || one.from != group) {
        wrong++;
        continue;
      }
      std::memcpy(&rank, bytes.data(), sizeof(rank));
      std::memcpy(&number, bytes.data() + sizeof(rank), sizeof(number));
      const bool right = rank == one.sender && rank < heard.size() &&
                         bytes == frame_of(rank, number) && heard[rank].insert(number).second;
      wrong += !right;
    }
  }
  void done(uint64_t, Status) override {}
  void peer_down(PeerId, Status) override {}

  PeerId group = kNoPeer;
  std::vector<std::set<uint64_t>> heard;  // by member
  uint64_t wrong = 0;
};

int run(const std::string& folder, uint32_t rank, uint32_t members, uint64_t seconds) {
  std::string why;
  Hearer hearer(members);
  Counters counters;
  const auto keys = KeyPair::draw(&why);
  if (!keys) fail(why);
  DriverEnv env;
  env.sink = &hearer;
  env.counters = &counters;
  env.keys = keys.get();
  env.members = &test::everybody();
  const auto driver = open_with_link("udp", env, &why);
  if (!driver) fail(why);
  LossyMember membership;
  if (rank == 0) {
    const auto drawn = KeyPair::draw(&why);
    if (!drawn) fail(why);
    put(folder + "/key", drawn->own());
  }
  std::vector<std::byte> address(driver->caps().address_bytes);
  driver->address(address.data());
  put(folder + "/address." + std::to_string(rank), address);
  for (uint32_t other = 0; other < members; other++) {
    PeerId peer;
    if (other != rank && driver->connect(wait_for(folder + "/address." + std::to_string(other)),
                                         &peer, &why) != Status::ok)
      fail(why);
  }
  const auto key = wait_for(folder + "/key");
  if (key.size() != membership.key.size()) fail("the key has another length");
  std::copy(key.begin(), key.end(), membership.key.begin());
  membership.number = rank;
  membership.members = members;
  if (driver->lossy_groups()->join_lossy(membership, &hearer.group) != Status::ok)
    fail("the group cannot be joined");

  uint64_t number = 0, now_ns = clock_ns(), next_ns = now_ns;
  const uint64_t last_ns = now_ns + seconds * 1000 * kMs;
  for (; now_ns < last_ns + kLastNs; now_ns = clock_ns()) {
    driver->poll(now_ns, 64);
    if (now_ns < next_ns || now_ns >= last_ns) continue;
    next_ns = now_ns + kGapNs;
    std::vector<std::string> frames;
    std::vector<iovec> pieces;
    std::vector<Tx> batch(number % 3 ? 1 : kBatch);
    for (size_t i = 0; i < batch.size(); i++) frames.push_back(frame_of(rank, number + i));
    for (std::string& frame : frames) pieces.push_back({frame.data(), frame.size()});
    for (size_t i = 0; i < batch.size(); i++) {
      batch[i].peer = hearer.group;
      batch[i].head = "";
      batch[i].pieces = &pieces[i];
      batch[i].piece_count = 1;
      batch[i].body_bytes = static_cast<uint32_t>(pieces[i].iov_len);
    }
    number += driver->send(batch);
  }
  bool well = hearer.wrong == 0;
  for (uint32_t other = 0; other < members; other++) {
    if (other == rank) continue;
    printf("rank %u has heard %zu frames of rank %u\n", rank, hearer.heard[other].size(), other);
    well &= hearer.heard[other].size() >= kHeardLeast;
  }
  const auto say = [&](const char* name, uint64_t value) {
    printf("rank %u: %s=%llu\n", rank, name, static_cast<unsigned long long>(value));
  };
  say("wrong", hearer.wrong);
  say("link_forged", counters.link_forged);
  say("link_corrupt", counters.link_corrupt);
  say("link_duplicates", counters.link_duplicates);
  say("link_group_foreign", counters.link_group_foreign);
  say("udp_foreign", counters.udp_foreign);
  say("udp_own", counters.udp_own);
  if (well) printf("ok\n");
  return well ? 0 : 1;
}

}  // namespace
}  // namespace torii

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: group_frames FOLDER RANK MEMBERS SECONDS\n");
    return 2;
  }
  return torii::run(argv[1], static_cast<uint32_t>(atoi(argv[2])),
                    static_cast<uint32_t>(atoi(argv[3])), static_cast<uint64_t>(atoi(argv[4])));
}
