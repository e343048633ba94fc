// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/link/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/link/crc32c.h"
#include "core/link/link_driver.h"
#include "core/link/watch.h"

namespace torii {
namespace link {
namespace {

constexpr uint64_t kTimeoutMaxNs = 1000000000;
constexpr uint64_t kQuietPart = 2;  // a peer is probed after this part of the deadline
constexpr uint32_t kLendMin = 512;  // shorter bodies are copied as quickly
constexpr uint32_t kBytesUnderWay = 1 << 20;
constexpr uint32_t kWindowLeast = 64;
constexpr uint64_t kSilentNs = 250000000;  // then the driver below is asked about the peer
constexpr uint64_t kAskEveryNs = 100000000;
constexpr uint64_t kConfirmNs = 500000000;  // for a peer to contradict who says that it has gone
constexpr uint64_t kAckDelayNs = 100000;
// Where processes share processors it may take that long until the peer polls.
constexpr uint64_t kAckDelaySharedNs = 2000000;
constexpr uint64_t kTimeoutMinSharedNs = 4 * kAckDelaySharedNs;
constexpr unsigned kAskedMost = 16;  // peers at a time
// For the oldest frame to arrive: the driver below may find out how to go on. coarse() holds more.
constexpr uint64_t kStuckLeastNs = 2000000000, kStuckMostNs = 3600000000000;

}  // namespace

LinkDriver::LinkDriver(const DriverEnv& env)
    : Decorator(env),
      counters_(*env.counters),
      deadline_ns_(static_cast<uint64_t>(params().peer_deadline_ms) * 1000000),
      whole_tags_(params().link_tag_payload),
      ack_delay_ns_(env.take_turns ? kAckDelaySharedNs : kAckDelayNs),
      greeting_gap_ns_(env.take_turns ? kTimeoutMinSharedNs : RetransmitTimer::kMinNs),
      first_timer_(greeting_gap_ns_, std::min(kTimeoutMaxNs, deadline_ns_ / kTriesPerDeadline)),
      clock_(env.clock),
      clock_context_(env.clock_context),
      keys_(env.keys),
      members_(env.members),
      purpose_("link " + env.name) {}

bool LinkDriver::open(const OpenBelow& open_below, const DriverEnv& env) {
  DriverEnv inner = env;
  inner.trust = this;
  if (!Decorator::open(open_below, inner)) return false;
  paths_ = below_->paths();
  if (const RegisteredMemory* const memory = below_->registered_memory(); memory && memory->local) {
    TORII_ERROR(
        "link: the driver below sends only from registered memory, but frames of the link lie in "
        "its own; let the driver copy bodies of up to its mtu (inline_max)");
    return false;
  }
  if (!set_cipher()) return false;
  const auto overhead = static_cast<uint32_t>(kHeaderBytes + seal().growth());
  if (caps_.mtu < 512 + overhead) {
    TORII_ERROR("link: frames of %u bytes are too small to carry frames of 512; use a larger MTU",
                caps_.mtu);
    return false;
  }
  // Remote access goes past the link, and would not be encrypted.
  if (!(caps_.flags & kReliable) || cipher_) {
    caps_.flags &= ~(kPut | kGet | kNeedsReg | kGuard | kAtomic);
    caps_.remote_max = 0;
    caps_.key_bytes = 0;
  }
  if (caps_.address_bytes + kPublicKeyBytes > kAddressMax) {
    TORII_ERROR("link: the driver's address of %u bytes leaves no room for a key of %zu",
                caps_.address_bytes, kPublicKeyBytes);
    return false;
  }
  if (!keys_) {
    std::string why;
    own_keys_ = KeyPair::draw(&why);
    if (!own_keys_) {
      TORII_ERROR("link: %s; ask for what its configuration permits (openssl list -key-managers)",
                  why.c_str());
      return false;
    }
    keys_ = own_keys_.get();
  }
  probes_ = !(caps_.flags & kPeerDown);
  caps_.flags = (caps_.flags & ~kMulticast) | kReliable | kPeerDown;
  pool_.set_capacity(caps_.mtu);
  window_ = std::clamp(kBytesUnderWay / caps_.mtu, kWindowLeast, kWindow);
  batch_ = std::min<size_t>(caps_.batch_max, kBatchMax);
  // A driver that copies long frames at once gains nothing from them here, and not all its peers
  // take them.
  const bool copies = caps_.inline_max > caps_.mtu;
  const uint32_t long_below = caps_.lend_min || copies ? 0 : caps_.long_max;
  if (cipher_) {
    outgoing_->sealed = std::make_unique_for_overwrite<std::byte[]>(batch_ * caps_.mtu);
    opened_max_ = std::max(caps_.mtu, caps_.long_max);
    opened_ = std::make_unique_for_overwrite<std::byte[]>(opened_max_);
  }
  caps_.mtu -= overhead;
  // A frame with lent memory is read by the driver below in two pieces, and at once.
  const bool lends = !whole_tags_ && caps_.pieces_max > 0 && caps_.inline_max >= caps_.mtu;
  caps_.lend_min = lends ? kLendMin : 0;
  if (lends) caps_.flags |= kDelivers;
  caps_.long_max = lends && batch_ > 1 ? long_max_over(long_below) : 0;
  caps_.inline_max = caps_.mtu;
  caps_.pieces_max = 16;
  caps_.address_bytes += kPublicKeyBytes;
  return true;
}

// Parts as many as leave at a time. None if the driver below takes no long frames: there parts cost
// what frames do.
uint32_t LinkDriver::long_max_over(uint32_t long_below) const {
  const size_t most = std::min<size_t>(long_below, kLongMax + kHeaderBytes);
  if (most < parts_overhead() + 2 * part_max()) return 0;
  const size_t parts = (most - parts_overhead()) / part_max();
  return static_cast<uint32_t>(std::min({parts, batch_, size_t{kPartsMax}}) * part_max());
}

LinkDriver::~LinkDriver() {
  if (!below_) return;
  for (PeerId id = 0; id < peers_.size(); id++) {
    if (!peers_[id] || peers_[id]->down != Status::ok) continue;
    for (uint8_t i = 0; i < kByes; i++) send_control(id, *peers_[id], Kind::bye, i % kRailsMax);
  }
  below_.reset();  // before the memory of frames
  for (const auto& [number, operation] : operations_)
    if (operation.memory) pool_.put(operation.memory);
  for (const auto& peer : peers_)
    if (peer) drop_sent(*peer, Status::peer_closed);
}

bool LinkDriver::delivered() const {
  return std::ranges::all_of(active_, [&](PeerId id) { return peers_[id]->sent.empty(); });
}

Peer& LinkDriver::peer_of(PeerId id) {
  if (id >= peers_.size()) peers_.resize(id + 1);
  if (!peers_[id]) {
    peers_[id] = std::make_unique<Peer>(new_rail());
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

// --- time -----------------------------------------------------------------------------------

void LinkDriver::advance(uint64_t now_ns) {
  if (advanced_ns_ && now_ns <= advanced_ns_) return;
  if (advanced_ns_) now_ns_ += std::min(now_ns - advanced_ns_, deadline_ns_ / kTriesPerDeadline);
  advanced_ns_ = now_ns;
}

// The time that poll() is given is too coarse where something is under way: a round of progress
// that sends or receives takes longer than a round trip.
void LinkDriver::look_at_clock() {
  if (clock_) advance(clock_(clock_context_));
  looked_at_clock_ = true;
}

unsigned LinkDriver::poll(uint64_t now_ns, unsigned budget) {
  advance(now_ns);
  looked_at_clock_ = false;
  if (!active_.empty()) look_at_clock();
  silence_ns_ = std::exchange(listening_, false) ? 0 : now_ns_ - polled_ns_;
  polled_ns_ = now_ns_;
  budget_ = budget;
  left_groups_.clear();
  for (size_t i = 0; i < active_.size(); i++) hand_up_waiting(active_[i], *peers_[active_[i]]);
  unsigned count = budget - budget_;
  count += below_->poll(now_ns, budget_);
  count += tell_completed() + std::exchange(told_, 0);
  forget_strangers();
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
  if (probes_ && now_ns_ >= next_lives_ns_) ask_after_silent_peers();
  if (probes_ && now_ns_ >= next_probes_ns_) probe_quiet_peers();
  // Upcalls last: they may change active_.
  std::vector<PeerId> down;
  for (const PeerId id : active_)
    if (peers_[id]->down != Status::ok) down.push_back(id);
  for (const PeerId id : down)
    if (peers_[id]) count += report(id, *peers_[id]);
  return count;
}

// An operation that completes during these upcalls is reported by the next call.
unsigned LinkDriver::tell_completed() {
  if (completed_.empty()) return 0;
  std::vector<std::pair<uint64_t, Status>> now = std::exchange(completed_, std::move(spare_));
  for (const auto& [cookie, status] : now) upper_.done(cookie, status);
  const auto count = static_cast<unsigned>(now.size());
  now.clear();
  spare_ = std::move(now);
  return count;
}

void LinkDriver::forget_strangers() {
  if (strangers_.empty()) return;
  std::sort(strangers_.begin(), strangers_.end());
  strangers_.erase(std::unique(strangers_.begin(), strangers_.end()), strangers_.end());
  for (const PeerId id : std::exchange(strangers_, {}))
    if (!find(id)) below_->disconnect(id);
}

// The periodic work for a peer. False: there is none any more.
bool LinkDriver::service(PeerId id, Peer& peer) {
  if (peer.down != Status::ok) return !peer.reported;
  find_losses(id, peer);
  if (std::exchange(peer.probed, false)) send_ack(id, peer);
  if (!peer.sent.empty()) send_waiting(id, peer, kWindow);
  peer.refused = false;
  if (peer.owes_ack && ack_is_due(peer)) send_ack(id, peer);
  if (peer.stuck >= coarse(std::clamp(deadline_ns_, kStuckLeastNs, kStuckMostNs))) {
    give_up(id, peer);
  } else if (!peer.sent.empty() && now_ns_ - peer.waiting_since_ns >= deadline_ns_) {
    end(id, peer, Status::peer_dead);
  }
  return peer.down != Status::ok || peer.owes_ack || !peer.sent.empty() ||
         peer.slots.has(peer.expected);
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
    peer.sent.release();
    if (!peer.slots.any()) peer.slots.clear();  // they have memory for frames out of order
    if (quiet_ns >= deadline_ns_) {
      end(id, peer, Status::peer_dead);
      continue;
    }
    if (send_control(id, peer, Kind::probe, kFirstRail)) counters_.link_probes++;
    learn_life(id, peer);
  }
}

// Few of them: first those that owe an acknowledgement.
void LinkDriver::ask_after_silent_peers() {
  next_lives_ns_ = now_ns_ + kAskEveryNs;
  unsigned left = kAskedMost;
  for (const bool owing : {true, false}) {
    for (PeerId id = 0; id < peers_.size() && left > 0; id++) {
      if (!peers_[id]) continue;
      Peer& peer = *peers_[id];
      const bool asked = owing ? !peer.sent.empty() : peer.sent.empty() && peer.watched;
      if (!asked || peer.down != Status::ok) continue;
      if (now_ns_ - peer.waiting_since_ns < std::min(kSilentNs, deadline_ns_ / kTriesPerDeadline))
        continue;
      left--;
      learn_life(id, peer);
    }
  }
}

// A process that is there is waited for, whether it computes or was stopped. One that has gone had
// its time to contradict: who says so may be an impostor.
void LinkDriver::learn_life(PeerId id, Peer& peer) {
  const uint32_t now = coarse(now_ns_) | 1;
  switch (life(id)) {
    case Life::unknown:
      return;
    case Life::there:
      peer.waiting_since_ns = std::max(peer.waiting_since_ns,
                                       now_ns_ - std::min({kLifeAgeNs, deadline_ns_ / 2, now_ns_}));
      peer.gone_since = 0;
      return;
    case Life::gone:
      if (peer.gone_since == 0) peer.gone_since = now;
      if (now - peer.gone_since >= coarse(std::min(kConfirmNs, deadline_ns_ / kQuietPart))) {
        end(id, peer, Status::peer_dead);
      } else if (send_control(id, peer, Kind::probe, kFirstRail)) {
        counters_.link_probes++;
      }
      return;
  }
}

// --- the end of a peer ----------------------------------------------------------------------

// Nobody will acknowledge these any more.
void LinkDriver::drop_sent(Peer& peer, Status status) {
  for (; !peer.sent.empty(); peer.sent.pop_front()) {
    const Sent& sent = peer.sent.front();
    if (sent.cookie) completed_.push_back({sent.cookie, status});
    if (sent.memory) pool_.put(sent.memory);
  }
  peer.sent.release();
  peer.flying = peer.lost = 0;
  for (Rail& rail : peer.rails) rail.flying = 0;
}

void LinkDriver::end(PeerId id, Peer& peer, Status status) {
  if (peer.down != Status::ok) return;
  peer.down = status;
  drop_sent(peer, status);
  peer.slots.clear();
  peer.assembly.reset();
  activate(id, peer);
}

// Is the oldest frame there by now? A process sends acknowledgements only if it polls. Other frames
// may leave by send() alone, and kernels answer for processes that compute or were stopped. So the
// time counts in which acknowledgements come.
void LinkDriver::examine_oldest(Peer& peer, uint64_t first_before, Kind kind) const {
  if (peer.first != first_before || peer.next == peer.first) {
    peer.stuck = 0;
  } else if (kind == Kind::ack) {
    const uint64_t most_ns = std::min(deadline_ns_ / kTriesPerDeadline, kTimeoutMaxNs);
    peer.stuck += std::min(coarse(now_ns_) - peer.examined, coarse(most_ns));
  } else {
    return;
  }
  peer.examined = coarse(now_ns_);
}

// Both processes are alive, but nothing would ever end their waiting. So the peer is told, too.
void LinkDriver::give_up(PeerId id, Peer& peer) {
  const Sent& oldest = peer.sent.front();
  const std::string below = paths_ ? paths_->trouble(id) : "";
  const std::string why = format_text(
      "it answers, but a frame of %u bytes, sent %u times in %.1f s, has not arrived%s%s",
      (oldest.memory ? oldest.memory->size : 0) + oldest.lent_bytes +
          static_cast<uint32_t>(seal().growth()),
      oldest.transmissions, static_cast<double>(peer.stuck) * 1024 / 1e9, below.empty() ? "" : ": ",
      below.c_str());
  troubles_.emplace_back(id, why);
  for (uint8_t i = 0; i < kByes; i++) send_control(id, peer, Kind::bye, i % kRailsMax, true);
  end(id, peer, Status::peer_dead);
}

// Calls peer_down(), once nothing of the peer's is pending.
bool LinkDriver::report(PeerId id, Peer& peer) {
  if (peer.reported) return false;
  for (const auto& [number, operation] : operations_)
    if (operation.peer == id && operation.cookie) return false;
  tell_completed();
  peer.reported = true;
  upper_.peer_down(id, peer.down);
  return true;
}

// Time in which nobody polled is not counted: nothing could be heard.
std::string LinkDriver::text(PeerId id) const {
  const std::string below = paths_ ? paths_->text(id) : "";
  const Peer* peer = id < peers_.size() ? peers_[id].get() : nullptr;
  if (!peer) return below;
  const std::string heard = !peer->heard
                                ? "no packet ever came"
                                : format_text("last packet %.1f s ago",
                                              static_cast<double>(now_ns_ - peer->heard_ns) / 1e9);
  return below.empty() ? heard : below + ", " + heard;
}

std::string LinkDriver::trouble(PeerId id) const {
  for (const auto& [peer, why] : troubles_)
    if (peer == id) return why;
  return {};
}

void LinkDriver::peer_down(PeerId id, Status status) { end(id, peer_of(id), status); }

void LinkDriver::done(uint64_t number, Status status) {
  const auto it = operations_.find(number);
  TORII_ASSERT(it != operations_.end());
  const uint64_t cookie = it->second.cookie;
  if (it->second.memory) pool_.put(it->second.memory);
  operations_.erase(it);
  if (cookie) upper_.done(cookie, status);
}

// --- the rest -------------------------------------------------------------------------------

template <typename Access>
inline Status LinkDriver::transfer(const Access& access, Cap cap,
                                   Status (Driver::*call)(const Access&)) {
  if (!(caps_.flags & cap)) return Status::unsupported;
  if (access.peer < peers_.size() && peers_[access.peer] && peers_[access.peer]->down != Status::ok)
    return peers_[access.peer]->down;
  return pass_on(access, call, operations_, next_operation_);
}

Status LinkDriver::put(const Rma& rma) { return transfer(rma, kPut, &Driver::put); }
Status LinkDriver::get(const Rma& rma) { return transfer(rma, kGet, &Driver::get); }
Status LinkDriver::atomic(const RemoteAtomic& atomic) {
  return transfer(atomic, kAtomic, &Driver::atomic);
}

}  // namespace link

std::unique_ptr<Driver> wrap_link(const OpenBelow& open_below, const DriverEnv& env) {
  auto driver = std::make_unique<link::LinkDriver>(env);
  if (!driver->open(open_below, env)) return nullptr;
  return driver;
}

std::unique_ptr<Driver> open_with_link(const OpenBelow& open_below, const DriverEnv& env) {
  std::unique_ptr<Driver> plain = open_below(env);
  if (!plain) return nullptr;
  const uint32_t flags = plain->caps().flags;
  if ((flags & kReliable) && (flags & kPeerDown)) return plain;
  plain.reset();
  return flags & kReliable ? wrap_watch(open_below, env) : wrap_link(open_below, env);
}

std::unique_ptr<Driver> open_with_link(const std::string& name, const DriverEnv& env,
                                       std::string* why) {
  DriverEnv named = env;
  named.name = name;
  const auto open = [&](const DriverEnv& inner) {
    std::unique_ptr<Driver> driver = open_driver(name, inner, why);
    if (!driver || params().link_cipher == cipher_name(Cipher::none)) return driver;
    if (is_network(name) && (driver->caps().flags & kReliable)) {
      *why = format_text(
          "TORII_LINK_CIPHER=%s: what %s sends is not encrypted; leave it out of TORII_DRIVERS, or "
          "set TORII_LINK_CIPHER=none",
          params().link_cipher.c_str(), name.c_str());
      driver.reset();
    }
    return driver;
  };
  return open_with_link(open, named);
}

}  // namespace torii
