// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/myrinet/myrinet.h"

#include <algorithm>
#include <deque>

#include "core/base/copy.h"
#include "core/base/log.h"
#include "drivers/card_driver.h"
#include "drivers/card_rings.h"
#include "nic/myrinet/regs.h"

namespace torii {
namespace {

using namespace nic::myrinet;

class MyrinetDriver final : public CardDriver, private Advice, private Paths {
 public:
  MyrinetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, bool raw, uint32_t pio_max);
  ~MyrinetDriver() override;
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  void take(void* to, const std::byte* from, size_t bytes) override;
  Advice* advice() override { return raw_ ? nullptr : this; }
  Paths* paths() override { return raw_ ? nullptr : this; }
  bool delivered() const override { return free_.size() == slots_.size(); }
  uint32_t long_max(PeerId) const override { return 0; }

 private:
  struct Slot {  // for a frame of this process's
    PeerId peer;
    nic::Name to;
    uint64_t cookie;
    uint32_t bytes;
    iovec body;  // to be read by DMA; empty: it is there
  };

  std::byte* copy_block(uint32_t slot) { return &card_->shared()[slot * size_t{kRawBufferBytes}]; }
  void fill(uint32_t slot, const Tx& tx);
  void start();
  void end_load();
  void give_up();
  void end_slot(uint32_t number, Status status);
  void set_dma(uint64_t address, uint32_t at, size_t bytes, bool to_host);
  uint32_t receive_slots() const { return raw_ ? kRawSlots : kReceiveSlots; }
  bool dma_is_over() { return card_->read32(kIsr) & kDmaInt; }
  void command(uint32_t kind, uint32_t slot, uint32_t bytes, nic::Name to);
  void set_routes();
  bool has_event() const { return !gone_ && rings_.has_event(); }
  unsigned handle(const Event& event);
  std::span<const std::byte> frame_of(const Event& event);
  void ask_interrupt() override { rings_.ask_interrupt(); }
  bool has_work() override {
    return has_event() || peers_.has_ended() || !leaving_.empty() ||
           routes_seen_ != card_->liveness().changes() || (!raw_ && peers_.changed());
  }

  const std::span<const std::byte> window_;
  const bool raw_;
  uint32_t pio_max_;
  Counters& counters_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;    // of these
  std::deque<uint32_t> leaving_;  // filled; the card does not know yet
  uint64_t loading_ = 0;          // bus address of the body of the first of these: DMA is under way
  std::byte filled_[kSlotBytes], read_[kSlotBytes];  // on their way to the card, and from there
  CardRings<Shared> rings_;
  uint32_t routes_seen_ = 0;
  std::vector<Route> routes_;  // as the card has them
  bool gone_ = false;          // the card: loads give ones
};

MyrinetDriver::MyrinetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env, bool raw,
                             uint32_t pio_max)
    : CardDriver(raw ? "myrinet/raw" : "myrinet", std::move(card), env, kNodes),
      window_(card_->window()),
      raw_(raw),
      pio_max_(pio_max),
      counters_(*env.counters),
      slots_(raw ? kRawSlots : kSendSlots),
      rings_(*card_, 0),
      routes_(card_->liveness().endpoints()) {
  const bool copies = raw || !reaches_memory();
  if (copies) pio_max_ = kFrameMax;
  caps_.flags = raw ? kWait : kReliable | kPeerDown | kWait | (copies ? 0 : +kDelivers);
  caps_.mtu = raw ? kRawFrameMax : kFrameMax;
  caps_.inline_max = copies ? caps_.mtu : pio_max_;
  caps_.lend_min = copies ? 0 : pio_max_ + 1;
  if (!window_.empty()) take_min = pio_max_ + 1;
  set_routes();
  for (uint32_t i = 0; i < slots_.size(); i++) free_.push_back(i);
  for (uint32_t i = 0; i < receive_slots(); i++)
    command(kPostSlot, static_cast<uint32_t>(slots_.size()) + i, 0, nic::kNobody);
  card_->write32(kEimr, kHostSig);
  card_->write32(kControl, kInterruptOn);
}

// Frames that were taken still leave.
MyrinetDriver::~MyrinetDriver() {
  for (size_t i = 0; i < slots_.size() && !leaving_.empty(); i++) {
    if (loading_) end_load();
    start();
  }
}

// The ways to all nodes; and which frames the card is to give up, for want of a receiver.
void MyrinetDriver::set_routes() {
  if (routes_seen_ == card_->liveness().changes()) return;
  routes_seen_ = card_->liveness().changes();
  std::vector<Route> routes(routes_.size());
  for (const Slot& slot : slots_) {
    if (slot.to == nic::kNobody || is_there(slot.to)) continue;
    nic::Name& gone = routes[nic::endpoint_of(slot.to)].gone;
    if (!gone || nic::is_earlier(gone, slot.to)) gone = slot.to;
  }
  for (uint32_t node = 0; node < routes.size(); node++) {
    nic::Control out;
    if (card_->control({kRoute, {node}}, &out) == Status::ok)
      std::memcpy(&routes[node].path, out.words.data(), sizeof(Route::path));
    if (std::memcmp(&routes[node], &routes_[node], sizeof(Route)) != 0)
      card_->write(offsetof(Shared, route) + node * sizeof(Route), &routes[node], sizeof(Route));
  }
  routes_ = std::move(routes);
}

void MyrinetDriver::command(uint32_t kind, uint32_t slot, uint32_t bytes, nic::Name to) {
  const auto address = static_cast<uint32_t>(info_.shared_address) + slot * kRawBufferBytes;
  rings_.command({kind, slot, bytes, to, address});
}

// --- sending ---------------------------------------------------------------------------------

size_t MyrinetDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    if (!raw_ && !is_there(peers_[tx.peer].name)) {
      if (!peers_.has_room()) break;
      peers_.end_copied(tx.peer, tx.cookie);  // nothing arrives where nobody is
    } else {
      if (free_.empty()) break;
      fill(free_.back(), tx);
      leaving_.push_back(free_.back());
      free_.pop_back();
      if (tx.cookie) peers_.begin(tx.peer);
    }
    taken++;
  }
  start();
  return taken;
}

// Short frames are copied, to the card or to the copy block; of a long one the head.
void MyrinetDriver::fill(uint32_t number, const Tx& tx) {
  Slot& slot = slots_[number] = {
      tx.peer, peers_[tx.peer].name, tx.cookie, tx.head_bytes + tx.body_bytes, {}};
  if (tx.body_bytes > caps_.inline_max) slot.body = tx.pieces[0];
  std::byte* const to = raw_ ? copy_block(number) : filled_;
  const std::byte* const end = slot.body.iov_len ? copy_head(tx, to) : copy_frame(tx, to);
  if (!raw_) card_->write(frame_at(number), to, static_cast<size_t>(end - to + 3) / 4 * 4);
}

// Tells the card of the frames that are where it can send them, in their order, up to one that is
// to be loaded; one that the bus has no room for comes later.
void MyrinetDriver::start() {
  for (; !leaving_.empty() && loading_ == 0; leaving_.pop_front()) {
    const uint32_t number = leaving_.front();
    const Slot& slot = slots_[number];
    if (const size_t n = slot.body.iov_len) {
      if (card_->map(slot.body.iov_base, n, nic::kCardReads, &loading_) == Status::ok)
        set_dma(loading_, frame_at(number) + slot.bytes - static_cast<uint32_t>(n), n, false);
      return;
    }
    command(kSendFrame, number, slot.bytes, slot.to);
  }
}

// Until the DMA of the first frame is over. It is to begin again if it has failed.
void MyrinetDriver::end_load() {
  while (!dma_is_over()) continue;
  card_->unmap(std::exchange(loading_, 0));
  if (card_->read32(kDmaSts) == 0) slots_[leaving_.front()].body = {};
}

// The card has ended for this process, and says no more what became of these.
void MyrinetDriver::give_up() {
  leaving_.clear();
  loading_ = 0;
  for (uint32_t i = 0; i < slots_.size(); i++)
    if (slots_[i].to != nic::kNobody) end_slot(i, Status::io_error);
}

void MyrinetDriver::end_slot(uint32_t number, Status status) {
  const Slot slot = std::exchange(slots_[number], {});
  if (slot.cookie) peers_.end(slot.peer, slot.cookie, status);
  free_.push_back(number);
}

void MyrinetDriver::set_dma(uint64_t address, uint32_t at, size_t bytes, bool to_host) {
  card_->write32(kEar, static_cast<uint32_t>(address));
  card_->write32(kLar, at);
  card_->write32(kDmaDir, !to_host);
  card_->write32(kDmaCtr, static_cast<uint32_t>(bytes));
}

// --- receiving -------------------------------------------------------------------------------

// Long frames stay on the card until somebody wants them: see take().
std::span<const std::byte> MyrinetDriver::frame_of(const Event& event) {
  const uint32_t bytes = std::min(event.bytes, caps_.mtu);
  if (raw_) return {copy_block(event.slot), bytes};
  if (bytes > pio_max_ && !window_.empty()) return window_.subspan(frame_at(event.slot), bytes);
  card_->peek(frame_at(event.slot), read_, (bytes + 3) / 4 * 4);
  return std::span(read_).first(bytes);
}

unsigned MyrinetDriver::handle(const Event& event) {
  if (event.kind == kReceived && event.slot - slots_.size() < receive_slots()) {
    const PeerId from = peers_.number_of(event.peer);
    if (from != kNoPeer) sink_.packet(from, frame_of(event));
    command(kPostSlot, event.slot, 0, nic::kNobody);
    return from != kNoPeer;
  }
  if (event.kind != kReceived && event.slot < slots_.size())
    end_slot(event.slot, event.kind == kGone ? Status::peer_dead : Status::ok);
  return 0;
}

unsigned MyrinetDriver::poll(uint64_t, unsigned budget) {
  // Without a cable it is cut off, too, but has still something to say.
  if (!gone_ && peers_.cut_off()) gone_ = card_->read32(offsetof(Shared, magic)) != kMagic;
  if (gone_) give_up();
  set_routes();
  if (loading_ && dma_is_over()) end_load();
  start();
  unsigned count = 0;
  for (uint32_t i = 0; i < kEvents && count < budget && has_event(); i++) {
    if (rings_.has_asked()) card_->write32(kIsr, kHostSig);  // it has interrupted, or will
    count += handle(rings_.next());
  }
  count += peers_.report_ended(sink_, budget - count);
  if (raw_ || count > 0 || !peers_.changed() || has_event()) return count;
  return peers_.report_ends(sink_);
}

// By DMA, from the card to its place. The engine may be busy with a frame that is to leave.
void MyrinetDriver::take(void* to, const std::byte* from, size_t bytes) {
  const bool is_card = from >= window_.data() && from < window_.data() + window_.size();
  for (int tries = 0; is_card && bytes > pio_max_ && tries < 3; tries++) {
    uint64_t address;
    if (loading_) end_load();
    if (card_->map(to, bytes, nic::kCardWrites, &address) != Status::ok) break;
    set_dma(address, static_cast<uint32_t>(from - window_.data()), bytes, true);
    while (!dma_is_over()) continue;
    card_->unmap(address);
    if (card_->read32(kDmaSts) != 0) continue;
    counters_.taken_bytes += bytes;
    return;
  }
  copy_bytes(to, from, bytes);
}

// Resets the card, and gives it its control program.
std::unique_ptr<Driver> open_with(bool raw, uint32_t pio_max, std::unique_ptr<nic::Card> card,
                                  const DriverEnv& env, std::string* why) {
  const uint32_t version = card->read32(kEeprom + offsetof(Eeprom, cpu_version)) & 0xffff;
  const uint32_t endpoints = card->liveness().endpoints();
  nic::Control out;
  card->write32(kControl, kResetOn);
  const Status status = card->control({kLoad, {raw ? kRaw : kBulldog}}, &out);
  card->write32(kControl, kResetOff);
  if (version == kCpuVersion && endpoints <= kNodes && status == Status::ok &&
      card->shared().size() >= kCopyBlockBytes && card->read32(offsetof(Shared, magic)) == kMagic)
    return std::make_unique<MyrinetDriver>(std::move(card), env, raw, pio_max);
  *why = format_text(
      "myrinet: a card of version 0x%x on a fabric of %u nodes, whose control program answers "
      "'%s'; use a LANai 4.1 (0x%x) and at most %u nodes",
      version, endpoints, status_text(status), kCpuVersion, kNodes);
  return nullptr;
}

}  // namespace

std::unique_ptr<Driver> open_myrinet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                     std::string* why) {
  return open_with(false, kMyrinetPioMax, std::move(card), env, why);
}

std::unique_ptr<Driver> open_myrinet_with(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                          std::string* why, uint32_t pio_max) {
  return open_with(false, pio_max, std::move(card), env, why);
}

std::unique_ptr<Driver> open_myrinet_raw(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                         std::string* why) {
  return open_with(true, kMyrinetPioMax, std::move(card), env, why);
}

}  // namespace torii
