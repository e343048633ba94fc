// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/fault/fault.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/base/random.h"
#include "drivers/fault/arrivals.h"

namespace torii {
namespace {

constexpr size_t kHeldMax = 256;  // frames held back for one peer; more is back-pressure

constexpr int kLastTries = 16;  // to send them when the driver closes

constexpr uint32_t bit(Fault fault) { return 1u << static_cast<unsigned>(fault); }

class FaultDriver final : public Decorator, private ShortFrames, private LossyGroups {
 public:
  FaultDriver(const DriverEnv& env, const FaultPlan& plan)
      : Decorator(env), plan_(plan), random_(plan.seed) {}
  ~FaultDriver() override;
  bool open(const OpenBelow& open_below, const DriverEnv& env);

  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status put(const Rma& rma) override { return transfer(rma, kPut, &Driver::put); }
  Status get(const Rma& rma) override { return transfer(rma, kGet, &Driver::get); }
  Status atomic(const RemoteAtomic& atomic) override {
    return transfer(atomic, kAtomic, &Driver::atomic);
  }
  Status join(std::span<const std::byte> group, PeerId* peer) override {
    return caps_.flags & kMulticast ? below_->join(group, peer) : Status::unsupported;
  }
  void leave(PeerId peer) override;
  Status arm(int* fd) override;
  ShortFrames* short_frames() override { return short_below_ ? this : nullptr; }
  LossyGroups* lossy_groups() override { return below_->lossy_groups() ? this : nullptr; }

 private:
  struct Held {
    std::vector<std::byte> bytes;
    uint64_t release_ns = 0;
    uint32_t overtakers = 0;  // reordered: later frames still to go first
    uint8_t rail = kFirstRail;
    bool anywhere = false;
  };
  // Kept only for peers with something held back or in flight, or dead.
  struct Peer {
    std::deque<Held> queue;    // in order; the first waits for its time
    std::vector<Held> strays;  // out of order: reordered frames and duplicates
    bool dead = false;
    bool reported = false;  // peer_down was called
    bool leaving = false;   // disconnect() when the last held frame has left
    bool group = false;     // leave() instead of disconnect()
  };
  // An operation with a cookie at the driver below.
  struct Operation {
    PeerId peer;
    uint64_t cookie;                 // the core's, or 0
    std::vector<std::byte> bytes{};  // a held frame's own memory
  };

  bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                  uint32_t body_bytes) override;
  Status join_lossy(const LossyMember& membership, PeerId* group) override;
  uint64_t network() const override { return below_->lossy_groups()->network(); }
  void packet(PeerId from, std::span<const std::byte> frame) override;
  void packets(std::span<Packet> all) override;
  void done(uint64_t cookie, Status status) override;
  void peer_down(PeerId peer, Status status) override;

  uint32_t choose(const Tx& tx);
  bool strike(const Tx& tx, uint32_t faults);
  bool pass(const Tx& tx);
  void hold(const Tx& tx, uint32_t faults);
  void flush(PeerId id, Peer& peer);
  bool send_held(PeerId id, Held& held);
  void part(PeerId id, bool group);
  unsigned report_deaths();
  bool is_dead(PeerId id) const;
  void complete(uint64_t cookie, Status status) {
    if (cookie) completed_.push_back({cookie, status});
  }
  bool denies(PeerId peer);
  template <typename Access>
  Status transfer(const Access& access, Cap cap, Status (Driver::*call)(const Access&));

  FaultPlan plan_;
  Random random_;
  Arrivals arrivals_{plan_, random_};
  const Arrivals::HandUp hand_up_ = [this](PeerId group, std::span<const std::byte> frame) {
    upper_.packet(group, frame);
  };
  ShortFrames* short_below_ = nullptr;
  const uint64_t* short_head_ = nullptr;  // of the frame that is being sent, if it is a short one
  uint64_t now_ns_ = 0;
  std::unordered_map<PeerId, Peer> peers_;
  std::unordered_map<uint64_t, Operation> operations_;
  uint64_t next_operation_ = 1;
  // Where bodies have to be registered, long held ones leave from here, one at a time.
  std::vector<std::byte> bounce_memory_;
  Region bounce_;
  uint64_t bounce_cookie_ = 0;                          // of the one that is under way
  std::vector<std::pair<uint64_t, Status>> completed_;  // done() for the next poll
};

bool FaultDriver::open(const OpenBelow& open_below, const DriverEnv& env) {
  if (!Decorator::open(open_below, env)) return false;
  for (const Fault fault :
       {Fault::drop, Fault::duplicate, Fault::reorder, Fault::corrupt, Fault::truncate})
    if (plan_.uses(fault)) caps_.flags &= ~kReliable;
  short_below_ = below_->short_frames();
  if (const RegisteredMemory* const memory = below_->registered_memory(); memory && memory->local) {
    bounce_memory_.resize(std::max(caps_.mtu, caps_.long_max));
    if (below_->reg(bounce_memory_.data(), bounce_memory_.size(), kLocal, &bounce_) != Status::ok) {
      TORII_ERROR("fault: the driver has no room to register %zu bytes for held frames",
                  bounce_memory_.size());
      return false;
    }
  }
  // A frame held back for one peer is not held back for a group, and the other way round.
  if (plan_.uses(Fault::delay)) caps_.flags &= ~kMulticast;
  // Different faults in different processes, the same in every run.
  std::vector<std::byte> address(caps_.address_bytes);
  below_->address(address.data());
  uint64_t mix = plan_.seed;
  for (const std::byte b : address) mix = Random(mix ^ static_cast<uint64_t>(b)).next();
  random_ = Random(mix);
  return true;
}

FaultDriver::~FaultDriver() {
  if (!below_) return;
  now_ns_ = ~uint64_t{0};  // frames that wait for their time get their last chances
  for (auto& [id, peer] : peers_) {
    for (int i = 0; i < kLastTries && !(peer.queue.empty() && peer.strays.empty()); i++)
      flush(id, peer);
  }
  below_.reset();  // before the memory of held frames
}

Status FaultDriver::connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
  const Status status = below_->connect(address, peer, why);
  const auto it = peers_.find(*peer);
  if (status != Status::ok || it == peers_.end()) return status;
  if (it->second.dead) {
    *why = "fault: the plan has killed this peer; take its kill rule out of TORII_FAULT";
    return Status::unreachable;
  }
  it->second.leaving = false;
  return status;
}

void FaultDriver::disconnect(PeerId peer) { part(peer, false); }
void FaultDriver::leave(PeerId peer) {
  arrivals_.leave(peer);
  part(peer, true);
}

Status FaultDriver::join_lossy(const LossyMember& membership, PeerId* group) {
  const Status status = below_->lossy_groups()->join_lossy(membership, group);
  if (status == Status::ok) arrivals_.join(*group);
  return status;
}

void FaultDriver::part(PeerId id, bool group) {
  const auto it = peers_.find(id);
  if (it != peers_.end() && it->second.dead) {
    it->second.reported = true;  // stays connected below, so that it stays dead
    return;
  }
  if (it != peers_.end() && !(it->second.queue.empty() && it->second.strays.empty())) {
    it->second.leaving = true;
    it->second.group = group;
    return;
  }
  group ? below_->leave(id) : below_->disconnect(id);
}

bool matches(const FaultRule& rule, const Tx& tx) {
  if (rule.peer != kNoPeer && rule.peer != tx.peer) return false;
  if (rule.offset < 0) return true;
  auto offset = static_cast<size_t>(rule.offset);
  if (offset < tx.head_bytes) return static_cast<const uint8_t*>(tx.head)[offset] == rule.value;
  offset -= tx.head_bytes;
  for (const iovec& piece : std::span(tx.pieces, tx.piece_count)) {
    if (offset < piece.iov_len)
      return static_cast<const uint8_t*>(piece.iov_base)[offset] == rule.value;
    offset -= piece.iov_len;
  }
  return false;
}

bool is_due(const FaultRule& rule) {
  return rule.seen + 1 == rule.nth || (rule.and_later && rule.seen + 1 > rule.nth);
}

// The faults that strike this frame, as bits. Rules that refuse count here: an offer is an offer.
uint32_t FaultDriver::choose(const Tx& tx) {
  uint32_t faults = 0;
  for (size_t i = 0; i < kFaultCount; i++)
    if (random_.chance(plan_.ppm[i])) faults |= 1u << i;
  for (FaultRule& rule : plan_.rules) {
    if (rule.fault == Fault::deny || !matches(rule, tx)) continue;
    if (is_due(rule)) faults |= bit(rule.fault);
    if (rule.fault == Fault::refuse) rule.seen++;
  }
  return faults & ~bit(Fault::deny);
}

size_t FaultDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    if (arrivals_.has(tx.peer)) {
      if (random_.chance(plan_.ppm[static_cast<size_t>(Fault::refuse)]) || !pass(tx)) break;
      taken++;
      continue;
    }
    const uint32_t faults = choose(tx);
    if ((faults & bit(Fault::refuse)) || !strike(tx, faults)) break;
    for (FaultRule& rule : plan_.rules) {
      if (rule.fault == Fault::deny || rule.fault == Fault::refuse) continue;
      rule.seen += matches(rule, tx);
    }
    taken++;
  }
  return taken;
}

bool FaultDriver::send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                             uint32_t body_bytes) {
  const ShortTx frame(peer, word0, word1, body, body_bytes);
  short_head_ = frame.head;
  const bool taken = send({&frame.tx, 1}) == 1;
  short_head_ = nullptr;
  return taken;
}

// Takes the frame with these faults; false leaves no trace.
bool FaultDriver::strike(const Tx& tx, uint32_t faults) {
  const auto it = peers_.find(tx.peer);
  Peer* peer = it == peers_.end() ? nullptr : &it->second;
  if (peer && peer->dead) {
    complete(tx.cookie, Status::peer_dead);
    return true;
  }
  if (faults & bit(Fault::kill)) {
    Peer& victim = peers_[tx.peer];
    victim = Peer{};
    victim.dead = true;
    complete(tx.cookie, Status::peer_dead);
    return true;
  }
  if (faults & bit(Fault::drop)) {
    complete(tx.cookie, Status::ok);
  } else if (!faults && (!peer || peer->queue.empty())) {
    if (!pass(tx)) return false;
  } else {
    if (peer && peer->queue.size() + peer->strays.size() >= kHeldMax) return false;
    hold(tx, faults);
  }
  if (const auto now = peers_.find(tx.peer); now != peers_.end()) {
    for (Held& stray : now->second.strays) stray.overtakers -= stray.overtakers > 0;
    flush(tx.peer, now->second);
  }
  return true;
}

bool FaultDriver::pass(const Tx& tx) {
  if (short_head_ && tx.head == short_head_)
    return short_below_->send_short(tx.peer, short_head_[0], short_head_[1],
                                    tx.piece_count ? tx.pieces->iov_base : nullptr, tx.body_bytes);
  if (!tx.cookie) return below_->send({&tx, 1}) == 1;
  Tx inner = tx;
  inner.cookie = next_operation_++;
  operations_[inner.cookie] = {tx.peer, tx.cookie, {}};
  if (below_->send({&inner, 1}) == 1) return true;
  operations_.erase(inner.cookie);
  return false;
}

// Copies the frame and changes, delays or doubles the copy.
void FaultDriver::hold(const Tx& tx, uint32_t faults) {
  Peer& peer = peers_[tx.peer];
  Held held;
  held.rail = tx.rail;
  held.anywhere = tx.anywhere;
  const auto* head = static_cast<const std::byte*>(tx.head);
  held.bytes.assign(head, head + tx.head_bytes);
  for (const iovec& piece : std::span(tx.pieces, tx.piece_count)) {
    const auto* base = static_cast<const std::byte*>(piece.iov_base);
    held.bytes.insert(held.bytes.end(), base, base + piece.iov_len);
  }
  const size_t size = held.bytes.size();
  if ((faults & bit(Fault::corrupt)) && size)
    held.bytes[random_.next() % size] ^= std::byte{1} << random_.between(0, 7);
  if ((faults & bit(Fault::truncate)) && size > 1) held.bytes.resize(random_.between(1, size - 1));
  // strike() counts this frame itself among those that overtake a stray.
  const auto stray = [&] {
    return Held{held.bytes, now_ns_ + plan_.delay_max_ns,
                static_cast<uint32_t>(random_.between(2, 4)), tx.rail, tx.anywhere};
  };
  if (faults & bit(Fault::duplicate)) peer.strays.push_back(stray());
  if (faults & bit(Fault::reorder)) {
    peer.strays.push_back(stray());
  } else {
    if (faults & bit(Fault::delay))
      held.release_ns = now_ns_ + random_.between(0, plan_.delay_max_ns);
    peer.queue.push_back(std::move(held));
  }
  complete(tx.cookie, Status::ok);
}

// Sends what is due to this peer.
void FaultDriver::flush(PeerId id, Peer& peer) {
  for (size_t i = 0; i < peer.strays.size();) {
    Held& stray = peer.strays[i];
    if (stray.overtakers && stray.release_ns > now_ns_) {
      i++;
      continue;
    }
    stray.release_ns = 0;  // it has waited enough
    peer.queue.push_back(std::move(stray));
    peer.strays.erase(peer.strays.begin() + static_cast<ptrdiff_t>(i));
  }
  while (!peer.queue.empty() && peer.queue.front().release_ns <= now_ns_ &&
         send_held(id, peer.queue.front()))
    peer.queue.pop_front();
}

bool FaultDriver::send_held(PeerId id, Held& held) {
  const size_t head = std::min(held.bytes.size(), kHeadMax);
  iovec piece{held.bytes.data() + head, held.bytes.size() - head};
  Tx tx;
  tx.peer = id;
  tx.head = held.bytes.data();
  tx.head_bytes = static_cast<uint32_t>(head);
  tx.pieces = &piece;
  tx.piece_count = piece.iov_len ? 1 : 0;
  tx.body_bytes = static_cast<uint32_t>(piece.iov_len);
  tx.rail = held.rail;
  tx.anywhere = held.anywhere;
  const bool borrowed = tx.body_bytes > caps_.inline_max;
  if (borrowed && bounce_.base) {
    if (bounce_cookie_) return false;
    tx.local = &bounce_;
    std::memcpy(bounce_memory_.data(), piece.iov_base, piece.iov_len);
    piece.iov_base = bounce_memory_.data();
  }
  if (borrowed) tx.cookie = next_operation_++;
  if (below_->send({&tx, 1}) != 1) return false;
  if (tx.cookie) operations_[tx.cookie] = {id, 0, std::move(held.bytes)};
  if (tx.local) bounce_cookie_ = tx.cookie;
  return true;
}

unsigned FaultDriver::poll(uint64_t now_ns, unsigned budget) {
  now_ns_ = now_ns;
  for (auto it = peers_.begin(); it != peers_.end();) {
    auto& [id, peer] = *it;
    flush(id, peer);
    if (peer.dead || !peer.queue.empty() || !peer.strays.empty()) {
      ++it;
      continue;
    }
    if (peer.leaving) peer.group ? below_->leave(id) : below_->disconnect(id);
    it = peers_.erase(it);
  }
  unsigned count = 0;
  for (const auto& [cookie, status] : std::exchange(completed_, {})) {
    upper_.done(cookie, status);
    count++;
  }
  count += report_deaths();
  count += arrivals_.release(now_ns_, hand_up_);
  return count + below_->poll(now_ns, budget);
}

// A killed peer is reported when the last operation on it has ended below: only then is the
// memory of the operation free.
unsigned FaultDriver::report_deaths() {
  std::vector<PeerId> found;
  for (auto& [id, peer] : peers_) {
    if (!peer.dead || peer.reported) continue;
    const bool busy = std::any_of(operations_.begin(), operations_.end(),
                                  [&, id = id](const auto& o) { return o.second.peer == id; });
    if (busy) continue;
    peer.reported = true;
    if (caps_.flags & kPeerDown) found.push_back(id);
  }
  for (const PeerId id : found) upper_.peer_down(id, Status::peer_dead);
  return static_cast<unsigned>(found.size());
}

bool FaultDriver::is_dead(PeerId id) const {
  const auto it = peers_.find(id);
  return it != peers_.end() && it->second.dead;
}

void FaultDriver::packet(PeerId from, std::span<const std::byte> frame) {
  if (arrivals_.has(from)) return arrivals_.arrive(from, frame, now_ns_, hand_up_);
  if (!is_dead(from)) upper_.packet(from, frame);
}

// Frames that arrived together stay together, but for those of lossy groups.
void FaultDriver::packets(std::span<Packet> all) {
  const auto lossy = [&](const Packet& one) { return arrivals_.has(one.from); };
  if (std::any_of(all.begin(), all.end(), lossy)) {
    for (Packet& one : all) {
      if (lossy(one)) {
        packet(one.from, one.frame);
      } else if (!is_dead(one.from)) {
        upper_.packets({&one, 1});
      }
    }
    return;
  }
  const auto dead = [&](const Packet& one) { return is_dead(one.from); };
  if (std::none_of(all.begin(), all.end(), dead)) return upper_.packets(all);
  std::vector<Packet> living(all.begin(), all.end());
  std::erase_if(living, dead);
  upper_.packets(living);
}

void FaultDriver::done(uint64_t cookie, Status status) {
  const auto it = operations_.find(cookie);
  TORII_ASSERT(it != operations_.end());
  const Operation operation = std::move(it->second);
  operations_.erase(it);
  if (cookie == bounce_cookie_) bounce_cookie_ = 0;
  if (operation.cookie)
    upper_.done(operation.cookie, is_dead(operation.peer) ? Status::peer_dead : status);
}

void FaultDriver::peer_down(PeerId id, Status status) {
  const auto it = peers_.find(id);
  if (it != peers_.end() && it->second.dead) return;  // report_deaths() does that, once
  if (it != peers_.end()) peers_.erase(it);
  upper_.peer_down(id, status);
}

// Are put and get to be denied now?
bool FaultDriver::denies(PeerId peer) {
  bool deny = random_.chance(plan_.ppm[static_cast<size_t>(Fault::deny)]);
  for (FaultRule& rule : plan_.rules) {
    if (rule.fault != Fault::deny || (rule.peer != kNoPeer && rule.peer != peer)) continue;
    deny |= is_due(rule);
    rule.seen++;
  }
  return deny;
}

template <typename Access>
Status FaultDriver::transfer(const Access& access, Cap cap, Status (Driver::*call)(const Access&)) {
  if (!(caps_.flags & cap)) return Status::unsupported;
  if (is_dead(access.peer)) return Status::peer_dead;
  if (random_.chance(plan_.ppm[static_cast<size_t>(Fault::refuse)])) return Status::again;
  if (cap != kAtomic && denies(access.peer)) return Status::denied;
  return pass_on(access, call, operations_, next_operation_);
}

Status FaultDriver::arm(int* fd) {
  const bool waiting = std::any_of(peers_.begin(), peers_.end(),
                                   [](const auto& entry) { return !entry.second.reported; });
  if ((caps_.flags & kWait) && (waiting || !completed_.empty() || arrivals_.any_held()))
    return Status::again;
  return below_->arm(fd);
}

}  // namespace

std::unique_ptr<Driver> wrap_fault(const OpenBelow& open_below, const DriverEnv& env,
                                   const FaultPlan& plan) {
  auto driver = std::make_unique<FaultDriver>(env, plan);
  if (!driver->open(open_below, env)) return nullptr;
  return driver;
}

}  // namespace torii
