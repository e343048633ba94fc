// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Peers: addresses, connecting, leaving and dying.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "conformance/kit.h"
#include "core/base/log.h"

namespace torii::kit {
namespace {

void caps_make_sense(Bed& bed) {
  Node& a = bed.node();
  const DriverCaps& caps = a.caps();
  const bool remote = caps.flags & (kPut | kGet);
  EXPECT_EQ(caps.flags >> 12, 0u) << "unknown capability bits";
  EXPECT_GE(caps.mtu, 512u);
  EXPECT_LE(caps.inline_max, std::max(caps.mtu, caps.long_max));
  EXPECT_GE(caps.pieces_max, 1u);
  EXPECT_GE(caps.batch_max, 1u);
  EXPECT_GE(caps.address_bytes, 1u);
  EXPECT_LE(caps.address_bytes, kAddressMax);
  EXPECT_GE(caps.peers_max, 1u);
  EXPECT_LE(caps.key_bytes, kKeyMax);
  EXPECT_EQ(caps.key_bytes > 0, remote) << "keys go with put or get";
  EXPECT_EQ(caps.remote_max > 0, remote);
  const RegisteredMemory* const memory = a.driver().registered_memory();
  EXPECT_TRUE(remote || !(caps.flags & kNeedsReg) || (memory && memory->local))
      << "registration without put or get, and not for its own frames";
  EXPECT_TRUE(remote || !(caps.flags & kGuard)) << "keys for put and get without either";
  EXPECT_TRUE(a.has(kGuard) || !a.has(kAtomic)) << "atomics on keys that nobody guards";
  EXPECT_TRUE(a.has(kReliable) || !(caps.flags & kDelivers)) << "lost frames are not delivered";
  EXPECT_TRUE(caps.lend_min || !(caps.flags & kDelivers)) << "nothing is lent";
  const DriverCaps before = caps;
  Node& b = bed.node();
  bed.send(a, a.connect(b), "frame");
  bed.settle();
  EXPECT_EQ(std::memcmp(&before, &a.caps(), sizeof(before)), 0) << "caps() has changed";
}

void addresses_are_stable(Bed& bed) {
  Node& a = bed.node();
  const size_t size = a.caps().address_bytes;
  std::byte out[kAddressMax + 1];
  std::memset(out, 0x5a, sizeof(out));
  a.driver().address(out);
  for (size_t i = size; i < sizeof(out); i++)
    ASSERT_EQ(out[i], std::byte{0x5a}) << "address() writes more than address_bytes";
  const auto first = a.address();
  bed.settle();
  EXPECT_EQ(a.address(), first);
  if (bed.rig.only_self) return;
  EXPECT_NE(bed.node().address(), first) << "two with one address";
}

// Rule 9 for addresses.
void bad_addresses_are_refused(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const auto good = b.address();
  const auto refused = [&](std::span<const std::byte> address, const char* what) {
    PeerId peer = kNoPeer;
    std::string why;
    const Status status = a.driver().connect(address, &peer, &why);
    EXPECT_NE(status, Status::ok) << what;
    EXPECT_GE(why.size(), 10u) << what << ": the reason for the user is missing";
  };
  std::vector<std::byte> longer(good);
  longer.push_back(std::byte{0});
  refused({}, "an empty address");
  refused(std::span(good).first(good.size() - 1), "an address one byte short");
  refused(longer, "an address one byte long");
  refused(std::vector<std::byte>(good.size(), std::byte{0xff}), "an address of ones");
  refused(std::vector<std::byte>(good.size(), std::byte{0}), "an address of zeros");
  for (size_t i = 0; i < 8 * good.size(); i++) {  // each flipped bit: no harm
    PeerId peer;
    std::string why;
    const Status status = a.driver().connect(flipped(good, i), &peer, &why);
    EXPECT_TRUE(status == Status::invalid || !bed.rig.sealed) << "flipped bit " << i;
    if (status == Status::ok) continue;
    EXPECT_GE(why.size(), 10u) << "flipped bit " << i << ": the reason is missing";
  }
  bed.settle();
  bed.send(a, a.connect(b), "still alive");
  EXPECT_TRUE(!a.has(kReliable) || bed.run([&] { return b.frames.size() == 1; }));
}

void one_address_one_peer(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  Node& c = bed.node();
  const PeerId to_b = a.connect(b), to_c = a.connect(c);
  EXPECT_EQ(a.connect(b), to_b);
  EXPECT_EQ(to_b == to_c, bed.rig.only_self);
}

void the_first_packet_names_its_sender(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  bed.send(a, to, "hello");
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 1; }));
  const PeerId from = b.frames[0].from;
  ASSERT_NE(from, kNoPeer);
  bed.send(b, from, "answer");
  ASSERT_TRUE(bed.run([&] { return a.frames.size() >= 1 && a.frames.back().bytes == "answer"; }));
  EXPECT_EQ(a.frames.back().from, to) << "a connected peer arrives under another number";
  EXPECT_EQ(b.connect(a), from);
}

void taken_frames_outlive_disconnect(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const std::string& body = bed.keep(pattern(1, body_max(a.caps(), 8)));
  size_t sent = 0;
  for (int round = 0; round < 5; round++) {
    const PeerId to = a.connect(b);
    bed.send(a, to, "in any case", {}, a.new_cookie());
    sent++;
    for (int i = 0; i < 10; i++) sent += a.send(to, "12345678", body, a.new_cookie());
    a.driver().disconnect(to);
    ASSERT_TRUE(bed.run([&] { return b.frames.size() >= sent && a.pending.empty(); }))
        << "round " << round << ": took " << sent << " frames, delivered " << b.frames.size();
    bed.settle();
    ASSERT_EQ(b.frames.size(), sent);
    // The other side has not disconnected: its number still reaches us.
    bed.send(b, b.frames.back().from, "back");
    ASSERT_TRUE(bed.run([&] { return a.frames.size() && a.frames.back().bytes == "back"; }));
    a.frames.clear();
    if (&a == &b) sent = 0;
  }
}

void everybody_to_everybody(Bed& bed) {
  std::vector<Node*> nodes;
  for (int i = 0; i < 6; i++) nodes.push_back(&bed.node());
  for (Node* from : nodes) {
    for (Node* to : nodes) bed.send(*from, from->connect(*to), "x");
  }
  const size_t each = bed.rig.only_self ? 36 : 6;
  for (Node* node : nodes) {
    EXPECT_TRUE(bed.run([&] { return node->frames.size() == each; })) << node->frames.size();
  }
  if (bed.rig.only_self) return;
  for (Node* node : nodes) {
    std::set<PeerId> from;
    for (const auto& frame : node->frames) from.insert(frame.from);
    EXPECT_EQ(from.size(), 6u) << "two senders under one number";
  }
}

void closing_is_reported(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  Node& c = bed.node();
  const PeerId to = a.connect(b), to_c = a.connect(c);
  bed.send(a, to, "x");
  bed.send(a, to_c, "x");
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 1 && c.frames.size() == 1; }));
  b.close();
  ASSERT_TRUE(bed.run([&] { return a.downs.count(to) != 0; })) << "peer_down() never came";
  EXPECT_EQ(a.downs[to], Status::peer_closed) << status_text(a.downs[to]);
  bed.settle();
  EXPECT_EQ(a.downs.count(to_c), 0u) << "a living peer was reported";
  bed.send(a, to_c, "y");
  EXPECT_TRUE(bed.run([&] { return c.frames.size() == 2; }));
  EXPECT_TRUE(c.downs.empty());
}

// Operations that a peer's end interrupts: done, each once.
void interrupt(Bed& bed, Status end) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  const std::string& body = bed.keep(pattern(1, body_max(a.caps(), 8)));
  bed.send(a, to, "hello");
  if (a.has(kReliable)) {
    ASSERT_TRUE(bed.run([&] { return b.frames.size() == 1; }));
  }
  bed.settle();
  for (int i = 0; i < 20; i++) a.send(to, "12345678", body, a.new_cookie());
  if (end == Status::peer_dead) {
    bed.rig.kill(b.driver());
  } else {
    b.close();
  }
  for (int i = 0; i < 20; i++) a.send(to, "12345678", body, a.new_cookie());
  EXPECT_TRUE(bed.run([&] { return a.pending.empty(); }))
      << "rule 6: " << a.pending.size() << " cookies are not done after the peer's end";
  if (!a.has(kPeerDown)) return;
  ASSERT_TRUE(bed.run([&] { return a.downs.count(to) != 0; })) << "peer_down() never came";
  if (bed.rig.resets && end == Status::peer_closed) return;
  EXPECT_EQ(a.downs[to], end) << status_text(a.downs[to]);
}

void cookies_end_when_the_peer_closes(Bed& bed) { interrupt(bed, Status::peer_closed); }
void cookies_end_when_the_peer_dies(Bed& bed) {
  if (!bed.rig.kill) GTEST_SKIP() << "no sudden death inside this process";
  interrupt(bed, Status::peer_dead);
}

// Nothing is outstanding that the death could disturb: somebody may be waiting to be written to.
void deaths_of_quiet_peers_are_reported(Bed& bed) {
  if (!bed.rig.kill) GTEST_SKIP() << "no sudden death inside this process";
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  bed.send(a, to, "x");
  ASSERT_TRUE(bed.run([&] { return b.frames.size() == 1; }));
  bed.settle();
  bed.rig.kill(b.driver());
  ASSERT_TRUE(bed.run([&] { return a.downs.count(to) != 0; })) << "peer_down() never came";
  EXPECT_EQ(a.downs[to], Status::peer_dead) << status_text(a.downs[to]);
}

// The first answers may be that nothing is known, and the last ones, too.
void lives_are_told_as_they_are(Bed& bed) {
  Node& a = bed.node();
  Node& b = bed.node();
  const PeerId to = a.connect(b);
  Paths* const paths = a.driver().paths();
  if (!paths) return;
  bed.send(a, to, "x");
  for (int i = 0; i < 5; i++) {
    bed.settle();
    EXPECT_NE(paths->life(to), Life::gone) << "it is there";
  }
  b.close();
  for (int i = 0; i < 5; i++) bed.settle();
  bed.now_ns += kLifeAgeNs;
  bed.settle();
  EXPECT_NE(paths->life(to), Life::there) << "it has closed";
}

size_t open_descriptors() {
  size_t count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

void closing_gives_everything_back(Bed& bed) {
  const auto once = [&] {
    Node a(bed.rig), b(bed.rig);
    Node& target = bed.rig.only_self ? a : b;
    int fd;
    if (a.has(kWait)) static_cast<void>(a.driver().arm(&fd));
    const PeerId to = a.connect(target);
    for (int i = 0; i < 100 && !a.send(to, "x"); i++) a.poll(bed.now_ns += 1000);
    // Longer than an emulated network gives the one before for what it had still to send.
    for (int i = 0; i < 100; i++) target.poll(bed.now_ns += 200000);
  };
  once();
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; i++) once();
  EXPECT_EQ(open_descriptors(), before) << "file descriptors are left open";
}

// --- another process ------------------------------------------------------------------------

bool run_real(Node& node, const std::function<bool()>& until) {
  const uint64_t end = real_ns() + 5000000000;
  while (real_ns() < end) {
    if (until()) return true;
    node.poll(real_ns());
    sched_yield();
  }
  return false;
}

}  // namespace

int serve(const Rig& rig, std::span<const std::byte> parent, int pipe) {
  Node node(rig);
  PeerId peer;
  std::string why;
  if (node.driver().connect(parent, &peer, &why) != Status::ok) return 1;
  const auto own = node.address();
  if (write(pipe, own.data(), own.size()) != static_cast<ssize_t>(own.size())) return 1;
  bool bye = false;
  size_t answered = 0;
  const auto step = [&] {
    while (answered < node.frames.size()) {
      const auto& frame = node.frames[answered];
      bye |= frame.bytes == "bye";
      if (!node.send(frame.from, frame.bytes)) break;
      answered++;
    }
    return bye && answered == node.frames.size();
  };
  size_t before;
  do {
    before = node.frames.size();
  } while (!run_real(node, step) && node.frames.size() > before);
  return 0;
}

namespace {

// A child process that answers each frame until "bye", then closes in good order.
class Child {
 public:
  Child(const Rig& rig, const std::vector<std::byte>& parent) {
    int down[2];
    EXPECT_EQ(pipe(down), 0);
    pid_ = fork();
    if (pid_ == 0 && !rig.own_clock) _exit(serve(rig, parent, down[1]));
    if (pid_ == 0) execute(rig, parent, down[1]);
    ::close(down[1]);
    std::byte buffer[kAddressMax];
    const ssize_t n = read(down[0], buffer, sizeof(buffer));
    ::close(down[0]);
    if (n > 0) address.assign(buffer, buffer + n);
  }
  ~Child() {
    kill_now();
    int status;
    waitpid(pid_, &status, 0);
  }
  void kill_now() { ::kill(pid_, SIGKILL); }

  std::vector<std::byte> address;

 private:
  [[noreturn]] static void execute(const Rig& rig, std::span<const std::byte> parent, int out) {
    std::string digits;
    for (const std::byte b : parent) digits += format_text("%02x", static_cast<unsigned>(b));
    if (dup2(out, STDOUT_FILENO) >= 0)
      execl("/proc/self/exe", "torii-conformance", kServeOption, rig.name.c_str(), digits.c_str(),
            nullptr);
    _exit(1);
  }

  pid_t pid_;
};

PeerId meet(Node& a, const Child& child) {
  PeerId to = kNoPeer;
  std::string why;
  EXPECT_EQ(a.driver().connect(child.address, &to, &why), Status::ok) << why;
  return to;
}

void another_process_answers_and_closes(Bed& bed) {
  if (!bed.rig.other_process) GTEST_SKIP() << "endpoints in one process only";
  Node& a = bed.node();
  Child child(bed.rig, a.address());
  const PeerId to = meet(a, child);
  for (uint64_t i = 1; i <= 200; i++) {
    const std::string frame = pattern(i, 8 + i % 180);
    ASSERT_TRUE(run_real(a, [&] { return a.send(to, frame); }));
    ASSERT_TRUE(run_real(a, [&] { return a.frames.size() == i; })) << "no answer to " << i;
    ASSERT_EQ(a.frames.back().bytes, frame);
  }
  ASSERT_TRUE(run_real(a, [&] { return a.send(to, "bye"); }));
  if (!a.has(kPeerDown)) return;
  ASSERT_TRUE(run_real(a, [&] { return a.downs.count(to) != 0; }));
  EXPECT_EQ(a.downs[to], Status::peer_closed) << status_text(a.downs[to]);
}

// The peer answers, dies, and is reported as dead. `after`: what the survivor does then.
void lose(Node& a, Child& child, PeerId to, const std::function<void()>& after) {
  ASSERT_TRUE(run_real(a, [&] { return a.send(to, "x"); }));
  ASSERT_TRUE(run_real(a, [&] { return !a.frames.empty(); }));
  child.kill_now();
  after();
  ASSERT_TRUE(run_real(a, [&] { return a.downs.count(to) != 0; })) << "not reported in 5 s";
  EXPECT_EQ(a.downs[to], Status::peer_dead) << status_text(a.downs[to]);
}

void another_process_is_killed_in_silence(Bed& bed) {
  if (!bed.rig.other_process) GTEST_SKIP() << "endpoints in one process only";
  Node& a = bed.node();
  Child child(bed.rig, a.address());
  lose(a, child, meet(a, child), [] {});
}

void another_process_is_killed(Bed& bed) {
  if (!bed.rig.other_process) GTEST_SKIP() << "endpoints in one process only";
  Node& a = bed.node();
  Child child(bed.rig, a.address());
  const PeerId to = meet(a, child);
  const std::string& body = bed.keep(pattern(1, body_max(a.caps(), 8)));
  ASSERT_NO_FATAL_FAILURE(lose(a, child, to, [&] {
    for (int i = 0; i < 20; i++) a.send(to, "12345678", body, a.new_cookie());
  }));
  EXPECT_TRUE(a.pending.empty());
}

constexpr Case kPeerTable[] = {
    {"caps_make_sense", "caps(): sane and constant", 0, false, caps_make_sense},
    {"addresses_are_stable", "address()", 0, false, addresses_are_stable},
    {"bad_addresses_are_refused", "rule 9: addresses", 0, false, bad_addresses_are_refused},
    {"one_address_one_peer", "connect()", 0, false, one_address_one_peer},
    {"the_first_packet_names_its_sender", "packet(): from", kSure, false,
     the_first_packet_names_its_sender},
    {"taken_frames_outlive_disconnect", "disconnect()", kSure, false,
     taken_frames_outlive_disconnect},
    {"everybody_to_everybody", "several peers", kSure, false, everybody_to_everybody},
    {"closing_is_reported", "kPeerDown: peer_closed", kSure | kPeerDown, true, closing_is_reported},
    {"cookies_end_when_the_peer_closes", "rule 6", 0, true, cookies_end_when_the_peer_closes},
    {"cookies_end_when_the_peer_dies", "rule 6, kPeerDown: peer_dead", 0, true,
     cookies_end_when_the_peer_dies},
    {"deaths_of_quiet_peers_are_reported", "kPeerDown: peer_dead", kSure | kPeerDown, true,
     deaths_of_quiet_peers_are_reported},
    {"lives_are_told_as_they_are", "life()", 0, true, lives_are_told_as_they_are},
    {"closing_gives_everything_back", "destructor", 0, false, closing_gives_everything_back},
    {"another_process_answers_and_closes", "two processes", kSure, true,
     another_process_answers_and_closes},
    {"another_process_is_killed", "kPeerDown: peer_dead", kSure | kPeerDown, true,
     another_process_is_killed},
    {"another_process_is_killed_in_silence", "kPeerDown: peer_dead", kSure | kPeerDown, true,
     another_process_is_killed_in_silence},
};

}  // namespace

const std::span<const Case> kPeerCases = kPeerTable;

}  // namespace torii::kit
