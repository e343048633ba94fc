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
constexpr uint32_t kFrames = 32, kTransfers = 16, kDescriptors = kFrames + kTransfers;
constexpr uint32_t kCompletions = 64;
// Lent memory behind the mailboxes. Other regions of this process follow in the upstream table.
struct Lent {
  std::byte buffers[kDescriptors][kMailSlotBytes];
  Descriptor descriptors[kDescriptors];
  Completion completions[kCompletions];
};
static_assert(Mailboxes::kPool + sizeof(Lent) <= kSharedBytes);
// The window: of each endpoint the pages with this process's cell, the bell and the mailbox; then
// so many pages for each transfer.
constexpr uint32_t kPagesOfPeer = 3, kFirstWindow = kPagesOfPeer * Mailboxes::kEndpoints;
constexpr uint32_t kPagesOfTransfer = 80;
constexpr uint32_t first_page_of(uint32_t i) {
  return kFirstWindow + (i - kFrames) * kPagesOfTransfer;
}
static_assert(kFirstWindow + kTransfers * kPagesOfTransfer <= kWindowPages);
static_assert((kPagesOfTransfer - 1) * kWindowPageBytes >= StoringDriver::kPutMax &&
              StoringDriver::kPutMax <= kTransferMax);

class SciDriver final : public StoringDriver {
 public:
  SciDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, Personality personality);
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status put(const Rma& rma) override { return move(rma, kRdmaWrite); }
  Status get(const Rma& rma) override { return move(rma, kRdmaRead); }
  Status arm(int* fd) override { return turn_on(kMask, kCauseStored | kCauseDone, fd); }

 private:
  struct Use {  // of a descriptor
    bool is_posted = false;
    // Of a transfer.
    PeerId peer = kNoPeer;
    nic::Name owner = nic::kNobody;
    uint64_t cookie = 0;
    void* to = nullptr;  // of a get that the driver copies
    uint64_t bytes = 0;
    uint32_t node = ~0u, window = 0;  // what its pages show, also after its end
  };
  struct Vi {
    const uint32_t number, descriptors;
    std::vector<uint32_t> free{}, flushed{};
    bool is_broken = false;
  };

  bool has_work() override { return next_completion() || StoringDriver::has_work(); }
  std::byte* buffer() override;
  bool store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) override;
  bool allow(nic::Name to) override;
  Status set_pages(uint64_t page, uint64_t pages, uint64_t address, uint32_t access) override;

  // Of the window: with what is at that address of a process, its cells, its bell or its mail.
  static uint32_t page_of(nic::Name to, uint64_t address) {
    return nic::endpoint_of(to) * kPagesOfPeer + (address >= Mailboxes::kBell) +
           (address >= Mailboxes::kMail);
  }
  uint32_t here(uint64_t offset) const {
    return upstream_at(context_of(info_.name), static_cast<uint32_t>(offset));
  }
  uint32_t here(const void* lent) const {
    return here(static_cast<uint64_t>(static_cast<const std::byte*>(lent) - shared_));
  }
  Status move(const Rma& rma, Operation operation);
  uint32_t take_transfer(uint32_t node, uint32_t window);
  void post(uint32_t i, Operation operation, uint32_t window, uint32_t local, uint64_t bytes);
  void ring(uint32_t i);
  const Completion* next_completion() const;
  void collect();
  void end(uint32_t i, uint32_t status);
  Vi& vi_of(uint32_t i) { return i < kFrames ? frame_vi_ : transfer_vi_; }

  const bool is_dolphin_;
  Lent& lent_;
  Vi frame_vi_{0, kFrames}, transfer_vi_{1, kTransfers};
  std::array<Use, kDescriptors> uses_;
  uint32_t completions_ = 0;
};

SciDriver::SciDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, Personality personality)
    : StoringDriver("sci", std::move(card), env, kSharedBytes / kPageBytes, kPages,
                    personality == kDolphin ? 0 : kRemoteRead | kRemoteWrite | kLocal),
      is_dolphin_(personality == kDolphin),
      lent_(*reinterpret_cast<Lent*>(shared_ + Mailboxes::kPool)) {
  caps_.flags |= is_dolphin_ ? +kWait : kWait | kGet;
  caps_.batch_max = 4;
  for (uint32_t i = 0; i < kDescriptors; i++) vi_of(i).free.push_back(i);
  const auto enter = [this](uint32_t first, uint32_t end, uint32_t rights) {
    static_cast<void>(call(kExport, {first / kPageBytes, (end - first) / kPageBytes,
                                     info_.shared_address + first, rights}));
  };
  // The window of `dolphin` is one, and has one kind of rights.
  enter(is_dolphin_ ? 0 : Mailboxes::kCells, is_dolphin_ ? kSharedBytes : Mailboxes::kPool,
        kWritable | kNotifies);
  if (!is_dolphin_) enter(Mailboxes::kPool, kSharedBytes, 0);
  static_cast<void>(call(kQueue, {here(lent_.completions), kCompletions}));
}

// --- frames ----------------------------------------------------------------------------------

std::byte* SciDriver::buffer() {
  if (frame_vi_.free.empty()) collect();
  return frame_vi_.free.empty() ? nullptr : lent_.buffers[frame_vi_.free.back()];
}

bool SciDriver::allow(nic::Name to) {
  const uint32_t cell = Mailboxes::kCells + nic::endpoint_of(info_.name) * Mailboxes::kCellBytes;
  const std::array places{cell, Mailboxes::kBell, Mailboxes::mailbox_of(info_.name)};
  return std::ranges::all_of(places, [&](uint32_t at) {
    const uint32_t there = upstream_at(context_of(to), at - at % kWindowPageBytes);
    return call(kImport, {page_of(to, at), 1, node_of(to), there}) == Status::ok;
  });
}

// Cells and the bell keep their order with each other, and with the frames before them; frames have
// sequences. The last line has the trailer: what is before it is there by then.
bool SciDriver::store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) {
  const auto in_page = static_cast<uint32_t>(address % kWindowPageBytes);
  const uint32_t at = page_of(to, address) * kWindowPageBytes + in_page;
  std::vector<uint32_t>& free = frame_vi_.free;
  const uint32_t i = free.back();
  const std::byte* const from = lent_.buffers[i] + begin;
  const bool is_word = bytes <= sizeof(uint64_t);
  if (is_word ? free.size() < kFrames : bytes > (is_dolphin_ ? kDolphinPioMax : kPioMax)) {
    free.pop_back();
    post(i, kRdmaWrite, at, here(from), bytes);
    return true;
  }
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
  Descriptor& d = lent_.descriptors[i] = {};
  d.segments = 2;
  d.control = operation;
  d.bytes = static_cast<uint32_t>(bytes);
  d.remote = context_of(info_.name) * kWindowBytes + window;
  d.local = local;
  uses_[i].is_posted = true;
  ring(i);
}

// Also again: the card has written to one that was flushed.
void SciDriver::ring(uint32_t i) {
  Descriptor& d = lent_.descriptors[i];
  const uint32_t vi = vi_of(i).number, at = here(&d);
  d.length = d.bytes;
  d.status = 0;
  if (!is_dolphin_) return card_->write32(doorbell_at(vi), at);
  card_->post({kTransfer, {vi, at, d.remote, d.local, d.bytes, d.control}});
}

const Completion* SciDriver::next_completion() const {
  const Completion* const next = &lent_.completions[completions_ % kCompletions];
  return __atomic_load_n(&next->number, __ATOMIC_ACQUIRE) == completions_ + 1 ? next : nullptr;
}

// Those that were flushed begin again, in their order, when a VI in error state has no others.
void SciDriver::collect() {
  while (const Completion* const next = next_completion()) {
    const Completion completion = *next;
    completions_++;
    const uint32_t i = (completion.descriptor - here(lent_.descriptors)) / sizeof(Descriptor);
    if (i >= kDescriptors || !uses_[i].is_posted) continue;
    Vi& vi = vi_of(i);
    vi.is_broken |= completion.status & (kTransportError | kFlushed);
    if (completion.status & kFlushed) {
      vi.flushed.push_back(i);
    } else {
      end(i, completion.status);
    }
  }
  for (Vi* const vi : {&frame_vi_, &transfer_vi_}) {
    if (!vi->is_broken || vi->free.size() + vi->flushed.size() < vi->descriptors) continue;
    static_cast<void>(call(kReset, {vi->number}));
    vi->is_broken = false;
    for (const uint32_t i : std::exchange(vi->flushed, {})) ring(i);
  }
}

void SciDriver::end(uint32_t i, uint32_t status) {
  Use& use = uses_[i];
  use.is_posted = false;
  vi_of(i).free.push_back(i);
  if (status == kDone && use.to) std::memcpy(use.to, lent_.buffers[i], use.bytes);
  if (i < kFrames) return;
  peers_.end(use.peer, use.cookie,
             status == kDone            ? Status::ok
             : !is_there(use.owner)     ? Status::peer_dead
             : status & kTransportError ? Status::io_error
                                        : Status::invalid);
}

unsigned SciDriver::poll(uint64_t now_ns, unsigned budget) {
  turn_off(kMask);
  collect();
  for (uint32_t i = 0; i < kDescriptors && has_lost_card(kId, kIdValue); i++)
    if (uses_[i].is_posted) end(i, kTransportError);
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
  const auto fits = [&](uint32_t i) { return uses_[i].node == node && uses_[i].window == window; };
  std::vector<uint32_t>& free = transfer_vi_.free;
  const auto it = std::ranges::find_if(free, fits);
  if (it != free.end()) std::iter_swap(it, free.end() - 1);
  const uint32_t i = free.back();
  free.pop_back();
  if (!fits(i)) card_->post({kImport, {first_page_of(i), kPagesOfTransfer, node, window}});
  return i;
}

Status SciDriver::move(const Rma& rma, Operation operation) {
  if (!caps_.key_bytes) return Status::unsupported;
  const CardMemory::Key* const key = memory_.keys().find(rma);
  const bool is_copied = rma.bytes <= RemotePuts::kCopiedMax;
  if (!key || rma.bytes > caps_.remote_max || !(is_copied || rma.local)) return Status::invalid;
  if (!is_there(key->owner)) return Status::peer_dead;
  if (rma.bytes == 0) return Status::ok;
  if (rma.cookie == 0 || transfer_vi_.free.empty()) return Status::again;
  const uint32_t target = upstream_at(context_of(key->owner),
                                      static_cast<uint32_t>(key->address_of(rma.remote_offset)));
  const uint32_t in_page = target % kWindowPageBytes, window = target - in_page;
  const uint32_t node = node_of(key->owner), i = take_transfer(node, window);
  void* const memory = rma.pieces[0].iov_base;
  const bool is_put = operation == kRdmaWrite;
  if (is_copied && is_put) std::memcpy(lent_.buffers[i], memory, rma.bytes);
  void* const to = is_copied && !is_put ? memory : nullptr;
  uses_[i] = {false, rma.peer, key->owner, rma.cookie, to, rma.bytes, node, window};
  peers_.begin(rma.peer);
  post(i, operation, first_page_of(i) * kWindowPageBytes + in_page,
       is_copied ? here(lent_.buffers[i]) : here(CardMemory::address_of(*rma.local, memory)),
       rma.bytes);
  return Status::pending;
}

std::unique_ptr<Driver> open_as(Personality personality, std::unique_ptr<nic::Card> card,
                                const DriverEnv& env, std::string* why) {
  if (!is_right("sci", *card, kId, kIdValue, kSharedBytes, why) ||
      !StoringDriver::has_mailboxes("sci", *card, kSharedBytes, why))
    return nullptr;
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
