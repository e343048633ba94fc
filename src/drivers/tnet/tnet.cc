// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/tnet/tnet.h"

#include <array>
#include <deque>
#include <map>

#include "drivers/storing_driver.h"
#include "nic/tnet/regs.h"

namespace torii {
namespace {

using namespace nic::tnet;

constexpr uint32_t kPioMax = 256;        // longer ones go by DMA, as do all if
constexpr uint32_t kLoadMaxNs = 2000;    // the load before them takes longer
constexpr uint32_t kFrameInterrupt = 1;  // remote interrupt of all stores
// The contiguous memory block: transfers that are over, mailboxes, send area. Regions that peers
// may put to are behind it, and only in the page table.
constexpr uint32_t kDone = 0;
constexpr uint32_t kSendArea = Mailboxes::kEnd;
constexpr uint32_t kSendSlots = 64;
constexpr uint32_t kRegions = 16 << 20;
static_assert(kSendArea + kSendSlots * kMailSlotBytes <= kSharedBytes);
static_assert(Mailboxes::kPool <= kRegions && CardMemory::kPageBytes == kPageBytes);

class TnetDriver final : public StoringDriver {
 public:
  TnetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env);
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status arm(int* fd) override;

 private:
  using Descriptor = std::array<uint32_t, 4>;

  std::byte* buffer() override;
  bool store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) override;
  Status store_memory(nic::Name to, uint64_t target, uint64_t from, uint64_t bytes) override;
  bool allow(nic::Name to) override { return call(kValidate, {node_of(to)}) == Status::ok; }
  Status set_pages(uint64_t page, uint64_t pages, uint64_t address, uint32_t) override {
    return call(address ? kMapPages : kUnmapPages, {page, pages, address});
  }
  Status join_group(std::span<const std::byte> name, uint32_t* group) override;
  void leave_group(uint32_t group) override { static_cast<void>(call(kLeave, {group})); }
  std::vector<nic::Name> members(uint32_t group) override { return call_members(kMember, group); }
  bool store_to_group(uint32_t group, uint64_t address, uint32_t begin, uint32_t bytes) override;
  bool map_group(uint64_t address, uint32_t offset) override;

  Descriptor describe(nic::Name to, uint64_t target, uint64_t bytes) const {
    return {node_of(to), static_cast<uint32_t>(bytes / 4), static_cast<uint32_t>(target >> 2),
            context_of(to) << 16};
  }
  bool transmit(uint32_t begin, uint32_t bytes, Descriptor descriptor);
  void send_by_dma(uint64_t address, const Descriptor& descriptor, bool has_slot);

  std::map<uint32_t, uint32_t> destinations_;  // by group
  bool stalled_ = false;                       // a store waits for room
  uint32_t slot_ = 0;                          // of the send area: the next one
  uint32_t slots_used_ = 0;                    // by transfers under way
  std::deque<bool> transfers_;                 // those: has it a slot?
  uint32_t done_ = 0;                          // transfers that are over
};

TnetDriver::TnetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env)
    : StoringDriver("tnet", std::move(card), env, kRegions / kPageBytes, kPages) {
  caps_.flags |= kMulticast | kWait;
  caps_.batch_max = 4;
  constexpr uint32_t kFirst = Mailboxes::kCells / kPageBytes;
  static_cast<void>(set_pages(kFirst, Mailboxes::kPool / kPageBytes - kFirst,
                              info_.shared_address + Mailboxes::kCells, kRemoteWrite));
}

// --- sending ---------------------------------------------------------------------------------

// Takes note of transfers that are over. Leaves room for one without a slot.
std::byte* TnetDriver::buffer() {
  const uint32_t done =
      __atomic_load_n(reinterpret_cast<uint32_t*>(shared_ + kDone), __ATOMIC_ACQUIRE);
  for (; done_ != done && !transfers_.empty(); done_++) {
    slots_used_ -= transfers_.front();
    transfers_.pop_front();
  }
  stalled_ = slots_used_ == kSendSlots || transfers_.size() + 2 > kSendsMax;
  return stalled_ ? nullptr : shared_ + kSendArea + slot_ * kMailSlotBytes;
}

bool TnetDriver::store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) {
  return transmit(begin, bytes, describe(to, address, bytes));
}

bool TnetDriver::store_to_group(uint32_t group, uint64_t address, uint32_t begin, uint32_t bytes) {
  return transmit(begin, bytes,
                  {destinations_[group] | kToGroup | kTableMapped, bytes / 4,
                   static_cast<uint32_t>(address), 0});
}

Status TnetDriver::store_memory(nic::Name to, uint64_t target, uint64_t from, uint64_t bytes) {
  send_by_dma(from, describe(to, target, bytes), false);
  return Status::ok;
}

// Sends a part of buffer(). In order: by stores only if nothing is under way.
bool TnetDriver::transmit(uint32_t begin, uint32_t bytes, Descriptor descriptor) {
  const uint32_t from = kSendArea + slot_ * kMailSlotBytes + begin;
  if (bytes <= kPioMax && info_.load_ns <= kLoadMaxNs && transfers_.empty()) {
    const uint32_t lock = card_->read32(kLock);
    const bool fits = (lock & kRoomMask) > bytes / kPacketBytes;
    if (lock & kLockTaken && fits) {
      descriptor[0] |= kFrameInterrupt << kInterruptShift;
      card_->write32(kBurst, bytes);
      card_->write(kDestination, descriptor.data(), sizeof(descriptor));
      card_->write(kWindow, shared_ + from, bytes);
    }
    if (lock & kLockTaken) card_->write32(kLock, 0);
    if (lock & kLockTaken && fits) return true;
  }
  send_by_dma(info_.shared_address + from, descriptor, true);
  slot_ = (slot_ + 1) % kSendSlots;
  slots_used_++;
  return true;
}

// There is room for it: see buffer().
void TnetDriver::send_by_dma(uint64_t address, const Descriptor& descriptor, bool has_slot) {
  const auto& [destination, words, target, high] = descriptor;
  const uint64_t rings = kFrameInterrupt << kInterruptShift;
  card_->post({kSend, {destination | rings, words, target, high, address}});
  transfers_.push_back(has_slot);
}

// --- receiving -------------------------------------------------------------------------------

unsigned TnetDriver::poll(uint64_t now_ns, unsigned budget) {
  turn_off(kMask);
  return StoringDriver::poll(now_ns, budget);
}

Status TnetDriver::arm(int* fd) {
  const bool stalled = stalled_;
  const uint32_t mask = 1u << kFrameInterrupt | (stalled ? uint32_t{kCauseSent} : 0);
  const Status status = turn_on(kMask, mask, fd);
  return stalled && buffer() ? Status::again : status;
}

// --- groups ----------------------------------------------------------------------------------

Status TnetDriver::join_group(std::span<const std::byte> name, uint32_t* group) {
  nic::Control out;
  const Status status = call_join(kJoin, name, &out);
  *group = static_cast<uint32_t>(out.words[0]);
  if (status == Status::ok) destinations_[*group] = static_cast<uint32_t>(out.words[1]);
  return status;
}

bool TnetDriver::map_group(uint64_t address, uint32_t offset) {
  bool all = true;
  for (uint32_t i = 0; i < kMailboxBytes / kPageBytes; i++) {
    const uint64_t index = address / kPageBytes + i;
    all &= call(offset == kNowhere ? kUnmapIndex : kMapIndex,
                {index, info_.shared_address + offset + i * kPageBytes}) == Status::ok;
  }
  return all;
}

}  // namespace

std::unique_ptr<Driver> open_tnet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                  std::string* why) {
  if (!StoringDriver::has_mailboxes("tnet", *card, kSharedBytes, why)) return nullptr;
  return std::make_unique<TnetDriver>(std::move(card), env);
}

}  // namespace torii
