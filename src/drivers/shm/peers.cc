// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Who is there, who has gone, and the rings between us. Nothing here is on the path of a frame.
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/log.h"
#include "drivers/shm/attach.h"
#include "drivers/shm/nic.h"

namespace torii {

using shm::ClaimState;

namespace {

constexpr uint64_t kCheckIntervalNs = 50'000'000;
constexpr uint64_t kAwaitIntervalNs = 1'000'000;  // the same while segments are awaited
constexpr unsigned kStatsPerCheck = 16;           // peers without a pidfd looked up per check
constexpr rlim_t kProgramsFiles = 64;             // descriptors that the program may need
constexpr rlim_t kDescriptorsMost = 16384;
constexpr size_t kPopulateMax = 4 << 20;  // bytes of a ring made present when it is claimed

int open_pidfd(uint32_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

ShmDriver::Peer* ShmDriver::new_peer(const shm::Address& address) {
  PeerId id;
  if (!free_peers_.empty()) {
    id = free_peers_.back();
    free_peers_.pop_back();
  } else if (peers_.size() < peers_.capacity()) {
    id = static_cast<PeerId>(peers_.size());
    peers_.emplace_back();
  } else {
    return nullptr;
  }
  Peer& peer = peers_[id];
  peer.id = id;
  peer.stage = Stage::up;
  peer.writer.allow_choice(points_.choose_stores);
  peer.details = std::make_unique<Details>();
  peer.details->segment.address = address;
  by_cookie_[address.cookie] = id;
  return &peer;
}

// Maps the peer's segment, or asks for it, and starts to watch its process.
Status ShmDriver::open_peer(Peer& peer, const shm::Address& address, std::string* why) {
  const Status status =
      shm::open_segment(address, segment_.address, &peer.details->segment, why, &spare_);
  if (status == Status::denied && address.socket) return await_segment(peer, why);
  if (status == Status::denied) return Status::unreachable;
  if (status != Status::ok) return status;
  if (!use_segment(peer)) {
    *why = shm::closed_text(address);
    return Status::peer_closed;
  }
  watch(peer);
  prove_attach(peer);
  return Status::ok;
}

// False: its owner has closed.
bool ShmDriver::use_segment(Peer& peer) {
  shm::Header& header = peer.details->segment.header();
  if (header.life.load(std::memory_order_acquire) != static_cast<uint32_t>(shm::Life::open))
    return false;
  peer.there = &header;
  peer.fence = !registered_ || header.needs_fence != 0;
  return true;
}

// The peer may not be opened through /proc: it hands its segment over when it polls. Until then
// nothing can be sent to it. What /proc refuses, cross-memory attach refuses as well.
Status ShmDriver::await_segment(Peer& peer, std::string* why) {
  Details& d = *peer.details;
  const Status status = shm::ask(d.segment.address, &d.request, why);
  if (status == Status::unreachable) {
    const Status gone = shm::say_gone(d.segment.address, false, why);
    return gone != Status::ok ? gone : status;
  }
  d.awaited = true;
  awaited_++;
  watch(peer);
  if (refused_here_ || (caps_.flags & kGet)) downgrade(peer, EACCES);
  return Status::ok;
}

void ShmDriver::take_segment(Peer& peer) {
  Details& d = *peer.details;
  const shm::Address address = d.segment.address;
  std::string why;
  shm::Given given;
  const Status status = d.request ? shm::receive(d.request, &given) : Status::io_error;
  if (status == Status::again) return;
  if (status != Status::ok) {
    d.request.reset();
    if (shm::ask(address, &d.request, &why) == Status::unreachable) lose_segment(peer, why);
    return;
  }
  d.request.reset();
  d.awaited = false;
  awaited_--;
  if (shm::adopt_segment(address, std::move(given.segment), &d.segment, &why) != Status::ok)
    return lose_segment(peer, why);
  if (!use_segment(peer)) return end(peer, Status::peer_closed);
  d.given = true;
  d.wake_fd = std::move(given.pipe);
  if (peer.known) start_sending(peer);
}

// A process that has gone is no error of the hand-over.
void ShmDriver::lose_segment(Peer& peer, const std::string& why) {
  const shm::Address& address = peer.details->segment.address;
  if (!shm::has_ended(address)) TORII_ERROR("%s", why.c_str());
  end(peer, Status::peer_dead);
}

void ShmDriver::answer_requests() {
  giver_.answer(segment_.fd.get(), make_wake_pipe() ? wake_write_.get() : -1);
}

void ShmDriver::prove_attach(Peer& peer) {
  if (refused_here_) downgrade(peer, refused_here_);
  if (!(caps_.flags & kGet)) return;
  const shm::Segment& segment = peer.details->segment;
  int error = 0;
  const Status status =
      shm::attach_prove(static_cast<pid_t>(segment.address.pid),
                        segment.self_address + shm::kCookieOffset, segment.address.cookie, &error);
  peer.direct = status == Status::ok;
  if (status == Status::denied) downgrade(peer, error);
}

// The segment of a peer that only sent so far: its descriptor was closed when the front was mapped.
Status ShmDriver::reopen_segment(Peer& peer, std::string* why) {
  shm::Segment& segment = peer.details->segment;
  if (segment.fd) return Status::ok;
  shm::Segment opened;
  const Status status = shm::open_segment(segment.address, segment_.address, &opened, why, &spare_);
  if (status == Status::ok) segment.fd = std::move(opened.fd);
  return status;
}

// Takes a ring in the peer's segment. `again`: descriptors are short.
Status ShmDriver::claim_ring(Peer& peer, std::string* why) {
  if (const Status status = reopen_segment(peer, why); status != Status::ok) return status;
  const shm::Segment& segment = peer.details->segment;
  shm::Header& header = segment.header();
  uint32_t first = header.hint.load(std::memory_order_relaxed);
  if (first < segment.claims) first = header.hint.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < segment.claims; i++) {
    const uint32_t number = (first + i) % segment.claims;
    shm::Claim& claim = segment.claim(number);
    auto expected = static_cast<uint32_t>(ClaimState::free);
    if (claim.state.load(std::memory_order_relaxed) != expected) continue;
    if (claim.state.compare_exchange_strong(expected, static_cast<uint32_t>(ClaimState::claiming),
                                            std::memory_order_acquire))
      return take_claim(peer, number, why) ? Status::ok : Status::no_memory;
  }
  *why = format_text(
      "shm: all %u receive rings of process %u are taken; run fewer processes on "
      "this node",
      segment.claims, segment.address.pid);
  return Status::no_memory;
}

bool ShmDriver::take_claim(Peer& peer, uint32_t number, std::string* why) {
  Details& d = *peer.details;
  shm::Claim& claim = d.segment.claim(number);
  const auto lines = static_cast<uint32_t>(d.segment.ring_bytes / shm::kLine);
  d.stale.reset(new (std::nothrow) uint64_t[lines / 64]);
  if (!d.stale || !d.segment.map_ring(number, &d.out_ring)) {
    *why = format_text(
        "shm: the ring in process %u cannot be mapped: %s; raise the limits on "
        "memory (ulimit -v) and mappings (vm.max_map_count)",
        d.segment.address.pid, strerror(errno));
    claim.state.store(static_cast<uint32_t>(ClaimState::free), std::memory_order_release);
    return false;
  }
  d.out_ring.populate(kPopulateMax, true);
  const uint32_t start = claim.start;
  // A ring used before may hold anything.
  std::fill_n(d.stale.get(), lines / 64, start == 0 ? 0 : ~uint64_t{0});
  peer.out.stale = d.stale.get();
  peer.out.released = &claim.released;
  peer.out.position = peer.out.consumed = start + shm::kFirstPosition;
  peer.out.lines = peer.out.room = lines;
  d.out_claim = number;
  claim.sender = segment_.address;
  claim.state.store(static_cast<uint32_t>(ClaimState::live), std::memory_order_release);
  peer.out.base = d.out_ring.base();
  peer.there->news.fetch_add(1, std::memory_order_release);
  wake_if_sleeping(peer);
  d.segment.fd.reset();  // nothing more to map
  spare_.keep();
  return true;
}

// The first frame to a peer that connected to us.
bool ShmDriver::start_sending(Peer& peer) {
  if (peer.stage != Stage::up || !peer.there || peer.ending != Status::ok) return false;
  std::string why;
  const Status status = claim_ring(peer, &why);
  if (status == Status::ok) return true;
  const bool closed =
      peer.there->life.load(std::memory_order_acquire) == static_cast<uint32_t>(shm::Life::closed);
  if (!closed && !shm::has_ended(peer.details->segment.address)) TORII_ERROR("%s", why.c_str());
  if (status != Status::again) end(peer, closed ? Status::peer_closed : Status::peer_dead);
  return false;
}

// Somebody claimed a ring of ours, or ended.
void ShmDriver::read_news() {
  news_seen_ = header_->news.load(std::memory_order_acquire);
  const uint32_t end_claim =
      std::min(header_->hint.load(std::memory_order_relaxed), segment_.claims);
  for (uint32_t n = 0; n < end_claim; n++) read_claim(n);
  for (Peer& peer : peers_) {
    if (peer.stage == Stage::up && peer.there &&
        peer.there->life.load(std::memory_order_acquire) ==
            static_cast<uint32_t>(shm::Life::closed))
      end(peer, Status::peer_closed);
  }
}

void ShmDriver::read_claim(uint32_t number) {
  if (claim_rejected_[number]) return;
  const auto state =
      static_cast<ClaimState>(segment_.claim(number).state.load(std::memory_order_acquire));
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

void ShmDriver::reject_claim(uint32_t number, const char* what) {
  claim_rejected_[number] = true;
  counters_.bad_frames++;
  TORII_ERROR("shm: claim %u of a receive ring %s; its sender is ignored", number, what);
}

// A new sender: finds or opens the way back, so that an answer to its frames can be sent.
ShmDriver::Peer* ShmDriver::adopt(uint32_t number) {
  const shm::Address address = segment_.claim(number).sender;
  const auto known = by_cookie_.find(address.cookie);
  Peer* peer;
  if (known != by_cookie_.end()) {
    peer = &peers_[known->second];
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
      // Gone already, or hidden from us. What it sent is delivered, then its end is reported.
      // It may have closed since the caller looked.
      const bool closed = segment_.claim(number).state.load(std::memory_order_acquire) ==
                          static_cast<uint32_t>(ClaimState::closed);
      if (!closed && !shm::has_ended(address)) TORII_ERROR("%s", why.c_str());
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
  peer->in.released = &segment_.claim(number).released;
  peer->in.position = peer->in.told = claim_position_[number];
  peer->in.lines = static_cast<uint32_t>(segment_.ring_bytes / shm::kLine);
  peer->in.longest = shm::frame_max_of(peer->in.lines);
  peer->asked = segment_.claim(number).seen.load(std::memory_order_relaxed);
  claim_peer_[number] = peer;
  list_ring(*peer);
  return peer;
}

void ShmDriver::list_ring(Peer& peer) {
  peer.listed = true;
  peer.hot = hot_count_ < kHotMax;
  if (peer.hot) {
    hot_[hot_count_++] = &peer;
  } else {
    idle_.push_back(&peer);
  }
}

void ShmDriver::unlist_ring(Peer& peer) {
  if (!peer.listed) return;
  peer.listed = false;
  if (!peer.hot) {
    *std::find(idle_.begin(), idle_.end(), &peer) = idle_.back();
    idle_.pop_back();
    return;
  }
  Peer** const end = hot_ + hot_count_;
  *std::find(hot_, end, &peer) = end[-1];
  hot_count_--;
  if (hot_next_ >= hot_count_) hot_next_ = 0;
}

// An idle ring had frames: it takes the place of the hot one that was silent longest.
void ShmDriver::promote(Peer& peer) {
  if (hot_count_ < kHotMax) {
    unlist_ring(peer);
    list_ring(peer);
    return;
  }
  Peer** const coldest =
      std::min_element(hot_, hot_ + hot_count_,
                       [](const Peer* a, const Peer* b) { return a->last_frame < b->last_frame; });
  *std::find(idle_.begin(), idle_.end(), &peer) = *coldest;
  (*coldest)->hot = false;
  *coldest = &peer;
  peer.hot = true;
}

// Notes that the peer has gone; reported when the frames it left are delivered.
void ShmDriver::end(Peer& peer, Status status) {
  if (peer.stage != Stage::up || peer.ending != Status::ok) return;
  peer.ending = status;
  endings_++;
}

// The peer's memory makes no sense: nothing of it is used any more.
void ShmDriver::fail(Peer& peer, const char* what) {
  if (peer.stage != Stage::up || peer.broken) return;
  peer.broken = true;
  counters_.bad_frames++;
  TORII_ERROR("shm: process %u is cut off: %s; its memory or ours is corrupt",
              peer.details->segment.address.pid, what);
  if (peer.ending == Status::ok) endings_++;
  peer.ending = Status::peer_dead;
}

void ShmDriver::finish_endings() {
  for (size_t i = 0; i < peers_.size() && endings_; i++) {
    Peer& peer = peers_[i];
    if (peer.stage != Stage::up || peer.ending == Status::ok) continue;
    if (peer.in.base && !peer.broken && !peer.in.empty()) continue;
    finish(peer);
  }
}

void ShmDriver::finish(Peer& peer) {
  endings_--;
  Details& d = *peer.details;
  unlist_ring(peer);
  if (d.in_claim != kNoClaim) {
    const uint32_t number = d.in_claim;
    shm::Claim& claim = segment_.claim(number);
    claim_peer_[number] = nullptr;
    if (peer.broken) {
      claim_rejected_[number] = true;  // somebody may still write there
    } else {
      // The next claimant goes on where this one ended. What a sender that was killed left in
      // the line may look like a control word.
      claim_position_[number] = peer.in.position;
      const uint32_t start = peer.in.position - shm::kFirstPosition;
      shm::control_at(peer.in.base, peer.in.position & (peer.in.lines - 1))
          .store(0, std::memory_order_relaxed);
      claim.start = start;
      claim.released.store(start, std::memory_order_relaxed);
      claim.applied.store(peer.asked, std::memory_order_relaxed);
      claim.state.store(static_cast<uint32_t>(ClaimState::free), std::memory_order_release);
    }
  }
  if (put_off_owed_) report_put_off();
  if (splits_open_) abandon_splits(peer);
  abandon_asks(peer);
  const Status status = peer.ending;
  forget_details(peer);
  peer.stage = Stage::down;
  peer.there = nullptr;
  peer.out = {};
  peer.in = {};
  if (!peer.known) {
    release_slot(peer);
    return;
  }
  sink_.peer_down(peer.id, status);
}

// Gives the number back. A peer that is up has no ring yet: connect() failed.
void ShmDriver::release_slot(Peer& peer) {
  const PeerId id = peer.id;
  forget_details(peer);
  if (peer.stage == Stage::up && peer.ending != Status::ok) endings_--;
  peer = Peer{};
  free_peers_.push_back(id);
}

void ShmDriver::forget_details(Peer& peer) {
  if (!peer.details) return;
  by_cookie_.erase(peer.details->segment.address.cookie);
  if (peer.details->pidfd) pidfds_--;
  if (peer.details->wake_fd && peer.details->wake_kept && !peer.details->given) wake_fds_--;
  if (peer.details->awaited) awaited_--;
  watched_stale_ = true;
  peer.details.reset();
}

// The limit on open files is the whole program's: what it may need comes first.
void ShmDriver::budget_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t left = limit.rlim_cur > kProgramsFiles ? limit.rlim_cur - kProgramsFiles : 0;
  descriptors_most_ = static_cast<unsigned>(std::clamp<rlim_t>(left / 4, 1, kDescriptorsMost));
  spare_.keep();
}

// A descriptor that tells when the process ends, for as many peers as the limit on open files
// allows; the others are looked up in /proc.
void ShmDriver::watch(Peer& peer) {
  const shm::Address& address = peer.details->segment.address;
  next_check_ns_ = 0;
  if (address.pid == pid_ || pidfds_ >= descriptors_most_) return;
  Descriptor fd(open_pidfd(address.pid));
  // The process of that pid may be a later one: then the check by start time finds out.
  if (!fd || shm::has_ended(address)) return;
  peer.details->pidfd = std::move(fd);
  pidfds_++;
  watched_stale_ = true;
}

void ShmDriver::check_peers(uint64_t now_ns) {
  next_check_ns_ = now_ns + (awaited_ ? kAwaitIntervalNs : kCheckIntervalNs);
  spare_.keep();
  std::vector<PeerId> dead;
  if (watched_stale_) {
    watched_.clear();
    watched_ids_.clear();
    if (giver_.token()) {
      watched_.push_back({giver_.fd(), POLLIN, 0});
      watched_ids_.push_back(kNoPeer);
    }
    for (const Peer& peer : peers_) {
      if (peer.stage != Stage::up || !peer.details->pidfd) continue;
      watched_.push_back({peer.details->pidfd.get(), POLLIN, 0});
      watched_ids_.push_back(peer.id);
    }
    watched_stale_ = false;
  }
  if (!watched_.empty() && ::poll(watched_.data(), watched_.size(), 0) > 0) {
    for (size_t i = 0; i < watched_.size(); i++) {
      if (!watched_[i].revents) continue;
      if (watched_ids_[i] == kNoPeer) {
        answer_requests();
      } else {
        dead.push_back(watched_ids_[i]);
      }
    }
  }
  for (size_t i = 0; i < peers_.size() && awaited_; i++) {
    Peer& peer = peers_[i];
    if (peer.stage == Stage::up && peer.ending == Status::ok && peer.details->awaited)
      take_segment(peer);
  }
  unsigned looks = 0;
  for (size_t n = peers_.size(); n && looks < kStatsPerCheck; n--) {
    if (next_stat_ >= peers_.size()) next_stat_ = 0;
    Peer& peer = peers_[next_stat_++];
    if (peer.stage != Stage::up || peer.details->pidfd) continue;
    const shm::Address& address = peer.details->segment.address;
    if (address.pid == pid_) continue;
    looks++;
    if (shm::has_ended(address)) dead.push_back(peer.id);
  }
  // What a dead process wrote is complete now: the rings it claimed, the frames in them, and
  // whether it closed in good order.
  read_news();
  for (const PeerId id : dead) end(peers_[id], Status::peer_dead);
}

void ShmDriver::say_goodbye() {
  header_->sleeping.store(0, std::memory_order_relaxed);  // nobody need wake it any more
  for (Peer& peer : peers_) {
    if (peer.stage != Stage::up || !peer.there) continue;
    if (peer.details->out_claim != kNoClaim)
      peer.details->segment.claim(peer.details->out_claim)
          .state.store(static_cast<uint32_t>(ClaimState::closed), std::memory_order_release);
  }
  header_->life.store(static_cast<uint32_t>(shm::Life::closed), std::memory_order_release);
  if (giver_.token()) answer_requests();  // who gets it sees that it is closed
  giver_.stop();
  for (Peer& peer : peers_) {
    if (peer.stage != Stage::up || !peer.there) continue;
    peer.there->news.fetch_add(1, std::memory_order_release);
    wake_if_sleeping(peer);
  }
}

}  // namespace torii
