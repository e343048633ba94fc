// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/qsnet/qsnet.h"

#include <algorithm>
#include <unordered_map>

#include "drivers/card_driver.h"
#include "drivers/card_keys.h"
#include "nic/qsnet/regs.h"

namespace torii {
namespace {

using namespace nic::qsnet;

constexpr uint32_t kSlots = 128;  // of the queue
constexpr uint32_t kSlotBytes = 2048;
constexpr uint32_t kFrameMax = kSlotBytes - sizeof(SlotHeader);
constexpr uint32_t kFrames = 64, kTransfers = 32, kDmas = kFrames + kTransfers;
constexpr uint32_t kRetries = 4;
constexpr uint32_t kGroups = 64;
constexpr Status kStatuses[] = {Status::io_error, Status::ok, Status::invalid, Status::peer_dead};
static_assert(kNone == 0 && kDone == 1 && kFault == 2 && kGone == 3);  // by DmaStatus

// SDRAM: the queue, its event, and a descriptor and an event for each DMA.
constexpr uint32_t kQueueEvent = 256, kEvents = 512, kDescriptors = 4096;
static_assert(kEvents + kDmas * sizeof(Event) <= kDescriptors);
constexpr uint32_t event_at(uint32_t dma) { return kEvents + dma * sizeof(Event); }
constexpr uint32_t descriptor_at(uint32_t dma) { return kDescriptors + dma * kBlockBytes; }

// Lent memory: what the card copies when an event fires; frames that leave, and slots.
struct Lent {
  Queue queue;
  Descriptor over[kDmas];
  std::byte frames[kFrames][kSlotBytes];
  std::byte slots[kSlots][kSlotBytes];
};
static_assert(sizeof(Lent) <= kSharedBytes);

class QsnetDriver final : public CardDriver {
 public:
  QsnetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env);
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override { region = Region{}; }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    return caps_.key_bytes ? keys_.import(peers_[peer].name, key, remote) : Status::unsupported;
  }
  void drop(uint32_t remote) override { keys_.drop(remote); }
  Status put(const Rma& rma) override { return move(rma, kDmaWrite, kRemoteWrite); }
  Status get(const Rma& rma) override { return move(rma, kDmaRead, kRemoteRead); }
  Status join(std::span<const std::byte> name, PeerId* peer) override {
    return join_by(kJoin, kLeave, name, peer);
  }
  void leave(PeerId peer) override;

 private:
  static constexpr uint32_t kPeersMax = 1 << 15;
  struct Key {
    uint64_t check;  // see CardKeys
    uint64_t base, bytes;
    nic::Name owner;
    uint32_t access;
  };
  struct UnderWay {
    uint32_t dma;
    PeerId peer;
    uint64_t cookie;  // of a transfer; frames are over when they are copied
  };
  struct Group {
    uint32_t seen = ~0u;             // changes that this is of
    uint32_t first = ~0u, last = 0;  // nodes of the other members
  };

  uint32_t offset_of(const void* at) const {
    return static_cast<uint32_t>(static_cast<const std::byte*>(at) - card_->shared().data());
  }
  Status move(const Rma& rma, uint32_t type, uint32_t access);
  void start(uint32_t dma, PeerId peer, uint64_t cookie, Descriptor descriptor);
  const Group& find_range(uint32_t group);
  unsigned receive(unsigned budget);
  void end_dmas(bool all);
  void handle_changes();
  static uint32_t load(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
  uint32_t front() const { return load(lent_.queue.front); }
  uint32_t traps() const { return load(lent_.queue.traps); }
  void ask_interrupt() override { card_->write32(kWake, back_ + ended_ + traps_); }
  bool has_work() override {
    return front() != back_ || traps() != traps_ || peers_.has_ended() || peers_.changed() ||
           std::ranges::any_of(busy_, [this](const UnderWay& way) {
             return load(lent_.over[way.dma].status) != kNone;
           });
  }

  Lent& lent_;
  std::vector<uint32_t> free_frames_, free_transfers_;
  std::vector<UnderWay> busy_;  // DMAs, in the order in which they began
  CardKeys<Key> keys_;
  std::unordered_map<uint32_t, Group> groups_;
  uint32_t cookies_ = 0;
  std::vector<nic::Name> trapped_;  // there was no other route there
  uint32_t back_ = 0;               // slots that were read
  uint32_t ended_ = 0;              // DMAs
  uint32_t traps_ = 0;
  uint32_t swept_ = 0;  // changes that the card has heard of
};

QsnetDriver::QsnetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env)
    : CardDriver("qsnet", std::move(card), env, kPeersMax, kGroups),
      lent_(*reinterpret_cast<Lent*>(card_->shared().data())),
      keys_(info_.fabric) {
  caps_.flags = kReliable | kPeerDown | kMulticast | kWait;
  caps_.mtu = caps_.inline_max = kFrameMax;
  caps_.batch_max = 4;
  if (reaches_memory()) {
    caps_.flags |= kPut | kGet;
    caps_.key_bytes = sizeof(Key);
    caps_.remote_max = 16 << 20;
  }
  const auto set = [&](uint32_t at, const auto& value) {
    card_->write(kSdram + at, &value, sizeof(value));
  };
  Queue queue{};
  queue.base = kLent + offset_of(lent_.slots);
  queue.slots = kSlots;
  queue.slot_bytes = kSlotBytes;
  queue.event = kQueueEvent;
  set(kQueueAt, queue);
  set(kQueueEvent, Event{1, kCopies | kEachTime, kQueueAt, offset_of(&lent_.queue)});
  for (uint32_t i = 0; i < kDmas; i++) {
    set(event_at(i), Event{1, kCopies | kEachTime, descriptor_at(i), offset_of(&lent_.over[i])});
    (i < kFrames ? free_frames_ : free_transfers_).push_back(i);
  }
}

// --- frames ------------------------------------------------------------------------------------

// Writes the descriptor, and tells the card of it.
void QsnetDriver::start(uint32_t dma, PeerId peer, uint64_t cookie, Descriptor descriptor) {
  descriptor.type |= kRetries << kRetriesShift;
  descriptor.source_event = event_at(dma);
  descriptor.cookie = ++cookies_;
  lent_.over[dma].status = kNone;
  busy_.push_back({dma, peer, cookie});
  card_->write(kSdram + descriptor_at(dma), &descriptor, sizeof(descriptor));
  card_->write32(kStartDma, descriptor_at(dma));
}

size_t QsnetDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    const bool is_group = peers_.is_group(tx.peer);
    Descriptor d{};
    d.type = kUrgent | (is_group ? kDmaBroadcast : kDmaQueue);
    d.bytes = tx.head_bytes + tx.body_bytes;
    d.process = peers_[tx.peer].name;
    bool arrives = is_there(d.process);  // anywhere
    if (is_group) {
      d.group = peers_.group_of(tx.peer);
      const Group& group = find_range(d.group);
      d.process = group.first | group.last << 16;
      arrives = group.first <= group.last;
    }
    if (!peers_.has_room() || (arrives && free_frames_.empty())) break;
    if (arrives) {
      const uint32_t dma = free_frames_.back();
      free_frames_.pop_back();
      copy_frame(tx, lent_.frames[dma]);
      d.source = kLent + offset_of(lent_.frames[dma]);
      start(dma, tx.peer, 0, d);
    }
    peers_.end_copied(tx.peer, tx.cookie);
    taken++;
  }
  return taken;
}

unsigned QsnetDriver::receive(unsigned budget) {
  unsigned count = 0;
  const uint32_t before = back_;
  for (uint32_t i = 0; i < kSlots && count < budget && front() != back_; i++) {
    const std::span<const std::byte> slot(lent_.slots[back_++ % kSlots]);
    SlotHeader header;
    std::memcpy(&header, slot.data(), sizeof(header));
    if (header.from == nic::kNobody) continue;
    const PeerId from = peers_.number_of(header.from);
    if (from == kNoPeer) continue;
    sink_.packet(from, slot.subspan(sizeof(header), std::min(header.bytes, kFrameMax)));
    count++;
  }
  if (back_ != before) card_->write32(kSdram + kQueueAt + offsetof(Queue, back), back_);
  return count;
}

// Takes note of DMAs that are over; all of them, if the card will say no more.
void QsnetDriver::end_dmas(bool all) {
  std::erase_if(busy_, [&](const UnderWay& way) {
    const uint32_t status = load(lent_.over[way.dma].status);
    if (status == kNone && !all) return false;
    ended_++;
    (way.dma < kFrames ? free_frames_ : free_transfers_).push_back(way.dma);
    if (way.dma >= kFrames)
      peers_.end(way.peer, way.cookie, status <= kGone ? kStatuses[status] : Status::io_error);
    return true;
  });
}

// Processes have come or ended, or a DMA has trapped: it goes on by the route that there is now.
void QsnetDriver::handle_changes() {
  const uint32_t changes = card_->liveness().changes();
  if (changes == swept_ && traps() == traps_) return;
  if (std::exchange(swept_, changes) != changes) static_cast<void>(call(kSweep, {}));
  nic::Control out;
  for (; traps_ != traps() && call(kTrapped, {}, &out) == Status::ok; traps_++)
    trapped_.push_back(static_cast<nic::Name>(out.words[0]));
  std::erase_if(trapped_, [this](nic::Name name) {
    return (name != nic::kNobody && !is_there(name)) || call(kRoute, {name}) == Status::ok;
  });
}

unsigned QsnetDriver::poll(uint64_t, unsigned budget) {
  unsigned count = peers_.report_ended(sink_, budget);
  count += receive(budget - count);
  handle_changes();
  end_dmas(has_lost_card(kId, kIdValue));
  if (count == 0 && peers_.changed() && front() == back_ && !peers_.has_ended())
    count += peers_.report_ends(sink_);
  return count;
}

// --- remote memory -------------------------------------------------------------------------------

// The card reaches all memory of a process as it is: there is nothing to do.
Status QsnetDriver::reg(void* base, uint64_t bytes, uint32_t access, Region* out) {
  if (caps_.key_bytes == 0 || access & kGuarded) return Status::unsupported;
  if (!base || bytes == 0) return Status::invalid;
  *out = Region{base, bytes, access, {}, 0, out->label};
  keys_.fill({0, reinterpret_cast<uintptr_t>(base), bytes, info_.name, access}, out);
  return Status::ok;
}

Status QsnetDriver::move(const Rma& rma, uint32_t type, uint32_t access) {
  if (caps_.key_bytes == 0) return Status::unsupported;
  const Key* const key = keys_.find(rma);
  if (!key || !(key->access & access) || rma.bytes > caps_.remote_max) return Status::invalid;
  if (!is_there(key->owner)) return Status::peer_dead;
  if (rma.bytes == 0) return Status::ok;
  if (rma.cookie == 0 || free_transfers_.empty()) return Status::again;
  const uint32_t dma = free_transfers_.back();
  free_transfers_.pop_back();
  const auto here = reinterpret_cast<uintptr_t>(rma.pieces[0].iov_base);
  const uint64_t there = key->base + rma.remote_offset;
  Descriptor d{};
  d.type = type;
  d.bytes = static_cast<uint32_t>(rma.bytes);
  d.source = type == kDmaWrite ? here : there;
  d.dest = type == kDmaWrite ? there : here;
  d.process = key->owner;
  peers_.begin(rma.peer);
  start(dma, rma.peer, rma.cookie, d);
  return Status::pending;
}

// --- groups ------------------------------------------------------------------------------------

void QsnetDriver::leave(PeerId peer) {
  static_cast<void>(call(kLeave, {peers_.group_of(peer)}));
  groups_.erase(peers_.group_of(peer));
  peers_.forget(peer);
}

// The smallest range that has all other members.
const QsnetDriver::Group& QsnetDriver::find_range(uint32_t number) {
  const uint32_t changes = card_->liveness().changes();
  Group& group = groups_[number];
  if (group.seen == changes) return group;
  group = {changes};
  for (const nic::Name member : call_members(kMember, number)) {
    if (member == info_.name || !is_there(member)) continue;
    const uint32_t node = node_of(member);
    group.first = std::min(group.first, node);
    group.last = std::max(group.last, node);
  }
  return group;
}

}  // namespace

std::unique_ptr<Driver> open_qsnet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                   std::string* why) {
  if (!is_right("qsnet", *card, kId, kIdValue, sizeof(Lent), why)) return nullptr;
  return std::make_unique<QsnetDriver>(std::move(card), env);
}

}  // namespace torii
