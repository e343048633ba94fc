// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/bus.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/log.h"
#include "nic/trace.h"

namespace torii::nic {
namespace {

constexpr size_t kGathered = 4096;  // bytes of jobs that are moved by one

uint64_t time_of(size_t bytes, double rate) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(bytes) * 1e9 / rate));
}

}  // namespace

Bus::Bus(Engine& engine, const BusOptions& options, HostMemory& memory, std::string name)
    : engine_(engine), options_(options), memory_(memory), name_(std::move(name)) {}

unsigned Bus::add_channel() {
  channels_.emplace_back();
  return static_cast<unsigned>(channels_.size() - 1);
}

void Bus::dma_read(unsigned channel, uint64_t address, size_t bytes, ReadDone done,
                   unsigned tries) {
  add(channel, {.address = address,
                .bytes = std::vector<std::byte>(bytes),
                .tries = tries,
                .read_done = std::move(done)});
}

void Bus::dma_write(unsigned channel, uint64_t address, std::vector<std::byte> bytes,
                    WriteDone done, unsigned tries) {
  add(channel, {.write = true,
                .address = address,
                .bytes = std::move(bytes),
                .tries = tries,
                .write_done = std::move(done)});
}

void Bus::add(unsigned channel, Job job) {
  begin(job);
  channels_[channel].push_back(std::move(job));
  start_burst();
}

// Each try counts as a transfer.
void Bus::begin(Job& job) {
  counts_.transfers++;
  job.moved = 0;
  job.status = Status::ok;
  for (const FaultRule& rule : faults_) {
    if (rule.nth != counts_.transfers) continue;
    if (rule.fault == Fault::stall) job.not_before_ns = engine_.now_ns() + rule.for_ns;
    if (rule.fault == Fault::fail) job.status = Status::io_error;
  }
}

void Bus::start_burst() {
  if (in_burst_) return;
  const uint64_t now = engine_.now_ns();
  const auto start_at = [this](uint64_t ns) { start_.at(engine_, ns, [this] { start_burst(); }); };
  if (busy_until_ns_ > now) return start_at(busy_until_ns_);
  uint64_t later_ns = ~uint64_t{0};
  for (size_t i = 0; i < channels_.size(); i++) {
    const auto channel = static_cast<unsigned>((next_channel_ + i) % channels_.size());
    if (channels_[channel].empty()) continue;
    const Job& job = channels_[channel].front();
    if (job.not_before_ns > now) {
      later_ns = std::min(later_ns, job.not_before_ns);
      continue;
    }
    const size_t bytes = std::min<size_t>(job.bytes.size() - job.moved, options_.dma_burst);
    const double rate = job.write ? options_.dma_write_rate : options_.dma_read_rate;
    const uint64_t end = occupy(now, options_.dma_setup_ns + time_of(bytes, rate),
                                job.write ? "dma write" : "dma read");
    next_channel_ = channel + 1;
    in_burst_ = true;
    engine_.at(end, [this, channel, bytes] { end_burst(channel, bytes); });
    return;
  }
  if (later_ns != ~uint64_t{0}) start_at(later_ns);
}

void Bus::end_burst(unsigned channel, size_t bytes) {
  in_burst_ = false;
  Job& job = channels_[channel].front();
  const std::span part = std::span(job.bytes).subspan(job.moved, bytes);
  if (job.status == Status::ok) {
    job.status = move(channels_[channel], part);
    (job.write ? counts_.written_bytes : counts_.read_bytes) += bytes;
  }
  job.moved += bytes;
  if (job.moved < job.bytes.size() && job.status == Status::ok) return start_burst();
  counts_.failed += job.status != Status::ok;
  if (job.status == Status::io_error && --job.tries > 0) {
    begin(job);
    return start_burst();
  }
  const Job ended = std::move(job);
  channels_[channel].pop_front();
  if (ended.write_done) ended.write_done(ended.status);
  if (ended.read_done) ended.read_done(ended.status, ended.bytes);
  if (ended.write && changed) changed();
  start_burst();
}

// A part of the first job. If that saves work, the jobs that follow it in memory are moved as well;
// each ends in its time nevertheless.
Status Bus::move(std::deque<Job>& jobs, std::span<std::byte> part) {
  Job& first = jobs.front();
  if (first.is_moved) return Status::ok;
  const uint64_t address = first.address + first.moved;
  const bool is_far = part.size() == first.bytes.size() && memory_.is_far(address);
  std::vector<std::byte> all;
  auto end = jobs.begin();
  for (; is_far && end != jobs.end() && all.size() < kGathered; ++end) {
    if (end->write != first.write || end->status != Status::ok ||
        end->address != address + all.size())
      break;
    all.insert(all.end(), end->bytes.begin(), end->bytes.end());
  }
  if (all.size() <= part.size() || memory_.move(first.write, address, all) != Status::ok)
    return memory_.move(first.write, address, part);
  const std::byte* from = all.data();
  for (auto job = jobs.begin(); job != end; from += job++->bytes.size()) {
    job->is_moved = true;
    std::copy_n(from, job->bytes.size(), job->bytes.begin());
  }
  return Status::ok;
}

void Bus::interrupt(unsigned context) {
  const uint64_t nth = ++counts_.interrupts;
  const bool lost = std::ranges::any_of(faults_, [&](const FaultRule& rule) {
    return rule.fault == Fault::lose_irq && (rule.and_later ? nth >= rule.nth : nth == rule.nth);
  });
  if (engine_.trace)
    engine_.trace->record(engine_.now_ns(), 0, name_,
                          format_text("interrupt %u%s", context, lost ? ", lost" : ""));
  counts_.lost_interrupts += lost;
  if (lost) return;
  memory_.interrupt(context);
  if (changed) changed();
}

uint64_t Bus::store_ns(size_t bytes) const {
  return options_.write_ns + (bytes > 4 ? time_of(bytes - 4, options_.burst_rate) : 0);
}

uint64_t Bus::load(uint64_t from_ns, size_t bytes) {
  const uint64_t loads = (bytes + 3) / 4;
  const uint64_t busy = std::min(options_.read_busy_ns, options_.read_ns);
  return occupy(from_ns, loads * busy, "load") + loads * (options_.read_ns - busy);
}

uint64_t Bus::occupy(uint64_t from_ns, uint64_t ns, const char* what) {
  const uint64_t start = std::max(from_ns, busy_until_ns_);
  busy_until_ns_ = start + ns;
  counts_.busy_ns += ns;
  if (engine_.trace) engine_.trace->record(start, ns, name_, what);
  return busy_until_ns_;
}

}  // namespace torii::nic
