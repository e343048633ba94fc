// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/ni/turns.h"

namespace torii {

namespace {

constexpr uint64_t kStampNs = 100'000;  // between two notes of one job
constexpr auto kRelaxed = std::memory_order_relaxed;

// Another process may have read the clock later than this one.
uint64_t age(uint64_t then_ns, uint64_t now_ns) { return now_ns > then_ns ? now_ns - then_ns : 0; }

}  // namespace

void Turns::use(TurnTable* table) {
  table_ = table;
  slot_ = TurnTable::kSlots;
  turn_ = count_ = 0;
}

// A time in the future, but for a turn that a slow reader may be behind, is nonsense.
bool Turns::recent(unsigned slot, uint64_t now_ns) const {
  const uint64_t seen = table_->slots[slot].seen_ns.load(kRelaxed);
  return seen <= now_ns + kTurnNs && age(seen, now_ns) < kRecentNs;
}

bool Turns::meets(unsigned slot, const ProcessorSet& processors) const {
  for (unsigned i = 0; i < ProcessorSet::kWords; ++i)
    if (table_->slots[slot].processors[i].load(kRelaxed) & processors.words[i]) return true;
  return false;
}

// The job's place, or a free one, or one that nobody has used for long.
bool Turns::take_slot(uint64_t now_ns) {
  auto& slots = table_->slots;
  if (slot_ < TurnTable::kSlots && slots[slot_].job.load(kRelaxed) == job_) return true;
  turn_ = count_ = 0;
  unsigned found = TurnTable::kSlots;
  for (unsigned i = 0; i < TurnTable::kSlots && found == TurnTable::kSlots; ++i)
    if (slots[i].job.load(kRelaxed) == job_) found = i;
  for (unsigned i = 0; i < TurnTable::kSlots && found == TurnTable::kSlots; ++i) {
    uint64_t job = slots[i].job.load(kRelaxed);
    const uint64_t seen = slots[i].seen_ns.load(kRelaxed);
    const bool forgotten = seen > now_ns + kTurnNs || age(seen, now_ns) >= kForgottenNs;
    if (job != 0 && job != job_ && !forgotten) continue;
    if (job != job_ && slots[i].job.compare_exchange_strong(job, job_, kRelaxed)) {
      for (auto& word : slots[i].processors) word.store(0, kRelaxed);
      job = job_;
    }
    if (job == job_) found = i;
  }
  slot_ = found;
  return found != TurnTable::kSlots;
}

// The jobs that share processors with this one, with such a one, and so on, so that all of them
// count the same.
void Turns::count_contenders(uint64_t now_ns) {
  auto& slots = table_->slots;
  for (unsigned w = 0; w < ProcessorSet::kWords; ++w)
    if (processors_.words[w] & ~slots[slot_].processors[w].load(kRelaxed))
      slots[slot_].processors[w].fetch_or(processors_.words[w], kRelaxed);
  bool in[TurnTable::kSlots] = {};
  ProcessorSet all;
  const auto add = [&](unsigned slot) {
    in[slot] = true;
    ++count_;
    for (unsigned w = 0; w < ProcessorSet::kWords; ++w)
      all.words[w] |= slots[slot].processors[w].load(kRelaxed);
  };
  count_ = 0;
  add(slot_);
  for (bool more = true; more;) {
    more = false;
    for (unsigned i = 0; i < TurnTable::kSlots; ++i) {
      if (in[i] || slots[i].job.load(kRelaxed) == 0 || !recent(i, now_ns) || !meets(i, all))
        continue;
      add(i);
      more = true;
    }
  }
  unsigned left = unsigned(turn_ % count_);
  for (owner_ = 0; !in[owner_] || left > 0; ++owner_) left -= in[owner_];
}

Turns::View Turns::look(uint64_t now_ns) {
  View view;
  if (!table_ || !take_slot(now_ns)) return view;
  TurnTable::Slot& own = table_->slots[slot_];
  const uint64_t seen = own.seen_ns.load(kRelaxed);
  if (now_ns >= seen + kStampNs || seen > now_ns + kTurnNs) own.seen_ns.store(now_ns, kRelaxed);
  const uint64_t turn = now_ns / kTurnNs;
  if (turn != turn_) {
    turn_ = turn;
    count_contenders(now_ns);
  }
  if (alone()) return view;
  view.begin_ns = turn * kTurnNs;
  view.end_ns = view.begin_ns + kTurnNs;
  view.whose = owner_ == slot_ ? View::Whose::mine : View::Whose::others;
  const uint64_t round_ns = count_ * kTurnNs;
  view.used = table_->slots[owner_].seen_ns.load(kRelaxed) + round_ns >= view.begin_ns;
  return view;
}

}  // namespace torii
