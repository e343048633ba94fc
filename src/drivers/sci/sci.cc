// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/sci/sci.h"

#include <algorithm>
#include <array>

#include "core/base/log.h"
#include "drivers/storing_driver.h"
#include "nic/sci/regs.h"

namespace torii {
namespace {

using namespace nic::sci;

// A frame up to that size goes by stores, a longer one by a descriptor; with `dolphin` that is a
// call of the kernel.
constexpr uint32_t kPioMax = 256, kDolphinPioMax = 2048;
// Frames and transfers that have descriptors, each of them on a VI of its own: a long transfer
// holds up no frame.
constexpr uint32_t kFrameVi = 0, kTransferVi = 1;
constexpr uint32_t kFrames = 32, kTransfers = 16, kDescriptors = kFrames + kTransfers;
constexpr uint32_t kCompletions = 64;
// Lent memory behind the mailboxes: a buffer and a descriptor for each, completions. Other regions
// of this process follow in the upstream table.
constexpr uint32_t kBuffers = Mailboxes::kPool;
constexpr uint32_t kDescriptorsAt = kBuffers + kDescriptors * kMailSlotBytes;
constexpr uint32_t kQueueAt = kDescriptorsAt + kDescriptors * sizeof(Descriptor);
static_assert(kQueueAt + kCompletions * sizeof(Completion) <= kSharedBytes);
constexpr uint32_t buffer_at(uint32_t i) { return kBuffers + i * kMailSlotBytes; }
constexpr uint32_t descriptor_at(uint32_t i) {
  return static_cast<uint32_t>(kDescriptorsAt + i * sizeof(Descriptor));
}
// The window: of each endpoint the pages with this process's cell, the bell and the mailbox; then
// so many pages for each transfer.
constexpr uint32_t kPagesOfPeer = 3, kFirstWindow = kPagesOfPeer * Mailboxes::kEndpoints;
constexpr uint32_t kPagesOfTransfer = 80;
constexpr uint32_t first_page_of(uint32_t i) {
  return kFirstWindow + (i - kFrames) * kPagesOfTransfer;
}
static_assert(kFirstWindow + kTransfers * kPagesOfTransfer <= kWindowPages);
static_assert((kPagesOfTransfer - 1) * kWindowPageBytes >= kTransferMax);

class SciDriver final : public StoringDriver {
 public:
  SciDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, Personality personality);
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return is_dolphin_ ? Status::unsupported : StoringDriver::reg(base, bytes, access, out);
  }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    return is_dolphin_ ? Status::unsupported : StoringDriver::import(peer, key, remote);
  }
  Status put(const Rma& rma) override { return move(rma, kRdmaWrite); }
  Status get(const Rma& rma) override { return move(rma, kRdmaRead); }
  Status arm(int* fd) override {
    turn_on(kMask, kCauseStored | kCauseDone, fd);
    return has_work() || next_completion() ? Status::again : Status::ok;
  }
  torii::RegisteredMemory* registered_memory() override {
    return is_dolphin_ ? nullptr : StoringDriver::registered_memory();
  }

 private:
  struct Transfer {
    PeerId peer = kNoPeer;
    nic::Name owner = nic::kNobody;
    uint64_t cookie = 0;
    void* to = nullptr;  // of a get that the driver copies
    uint64_t bytes = 0;
    uint32_t node = ~0u, window = 0;  // what its pages show, also after its end
  };
  struct Posted {  // by VI
    uint32_t count = 0;
    std::vector<uint32_t> flushed;
    bool is_broken = false;
  };

  std::byte* buffer() override;
  bool store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) override;
  bool allow(nic::Name to) override;
  Status set_pages(uint64_t page, uint64_t pages, uint64_t address, uint32_t access) override;

  uint32_t node_of(nic::Name name) const { return nic::endpoint_of(name) / info_.contexts; }
  uint32_t context_of(nic::Name name) const { return nic::endpoint_of(name) % info_.contexts; }
  uint32_t here(uint64_t offset) const {
    return upstream_at(context_of(info_.name), static_cast<uint32_t>(offset));
  }
  Status move(const Rma& rma, Operation operation);
  uint32_t take_transfer(uint32_t node, uint32_t window);
  void post(uint32_t i, Operation operation, uint32_t window, uint32_t local, uint64_t bytes);
  void ring(uint32_t i);
  const Completion* next_completion() const;
  void collect();
  void end(uint32_t i, uint32_t status);

  const bool is_dolphin_;
  const uint32_t pio_max_;
  std::vector<uint32_t> free_frames_, free_transfers_;
  std::array<bool, kDescriptors> is_posted_{};
  std::array<Transfer, kTransfers> transfers_;
  std::array<Posted, 2> posted_;
  uint32_t completions_ = 0;
  bool is_gone_ = false;  // the card has ended for this process
};

SciDriver::SciDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, Personality personality)
    : StoringDriver("sci", std::move(card), env, kSharedBytes / kPageBytes, kPages,
                    kRemoteRead | kRemoteWrite | kLocal),
      is_dolphin_(personality == kDolphin),
      pio_max_(is_dolphin_ ? kDolphinPioMax : kPioMax) {
  caps_.flags |= kGet | kWait;
  caps_.remote_max = kTransferMax;
  caps_.batch_max = 4;
  if (is_dolphin_) {
    caps_.flags &= ~(kPut | kGet | kNeedsReg);
    caps_.inline_max = caps_.mtu;
    caps_.key_bytes = 0;
    caps_.remote_max = 0;
  }
  for (uint32_t i = 0; i < kDescriptors; i++)
    (i < kFrames ? free_frames_ : free_transfers_).push_back(i);
  // The window of `dolphin` is one, and has one kind of rights.
  const uint32_t first = is_dolphin_ ? 0 : Mailboxes::kCells / kPageBytes;
  const uint32_t end = (is_dolphin_ ? kSharedBytes : Mailboxes::kPool) / kPageBytes;
  static_cast<void>(call(kExport, {first, end - first, info_.shared_address + first * kPageBytes,
                                   kWritable | kNotifies}));
  if (!is_dolphin_)
    static_cast<void>(call(kExport, {end, kSharedBytes / kPageBytes - end,
                                     info_.shared_address + end * uint64_t{kPageBytes}, 0}));
  static_cast<void>(call(kQueue, {here(kQueueAt), kCompletions}));
}

// --- frames ----------------------------------------------------------------------------------

std::byte* SciDriver::buffer() {
  if (free_frames_.empty()) collect();
  return free_frames_.empty() ? nullptr : shared_ + buffer_at(free_frames_.back());
}

bool SciDriver::allow(nic::Name to) {
  const uint32_t first = nic::endpoint_of(to) * kPagesOfPeer;
  const nic::Name own = info_.name;
  const uint32_t cell = Mailboxes::kCells + nic::endpoint_of(own) * Mailboxes::kCellBytes;
  bool all = true;
  uint32_t i = 0;
  for (const uint32_t offset : {cell, Mailboxes::kBell, Mailboxes::mailbox_of(own)})
    all &= call(kImport, {first + i++, 1, node_of(to),
                          upstream_at(context_of(to),
                                      offset / kWindowPageBytes * kWindowPageBytes)}) == Status::ok;
  return all;
}

// Cells and the bell keep their order with each other, and with the frames before them; frames have
// sequences. The last line has the trailer: what is before it is there by then.
bool SciDriver::store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) {
  const uint32_t page = nic::endpoint_of(to) * kPagesOfPeer + (address < Mailboxes::kBell   ? 0
                                                               : address < Mailboxes::kMail ? 1
                                                                                            : 2);
  const uint32_t at = page * kWindowPageBytes + static_cast<uint32_t>(address) % kWindowPageBytes;
  const uint32_t i = free_frames_.back();
  const bool is_word = bytes <= sizeof(uint64_t);
  if (is_word ? posted_[kFrameVi].count > 0 : bytes > pio_max_) {
    free_frames_.pop_back();
    post(i, kRdmaWrite, at, here(buffer_at(i) + begin), bytes);
    return true;
  }
  const std::byte* const from = shared_ + buffer_at(i) + begin;
  for (uint32_t done = 0, n; done < bytes; done += n) {
    n = std::min(bytes - done, kLineBytes - (at + done) % kLineBytes);
    if (done + n == bytes && (done > 0 || is_word)) card_->write32(kBarrier, 0);
    card_->write(kWindow + at + done, from + done, n);
  }
  return true;
}

// --- descriptors -----------------------------------------------------------------------------

void SciDriver::post(uint32_t i, Operation operation, uint32_t window, uint32_t local,
                     uint64_t bytes) {
  Descriptor d{};
  d.segments = 2;
  d.control = operation;
  d.bytes = static_cast<uint32_t>(bytes);
  d.remote = context_of(info_.name) * kWindowBytes + window;
  d.local = local;
  std::memcpy(shared_ + descriptor_at(i), &d, sizeof(d));
  is_posted_[i] = true;
  posted_[i < kFrames ? kFrameVi : kTransferVi].count++;
  ring(i);
}

// Also again: the card has written to one that was flushed.
void SciDriver::ring(uint32_t i) {
  const uint32_t vi = i < kFrames ? kFrameVi : kTransferVi, at = here(descriptor_at(i));
  Descriptor& d = *reinterpret_cast<Descriptor*>(shared_ + descriptor_at(i));
  d.length = d.bytes;
  d.status = 0;
  if (!is_dolphin_) return card_->write32(doorbell_at(vi), at);
  card_->post({kTransfer, {vi, at, d.remote, d.local, d.bytes, d.control}});
}

const Completion* SciDriver::next_completion() const {
  const auto* const next =
      reinterpret_cast<const Completion*>(shared_ + kQueueAt) + completions_ % kCompletions;
  return __atomic_load_n(&next->number, __ATOMIC_ACQUIRE) == completions_ + 1 ? next : nullptr;
}

// Those that were flushed begin again, in their order, when a VI in error state has no others.
void SciDriver::collect() {
  while (const Completion* const next = next_completion()) {
    const Completion completion = *next;
    completions_++;
    const uint32_t i = (completion.descriptor - here(kDescriptorsAt)) / sizeof(Descriptor);
    if (i >= kDescriptors || !is_posted_[i]) continue;
    Posted& posted = posted_[i < kFrames ? kFrameVi : kTransferVi];
    posted.is_broken |= completion.status & (kTransportError | kFlushed);
    if (completion.status & kFlushed) {
      posted.flushed.push_back(i);
    } else {
      end(i, completion.status);
    }
  }
  for (const uint32_t vi : {kFrameVi, kTransferVi}) {
    Posted& posted = posted_[vi];
    if (!posted.is_broken || posted.flushed.size() < posted.count) continue;
    static_cast<void>(call(kReset, {vi}));
    posted.is_broken = false;
    for (const uint32_t i : std::exchange(posted.flushed, {})) ring(i);
  }
}

void SciDriver::end(uint32_t i, uint32_t status) {
  is_posted_[i] = false;
  posted_[i < kFrames ? kFrameVi : kTransferVi].count--;
  if (i < kFrames) return free_frames_.push_back(i);
  free_transfers_.push_back(i);
  const Transfer& transfer = transfers_[i - kFrames];
  if (status == kDone && transfer.to)
    std::memcpy(transfer.to, shared_ + buffer_at(i), transfer.bytes);
  peers_.end(transfer.peer, transfer.cookie,
             status == kDone             ? Status::ok
             : !is_there(transfer.owner) ? Status::peer_dead
             : status & kTransportError  ? Status::io_error
                                         : Status::invalid);
}

unsigned SciDriver::poll(uint64_t now_ns, unsigned budget) {
  turn_off(kMask);
  collect();
  // Without a cable it is cut off, too, but its card has still something to say.
  if (!is_gone_ && peers_.cut_off() && card_->read32(kId) != kIdValue) {
    is_gone_ = true;
    for (uint32_t i = 0; i < kDescriptors; i++)
      if (is_posted_[i]) end(i, kTransportError);
  }
  return StoringDriver::poll(now_ns, budget);
}

// --- remote memory -----------------------------------------------------------------------------

Status SciDriver::set_pages(uint64_t page, uint64_t pages, uint64_t address, uint32_t access) {
  const uint32_t rights = (access & kRemoteRead ? uint32_t{kReadable} : 0) |
                          (access & kRemoteWrite ? uint32_t{kWritable} : 0);
  return call(kExport, {page, pages, address, rights});
}

// One whose pages are there already, if there is such.
uint32_t SciDriver::take_transfer(uint32_t node, uint32_t window) {
  const auto fits = [&](uint32_t i) {
    return transfers_[i - kFrames].node == node && transfers_[i - kFrames].window == window;
  };
  const auto it = std::ranges::find_if(free_transfers_, fits);
  if (it != free_transfers_.end()) std::iter_swap(it, free_transfers_.end() - 1);
  const uint32_t i = free_transfers_.back();
  free_transfers_.pop_back();
  if (!fits(i)) card_->post({kImport, {first_page_of(i), kPagesOfTransfer, node, window}});
  return i;
}

Status SciDriver::move(const Rma& rma, Operation operation) {
  if (is_dolphin_) return Status::unsupported;
  const CardMemory::Key* const key = memory_.keys().find(rma);
  const bool is_copied = rma.bytes <= RemotePuts::kCopiedMax;
  if (!key || rma.bytes > kTransferMax || !(is_copied || rma.local)) return Status::invalid;
  if (!is_there(key->owner)) return Status::peer_dead;
  if (rma.bytes == 0) return Status::ok;
  if (rma.cookie == 0 || free_transfers_.empty()) return Status::again;
  const uint32_t target = upstream_at(
      context_of(key->owner),
      static_cast<uint32_t>(uint64_t{key->page} * kPageBytes + key->offset + rma.remote_offset));
  const uint32_t in_page = target % kWindowPageBytes;
  const uint32_t node = node_of(key->owner), i = take_transfer(node, target - in_page);
  void* const memory = rma.pieces[0].iov_base;
  const bool is_put = operation == kRdmaWrite;
  if (is_copied && is_put) std::memcpy(shared_ + buffer_at(i), memory, rma.bytes);
  void* const to = is_copied && !is_put ? memory : nullptr;
  transfers_[i - kFrames] = {rma.peer,  key->owner, rma.cookie,      to,
                             rma.bytes, node,       target - in_page};
  peers_.begin(rma.peer);
  post(i, operation, first_page_of(i) * kWindowPageBytes + in_page,
       here(is_copied ? buffer_at(i) : CardMemory::address_of(*rma.local, memory)), rma.bytes);
  return Status::pending;
}

std::unique_ptr<Driver> open_as(Personality personality, std::unique_ptr<nic::Card> card,
                                const DriverEnv& env, std::string* why) {
  if (!is_right("sci", *card, kId, kIdValue, kSharedBytes, why)) return nullptr;
  const uint32_t endpoints = card->liveness().endpoints();
  if (endpoints > Mailboxes::kEndpoints) {
    *why = format_text("sci: a fabric of %u endpoints; use one of at most %u", endpoints,
                       Mailboxes::kEndpoints);
    return nullptr;
  }
  nic::Control ignored;
  if (card->control({kConfigure, {personality}}, &ignored) != Status::ok) {
    *why = "sci: another process uses this card as another kind of bridge; use one kind on a card";
    return nullptr;
  }
  return std::make_unique<SciDriver>(std::move(card), env, personality);
}

}  // namespace

std::unique_ptr<Driver> open_sci(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                 std::string* why) {
  return open_as(kCombined, std::move(card), env, why);
}

std::unique_ptr<Driver> open_sci_dolphin(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                         std::string* why) {
  return open_as(kDolphin, std::move(card), env, why);
}

}  // namespace torii
