// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/skeleton/skeleton.h"

#include <algorithm>
#include <utility>

#include "drivers/card_driver.h"
#include "nic/skeleton/regs.h"

namespace torii {
namespace {

using namespace nic::skeleton;

class SkeletonDriver final : public CardDriver {
 public:
  SkeletonDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env)
      : CardDriver("skeleton", std::move(card), env, kPeersMax),
        shared_(*reinterpret_cast<Shared*>(card_->shared().data())) {
    caps_.flags = kReliable | kPeerDown | kWait;
    caps_.mtu = caps_.inline_max = kFrameMax;
    caps_.pieces_max = 8;
    caps_.batch_max = 16;
  }

  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;

 private:
  static constexpr uint32_t kPeersMax = 1 << 16;
  struct Sent {
    PeerId peer;
    uint64_t cookie;
  };

  bool has_work() override { return next() || peers_.changed(); }
  void ask_interrupt() override { card_->write32(kInterrupt, consumed_); }
  bool end_send(Status status);
  // The next completion, if there is one.
  const Completion* next() const {
    const Completion& completion = shared_.completions[consumed_ % kCompletions];
    const uint32_t number = __atomic_load_n(&completion.number, __ATOMIC_ACQUIRE);
    return number == consumed_ + 1 ? &completion : nullptr;
  }

  Shared& shared_;
  Sent sent_[kSends];
  uint32_t written_ = 0;   // descriptors
  uint32_t done_ = 0;      // of these, carried out
  uint32_t consumed_ = 0;  // completions
};

size_t SkeletonDriver::send(std::span<const Tx> batch) {
  size_t taken = 0;
  for (const Tx& tx : batch) {
    if (written_ - done_ == kSends) break;
    const uint32_t slot = written_ % kSends;
    copy_frame(tx, shared_.send[slot]);
    const size_t offset = static_cast<size_t>(shared_.send[slot] - card_->shared().data());
    shared_.descriptors[slot] = {static_cast<uint32_t>(info_.shared_address + offset),
                                 tx.head_bytes + tx.body_bytes, peers_[tx.peer].name, 0};
    sent_[slot] = {tx.peer, tx.cookie};
    peers_[tx.peer].pending++;
    written_++;
    taken++;
  }
  if (taken) card_->write32(kDoorbell, written_);
  return taken;
}

unsigned SkeletonDriver::poll(uint64_t, unsigned budget) {
  unsigned count = 0;
  const uint32_t before = consumed_;
  while (count < budget) {
    const Completion* const completion = next();
    if (!completion) break;
    const uint32_t entry = consumed_++ % kCompletions;
    if (completion->from == nic::kNobody) {
      if (!end_send(Status::ok)) continue;
    } else {
      const PeerId from = peers_.number_of(completion->from);
      if (from == kNoPeer) continue;
      const uint32_t bytes = std::min(completion->bytes, kFrameMax);
      sink_.packet(from, std::span(shared_.receive[entry]).first(bytes));
    }
    count++;
  }
  if (consumed_ != before) card_->write32(kConsumed, consumed_);
  if (peers_.changed() && !next()) {
    while (peers_.cut_off() && done_ != written_) count += end_send(Status::io_error);
    count += peers_.report_ends(sink_);
  }
  return count;
}

// The oldest one is over. False: there was none, or nobody is to be told.
bool SkeletonDriver::end_send(Status status) {
  if (done_ == written_) return false;
  const Sent sent = sent_[done_++ % kSends];
  peers_[sent.peer].pending--;
  if (sent.cookie) sink_.done(sent.cookie, status);
  return sent.cookie != 0;
}

}  // namespace

std::unique_ptr<Driver> open_skeleton(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                      std::string* why) {
  if (!is_right("skeleton", *card, kId, kIdValue, sizeof(Shared), why)) return nullptr;
  return std::make_unique<SkeletonDriver>(std::move(card), env);
}

}  // namespace torii
