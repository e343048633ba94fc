// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Arrival and end of peers, and the rings between us. Nothing here is on the path of a frame.
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/attach.h"
#include "core/base/log.h"
#include "drivers/shm/peers.h"

namespace torii::shm {

namespace {

constexpr size_t kPopulateMax = 4 << 20;  // bytes of a ring made present when it is claimed

}  // namespace

void RingList::add(Peer& peer) {
  if (hot_count_ < kHotMax) {
    hot_[hot_count_++] = &peer;
  } else {
    idle_.push_back(&peer);
  }
}

void RingList::remove(const Peer& peer) {
  Peer** const end = hot_ + hot_count_;
  Peer** const at = std::find(hot_, end, &peer);
  if (at == end) {
    std::erase(idle_, &peer);
  } else if (!idle_.empty()) {
    *at = idle_.back();
    idle_.pop_back();
  } else {
    *at = hot_[--hot_count_];
    if (hot_next_ >= hot_count_) hot_next_ = 0;
  }
}

void RingList::promote(const Peer& peer) {
  Peer** const coldest =
      std::min_element(hot_, hot_ + hot_count_,
                       [](const Peer* a, const Peer* b) { return a->last_frame < b->last_frame; });
  std::swap(*coldest, *std::find(idle_.begin(), idle_.end(), &peer));
}

Peers::Peers(const DriverEnv& env, const SwitchPoints& points)
    : counters_(*env.counters),
      local_peers_(env.local_peers),
      emulated_node_(env.emulated_node),
      points_(points) {
  all_.reserve(kPeersMax);
}

bool Peers::start(std::string* why) {
  const uint64_t ring_bytes = ring_bytes_for(local_peers_, params().shm_ring, points_.ring_most);
  const uint32_t claims = claims_for(local_peers_);
  giver_.listen(static_cast<uint32_t>(getpid()));
  if (!create_segment(claims, ring_bytes, giver_.token(), emulated_node_, &segment_, why))
    return false;
  header_ = &segment_.header();
  claim_peer_.resize(claims);
  claim_position_.resize(claims, kFirstPosition);
  claim_rejected_.resize(claims);
  int error = 0;
  if (params().shm_remote_read) {
    attaches_ = attach_prove(static_cast<pid_t>(segment_.address.pid),
                             segment_.self_address + kCookieOffset, segment_.address.cookie,
                             &error) == Status::ok;
    if (attaches_) attach_permit();
    refused_here_ = error;
  }
  budget_descriptors();
  start_waiting();
  return true;
}

bool Peers::own_process() const {
  return header_ && static_cast<uint32_t>(getpid()) == segment_.address.pid;
}

Status Peers::connect(std::span<const std::byte> bytes, PeerId* out, std::string* why) {
  Address address;
  if (bytes.size() != sizeof(address))
    return refuse(
        why, Status::unreachable,
        "shm: an address has %zu bytes, this one %zu; use the same Torii in all processes",
        sizeof(address), bytes.size());
  std::memcpy(&address, bytes.data(), sizeof(address));
  const auto known = by_cookie_.find(address.cookie);
  Peer* peer;
  if (known != by_cookie_.end()) {
    peer = &all_[known->second];
    if (!(peer->details->segment.address == address))
      return refuse(
          why, Status::unreachable,
          "shm: the address is not the one its cookie belongs to; use what address() gave");
    if (peer->ending != Status::ok)
      return refuse(why, peer->ending, "shm: process %u has ended (%s); start it again",
                    address.pid, status_text(peer->ending));
  } else {
    peer = new_peer(address);
    if (!peer)
      return refuse(why, Status::no_memory, "shm: all %u peers are in use; disconnect one",
                    kPeersMax);
    if (const Status status = open_peer(*peer, address, why); status != Status::ok) {
      release_slot(*peer);
      return status;
    }
  }
  if (peer->there && !peer->out.base) {
    if (const Status status = claim_ring(*peer, why); status != Status::ok) {
      if (!peer->known && !peer->in.base) release_slot(*peer);
      return status;
    }
  }
  peer->known = true;
  *out = peer->id;
  *why = peer->details->note;
  return Status::ok;
}

void Peers::disconnect(PeerId id) {
  TORII_ASSERT(id < all_.size() && all_[id].stage != Stage::unused);
  Peer& peer = all_[id];
  peer.known = false;
  // The rings of a process that lives are kept: frames taken are still sent, and whoever connects
  // again, on either side, goes on in them.
  if (peer.stage == Stage::down) release_slot(peer);
}

Peer* Peers::new_peer(const Address& address) {
  PeerId id;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (all_.size() < all_.capacity()) {
    id = static_cast<PeerId>(all_.size());
    all_.emplace_back();
  } else {
    return nullptr;
  }
  Peer& peer = all_[id];
  peer.id = id;
  peer.stage = Stage::up;
  peer.writer.allow_choice(points_.choose_stores);
  peer.details = std::make_unique<PeerDetails>();
  peer.details->segment.address = address;
  by_cookie_[address.cookie] = id;
  return &peer;
}

// Maps the peer's segment, or asks for it, and starts to watch its process.
Status Peers::open_peer(Peer& peer, const Address& address, std::string* why) {
  const Status status =
      open_segment(address, segment_.address, &peer.details->segment, why, &spare_);
  if (status == Status::denied && address.socket) return await_segment(peer, why);
  if (status == Status::denied) return Status::unreachable;
  if (status != Status::ok) return status;
  if (!use_segment(peer)) return say_closed(address, why);
  watch(peer);
  prove_attach(peer);
  return Status::ok;
}

// False: its owner has closed.
bool Peers::use_segment(Peer& peer) {
  peer.there = &peer.details->segment.header();
  peer.fence = !registered_ || peer.there->needs_fence != 0;
  if (!peer.closed()) return true;
  peer.there = nullptr;
  return false;
}

// The peer may not be opened through /proc: it hands its segment over when it polls. Until then
// nothing can be sent to it. If /proc refuses, cross-memory attach refuses as well.
Status Peers::await_segment(Peer& peer, std::string* why) {
  PeerDetails& d = *peer.details;
  const Status status = ask(d.segment.address, &d.request, why);
  if (status == Status::unreachable) {
    const Status gone = say_gone(d.segment.address, false, why);
    return gone != Status::ok ? gone : status;
  }
  d.awaited = true;
  awaited_++;
  watch(peer);
  if (refused_here_ || attaches_) downgrade(peer, EACCES);
  return Status::ok;
}

void Peers::take_segment(Peer& peer) {
  PeerDetails& d = *peer.details;
  const Address address = d.segment.address;
  std::string why;
  Given given;
  const Status status = d.request ? receive(d.request, &given) : Status::io_error;
  if (status == Status::again) return;
  if (status != Status::ok) {
    d.request.reset();
    if (ask(address, &d.request, &why) == Status::unreachable) lose_segment(peer, why);
    return;
  }
  d.request.reset();
  d.awaited = false;
  awaited_--;
  if (adopt_segment(address, std::move(given.segment), &d.segment, &why) != Status::ok)
    return lose_segment(peer, why);
  if (!use_segment(peer)) return end(peer, Status::peer_closed);
  d.given = true;
  d.wake_fd = std::move(given.pipe);
  if (peer.known) start_sending(peer);
}

// A process that has gone is no error of the hand-over.
void Peers::lose_segment(Peer& peer, const std::string& why) {
  const Address& address = peer.details->segment.address;
  if (!has_ended(address)) TORII_ERROR("%s", why.c_str());
  end(peer, Status::peer_dead);
}

void Peers::answer_requests() {
  giver_.answer(segment_.fd.get(), make_wake_pipe() ? wake_write_.get() : -1);
}

void Peers::prove_attach(Peer& peer) {
  if (refused_here_) downgrade(peer, refused_here_);
  if (!attaches_) return;
  const Segment& segment = peer.details->segment;
  int error = 0;
  const Status status =
      attach_prove(static_cast<pid_t>(segment.address.pid), segment.self_address + kCookieOffset,
                   segment.address.cookie, &error);
  peer.direct = status == Status::ok;
  if (status == Status::denied) downgrade(peer, error);
}

// Takes a ring in the peer's segment. `again`: descriptors are short.
Status Peers::claim_ring(Peer& peer, std::string* why) {
  Segment& segment = peer.details->segment;
  if (!segment.fd) {  // it only sent so far: its descriptor was closed when the front was mapped
    Segment opened;
    const Status status = open_segment(segment.address, segment_.address, &opened, why, &spare_);
    if (status != Status::ok) return status;
    segment.fd = std::move(opened.fd);
  }
  Header& header = segment.header();
  uint32_t first = header.hint.load(relaxed);
  if (first < segment.claims) first = header.hint.fetch_add(1, relaxed);
  for (uint32_t i = 0; i < segment.claims; i++) {
    const uint32_t number = (first + i) % segment.claims;
    Claim& claim = segment.claim(number);
    auto expected = static_cast<uint32_t>(ClaimState::free);
    if (claim.state.load(relaxed) != expected) continue;
    if (claim.state.compare_exchange_strong(expected, static_cast<uint32_t>(ClaimState::claiming),
                                            acquire))
      return take_claim(peer, number, why) ? Status::ok : Status::no_memory;
  }
  return refuse(
      why, Status::no_memory,
      "shm: all %u receive rings of process %u are taken; run fewer processes on this node",
      segment.claims, segment.address.pid);
}

bool Peers::take_claim(Peer& peer, uint32_t number, std::string* why) {
  PeerDetails& d = *peer.details;
  Claim& claim = d.segment.claim(number);
  const auto lines = static_cast<uint32_t>(d.segment.ring_bytes / kLine);
  d.stale.reset(new (std::nothrow) uint64_t[lines / 64]);
  if (!d.stale || !d.segment.map_ring(number, &d.out_ring)) {
    claim.state.store(static_cast<uint32_t>(ClaimState::free), release);
    return refuse(why, false,
                  "shm: the ring in process %u cannot be mapped: %s; raise the limits on memory "
                  "(ulimit -v) and mappings (vm.max_map_count)",
                  d.segment.address.pid, strerror(errno));
  }
  d.out_ring.populate(kPopulateMax, true);
  const uint32_t start = claim.start;
  // A ring used before may hold anything.
  std::fill_n(d.stale.get(), lines / 64, start == 0 ? 0 : ~uint64_t{0});
  peer.out.stale = d.stale.get();
  peer.out.released = &claim.released;
  peer.out.position = peer.out.consumed = start + kFirstPosition;
  peer.out.lines = peer.out.room = lines;
  d.out_claim = number;
  claim.sender = segment_.address;
  claim.state.store(static_cast<uint32_t>(ClaimState::live), release);
  peer.out.base = d.out_ring.base();
  peer.there->news.fetch_add(1, release);
  wake_if_sleeping(peer);
  d.segment.fd.reset();  // nothing more to map
  spare_.keep();
  return true;
}

// The first frame to a peer that connected to us.
bool Peers::start_sending(Peer& peer) {
  if (!peer.up() || !peer.there) return false;
  std::string why;
  const Status status = claim_ring(peer, &why);
  if (status == Status::ok) return true;
  const bool closed = peer.closed();
  if (!closed && !has_ended(peer.details->segment.address)) TORII_ERROR("%s", why.c_str());
  if (status != Status::again) end(peer, closed ? Status::peer_closed : Status::peer_dead);
  return false;
}

// Somebody claimed a ring of ours, or ended.
void Peers::read_news() {
  news_seen_ = header_->news.load(acquire);
  const uint32_t end_claim = std::min(header_->hint.load(relaxed), segment_.claims);
  for (uint32_t n = 0; n < end_claim; n++) read_claim(n);
  for (Peer& peer : all_) {
    if (peer.stage == Stage::up && peer.there && peer.closed()) end(peer, Status::peer_closed);
  }
}

void Peers::read_claim(uint32_t number) {
  if (claim_rejected_[number]) return;
  const auto state = static_cast<ClaimState>(segment_.claim(number).state.load(acquire));
  switch (state) {
    case ClaimState::free:
    case ClaimState::claiming:
      if (claim_peer_[number]) fail(*claim_peer_[number], "it took back the claim on its ring");
      return;
    case ClaimState::live:
    case ClaimState::closed: {
      Peer* peer = claim_peer_[number];
      if (!peer) peer = adopt(number);
      if (peer && state == ClaimState::closed) end(*peer, Status::peer_closed);
      return;
    }
  }
  if (claim_peer_[number])
    fail(*claim_peer_[number], "the claim on its ring has an unknown state");
  else
    reject_claim(number, "has an unknown state");
}

void Peers::reject_claim(uint32_t number, const char* what) {
  claim_rejected_[number] = true;
  counters_.bad_frames++;
  TORII_ERROR("shm: claim %u of a receive ring %s; its sender is ignored", number, what);
}

// A new sender: finds or opens the way back, so that an answer to its frames can be sent.
Peer* Peers::adopt(uint32_t number) {
  const Address address = segment_.claim(number).sender;
  const auto known = by_cookie_.find(address.cookie);
  Peer* peer;
  if (known != by_cookie_.end()) {
    peer = &all_[known->second];
    if (peer->in.base || !(peer->details->segment.address == address)) {
      reject_claim(number, "names a process that has one already");
      return nullptr;
    }
  } else {
    peer = new_peer(address);
    if (!peer) {
      reject_claim(number, "came when all peers were in use");
      return nullptr;
    }
    std::string why;
    const Status status = open_peer(*peer, address, &why);
    if (status == Status::again) {  // the next look at the claims tries again
      TORII_ERROR("%s", why.c_str());
      release_slot(*peer);
      return nullptr;
    }
    if (status != Status::ok) {
      // Gone already, or hidden from us. Its frames are delivered, then its end is reported.
      // It may have closed since the caller looked.
      const bool closed =
          segment_.claim(number).state.load(acquire) == static_cast<uint32_t>(ClaimState::closed);
      if (!closed && !has_ended(address)) TORII_ERROR("%s", why.c_str());
      end(*peer, closed ? Status::peer_closed : Status::peer_dead);
    } else if (!peer->details->given) {
      peer->details->segment.fd.reset();
      spare_.keep();
    }
  }
  if (!segment_.map_ring(number, &peer->details->in_ring)) {
    TORII_ERROR("shm: a receive ring cannot be mapped: %m; raise the limit on memory (ulimit -v)");
    claim_rejected_[number] = true;
    end(*peer, Status::peer_dead);
    return nullptr;
  }
  peer->details->in_ring.populate(kPopulateMax, false);
  peer->details->in_claim = number;
  peer->in.base = peer->details->in_ring.base();
  peer->claim = &segment_.claim(number);
  peer->in.released = &peer->claim->released;
  peer->in.position = peer->in.told = claim_position_[number];
  peer->in.lines = static_cast<uint32_t>(segment_.ring_bytes / kLine);
  peer->in.longest = frame_max_of(peer->in.lines);
  peer->requested = peer->claim->seen.load(relaxed);
  claim_peer_[number] = peer;
  rings_.add(*peer);
  return peer;
}

// Notes that the peer has gone; reported when the frames it left are delivered.
void Peers::end(Peer& peer, Status status) {
  if (peer.stage != Stage::up || peer.ending != Status::ok) return;
  peer.ending = status;
  endings_++;
}

void Peers::refused(Peer& peer) {
  peer.blocked = true;
  if (peer.out.corrupt) fail(peer, "it claims to have read more than was sent");
}

void Peers::downgrade(Peer& peer, int error) {
  peer.direct = false;
  counters_.remote_read_fallback++;
  peer.details->note = format_text(
      "shm: cross-memory attach to process %u is refused (%s): large messages are copied twice; "
      "allow process_vm_readv in the seccomp profile, set kernel.yama.ptrace_scope to 0 or 1, run "
      "both as one user and dumpable",
      peer.pid(), strerror(error));
  TORII_INFO("%s", peer.details->note.c_str());
}

void Peers::fail(Peer& peer, const char* what) {
  if (peer.stage != Stage::up || peer.broken) return;
  peer.broken = true;
  counters_.bad_frames++;
  TORII_ERROR("shm: process %u is cut off: %s; its memory or ours is corrupt", peer.pid(), what);
  if (peer.ending == Status::ok) endings_++;
  peer.ending = Status::peer_dead;
}

bool Peers::over(const Peer& peer) {
  return peer.stage == Stage::up && peer.ending != Status::ok &&
         (!peer.in.base || peer.broken || peer.in.empty());
}

bool Peers::retire(Peer& peer) {
  endings_--;
  rings_.remove(peer);
  if (const uint32_t number = peer.details->in_claim; number != kNoClaim) {
    claim_peer_[number] = nullptr;
    if (peer.broken) {
      claim_rejected_[number] = true;  // somebody may still write there
    } else {
      // The next claimant goes on where this one ended. Bytes of a sender that was killed, left in
      // the line, may look like a control word.
      Claim& claim = segment_.claim(number);
      claim_position_[number] = peer.in.position;
      const uint32_t start = peer.in.position - kFirstPosition;
      control_at(peer.in.base, peer.in.position & (peer.in.lines - 1)).store(0, relaxed);
      claim.start = start;
      claim.released.store(start, relaxed);
      claim.applied.store(peer.requested, relaxed);
      claim.state.store(static_cast<uint32_t>(ClaimState::free), release);
    }
  }
  forget_details(peer);
  peer.stage = Stage::down;
  peer.there = nullptr;
  peer.out = {};
  peer.in = {};
  const bool known = peer.known;
  if (!known) release_slot(peer);
  return known;
}

// Gives the number back. A peer that is up has no ring yet: connect() failed.
void Peers::release_slot(Peer& peer) {
  const PeerId id = peer.id;
  forget_details(peer);
  if (peer.stage == Stage::up && peer.ending != Status::ok) endings_--;
  peer = Peer{};
  free_.push_back(id);
}

void Peers::forget_details(Peer& peer) {
  if (!peer.details) return;
  by_cookie_.erase(peer.details->segment.address.cookie);
  if (peer.details->pidfd) pidfds_--;
  if (peer.details->wake_fd && peer.details->wake_kept && !peer.details->given) wake_fds_--;
  if (peer.details->awaited) awaited_--;
  peer.details.reset();
}

void Peers::say_goodbye() {
  header_->sleeping.store(0, relaxed);  // nobody need wake it any more
  for (Peer& peer : all_) {
    if (peer.stage != Stage::up || !peer.there) continue;
    if (peer.details->out_claim != kNoClaim)
      peer.details->segment.claim(peer.details->out_claim)
          .state.store(static_cast<uint32_t>(ClaimState::closed), release);
  }
  header_->life.store(static_cast<uint32_t>(Life::closed), release);
  if (giver_.token()) answer_requests();  // who gets it sees that it is closed
  giver_.stop();
  for (Peer& peer : all_) {
    if (peer.stage != Stage::up || !peer.there) continue;
    peer.there->news.fetch_add(1, release);
    wake_if_sleeping(peer);
  }
}

}  // namespace torii::shm
