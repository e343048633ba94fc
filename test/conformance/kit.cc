// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "conformance/kit.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "core/base/emulated.h"
#include "core/base/param.h"
#include "core/base/random.h"
#include "core/trust/key_pair.h"
#include "trust.h"

namespace torii::kit {
namespace {

bool in_driver = false;
unsigned reads = 0;

// Marks the time spent in a driver, for rule 7.
struct Inside {
  Inside() { in_driver = true; }
  ~Inside() { in_driver = false; }
};
struct Outside {
  Outside() { in_driver = false; }
  ~Outside() { in_driver = true; }
};

constexpr int kSteps = 20000;
constexpr uint64_t kStepNs = 20000;
constexpr uint64_t kRunNs = 20000000000;  // of real time
constexpr uint64_t kQuietNs = 10000000;   // of this thread's processor time

// Without an RDMA device UCX is tried over sockets, and on this machine only.
bool use_sockets(DriverEnv* env, std::string* why) {
  static std::deque<std::unique_ptr<KeyPair>> pairs;  // outlive the drivers
  if (!getenv("TORII_UCX_TLS")) {
    setenv("UCX_NET_DEVICES", "lo", 0);
    if (param_set("ucx_tls", "tcp", "torii-conformance", why) != Status::ok) return false;
  }
  env->keys = pairs.emplace_back(KeyPair::draw(why)).get();
  return env->keys != nullptr;
}

// Does UCX use TCP, by itself (use_sockets()) or by the user's word?
bool over_tcp() {
  const char* const transports = getenv("TORII_UCX_TLS");
  return !transports || std::string_view(transports).find("tcp") != std::string_view::npos;
}

// Processor time of this thread.
uint64_t thread_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

std::vector<std::byte> flipped(std::span<const std::byte> bytes, size_t bit) {
  std::vector<std::byte> out(bytes.begin(), bytes.end());
  out[bit / 8] ^= std::byte{1} << (bit % 8);
  return out;
}

uint64_t real_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

unsigned clock_reads() { return std::exchange(reads, 0); }
void count_clock_read() { reads += in_driver; }

Node::Node(const Rig& rig) {
  DriverEnv env;
  env.sink = this;
  env.counters = &counters_;
  env.members = &test::everybody();
  env.local_peers = 4;
  env.take_turns = rig.take_turns;
  std::string why;
  driver_ = rig.open(env, &why);
  if (!driver_) {
    std::fprintf(stderr, "%s does not open: %s\n", rig.name.c_str(), why.c_str());
    std::exit(1);
  }
  const RegisteredMemory* const memory = driver_->registered_memory();
  registers_local_ = memory && memory->local;
}

// As the core does, for one operation. Null: it needs none, or there is no room.
const Region* Node::register_local(std::span<const iovec> pieces, uint64_t bytes, uint64_t cookie,
                                   bool lent) {
  if (!registers_local_ || (bytes <= caps().inline_max && !lent)) return nullptr;
  char* first = nullptr;
  char* end = nullptr;
  for (const iovec& piece : pieces) {
    char* const at = static_cast<char*>(piece.iov_base);
    if (piece.iov_len == 0) continue;
    first = first ? std::min(first, at) : at;
    end = std::max(end, at + piece.iov_len);
  }
  Region& region = locals_[cookie];
  if (driver_->reg(first, static_cast<uint64_t>(end - first), kLocal, &region) == Status::ok)
    return &region;
  locals_.erase(cookie);
  return nullptr;
}

void Node::deregister_local(uint64_t cookie) {
  const auto it = locals_.find(cookie);
  if (it == locals_.end()) return;
  driver_->dereg(it->second);
  locals_.erase(it);
}

std::vector<std::byte> Node::address() {
  std::vector<std::byte> out(caps().address_bytes);
  driver_->address(out.data());
  return out;
}

PeerId Node::connect(Node& to) {
  PeerId peer = kNoPeer;
  std::string why;
  const Status status = driver_->connect(to.address(), &peer, &why);
  EXPECT_EQ(status, Status::ok) << "connect: " << status_text(status) << ": " << why;
  EXPECT_NE(peer, kNoPeer);
  return peer;
}

bool Node::send(PeerId to, std::string_view head, std::string_view body, uint64_t cookie) {
  const iovec piece{const_cast<char*>(body.data()), body.size()};
  Tx tx;
  tx.peer = to;
  tx.head = head.data();
  tx.head_bytes = static_cast<uint32_t>(head.size());
  tx.pieces = &piece;
  tx.piece_count = body.empty() ? 0 : 1;
  tx.body_bytes = static_cast<uint32_t>(body.size());
  tx.cookie = cookie;
  return send(tx);
}

size_t Node::send_batch(std::span<const Tx> batch) {
  size_t taken;
  for (const Tx& tx : batch) {
    if (tx.peer == kNoPeer) return 0;  // connect() has failed the test already
  }
  std::vector<Tx> registered;
  if (registers_local_) {
    for (Tx tx : batch) {
      tx.local = register_local({tx.pieces, tx.piece_count}, tx.body_bytes, tx.cookie, tx.lent);
      if (!tx.local && (tx.body_bytes > caps().inline_max || tx.lent)) break;  // no room for it
      registered.push_back(tx);
    }
    batch = registered;
  }
  {
    const Inside inside;
    taken = driver_->send(batch);
  }
  EXPECT_LE(taken, batch.size());
  for (size_t i = taken; i < batch.size(); i++) deregister_local(batch[i].cookie);
  for (const Tx& tx : batch.first(std::min(taken, batch.size())))
    if (tx.cookie) pending[tx.cookie] = tx.peer;
  return taken;
}

bool Node::send_short(PeerId to, std::string_view frame) {
  if (to == kNoPeer) return false;
  uint64_t words[2];
  std::memcpy(words, frame.data(), sizeof(words));
  const std::string body(frame.substr(sizeof(words)));  // dies with the call, as it may
  const Inside inside;
  return driver_->short_frames()->send_short(to, words[0], words[1],
                                             body.empty() ? nullptr : body.data(),
                                             static_cast<uint32_t>(body.size()));
}

Status Node::move(bool write, const Rma& asked) {
  Rma rma = asked;
  rma.local = register_local({rma.pieces, rma.piece_count}, rma.bytes, rma.cookie, false);
  if (registers_local_ && !rma.local && rma.bytes > caps().inline_max) return Status::again;
  const Inside inside;
  const Status status = write ? driver_->put(rma) : driver_->get(rma);
  if (status != Status::pending) deregister_local(rma.cookie);
  EXPECT_TRUE(status != Status::pending || rma.cookie) << "pending, but there is no cookie";
  if (status == Status::pending) pending[rma.cookie] = rma.peer;
  return status;
}

Status Node::atomic(const RemoteAtomic& atomic) {
  const Inside inside;
  const Status status = driver_->atomic(atomic);
  if (status == Status::pending) pending[atomic.cookie] = atomic.peer;
  return status;
}

unsigned Node::poll(uint64_t now_ns, unsigned budget) {
  if (!driver_) return 0;
  const Inside inside;
  in_poll_ = true;
  Advice* const advice = driver_->advice();
  if (advice && !pending.empty() && ++looks_ % 2 == 0) advice->look(pending.begin()->second);
  const unsigned count = driver_->poll(now_ns, budget);
  in_poll_ = false;
  return count;
}

void Node::close() {
  driver_.reset();
  locals_.clear();
}

void Node::check_upcall(const char* name) {
  EXPECT_TRUE(in_poll_) << "rule 2: " << name << "() was called outside poll() and look()";
}

void Node::packet(PeerId from, std::span<const std::byte> frame) {
  check_upcall("packet");
  if (on_frame) on_frame(frame);
  const Outside outside;
  frames.push_back({from, {reinterpret_cast<const char*>(frame.data()), frame.size()}});
  if (on_packet) on_packet(from, std::string(frames.back().bytes));
}

void Node::packets(std::span<Packet> all) {
  for (const Packet& one : all) {
    const size_t before = frames.size();
    packet(one.from, one.frame);
    if (frames.size() > before) frames.back().sender = one.sender;
  }
}

void Node::done(uint64_t cookie, Status status) {
  check_upcall("done");
  EXPECT_EQ(pending.erase(cookie), 1u)
      << "rule 6: done() for cookie " << cookie
      << (dones.count(cookie) ? ", the second time" : ", which was never accepted");
  dones[cookie] = status;
  deregister_local(cookie);
}

void Node::peer_down(PeerId peer, Status status) {
  check_upcall("peer_down");
  EXPECT_TRUE(has(kPeerDown)) << "peer_down() without kPeerDown";
  EXPECT_TRUE(downs.emplace(peer, status).second) << "peer_down() a second time for " << peer;
  EXPECT_TRUE(status == Status::peer_dead || status == Status::peer_closed) << status_text(status);
  for (const auto& [cookie, target] : pending)
    EXPECT_NE(target, peer) << "rule 6: peer_down() before done() of cookie " << cookie;
}

Bed::Bed(const Rig& r) : rig(r) { rig.reset(); }

Node& Bed::node() {
  if (nodes_.empty() || !rig.only_self) nodes_.push_back(std::make_unique<Node>(rig));
  return *nodes_.back();
}

std::string& Bed::keep(std::string bytes) { return kept_.emplace_back(std::move(bytes)); }

unsigned Bed::step() {
  now_ns = rig.own_clock ? real_ns() : now_ns + kStepNs;
  unsigned count = 0;
  for (const auto& node : nodes_) count += node->poll(now_ns);
  return count;
}

bool Bed::run(const std::function<bool()>& until) {
  const uint64_t end = rig.own_clock ? real_ns() + kRunNs : 0;
  for (int i = 0; rig.own_clock ? real_ns() < end : i < kSteps; i++) {
    if (until()) return true;
    step();
  }
  return until();
}

void Bed::settle() {
  if (!rig.own_clock) {
    for (int i = 0, quiet = 0; i < kSteps && quiet < 500; i++) quiet = step() ? 0 : quiet + 1;
    return;
  }
  // Frames may travel by another process. Where the processors are busy it has had its share of
  // time once this thread has had its own.
  const uint64_t end = real_ns() + kRunNs;
  for (uint64_t busy_ns = thread_ns(); thread_ns() - busy_ns < kQuietNs && real_ns() < end;)
    if (step()) busy_ns = thread_ns();
}

void Bed::send(Node& from, PeerId to, std::string_view head, std::string_view body,
               uint64_t cookie) {
  EXPECT_TRUE(run([&] { return from.send(to, head, body, cookie); }))
      << "the driver never takes a frame of " << head.size() + body.size() << " bytes";
}

void Bed::send_short(Node& from, PeerId to, std::string_view frame) {
  EXPECT_TRUE(run([&] { return from.send_short(to, frame); }))
      << "the driver never takes a short frame of " << frame.size() << " bytes";
}

std::string pattern(uint64_t seed, size_t size) {
  std::string out(size, '\0');
  std::memcpy(out.data(), &seed, std::min(size, sizeof(seed)));
  Random random(seed);
  for (size_t i = sizeof(seed); i < size; i++) out[i] = static_cast<char>(random.next());
  return out;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto cases :
       {kFrameCases, kPeerCases, kOptionalCases, kRegisteredCases, kAtomicCases, kGroupCases})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

const char* why_not(const Case& c, const Rig& rig, uint32_t flags) {
  if ((flags & c.needs) != c.needs) return "the driver does not declare what this case is about";
  if (c.needs_peer && rig.only_self) return "the driver reaches only itself";
  return nullptr;
}

void run_case(const Case& c, const Rig& rig) {
  Bed bed(rig);
  clock_reads();
  c.run(bed);
  EXPECT_TRUE(clock_reads() == 0 || rig.own_clock) << "rule 7: the driver has read a clock";
}

bool can_open(const Rig& rig, std::string* why) {
  struct : Sink {
    void packet(PeerId, std::span<const std::byte>) override {}
    void done(uint64_t, Status) override {}
    void peer_down(PeerId, Status) override {}
  } sink;
  Counters counters;
  DriverEnv env;
  env.sink = &sink;
  env.counters = &counters;
  rig.reset();
  return rig.open(env, why) != nullptr;
}

Rig named_rig(const std::string& name, uint64_t seed) {
  Rig rig;
  rig.name = name;
  rig.seed = seed;
  const std::string base = name.substr(name.rfind(':') + 1);
  const bool ucx = base == "ucx";
  // The card is in another process, and has its own time.
  const bool emulated = on_emulated_cluster() && is_network(base) && base != "udp";
  rig.own_clock = ucx || emulated;
  rig.resets = ucx && over_tcp();
  rig.sealed = ucx;
  rig.open = [name, keyed = ucx](const DriverEnv& env, std::string* why) {
    DriverEnv named = env;
    named.name = name;
    if (keyed && !use_sockets(&named, why)) return std::unique_ptr<Driver>();
    return open_driver(name, named, why);
  };
  rig.only_self = base == "self";
  rig.other_process = base != "self" && base != "sim";
  return rig;
}

}  // namespace torii::kit

// Every way to read a clock, counted while a driver is at work.
namespace torii::kit {
void count_clock_read();
}
extern "C" int clock_gettime(clockid_t id, timespec* out) noexcept {
  torii::kit::count_clock_read();
  return static_cast<int>(syscall(SYS_clock_gettime, id, out));
}
extern "C" int gettimeofday(timeval* out, void*) noexcept {
  torii::kit::count_clock_read();
  timespec now;
  const long result = syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  *out = {now.tv_sec, now.tv_nsec / 1000};
  return static_cast<int>(result);
}
