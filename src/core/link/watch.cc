// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/watch.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/base/param.h"

namespace torii {

namespace {

constexpr uint64_t kTriesPerDeadline = 16;
constexpr unsigned kByeTries = 100;  // a peer that hears none learns it at the deadline

// A frame of the watch's own.
struct Sign {
  enum class Kind : uint8_t { ask = 1, answer, bye };
  static constexpr uint8_t kMark[8] = {0xff, 'T', 'o', 'r', 'i', 'i', '?', 0xff};

  explicit Sign(Kind kind) : kind(kind) { std::memcpy(mark, kMark, sizeof(mark)); }
  // False if it is a frame of the core's, or of nobody's.
  static bool parse(std::span<const std::byte> frame, Kind* kind) {
    if (frame.size() != sizeof(Sign) || std::memcmp(frame.data(), kMark, sizeof(kMark)) != 0)
      return false;
    const auto value = static_cast<uint8_t>(frame[sizeof(kMark)]);
    *kind = static_cast<Kind>(value);
    return value >= uint8_t(Kind::ask) && value <= uint8_t(Kind::bye);
  }

  uint8_t mark[8];
  Kind kind;
};
static_assert(sizeof(Sign) == 9);

class WatchDriver final : public Decorator {
 public:
  explicit WatchDriver(const DriverEnv& env)
      : Decorator(env),
        counters_(*env.counters),
        deadline_ns_(uint64_t(params().peer_deadline_ms) * 1000000) {}
  ~WatchDriver() override;

  bool open(const OpenBelow& open_below, const DriverEnv& env) {
    if (!Decorator::open(open_below, env)) return false;
    caps_.flags |= kPeerDown;
    return true;
  }
  Status connect(std::span<const std::byte> address, PeerId* id, std::string* why) override;
  void disconnect(PeerId id) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status put(const Rma& rma) override { return transfer(rma, &Driver::put); }
  Status get(const Rma& rma) override { return transfer(rma, &Driver::get); }
  Status atomic(const RemoteAtomic& atomic) override { return transfer(atomic, &Driver::atomic); }
  // Their frames come from no process that could be watched.
  LossyGroups* lossy_groups() override { return nullptr; }
  Status arm(int* fd) override { return completed_.empty() ? below_->arm(fd) : Status::again; }

 private:
  struct Peer {
    bool known = false;        // connected here, or heard
    bool watched = false;      // connected here
    bool owes_answer = false;  // it has asked
    Status down = Status::ok;  // its end
    uint64_t heard_ns = 0;     // of own time
  };
  struct Operation {
    PeerId peer;
    uint64_t cookie;
  };

  void packet(PeerId from, std::span<const std::byte> frame) override;
  void done(uint64_t cookie, Status status) override;
  void peer_down(PeerId id, Status status) override { end(id, status); }

  template <typename Access>
  Status transfer(const Access& access, Status (Driver::*call)(const Access&));
  Status down(PeerId id) const { return id < peers_.size() ? peers_[id].down : Status::ok; }
  Peer& peer_of(PeerId id);
  bool sign(PeerId id, Sign::Kind kind);
  void ask_quiet_peers();
  void end(PeerId id, Status status);
  unsigned report();

  Counters& counters_;
  const uint64_t deadline_ns_;
  uint64_t polled_ns_ = 0;  // the time of the last poll
  uint64_t own_ns_ = 0;     // time in which this process polled
  uint64_t next_look_ns_ = 0;
  bool answers_due_ = false;
  std::vector<Peer> peers_;
  std::vector<PeerId> ended_;  // and not reported
  std::unordered_map<uint64_t, Operation> operations_;
  uint64_t next_operation_ = 1;
  std::vector<std::pair<uint64_t, Status>> completed_;  // of ended peers
  std::vector<Tx> batch_;                               // under own cookies
};

WatchDriver::~WatchDriver() {
  for (PeerId id = 0; below_ && id < peers_.size(); ++id) {
    if (!peers_[id].known || peers_[id].down != Status::ok) continue;
    for (unsigned i = 0; i < kByeTries && !sign(id, Sign::Kind::bye); ++i) {
    }
  }
}

WatchDriver::Peer& WatchDriver::peer_of(PeerId id) {
  if (id >= peers_.size()) peers_.resize(id + 1);
  return peers_[id];
}

bool WatchDriver::sign(PeerId id, Sign::Kind kind) {
  const Sign frame(kind);
  Tx tx;
  tx.peer = id;
  tx.head = &frame;
  tx.head_bytes = sizeof(frame);
  return below_->send({&tx, 1}) == 1;
}

Status WatchDriver::connect(std::span<const std::byte> address, PeerId* id, std::string* why) {
  const Status status = below_->connect(address, id, why);
  if (status != Status::ok) return status;
  if (down(*id) != Status::ok) {
    *why = "link: the process behind this address has ended; start it again";
    return down(*id);
  }
  Peer& peer = peer_of(*id);
  peer.known = true;
  if (!std::exchange(peer.watched, true)) peer.heard_ns = own_ns_;
  return Status::ok;
}

void WatchDriver::disconnect(PeerId id) {
  below_->disconnect(id);
  if (id < peers_.size()) peers_[id] = Peer{};
  std::erase(ended_, id);
}

// Frames to a peer that has ended are taken, and end with its status.
size_t WatchDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  while (taken < batch.size() && down(batch[taken].peer) != Status::ok) {
    const Tx& tx = batch[taken++];
    if (tx.cookie) completed_.push_back({tx.cookie, down(tx.peer)});
  }
  if (taken > 0 || batch.empty()) return taken;
  batch_.clear();
  for (const Tx& tx : batch) {
    if (down(tx.peer) != Status::ok) break;
    batch_.push_back(tx);
    if (!tx.cookie) continue;
    batch_.back().cookie = next_operation_++;
    operations_[batch_.back().cookie] = {tx.peer, tx.cookie};
  }
  taken = below_->send(batch_);
  for (size_t i = taken; i < batch_.size(); ++i) operations_.erase(batch_[i].cookie);
  return taken;
}

template <typename Access>
Status WatchDriver::transfer(const Access& access, Status (Driver::*call)(const Access&)) {
  if (down(access.peer) != Status::ok) return down(access.peer);
  return pass_on(access, call, operations_, next_operation_);
}

void WatchDriver::packet(PeerId from, std::span<const std::byte> frame) {
  if (from == kNoPeer) return upper_.packet(from, frame);
  Peer& peer = peer_of(from);
  if (peer.down != Status::ok) return;
  peer.known = true;
  peer.heard_ns = own_ns_;
  Sign::Kind kind;
  if (!Sign::parse(frame, &kind)) return upper_.packet(from, frame);
  if (kind == Sign::Kind::ask) peer.owes_answer = answers_due_ = true;
  if (kind == Sign::Kind::bye) end(from, Status::peer_closed);
}

// Those of a peer that ended have been told.
void WatchDriver::done(uint64_t cookie, Status status) {
  const auto it = operations_.find(cookie);
  if (it == operations_.end()) return;
  const uint64_t upper = it->second.cookie;
  operations_.erase(it);
  upper_.done(upper, status);
}

void WatchDriver::end(PeerId id, Status status) {
  Peer& peer = peer_of(id);
  if (peer.down != Status::ok) return;
  peer.down = status;
  ended_.push_back(id);
  for (auto it = operations_.begin(); it != operations_.end();) {
    if (it->second.peer != id) {
      ++it;
      continue;
    }
    completed_.push_back({it->second.cookie, status});
    it = operations_.erase(it);
  }
}

void WatchDriver::ask_quiet_peers() {
  next_look_ns_ = own_ns_ + deadline_ns_ / kTriesPerDeadline;
  Paths* const paths = below_->paths();
  for (PeerId id = 0; id < peers_.size(); ++id) {
    Peer& peer = peers_[id];
    if (!peer.watched || peer.down != Status::ok) continue;
    const uint64_t quiet_ns = own_ns_ - peer.heard_ns;
    if (quiet_ns < deadline_ns_ / 2) continue;
    if (paths && paths->life(id) == Life::there) {
      peer.heard_ns = own_ns_ - deadline_ns_ / 2;
    } else if (quiet_ns >= deadline_ns_) {
      end(id, Status::peer_dead);
    } else if (sign(id, Sign::Kind::ask)) {
      ++counters_.link_probes;
    }
  }
}

// Upcalls last: they may send, connect and disconnect.
unsigned WatchDriver::report() {
  unsigned count = 0;
  for (const auto& [cookie, status] : std::exchange(completed_, {})) {
    upper_.done(cookie, status);
    ++count;
  }
  for (const PeerId id : std::exchange(ended_, {})) {
    upper_.peer_down(id, down(id));
    ++count;
  }
  return count;
}

unsigned WatchDriver::poll(uint64_t now_ns, unsigned budget) {
  if (polled_ns_) own_ns_ += std::min(now_ns - polled_ns_, deadline_ns_ / kTriesPerDeadline);
  polled_ns_ = now_ns;
  unsigned count = below_->poll(now_ns, budget);
  if (own_ns_ >= next_look_ns_) ask_quiet_peers();
  if (std::exchange(answers_due_, false)) {
    for (PeerId id = 0; id < peers_.size(); ++id) {
      Peer& peer = peers_[id];
      if (!peer.owes_answer || peer.down != Status::ok) continue;
      peer.owes_answer = !sign(id, Sign::Kind::answer);
      answers_due_ |= peer.owes_answer;
    }
  }
  if (!completed_.empty() || !ended_.empty()) count += report();
  return count;
}

}  // namespace

std::unique_ptr<Driver> wrap_watch(const OpenBelow& open_below, const DriverEnv& env) {
  auto driver = std::make_unique<WatchDriver>(env);
  if (!driver->open(open_below, env)) return nullptr;
  return driver;
}

}  // namespace torii
