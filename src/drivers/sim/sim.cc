// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The template to copy from: every function of drivers/driver.h, nothing shared but the fabric.
//
// Each endpoint has an inbox, a heap of events ordered by time. send() puts a frame into the
// inbox of the target, the target's poll() hands it up and puts `done` into the inbox of the
// sender. All that one endpoint does to another goes through an inbox, so every upcall happens
// in poll().
#include "drivers/sim/sim.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "core/base/log.h"
#include "drivers/sim/fabric.h"

namespace torii {

SimDriver::SimDriver(SimFabric::Net& net, uint32_t number, const DriverEnv& env)
    : net_(net),
      self_(&net.endpoints[number]),
      number_(number),
      sink_(*env.sink),
      counters_(env.counters) {
  const SimOptions& options = net.options;
  caps_.flags = options.flags;
  caps_.mtu = options.mtu;
  caps_.long_max = options.long_max;
  caps_.inline_max = std::min(options.inline_max, options.mtu);
  caps_.pieces_max = options.pieces_max;
  caps_.batch_max = 16;
  caps_.address_bytes = kSimAddressBytes;
  caps_.key_bytes = options.flags & (kPut | kGet) ? kSimKeyBytes : 0;
  caps_.peers_max = options.peers_max;
  caps_.remote_max = options.flags & (kPut | kGet) ? 1ull << 40 : 0;
  if (options.card_take_min) {
    Advice::take_min = options.card_take_min;
    card_.resize(std::max(options.mtu, options.long_max));
  }
  RegisteredMemory::local = options.registers_local;
  RegisteredMemory::tells_changes = options.tells_changes;
  RegisteredMemory::once_min = options.once_min;
}

namespace {

// Memory that was handed out and not given back when its driver closed: the user may still need it,
// until the process ends.
std::map<void*, uint64_t>& left_behind() {
  static auto* const all = new std::map<void*, uint64_t>;
  return *all;
}

}  // namespace

SimDriver::~SimDriver() {
  for (const auto& [slot, guard] : guards_) guard->store(0);
  left_behind().merge(allocations_);
  if (!dead()) net_.end(number_, Status::peer_closed);
  if (event_fd_ >= 0) close(event_fd_);
}

void SimDriver::address(std::byte* out) const { net_.write_address(number_, out); }

Status SimDriver::connect(std::span<const std::byte> address, PeerId* peer, std::string* why) {
  uint32_t number;
  if (!net_.parse_address(address, &number)) {
    *why = format_text(
        "sim: this address of %zu bytes names none of the %u endpoints of this "
        "fabric; use one that address() of the same fabric gave",
        address.size(), net_.known);
    return Status::unreachable;
  }
  const auto there = net_.endpoints.find(number);
  if (there != net_.endpoints.end() && there->second.end != Status::ok) {
    *why = format_text("sim: endpoint %u has ended (%s); open a new one", number,
                       status_text(there->second.end));
    return Status::unreachable;
  }
  *peer = add_peer(number, {});
  if (*peer != kNoPeer) return Status::ok;
  *why = format_text("sim: all %u peers are in use; disconnect one", caps_.peers_max);
  return Status::no_memory;
}

// The peer of that endpoint or group, made if need be; kNoPeer if the table is full.
PeerId SimDriver::add_peer(uint32_t number, const std::string& group) {
  PeerId slot = kNoPeer;
  if (const auto it = by_number_.find(number); group.empty() && it != by_number_.end()) {
    slot = it->second;
  } else if (!free_peers_.empty()) {
    slot = free_peers_.back();
    free_peers_.pop_back();
  } else if (peers_.size() < caps_.peers_max) {
    slot = static_cast<PeerId>(peers_.size());
    peers_.emplace_back();
  } else {
    return kNoPeer;
  }
  Peer& peer = peers_[slot];
  peer.used = peer.connected = true;
  peer.number = number;
  peer.group = group;
  if (group.empty()) {
    by_number_[number] = slot;
    self_->neighbours.insert(number);
    net_.endpoints[number].neighbours.insert(number_);
  }
  return slot;
}

Life SimDriver::life(PeerId peer) {
  if (!net_.options.tells_lives || dead()) return Life::unknown;
  const auto there = net_.endpoints.find(peers_[peer].number);
  const bool ended = there != net_.endpoints.end() && there->second.end != Status::ok;
  return ended ? Life::gone : Life::there;
}

void SimDriver::disconnect(PeerId slot) {
  TORII_ASSERT(slot < peers_.size() && peers_[slot].connected);
  peers_[slot].connected = false;
  release_if_idle(slot);
}

void SimDriver::release_if_idle(PeerId slot) {
  Peer& peer = peers_[slot];
  if (!peer.used || peer.connected || peer.in_flight) return;
  if (peer.group.empty()) by_number_.erase(peer.number);
  peer = Peer{};
  free_peers_.push_back(slot);
}

void SimDriver::frame_left(PeerId slot) {
  peers_[slot].in_flight--;
  release_if_idle(slot);
}

size_t SimDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  if (dead()) return 0;
  for (const Tx& tx : batch) {
    TORII_ASSERT(tx.peer < peers_.size() && peers_[tx.peer].connected);
    const uint64_t bytes = uint64_t{tx.head_bytes} + tx.body_bytes;
    TORII_ASSERT(tx.head_bytes <= kHeadMax && bytes <= std::max(caps_.mtu, caps_.long_max));
    TORII_ASSERT(tx.cookie || tx.body_bytes <= caps_.inline_max || bytes > caps_.mtu);
    TORII_ASSERT(tx.piece_count <= caps_.pieces_max);
    Peer& peer = peers_[tx.peer];
    if (peer.in_flight >= net_.options.depth) break;
    if (net_.random.chance(net_.options.again_ppm)) break;
    send_one(tx, peer);
    taken++;
  }
  return taken;
}

void SimDriver::send_one(const Tx& tx, Peer& peer) {
  SimEvent frame;
  frame.kind = SimEvent::Kind::frame;
  frame.peer_number = number_;
  frame.slot = tx.peer;
  frame.cookie = tx.cookie;
  const auto* head = static_cast<const std::byte*>(tx.head);
  frame.bytes.assign(head, head + tx.head_bytes);
  const bool copy = tx.body_bytes <= caps_.inline_max || !peer.group.empty() ||
                    uint64_t{tx.head_bytes} + tx.body_bytes > caps_.mtu;
  frame.local = local_slot(tx.local, std::span(tx.pieces, tx.piece_count), copy);
  if (copy) {
    sim_gather(frame.bytes, std::span(tx.pieces, tx.piece_count));
  } else {
    frame.pieces.assign(tx.pieces, tx.pieces + tx.piece_count);
  }
  frame.at_ns = net_.now_ns + net_.random_latency();
  frame.salt = net_.random.next() >> 1 | 1;  // after `done` (0), before `down` (all ones)
  if (peer.group.empty()) return post_frame(peer.number, std::move(frame), peer);
  frame.cookie = 0;
  for (const uint32_t member : net_.groups[peer.group]) {
    if (member == number_) continue;
    self_->neighbours.insert(member);
    post_frame(member, frame, peer);
  }
  net_.post_done(number_, tx.cookie, Status::ok);
}

void SimDriver::post_frame(uint32_t number, SimEvent frame, Peer& peer) {
  if (caps_.flags & kReliable) {
    Arrival& last = last_arrivals_[number];
    if (frame.at_ns <= last.at_ns) {
      frame.at_ns = last.at_ns;
      frame.salt = last.salt;
    }
    last = {frame.at_ns, frame.salt};
  }
  last_event_ns_ = std::max(last_event_ns_, frame.at_ns);
  peer.in_flight++;
  net_.post(number, std::move(frame));
}

unsigned SimDriver::poll(uint64_t now_ns, unsigned budget) {
  net_.now_ns = std::max(net_.now_ns, now_ns);
  unsigned count = 0;
  std::vector<SimEvent>& inbox = self_->inbox;
  while (count < budget && !inbox.empty() && inbox.front().at_ns <= net_.now_ns) {
    std::pop_heap(inbox.begin(), inbox.end());
    SimEvent event = std::move(inbox.back());
    inbox.pop_back();
    deliver(event);
    count++;
  }
  return count;
}

void SimDriver::deliver(SimEvent& event) {
  switch (event.kind) {
    case SimEvent::Kind::frame: {
      const size_t head = event.bytes.size();
      sim_gather(event.bytes, event.pieces);
      // A sender that has closed since has neither a queue nor a use for `done`.
      if (SimDriver* sender = net_.endpoints[event.peer_number].driver) {
        sender->frame_left(event.slot);
        if (!sender->reaches(event.local))  // registered too briefly: anything may be there now
          std::fill(event.bytes.begin() + ptrdiff_t(head), event.bytes.end(), std::byte{0xdd});
        net_.post_done(event.peer_number, event.cookie, Status::ok);
      }
      hand_up(add_peer(event.peer_number, {}), event.bytes);
      break;
    }
    case SimEvent::Kind::done:
      sink_.done(event.cookie, event.status);
      break;
    case SimEvent::Kind::rma:
      sink_.done(event.cookie, move(event));
      break;
    case SimEvent::Kind::atomic:
      sink_.done(event.cookie, update(event));
      break;
    case SimEvent::Kind::down:
      if (const auto it = by_number_.find(event.peer_number);
          it != by_number_.end() && peers_[it->second].connected)
        sink_.peer_down(it->second, event.status);
      break;
  }
}

// The card's memory has the next frame as soon as this one was handed up.
void SimDriver::hand_up(PeerId from, std::span<const std::byte> frame) {
  if (card_.empty()) return sink_.packet(from, frame);
  std::copy(frame.begin(), frame.end(), card_.begin());
  sink_.packet(from, std::span(card_).first(frame.size()));
  std::fill(card_.begin(), card_.end(), std::byte{0xcc});
}

void SimDriver::take(void* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  const std::less_equal<const std::byte*> before;
  if (!card_.empty() && before(card_.data(), from) && before(from, card_.data() + card_.size()))
    counters_->taken_bytes += bytes;
}

Status SimDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (!(caps_.flags & (kPut | kGet)) && access != kLocal) return Status::unsupported;
  if ((access & kLocal) && !net_.options.registers_local) return Status::unsupported;
  if (!base && bytes) return Status::invalid;
  if ((access & kGuarded) && !(caps_.flags & kGuard)) return Status::unsupported;
  if (regions_.size() >= net_.options.regions_max) return Status::no_memory;
  net_.now_ns += net_.options.reg_ns;
  *out = Region{base, bytes, access, {}, next_handle_++, out->label};
  // The random tag makes keys of regions that are gone, and forged keys, recognizable.
  const SimKey key{number_, static_cast<uint32_t>(out->driver_data), net_.random.next()};
  std::memcpy(out->key.data(), &key, sizeof(key));
  regions_[key.slot] = *out;
  if (access & kGuarded) (guards_[key.slot] = &net_.guards.emplace_back())->store(key.tag);
  return Status::ok;
}

void SimDriver::dereg(Region& region) {
  const auto slot = static_cast<uint32_t>(region.driver_data);
  regions_.erase(slot);
  if (const auto it = guards_.find(slot); it != guards_.end()) {
    it->second->store(0);
    guards_.erase(it);
  }
  region = Region{};
}

Status SimDriver::import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) {
  if (!(caps_.flags & (kPut | kGet))) return Status::unsupported;
  SimKey parsed;
  if (key.size() != sizeof(parsed) || peer >= peers_.size()) return Status::invalid;
  std::memcpy(&parsed, key.data(), sizeof(parsed));
  if (parsed.owner != peers_[peer].number) return Status::invalid;
  *remote = next_handle_++;
  imports_[*remote] = parsed;
  return Status::ok;
}

void SimDriver::drop(uint32_t remote) { imports_.erase(remote); }

// The region that the key names, in its owner; null if it is gone, or never was.
const Region* SimDriver::find_region(const SimKey& key) const {
  const SimDriver* const owner = net_.endpoints[key.owner].driver;
  if (!owner) return nullptr;
  const auto it = owner->regions_.find(key.slot);
  if (it == owner->regions_.end()) return nullptr;
  return std::memcmp(it->second.key.data(), &key, sizeof(key)) == 0 ? &it->second : nullptr;
}

Status SimDriver::reach(uint32_t remote, Reach* out) {
  const auto import = imports_.find(remote);
  if (import == imports_.end()) return Status::invalid;
  const SimKey& key = import->second;
  const Region* const region = find_region(key);
  if (!region || !(region->access & kGuarded)) return Status::invalid;
  *out = Reach{
      region->bytes, region->access & ~uint32_t{kGuarded}, region->label, nullptr, nullptr, 0};
  const SimDriver& owner = *net_.endpoints[key.owner].driver;
  if (!owner.near(kNoPeer, region->base)) return Status::ok;
  out->at = static_cast<std::byte*>(region->base);
  out->guard = owner.guards_.at(key.slot);
  out->valid = key.tag;
  return Status::ok;
}

Status SimDriver::alloc(uint64_t bytes, uint64_t alignment, void** base) {
  if (!net_.options.allocates || !(caps_.flags & (kPut | kGet))) return Status::unsupported;
  void* made = nullptr;
  if (bytes > 1ull << 40 || posix_memalign(&made, std::max<uint64_t>(alignment, 4096), bytes) != 0)
    return Status::no_memory;
  allocations_[*base = made] = bytes;
  return Status::ok;
}

void SimDriver::dealloc(void* base) {
  const auto it = allocations_.find(base);
  TORII_ASSERT(it != allocations_.end());
  end_regions(base, it->second);
  allocations_.erase(it);
  std::free(base);
}

void SimDriver::end_regions(const void* base, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(base);
  std::erase_if(regions_, [&](const auto& entry) {
    const auto* const at = static_cast<const std::byte*>(entry.second.base);
    if (at >= first + bytes || at + entry.second.bytes <= first) return false;
    if (const auto guard = guards_.find(entry.first); guard != guards_.end()) {
      guard->second->store(0);
      guards_.erase(guard);
    }
    return true;
  });
}

// Of the region that the card needs to reach these pieces by itself.
uint64_t SimDriver::local_slot(const Region* local, std::span<const iovec> pieces,
                               bool copied) const {
  if (copied || !net_.options.registers_local) return kNoRegion;
  TORII_ASSERT(local && (local->access & kLocal) && reaches(local->driver_data));
  const auto* const first = static_cast<const std::byte*>(local->base);
  for (const iovec& piece : pieces) {
    const auto* const at = static_cast<const std::byte*>(piece.iov_base);
    TORII_ASSERT(!piece.iov_len || (at >= first && at + piece.iov_len <= first + local->bytes));
  }
  return local->driver_data;
}

bool SimDriver::near(PeerId, const void* at) const {
  auto it = allocations_.upper_bound(const_cast<void*>(at));
  if (it == allocations_.begin()) return false;
  --it;
  return static_cast<const std::byte*>(at) < static_cast<std::byte*>(it->first) + it->second;
}

// What all accesses to remote memory have in common. Another answer than `ok`: there is none.
Status SimDriver::begin(Cap cap, uint32_t remote, SimEvent* event) {
  if (!(caps_.flags & cap)) return Status::unsupported;
  const auto import = imports_.find(remote);
  if (import == imports_.end() || dead()) return Status::invalid;
  if (net_.random.chance(net_.options.again_ppm)) return Status::again;
  event->peer_number = import->second.owner;
  event->key = import->second;
  return Status::ok;
}

Status SimDriver::post_later(SimEvent&& event) {
  event.at_ns = net_.now_ns + net_.random_latency();
  last_event_ns_ = std::max(last_event_ns_, event.at_ns);
  net_.post(number_, std::move(event));
  return Status::pending;
}

Status SimDriver::transfer(const Rma& rma, Cap cap) {
  SimEvent event;
  const Status status = begin(cap, rma.remote, &event);
  if (status != Status::ok) return status;
  if (net_.options.pending_rma && !rma.cookie) return Status::again;
  event.kind = SimEvent::Kind::rma;
  event.write = cap == kPut;
  event.offset = rma.remote_offset;
  event.length = rma.bytes;
  event.cookie = rma.cookie;
  event.pieces.assign(rma.pieces, rma.pieces + rma.piece_count);
  event.local = local_slot(rma.local, event.pieces, rma.bytes <= caps_.inline_max);
  return net_.options.pending_rma ? post_later(std::move(event)) : move(event);
}

Status SimDriver::atomic(const RemoteAtomic& atomic) {
  SimEvent event;
  const Status status = begin(kAtomic, atomic.remote, &event);
  if (status != Status::ok) return status;
  event.kind = SimEvent::Kind::atomic;
  event.offset = atomic.remote_offset;
  event.length = atomic.width;
  event.cookie = atomic.cookie;
  event.atomic = atomic;
  return net_.options.pending_rma ? post_later(std::move(event)) : update(event);
}

// Checks a remote access as the target's NIC would. Null: the reason is in *status.
std::byte* SimDriver::reachable(const SimEvent& event, uint32_t access, Status* status) const {
  const SimEndpoint& target = net_.endpoints[event.peer_number];
  *status = target.end != Status::ok ? target.end : Status::invalid;
  if (target.end != Status::ok) return nullptr;
  const Region* const region = find_region(event.key);
  if (!region || (region->access & access) != access || event.offset > region->bytes ||
      event.length > region->bytes - event.offset)
    return nullptr;
  return static_cast<std::byte*>(region->base) + event.offset;
}

Status SimDriver::update(const SimEvent& event) {
  Status status;
  std::byte* const word = reachable(event, kRemoteUpdate | kGuarded, &status);
  if (!word) return status;
  const RemoteAtomic& atomic = event.atomic;
  if (reinterpret_cast<uintptr_t>(word) % atomic.width != 0) return Status::invalid;
  *atomic.old = apply_atomic(word, atomic.width, atomic.op, atomic.operand, atomic.compare);
  return Status::ok;
}

// All or nothing.
Status SimDriver::move(const SimEvent& event) {
  Status status;
  std::byte* remote = reachable(event, event.write ? kRemoteWrite : kRemoteRead, &status);
  if (!remote) return status;
  if (net_.options.denied_rma) return Status::denied;
  if (!reaches(event.local)) return Status::invalid;
  for (const iovec& piece : event.pieces) {
    if (!piece.iov_len) continue;
    if (event.write) {
      std::memcpy(remote, piece.iov_base, piece.iov_len);
    } else {
      std::memcpy(piece.iov_base, remote, piece.iov_len);
    }
    remote += piece.iov_len;
  }
  return Status::ok;
}

Status SimDriver::join(std::span<const std::byte> group, PeerId* peer) {
  if (!(caps_.flags & kMulticast)) return Status::unsupported;
  if (group.empty() || group.size() > 16) return Status::invalid;
  const std::string name(reinterpret_cast<const char*>(group.data()), group.size());
  *peer = add_peer(number_, name);
  if (*peer == kNoPeer) return Status::no_memory;
  net_.groups[name].insert(number_);
  return Status::ok;
}

void SimDriver::leave(PeerId slot) {
  TORII_ASSERT(slot < peers_.size() && !peers_[slot].group.empty());
  net_.groups[peers_[slot].group].erase(number_);
  disconnect(slot);
}

Status SimDriver::arm(int* fd) {
  if (!(caps_.flags & kWait)) return Status::unsupported;
  if (event_fd_ < 0) event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd_ < 0) {
    TORII_ERROR("sim: eventfd failed: %m; raise the limit of open files (ulimit -n)");
    return Status::io_error;
  }
  // An event that is not yet due counts as work too: nothing else would wake the sleeper then.
  if (!self_->inbox.empty()) return Status::again;
  uint64_t value;
  const ssize_t n = read(event_fd_, &value, sizeof(value));
  TORII_ASSERT(n == sizeof(value) || errno == EAGAIN);
  armed_ = true;
  *fd = event_fd_;
  return Status::ok;
}

void SimDriver::wake() {
  if (!armed_) return;
  armed_ = false;
  const uint64_t one = 1;
  const ssize_t n = write(event_fd_, &one, sizeof(one));
  TORII_ASSERT(n == sizeof(one));
}

}  // namespace torii
