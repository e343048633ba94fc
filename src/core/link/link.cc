// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/link.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/link/crc32c.h"
#include "core/link/header.h"
#include "core/link/timer.h"

namespace torii {
namespace {

using link::Header;
using link::kHeaderBytes;
using link::Kind;
using link::kWindow;

constexpr uint64_t kTimeoutMaxNs = 1000000000;
constexpr uint64_t kTriesPerDeadline = 16;  // the longest timeout leaves at least so many
constexpr uint64_t kQuietPart = 2;          // a peer is probed after this part of the deadline
constexpr uint32_t kOvertakenMax = 3;       // later frames that may arrive before one is missed
constexpr int kByes = 8;                    // nobody answers a bye, so it goes more than once

using Bytes = std::shared_ptr<std::vector<std::byte>>;

// A frame taken from the core and not yet acknowledged.
struct Sent {
  Bytes bytes;  // with room for the header; shared while the driver below reads it
  uint32_t payload_crc = 0;
  uint32_t transmissions = 0;
  uint64_t sent_ns = 0;  // the last time
  uint64_t cookie = 0;   // the core's
  bool arrived = false;  // acknowledged, but not all before it
};

struct Peer {
  explicit Peer(uint64_t timeout_max_ns) : timer(timeout_max_ns) {}

  // Sending: frames first..first+sent.size()-1 are under way, the last `unsent` never left.
  std::deque<Sent> sent;
  uint32_t first = 0;
  uint32_t unsent = 0;
  link::RetransmitTimer timer;
  uint64_t waiting_since_ns = 0;  // last sign of life, or when the first of `sent` left

  // Receiving: frames before `expected` were handed up; slot seq % kWindow holds those after it.
  uint32_t session = 0;  // the peer's; 0: never heard of it
  uint32_t expected = 0;
  uint64_t waiting = 0;  // bit i: frame expected + i is in its slot (bit 0: poll()'s budget ended)
  std::unique_ptr<std::array<std::vector<std::byte>, kWindow>> slots;

  bool owes_ack = false;
  bool watched = false;      // probed when it is quiet
  bool listed = false;       // in active_
  Status down = Status::ok;  // peer_dead or peer_closed
  bool reported = false;
};

class LinkDriver final : public Decorator {
 public:
  explicit LinkDriver(const DriverEnv& env);
  ~LinkDriver() override;
  bool open(const OpenBelow& open_below, const DriverEnv& env);

  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return remote() ? below_->reg(base, bytes, access, out) : Status::unsupported;
  }
  void dereg(Region& region) override { below_->dereg(region); }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* handle) override {
    return remote() ? below_->import(peer, key, handle) : Status::unsupported;
  }
  Status alloc(uint64_t bytes, uint64_t alignment, void** base) override {
    return remote() ? below_->alloc(bytes, alignment, base) : Status::unsupported;
  }
  Status put(const Rma& rma) override { return transfer(rma, kPut); }
  Status get(const Rma& rma) override { return transfer(rma, kGet); }
  Status join(std::span<const std::byte>, PeerId*) override { return Status::unsupported; }
  void leave(PeerId) override {}
  Status arm(int* fd) override;

 private:
  // Something with a cookie at the driver below: a frame's memory, or a put or get.
  struct Operation {
    PeerId peer;
    uint64_t cookie;  // the core's, for put and get
    Bytes bytes;
  };

  void packet(PeerId from, std::span<const std::byte> frame) override;
  void done(uint64_t cookie, Status status) override;
  void peer_down(PeerId id, Status status) override;

  bool remote() const { return caps_.flags & (kPut | kGet); }
  Peer& peer_of(PeerId id);
  void watch(Peer& peer);
  void probe_quiet_peers();
  void activate(PeerId id, Peer& peer);
  Header header_for(const Peer& peer, Kind kind, uint32_t seq) const;
  bool transmit(PeerId id, Peer& peer, size_t index);
  bool send_bytes(PeerId id, const Bytes& bytes);
  bool send_control(PeerId id, const Peer& peer, Kind kind);
  void acknowledged(Peer& peer, const Header& header);
  void retire(Peer& peer, Sent& sent);
  void received(PeerId from, Peer& peer, uint32_t seq, std::span<const std::byte> payload);
  void hand_up_waiting(PeerId from, Peer& peer);
  bool service(PeerId id, Peer& peer);
  void retransmit(PeerId id, Peer& peer);
  void end(PeerId id, Peer& peer, Status status);
  bool report(PeerId id, Peer& peer);
  Status transfer(const Rma& rma, Cap cap);

  Counters& counters_;
  const uint64_t deadline_ns_;
  // The link's own clock stands still while nobody polls: answers that wait in the driver below
  // must not count as silence.
  uint64_t now_ns_ = 0;
  uint64_t last_poll_ns_ = 0;
  uint32_t session_ = 0;
  bool probes_ = false;  // the driver below does not report dead peers
  uint64_t next_probes_ns_ = 0;
  unsigned budget_ = 0;                       // of the present poll(), for frames that were waiting
  std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId; null: nothing was ever exchanged
  std::vector<PeerId> active_;                // peers that service() has to look at
  std::vector<std::pair<uint64_t, Status>> completed_;  // done() for the next poll
  std::unordered_map<uint64_t, Operation> operations_;
  uint64_t next_operation_ = 1;
};

LinkDriver::LinkDriver(const DriverEnv& env)
    : Decorator(env),
      counters_(*env.counters),
      deadline_ns_(static_cast<uint64_t>(params().peer_deadline_ms) * 1000000) {}

bool LinkDriver::open(const OpenBelow& open_below, const DriverEnv& env) {
  if (!Decorator::open(open_below, env)) return false;
  if (caps_.mtu < 512 + kHeaderBytes) {
    TORII_ERROR("link: frames of %u bytes are too small to carry frames of 512; use a larger MTU",
                caps_.mtu);
    return false;
  }
  if (!(caps_.flags & kReliable)) {
    caps_.flags &= ~(kPut | kGet | kNeedsReg | kAlloc);
    caps_.remote_max = 0;
    caps_.key_bytes = 0;
  }
  probes_ = !(caps_.flags & kPeerDown);
  caps_.flags = (caps_.flags & ~kMulticast) | kReliable | kOrdered | kPeerDown;
  caps_.mtu -= kHeaderBytes;
  caps_.inline_max = caps_.mtu;
  caps_.pieces_max = 16;
  // Differs between processes, and between openings in one process.
  static uint32_t openings = 0;
  std::vector<std::byte> address(caps_.address_bytes);
  below_->address(address.data());
  const uint32_t salt[2] = {static_cast<uint32_t>(getpid()), ++openings};
  session_ = crc32c(crc32c(0, address.data(), address.size()), salt, sizeof(salt)) | 1;
  return true;
}

LinkDriver::~LinkDriver() {
  if (!below_) return;
  for (PeerId id = 0; id < peers_.size(); id++) {
    if (!peers_[id] || peers_[id]->down != Status::ok) continue;
    for (int i = 0; i < kByes; i++) send_control(id, *peers_[id], Kind::bye);
  }
  below_.reset();  // before the memory of frames
}

Peer& LinkDriver::peer_of(PeerId id) {
  if (id >= peers_.size()) peers_.resize(id + 1);
  if (!peers_[id]) {
    peers_[id] = std::make_unique<Peer>(std::min(kTimeoutMaxNs, deadline_ns_ / kTriesPerDeadline));
    peers_[id]->waiting_since_ns = now_ns_;
  }
  return *peers_[id];
}

// From now on its death is to be noticed, also if there is nothing to say.
void LinkDriver::watch(Peer& peer) {
  if (!probes_ || std::exchange(peer.watched, true)) return;
  if (peer.sent.empty()) peer.waiting_since_ns = now_ns_;
}

void LinkDriver::activate(PeerId id, Peer& peer) {
  if (!std::exchange(peer.listed, true)) active_.push_back(id);
}

Status LinkDriver::connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
  const Status status = below_->connect(address, peer, why);
  if (status != Status::ok) return status;
  const bool known = *peer < peers_.size() && peers_[*peer];
  if (!known || peers_[*peer]->down == Status::ok) {
    if (probes_) watch(peer_of(*peer));
    return Status::ok;
  }
  *why = format_text("link: this peer is down (%s); disconnect it before you connect again",
                     status_text(peers_[*peer]->down));
  return Status::unreachable;
}

// The numbers of a living peer go on counting if it is connected again, so its state stays, and
// with it the driver's below.
void LinkDriver::disconnect(PeerId id) {
  const bool known = id < peers_.size() && peers_[id];
  if (known) peers_[id]->watched = false;
  if (known && peers_[id]->down == Status::ok) return;
  if (known) {
    std::erase(active_, id);
    for (const Sent& sent : peers_[id]->sent) {
      if (sent.cookie) completed_.push_back({sent.cookie, peers_[id]->down});
    }
    peers_[id].reset();
  }
  below_->disconnect(id);
}

// --- sending --------------------------------------------------------------------------------

size_t LinkDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    TORII_ASSERT(tx.head_bytes <= kHeadMax && tx.body_bytes <= caps_.mtu - tx.head_bytes);
    Peer& peer = peer_of(tx.peer);
    if (peer.down != Status::ok) {
      if (tx.cookie) completed_.push_back({tx.cookie, peer.down});
      taken++;
      continue;
    }
    if (peer.sent.size() >= kWindow) break;
    Sent frame;
    frame.cookie = tx.cookie;
    frame.bytes = std::make_shared<std::vector<std::byte>>();
    frame.bytes->reserve(kHeaderBytes + tx.head_bytes + tx.body_bytes);
    frame.bytes->resize(kHeaderBytes);
    const auto* head = static_cast<const std::byte*>(tx.head);
    frame.bytes->insert(frame.bytes->end(), head, head + tx.head_bytes);
    for (const iovec& piece : std::span(tx.pieces, tx.piece_count)) {
      const auto* base = static_cast<const std::byte*>(piece.iov_base);
      frame.bytes->insert(frame.bytes->end(), base, base + piece.iov_len);
    }
    frame.payload_crc =
        crc32c(0, frame.bytes->data() + kHeaderBytes, frame.bytes->size() - kHeaderBytes);
    if (peer.sent.empty()) peer.waiting_since_ns = now_ns_;
    peer.sent.push_back(std::move(frame));
    peer.unsent++;
    if (peer.unsent == 1 && transmit(tx.peer, peer, peer.sent.size() - 1)) peer.unsent = 0;
    activate(tx.peer, peer);
    taken++;
  }
  return taken;
}

Header LinkDriver::header_for(const Peer& peer, Kind kind, uint32_t seq) const {
  return {kind, session_, peer.session, seq, peer.expected, peer.waiting >> 1};
}

// Sends frame `index` of the window; false if the driver below has no room, or still reads the
// memory of an earlier transmission.
bool LinkDriver::transmit(PeerId id, Peer& peer, size_t index) {
  Sent& frame = peer.sent[index];
  if (frame.bytes.use_count() > 1) return false;
  const auto seq = peer.first + static_cast<uint32_t>(index);
  link::write_header(header_for(peer, Kind::data, seq), frame.payload_crc, frame.bytes->data());
  if (!send_bytes(id, frame.bytes)) return false;
  frame.transmissions++;
  frame.sent_ns = now_ns_;
  peer.owes_ack = false;
  return true;
}

bool LinkDriver::send_bytes(PeerId id, const Bytes& bytes) {
  const size_t head = std::min(bytes->size(), kHeadMax);
  const iovec piece{bytes->data() + head, bytes->size() - head};
  Tx tx;
  tx.peer = id;
  tx.head = bytes->data();
  tx.head_bytes = static_cast<uint32_t>(head);
  tx.pieces = &piece;
  tx.piece_count = piece.iov_len ? 1 : 0;
  tx.body_bytes = static_cast<uint32_t>(piece.iov_len);
  if (tx.body_bytes > below_->caps().inline_max) tx.cookie = next_operation_++;
  if (below_->send({&tx, 1}) != 1) return false;
  if (tx.cookie) operations_[tx.cookie] = {id, 0, bytes};
  return true;
}

bool LinkDriver::send_control(PeerId id, const Peer& peer, Kind kind) {
  std::byte bytes[kHeaderBytes];
  link::write_header(header_for(peer, kind, 0), 0, bytes);
  Tx tx;
  tx.peer = id;
  tx.head = bytes;
  tx.head_bytes = kHeaderBytes;
  return below_->send({&tx, 1}) == 1;
}

// --- receiving ------------------------------------------------------------------------------

void LinkDriver::packet(PeerId from, std::span<const std::byte> frame) {
  Header header;
  if (from == kNoPeer || !link::parse_header(frame, &header) ||
      (header.to_session && header.to_session != session_)) {
    counters_.link_corrupt++;
    return;
  }
  Peer& peer = peer_of(from);
  if (peer.down != Status::ok) return;
  // Another session is a process that took the address of the one we talked to, or a forgery; an
  // acknowledgement of what was never sent is a forgery.
  const bool acknowledges = header.to_session == session_;
  const auto ahead = static_cast<int32_t>(header.ack - peer.first);
  if ((peer.session && header.session != peer.session) ||
      (acknowledges && ahead > static_cast<int32_t>(peer.sent.size()))) {
    counters_.link_corrupt++;
    return;
  }
  peer.session = header.session;
  peer.waiting_since_ns = now_ns_;
  if (acknowledges && ahead >= 0) acknowledged(peer, header);
  if (header.kind == Kind::probe) peer.owes_ack = true;
  if (header.kind == Kind::data) {
    watch(peer);
    received(from, peer, header.seq, frame.subspan(kHeaderBytes));
  }
  if (header.kind == Kind::bye) end(from, peer, Status::peer_closed);
  if (peer.down != Status::ok || peer.owes_ack || !peer.sent.empty()) activate(from, peer);
}

void LinkDriver::acknowledged(Peer& peer, const Header& header) {
  bool news = false;
  while (peer.first != header.ack) {
    retire(peer, peer.sent.front());
    peer.sent.pop_front();
    peer.first++;
    news = true;
  }
  for (uint32_t i = 0; i < 64 && i + 1 < peer.sent.size(); i++) {
    if (!(header.sack >> i & 1) || peer.sent[i + 1].arrived) continue;
    retire(peer, peer.sent[i + 1]);
    news = true;
  }
  // Known to be there is enough: nothing would make the peer say so again.
  for (; !peer.sent.empty() && peer.sent.front().arrived; peer.first++) peer.sent.pop_front();
  peer.unsent = std::min(peer.unsent, static_cast<uint32_t>(peer.sent.size()));
  if (news) peer.timer.answered();
}

// The frame has arrived; it may stay in the window until those before it have, too.
void LinkDriver::retire(Peer& peer, Sent& sent) {
  if (std::exchange(sent.arrived, true)) return;
  // After a second transmission nobody knows which one was answered.
  if (sent.transmissions == 1) peer.timer.measured(now_ns_ - sent.sent_ns);
  if (sent.cookie) completed_.push_back({sent.cookie, Status::ok});
  sent.cookie = 0;
  sent.bytes.reset();
}

void LinkDriver::received(PeerId from, Peer& peer, uint32_t seq,
                          std::span<const std::byte> payload) {
  peer.owes_ack = true;
  const uint32_t distance = seq - peer.expected;
  if (distance >= kWindow || (peer.waiting >> distance & 1)) {
    counters_.link_duplicates++;
    return;
  }
  if (distance == 0) {
    peer.expected++;
    peer.waiting >>= 1;
    upper_.packet(from, payload);
    hand_up_waiting(from, peer);
    return;
  }
  if (!peer.slots) peer.slots = std::make_unique<std::array<std::vector<std::byte>, kWindow>>();
  (*peer.slots)[seq % kWindow].assign(payload.begin(), payload.end());
  peer.waiting |= uint64_t{1} << distance;
}

void LinkDriver::hand_up_waiting(PeerId from, Peer& peer) {
  for (; (peer.waiting & 1) && budget_; budget_--) {
    const std::vector<std::byte> payload =
        std::exchange((*peer.slots)[peer.expected % kWindow], {});
    peer.expected++;
    peer.waiting >>= 1;
    peer.owes_ack = true;  // a frame sent by an earlier upcall did not tell of this one
    upper_.packet(from, payload);
  }
}

// --- time -----------------------------------------------------------------------------------

unsigned LinkDriver::poll(uint64_t now_ns, unsigned budget) {
  if (last_poll_ns_ && now_ns > last_poll_ns_)
    now_ns_ += std::min(now_ns - last_poll_ns_, deadline_ns_ / kTriesPerDeadline);
  last_poll_ns_ = now_ns;
  budget_ = budget;
  for (size_t i = 0; i < active_.size(); i++) hand_up_waiting(active_[i], *peers_[active_[i]]);
  unsigned count = budget - budget_;
  count += below_->poll(now_ns, budget_);
  for (const auto& [cookie, status] : std::exchange(completed_, {})) {
    upper_.done(cookie, status);
    count++;
  }
  for (size_t i = 0; i < active_.size();) {
    const PeerId id = active_[i];
    Peer& peer = *peers_[id];
    if (service(id, peer)) {
      i++;
      continue;
    }
    peer.listed = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
  if (probes_ && now_ns_ >= next_probes_ns_) probe_quiet_peers();
  // Upcalls last: they may change active_.
  std::vector<PeerId> down;
  for (const PeerId id : active_)
    if (peers_[id]->down != Status::ok) down.push_back(id);
  for (const PeerId id : down)
    if (peers_[id]) count += report(id, *peers_[id]);
  return count;
}

// What a peer needs from time to time. False: nothing any more.
bool LinkDriver::service(PeerId id, Peer& peer) {
  if (peer.down != Status::ok) return !peer.reported;
  while (peer.unsent && transmit(id, peer, peer.sent.size() - peer.unsent)) peer.unsent--;
  retransmit(id, peer);
  if (peer.owes_ack && send_control(id, peer, Kind::ack)) peer.owes_ack = false;
  if (!peer.sent.empty() && now_ns_ - peer.waiting_since_ns >= deadline_ns_)
    end(id, peer, Status::peer_dead);
  return peer.down != Status::ok || peer.owes_ack || !peer.sent.empty() || (peer.waiting & 1);
}

// Asks connected peers that have been quiet for some time for a sign of life. One that owes an
// acknowledgement is asked by its frames.
void LinkDriver::probe_quiet_peers() {
  next_probes_ns_ = now_ns_ + deadline_ns_ / kTriesPerDeadline;
  for (PeerId id = 0; id < peers_.size(); id++) {
    if (!peers_[id]) continue;
    Peer& peer = *peers_[id];
    if (!peer.watched || peer.down != Status::ok || !peer.sent.empty()) continue;
    const uint64_t quiet_ns = now_ns_ - peer.waiting_since_ns;
    if (quiet_ns < deadline_ns_ / kQuietPart) continue;
    if (quiet_ns - deadline_ns_ / kQuietPart >= deadline_ns_) {
      end(id, peer, Status::peer_dead);
    } else if (send_control(id, peer, Kind::probe)) {
      counters_.link_probes++;
    }
  }
}

void LinkDriver::retransmit(PeerId id, Peer& peer) {
  const size_t under_way = peer.sent.size() - peer.unsent;
  size_t last_arrived = 0;
  for (size_t i = 0; i < under_way; i++)
    if (peer.sent[i].arrived) last_arrived = i;
  const uint64_t timeout_ns = peer.timer.timeout_ns();
  bool timed_out = false;
  for (size_t i = 0; i < under_way; i++) {
    const Sent& frame = peer.sent[i];
    if (frame.arrived) continue;
    const uint64_t age_ns = now_ns_ - frame.sent_ns;
    // Later ones have arrived: it is lost, if its own second try is not still on its way.
    const bool missed = last_arrived >= i + kOvertakenMax && age_ns > peer.timer.smoothed_ns() &&
                        (frame.transmissions == 1 || age_ns > 2 * peer.timer.smoothed_ns());
    if (age_ns < timeout_ns && !missed) continue;
    if (!transmit(id, peer, i)) break;
    counters_.link_retransmits++;
    timed_out |= age_ns >= timeout_ns;
  }
  if (timed_out) peer.timer.timed_out();
}

// --- the end of a peer ----------------------------------------------------------------------

void LinkDriver::end(PeerId id, Peer& peer, Status status) {
  if (peer.down != Status::ok) return;
  peer.down = status;
  for (const Sent& sent : std::exchange(peer.sent, {}))
    if (sent.cookie) completed_.push_back({sent.cookie, status});
  peer.unsent = 0;
  peer.slots.reset();
  peer.waiting = 0;
  activate(id, peer);
}

// Calls peer_down(), once nothing of the peer's is pending.
bool LinkDriver::report(PeerId id, Peer& peer) {
  if (peer.reported) return false;
  for (const auto& [number, operation] : operations_)
    if (operation.peer == id && operation.cookie) return false;
  for (const auto& [cookie, status] : std::exchange(completed_, {})) upper_.done(cookie, status);
  peer.reported = true;
  upper_.peer_down(id, peer.down);
  return true;
}

void LinkDriver::peer_down(PeerId id, Status status) { end(id, peer_of(id), status); }

void LinkDriver::done(uint64_t number, Status status) {
  const auto it = operations_.find(number);
  TORII_ASSERT(it != operations_.end());
  const uint64_t cookie = it->second.cookie;
  operations_.erase(it);
  if (cookie) upper_.done(cookie, status);
}

// --- the rest -------------------------------------------------------------------------------

Status LinkDriver::transfer(const Rma& rma, Cap cap) {
  if (!(caps_.flags & cap)) return Status::unsupported;
  if (rma.peer < peers_.size() && peers_[rma.peer] && peers_[rma.peer]->down != Status::ok)
    return peers_[rma.peer]->down;
  Rma inner = rma;
  if (rma.cookie) {
    inner.cookie = next_operation_++;
    operations_[inner.cookie] = {rma.peer, rma.cookie, nullptr};
  }
  const Status status = cap == kPut ? below_->put(inner) : below_->get(inner);
  if (status != Status::pending) operations_.erase(inner.cookie);
  return status;
}

// Nothing rings when a timeout ends, so there is no sleep while an answer is outstanding.
Status LinkDriver::arm(int* fd) {
  if ((caps_.flags & kWait) && (!active_.empty() || !completed_.empty())) return Status::again;
  return below_->arm(fd);
}

}  // namespace

std::unique_ptr<Driver> wrap_link(const OpenBelow& open_below, const DriverEnv& env) {
  auto driver = std::make_unique<LinkDriver>(env);
  if (!driver->open(open_below, env)) return nullptr;
  return driver;
}

std::unique_ptr<Driver> open_with_link(const OpenBelow& open_below, const DriverEnv& env) {
  std::unique_ptr<Driver> plain = open_below(env);
  constexpr uint32_t kSure = kReliable | kOrdered | kPeerDown;
  if (!plain || (plain->caps().flags & kSure) == kSure) return plain;
  plain.reset();
  return wrap_link(open_below, env);
}

std::unique_ptr<Driver> open_with_link(const std::string& name, const DriverEnv& env,
                                       std::string* why) {
  return open_with_link([&](const DriverEnv& inner) { return open_driver(name, inner, why); }, env);
}

}  // namespace torii
