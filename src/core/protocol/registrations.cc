// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/protocol/registrations.h"

#include <algorithm>

#include "core/base/forked.h"

namespace torii {

namespace {

bool costly(const Driver& driver) { return driver.caps().flags & kNeedsReg; }

bool inside(const Region& region, const std::byte* base, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(region.base);
  return base >= first && bytes <= region.bytes && uint64_t(base - first) <= region.bytes - bytes;
}

// A key names the first byte of a region, and offsets do not travel.
bool serves(const Region& region, const std::byte* base, uint64_t bytes, uint32_t access) {
  return (region.access & access) == access && inside(region, base, bytes) &&
         (access == kLocal || region.base == base);
}

}  // namespace

Registrations::Registrations(Counters& counters) : counters_(counters), forks_(count_forks()) {}

// The allocation that has the whole range; end(): none has.
Registrations::Owned::const_iterator Registrations::owned(const std::byte* base,
                                                          uint64_t bytes) const {
  auto it = owned_.upper_bound(base);
  if (it == owned_.begin()) return owned_.end();
  --it;
  const bool inside = bytes <= it->second && uint64_t(base - it->first) <= it->second - bytes;
  return inside ? it : owned_.end();
}

// The pages of a process that has forked are shared until one of both writes, which may get a copy
// that no card knows.
void Registrations::notice_forks() {
  if (__builtin_expect(forks_ == count_forks(), 1)) return;
  forks_ = count_forks();
  clear();
}

// Among those that are kept; it becomes the one that was used last.
Registration* Registrations::find(Driver& driver, const std::byte* base, uint64_t bytes,
                                  uint32_t access) {
  notice_forks();
  for (size_t i = kept_.size(); i-- > 0;) {
    Registration* const r = kept_[i];
    if (r->driver != &driver || !serves(r->region, base, bytes, access)) continue;
    const RegisteredMemory* const memory = driver.registered_memory();
    if (memory && memory->tells_changes && !memory->current(r->region)) {
      forget(i);
      continue;
    }
    std::rotate(kept_.begin() + ptrdiff_t(i), kept_.begin() + ptrdiff_t(i) + 1, kept_.end());
    return r;
  }
  return nullptr;
}

bool Registrations::keeps(Driver& driver, const void* base, uint64_t bytes, uint32_t access) {
  const auto* const first = static_cast<const std::byte*>(base);
  if (!costly(driver)) return false;
  return owned(first, bytes) != owned_.end() || find(driver, first, bytes, access);
}

Registration* Registrations::get(Driver& driver, void* base, uint64_t bytes, uint32_t access) {
  const bool keeps = costly_ && costly(driver);
  const auto* const first = static_cast<const std::byte*>(base);
  if (Registration* const r = keeps ? find(driver, first, bytes, access) : nullptr) {
    ++counters_.registrations_reused;
    in_use_ += r->users++ == 0;
    return r;
  }
  Registration* const r = pool_.get();
  if (!r) return nullptr;
  const auto whole = keeps && access == kLocal ? owned(first, bytes) : owned_.end();
  const bool widens = whole != owned_.end() && whole->second <= kWholeMost &&
                      reg(driver, const_cast<std::byte*>(whole->first), whole->second, access,
                          &r->region) == Status::ok;
  if (!widens && reg(driver, base, bytes, access, &r->region) != Status::ok) {
    pool_.put(r);
    return nullptr;
  }
  r->driver = &driver;
  r->users = 1;
  ++in_use_;
  if (keeps) keep(r);
  return r;
}

Status Registrations::reg(Driver& driver, void* base, uint64_t bytes, uint32_t access,
                          Region* out) {
  if (!costly_) return driver.reg(base, bytes, access, out);
  if (full_ == &driver) return Status::no_memory;
  Status status = Status::no_memory;
  do {
    status = driver.reg(base, bytes, access, out);
  } while (status == Status::no_memory && evict(driver));
  if (status == Status::no_memory && in_use_ > 0) full_ = &driver;
  if (!costly(driver)) return status;
  ++(status == Status::ok ? counters_.registrations_made : counters_.registrations_refused);
  return status;
}

void Registrations::keep(Registration* r) {
  const auto* const base = static_cast<const std::byte*>(r->region.base);
  const RegisteredMemory* const memory = r->driver->registered_memory();
  if (owned(base, r->region.bytes) == owned_.end() && !(memory && memory->tells_changes)) return;
  if (kept_.size() == kKeptMost && !evict(*r->driver)) return;
  kept_.push_back(r);
  r->kept = true;
}

// Gives back the one of this driver that nobody uses and that was used longest ago.
bool Registrations::evict(const Driver& driver) {
  const auto it = std::ranges::find_if(
      kept_, [&](const Registration* r) { return r->driver == &driver && r->users == 0; });
  if (it == kept_.end()) return false;
  ++counters_.registrations_evicted;
  forget(size_t(it - kept_.begin()));
  return true;
}

// It ends, as soon as nobody uses it.
void Registrations::forget(size_t index) {
  Registration* const r = kept_[index];
  kept_.erase(kept_.begin() + ptrdiff_t(index));
  r->kept = false;
  if (r->users == 0) end(r);
}

void Registrations::end(Registration* r) {
  r->driver->dereg(r->region);
  pool_.put(r);
}

void Registrations::put(Registration* r, bool good) {
  full_ = nullptr;
  in_use_ -= --r->users == 0;
  if (!good && r->kept) return forget(size_t(std::ranges::find(kept_, r) - kept_.begin()));
  if (r->users == 0 && !r->kept) end(r);
}

void Registrations::own(const void* base, uint64_t bytes) {
  if (costly_) owned_[static_cast<const std::byte*>(base)] = bytes;
}

void Registrations::disown(const void* base) {
  const auto it = owned_.find(static_cast<const std::byte*>(base));
  if (it == owned_.end()) return;
  const std::byte* const first = it->first;
  const std::byte* const end = first + it->second;
  owned_.erase(it);
  for (size_t i = kept_.size(); i-- > 0;) {
    const auto* const at = static_cast<const std::byte*>(kept_[i]->region.base);
    if (at < end && at + kept_[i]->region.bytes > first) forget(i);
  }
}

void Registrations::clear() {
  while (!kept_.empty()) forget(kept_.size() - 1);
}

}  // namespace torii
