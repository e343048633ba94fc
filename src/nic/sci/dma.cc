// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Descriptors of the VIs. Both tables are checked for the process's tag before a byte moves.
#include <algorithm>

#include "nic/sci/card.h"

namespace torii::nic::sci {
namespace {

constexpr uint32_t kFetched = 512;  // bytes of a write, ahead of the ring

}  // namespace

// --- tables ----------------------------------------------------------------------------------

bool SciCard::translate(unsigned context, uint64_t local, uint64_t* address) const {
  return upstream_.find(context, local - upstream_at(context, 0), kEntered, address);
}

bool SciCard::find_import(unsigned context, uint64_t remote, Header* target) const {
  uint64_t place;
  const uint64_t at = remote - context * uint64_t{kWindowBytes};
  if (!downstream_.find(context, at, kEntered, &place)) return false;
  target->to = static_cast<uint16_t>(place >> 32);
  target->address = static_cast<uint32_t>(place);
  return true;
}

// --- descriptors -----------------------------------------------------------------------------

// What the bus calls at the end of a transfer for the descriptor under way. Nothing happens if that
// one has ended meanwhile.
template <typename Then>
auto SciCard::under_way(Vi& vi, Then then) {
  return
      [this, &vi, serial = vi.serial, then](Status status, std::span<const std::byte> bytes = {}) {
        if (vi.serial != serial) return;
        if (status != Status::ok) vi.jobs.front().status |= kProtectionError;
        then(*this, vi, bytes);
        fetch(vi);
        settle(vi);
        pump();
      };
}

void SciCard::post(Vi& vi, Job job) {
  bad_descriptors_ += vi.jobs.size() == kPostedMax;
  if (vi.jobs.size() == kPostedMax) return;
  vi.jobs.push_back(std::move(job));
  begin(vi);
}

void SciCard::begin(Vi& vi) {
  if (vi.serial || vi.jobs.empty()) return;
  Job& job = vi.jobs.front();
  vi.serial = ++serials_;
  const auto begun = under_way(vi, [](SciCard& card, Vi& of, std::span<const std::byte> bytes) {
    Job& loaded = of.jobs.front();
    if (bytes.empty()) return;
    loaded.d = header_of<Descriptor>(bytes);
    card.check(of, loaded);
  });
  uint64_t address;
  if (vi.is_broken) {
    job.status = kFlushed;
  } else if (job.d.segments > 0) {
    check(vi, job);
  } else if (job.at % sizeof(Descriptor) || !translate(vi.context, job.at, &address)) {
    job.status = kProtectionError;
  } else {
    return board_.bus.dma_read(reader_, address, sizeof(Descriptor), begun, kBusTries);
  }
  // Not at once: completions of a VI in error state would nest.
  board_.engine.after(0, [begun] { begun(Status::ok); });
}

void SciCard::check(const Vi& vi, Job& job) {
  const Descriptor& d = job.d;
  if (d.segments != 2 || (d.control != kRdmaWrite && d.control != kRdmaRead)) {
    job.status = kFormatError;
  } else if (d.length != d.bytes || d.bytes > kTransferMax) {
    job.status = kLengthError;
  }
  uint64_t ignored;
  Header target;
  for (uint64_t i = 0; d.bytes > 0 && !job.status && i < d.bytes + kPageBytes; i += kPageBytes) {
    const uint64_t at = std::min<uint64_t>(i, d.bytes - 1);
    if (!translate(vi.context, d.local + at, &ignored) ||
        !find_import(vi.context, d.remote + at, &target))
      job.status = kProtectionError;
  }
}

// Reads the next part of a write from memory.
void SciCard::fetch(Vi& vi) {
  Job& job = vi.jobs.front();
  const uint64_t at = job.cut + job.data.size(), local = job.d.local + at;
  if (job.status || job.is_fetching || job.d.control != kRdmaWrite || at == job.d.bytes ||
      job.data.size() > kFetched)
    return;
  uint64_t address;
  if (!translate(vi.context, local, &address)) {
    job.status |= kProtectionError;
    return;
  }
  job.is_fetching = true;
  const size_t bytes = upstream_.in_page(local, std::min(job.d.bytes - at, uint64_t{kFetched}));
  const auto fetched = under_way(vi, [](SciCard&, Vi& of, std::span<const std::byte> data) {
    Job& first = of.jobs.front();
    first.is_fetching = false;
    first.data.insert(first.data.end(), data.begin(), data.end());
  });
  board_.bus.dma_read(reader_, address, bytes, fetched, kBusTries);
}

// The last packet of a write leaves when the others have arrived: a process there may wait for it.
bool SciCard::issue_part(Vi& vi) {
  if (!vi.serial) return false;
  Job& job = vi.jobs.front();
  const Descriptor& d = job.d;
  if (job.status || job.cut == d.bytes) return false;
  const uint64_t remote = d.remote + job.cut;
  const auto n = static_cast<uint32_t>(upstream_.in_page(
      d.local + job.cut, std::min<uint64_t>(kLineBytes - remote % kLineBytes, d.bytes - job.cut)));
  const bool is_read = d.control == kRdmaRead;
  if (!is_read && (job.data.size() < n || (job.cut + n == d.bytes && job.out > 0))) return false;
  Header header{};
  if (!find_import(vi.context, remote, &header)) {
    job.status |= kProtectionError;
    settle(vi);
    return false;
  }
  header.command = is_read ? Command::read : Command::write;
  header.of = static_cast<uint8_t>(n);
  const uint32_t carried = is_read ? 0 : n;
  start({vi.context, processes_[vi.context].name, &vi, vi.serial, job.cut}, header,
        std::span(job.data).first(carried));
  job.data.erase(job.data.begin(), job.data.begin() + carried);
  job.cut += n;
  job.out++;
  if (!is_read) fetch(vi);
  return true;
}

// A part has been answered. Data that were read are stored here.
void SciCard::end_part(const Buffer& request, Result result, std::span<const std::byte> data) {
  Vi& vi = *request.owner.vi;
  if (vi.serial != request.owner.job) return;
  Job& job = vi.jobs.front();
  uint64_t address;
  job.out--;
  if (result != Result::ok) {
    job.status |= result == Result::refused ? kRdmaProtectionError : kTransportError;
  } else if (request.header.command == Command::read &&
             (data.size() != request.header.of ||
              !translate(vi.context, job.d.local + request.owner.offset, &address))) {
    job.status |= kProtectionError;
  } else if (request.header.command == Command::read) {
    job.out++;
    board_.bus.dma_write(
        writer_, address, Bytes(data.begin(), data.end()),
        under_way(vi, [](SciCard&, Vi& of, std::span<const std::byte>) { of.jobs.front().out--; }),
        kBusTries);
  }
  settle(vi);
}

// Ends the descriptor, if nothing of it is under way.
void SciCard::settle(Vi& vi) {
  Job& first = vi.jobs.front();
  if (first.out > 0 || first.is_fetching || (first.cut < first.d.bytes && !first.status)) return;
  Process& process = processes_[vi.context];
  const Job job = std::move(first);
  vi.jobs.pop_front();
  vi.serial = 0;
  const uint32_t status = job.status ? job.status : uint32_t{kDone};
  bad_descriptors_ += status != kDone;
  if (status & kTransportError) vi.is_broken = true;
  const auto write = [&](bool is_wanted, uint64_t at, const auto& value, auto done) {
    uint64_t address;
    if (!is_wanted || !translate(vi.context, at, &address)) return done(Status::denied);
    board_.bus.dma_write(writer_, address, make_bytes(value), done, kBusTries);
  };
  write(job.at % sizeof(Descriptor) == 0, job.at + offsetof(Descriptor, length),
        std::array{status == kDone ? job.d.bytes : 0, status}, [](Status) {});
  const uint32_t slot = process.completions++ % std::max(process.entries, 1u);
  write(process.entries > 0, process.queue + slot * sizeof(Completion),
        Completion{job.at, vi.number, status, process.completions},
        [this, context = vi.context, name = process.name](Status) {
          if (is_there(context, name)) raise(context, kCauseDone);
        });
  begin(vi);
}

}  // namespace torii::nic::sci
