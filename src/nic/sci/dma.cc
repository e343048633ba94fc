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

// The descriptor under way, if it is still that one.
SciCard::Job* SciCard::find_job(unsigned context, unsigned vi, uint64_t serial) {
  Vi& owner = processes_[context].vis[vi];
  return owner.serial == serial ? &owner.jobs.front() : nullptr;
}

// --- tables ----------------------------------------------------------------------------------

bool SciCard::is_its(unsigned context, bool is_checked, uint32_t tag) const {
  return tag != 0 && (is_checked || tag == processes_[context].tag);
}

bool SciCard::translate(unsigned context, bool is_checked, uint64_t local,
                        uint64_t* address) const {
  const uint64_t page = local / kPageBytes;
  if (page >= upstream_.size()) return false;
  *address = upstream_[page].address + local % kPageBytes;
  return is_its(context, is_checked, upstream_[page].tag);
}

const SciCard::Downstream* SciCard::import_of(unsigned context, bool is_checked,
                                              uint64_t remote) const {
  const uint64_t page = remote / kWindowPageBytes;
  if (page >= downstream_.size()) return nullptr;
  return is_its(context, is_checked, downstream_[page].tag) ? &downstream_[page] : nullptr;
}

// --- descriptors -----------------------------------------------------------------------------

void SciCard::post(unsigned context, unsigned vi, Job job) {
  Vi& owner = processes_[context].vis[vi];
  if (owner.jobs.size() == kPostedMax) {
    bad_descriptors_++;
    return;
  }
  owner.jobs.push_back(std::move(job));
  begin(context, vi);
}

void SciCard::begin(unsigned context, unsigned vi) {
  Vi& owner = processes_[context].vis[vi];
  if (owner.serial || owner.jobs.empty()) return;
  Job& job = owner.jobs.front();
  owner.serial = ++serials_;
  uint64_t address;
  const auto loaded = [this, context, vi, serial = owner.serial](Status status,
                                                                 std::span<const std::byte> bytes) {
    Job* const first = find_job(context, vi, serial);
    if (!first) return;
    if (status != Status::ok) first->status = kProtectionError;
    if (!bytes.empty()) std::memcpy(&first->d, bytes.data(), sizeof(Descriptor));
    if (!first->status) check(context, *first);
    advance(context, vi);
  };
  if (owner.is_broken) {
    job.status = kFlushed;
  } else if (!job.is_checked &&
             (job.at % sizeof(Descriptor) || !translate(context, false, job.at, &address))) {
    job.status = kProtectionError;
  } else if (!job.is_checked) {
    return read_host(reader_, address, sizeof(Descriptor), loaded);
  }
  // Not at once: completions of a VI in error state would nest.
  board_.engine.after(0, [loaded] { loaded(Status::ok, {}); });
}

void SciCard::check(unsigned context, Job& job) {
  const Descriptor& d = job.d;
  const uint32_t operation = d.control & kOperation;
  job.is_loaded = true;
  if (d.segments != 2 || d.control != operation ||
      (operation != kRdmaWrite && operation != kRdmaRead)) {
    job.status = kFormatError;
  } else if (d.length != d.bytes || d.bytes > kTransferMax) {
    job.status = kLengthError;
  }
  uint64_t ignored;
  for (uint64_t i = 0; d.bytes > 0 && !job.status && i < d.bytes + kPageBytes; i += kPageBytes) {
    const uint64_t at = std::min<uint64_t>(i, d.bytes - 1);
    if (!translate(context, job.is_checked, d.local + at, &ignored) ||
        !import_of(context, job.is_checked, d.remote + at))
      job.status = kProtectionError;
  }
}

// Reads the next part of a write from memory.
void SciCard::fetch(unsigned context, unsigned vi) {
  Vi& owner = processes_[context].vis[vi];
  Job& job = owner.jobs.front();
  const uint64_t at = job.cut + job.data.size(), local = job.d.local + at;
  if (job.status || job.is_fetching || (job.d.control & kOperation) != kRdmaWrite ||
      at == job.d.bytes || job.data.size() > kFetched)
    return;
  const uint64_t bytes =
      std::min({job.d.bytes - at, uint64_t{kFetched}, kPageBytes - local % kPageBytes});
  uint64_t address;
  if (!translate(context, job.is_checked, local, &address)) {
    job.status |= kProtectionError;
    return;
  }
  job.is_fetching = true;
  read_host(
      reader_, address, bytes,
      [this, context, vi, serial = owner.serial](Status status, std::span<const std::byte> data) {
        Job* const fetched = find_job(context, vi, serial);
        if (!fetched) return;
        fetched->is_fetching = false;
        if (status != Status::ok)
          fetched->status |= kProtectionError;
        else
          fetched->data.insert(fetched->data.end(), data.begin(), data.end());
        advance(context, vi);
      });
}

// The last packet of a write leaves when the others have arrived: a process there may wait for it.
bool SciCard::issue_part(unsigned context, unsigned vi) {
  Vi& owner = processes_[context].vis[vi];
  if (!owner.serial) return false;
  Job& job = owner.jobs.front();
  const Descriptor& d = job.d;
  if (!job.is_loaded || job.status || job.cut == d.bytes) return false;
  const uint64_t remote = d.remote + job.cut, local = d.local + job.cut;
  const auto n = static_cast<uint32_t>(std::min<uint64_t>(
      {kLineBytes - remote % kLineBytes, kPageBytes - local % kPageBytes, d.bytes - job.cut}));
  const bool is_read = (d.control & kOperation) == kRdmaRead;
  if (!is_read && (job.data.size() < n || (job.cut + n == d.bytes && job.out > 0))) return false;
  const Downstream* const page = import_of(context, job.is_checked, remote);
  if (!page) {
    job.status |= kProtectionError;
    settle(context, vi);
    return false;
  }
  if (!may_send(page->node)) return false;
  Request request = make_request(context, is_read ? Command::read : Command::write, page->node,
                                 page->address + static_cast<uint32_t>(remote % kWindowPageBytes));
  request.header.of = static_cast<uint8_t>(n);
  request.vi = vi;
  request.job = owner.serial;
  request.offset = job.cut;
  const auto end = job.data.begin() + (is_read ? 0 : n);
  const Bytes data(job.data.begin(), end);
  job.data.erase(job.data.begin(), end);
  job.cut += n;
  job.out++;
  if (!is_read) fetch(context, vi);
  start(std::move(request), data);
  return true;
}

// A part has been answered. Data that were read are stored here.
void SciCard::end_part(const Request& request, Result result, std::span<const std::byte> data) {
  const unsigned context = request.context, vi = request.vi;
  Job* const job = find_job(context, vi, request.job);
  uint64_t address;
  if (!job) return;
  job->out--;
  if (result == Result::refused) {
    job->status |= kRdmaProtectionError;
  } else if (result != Result::ok) {
    job->status |= kTransportError;
  } else if (request.header.command == Command::write) {
    // There is nothing to store.
  } else if (data.size() != request.header.of ||
             !translate(context, job->is_checked, job->d.local + request.offset, &address)) {
    job->status |= kProtectionError;
  } else {
    job->out++;
    write_host(address, {data.begin(), data.end()},
               [this, context, vi, serial = request.job](Status status) {
                 Job* const stored = find_job(context, vi, serial);
                 if (!stored) return;
                 stored->out--;
                 if (status != Status::ok) stored->status |= kProtectionError;
                 advance(context, vi);
               });
  }
  settle(context, vi);
}

void SciCard::advance(unsigned context, unsigned vi) {
  fetch(context, vi);
  settle(context, vi);
  pump();
}

// Ends the descriptor, if nothing of it is under way.
void SciCard::settle(unsigned context, unsigned vi) {
  const Job& job = processes_[context].vis[vi].jobs.front();
  if (job.out > 0 || job.is_fetching || (job.cut < job.d.bytes && !job.status)) return;
  complete(context, vi);
}

void SciCard::complete(unsigned context, unsigned vi) {
  Process& process = processes_[context];
  Vi& owner = process.vis[vi];
  const Job job = std::move(owner.jobs.front());
  owner.jobs.pop_front();
  owner.serial = 0;
  const uint32_t status = job.status ? job.status : uint32_t{kDone};
  bad_descriptors_ += status != kDone;
  if (status & kTransportError) owner.is_broken = true;
  const auto write = [&](bool is_wanted, uint64_t at, const auto& value, auto done) {
    uint64_t address;
    const auto* const from = reinterpret_cast<const std::byte*>(&value);
    if (!is_wanted || !translate(context, false, at, &address)) return done(Status::denied);
    write_host(address, Bytes(from, from + sizeof(value)), done);
  };
  const std::array<uint32_t, 2> words{status == kDone ? job.d.bytes : 0, status};
  write(job.at % sizeof(Descriptor) == 0, job.at + offsetof(Descriptor, length), words,
        [](Status) {});
  const uint32_t slot = process.completions++ % std::max(process.entries, 1u);
  const Completion completion{job.at, vi, status, process.completions};
  write(process.entries > 0, process.queue + slot * sizeof(Completion), completion,
        [this, context, name = process.name](Status) {
          if (is_there(context, name)) raise(context, kCauseDone);
        });
  begin(context, vi);
}

}  // namespace torii::nic::sci
