// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Faults of frames to lossy groups. They strike where a frame arrives, because each member of such
// a group misses other frames.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "drivers/fault/fault.h"

namespace torii {

class Arrivals {
 public:
  using HandUp = std::function<void(PeerId group, std::span<const std::byte> frame)>;

  Arrivals(FaultPlan& plan, Random& random) : plan_(plan), random_(random) {}

  void join(PeerId group) { groups_.push_back(group); }
  void leave(PeerId group) {
    std::erase(groups_, group);
    std::erase_if(strays_, [&](const Stray& one) { return one.group == group; });
  }
  bool has(PeerId id) const {
    return std::find(groups_.begin(), groups_.end(), id) != groups_.end();
  }
  bool any_held() const { return !strays_.empty(); }

  // Hands up what is left of the frame, and others whose time has come.
  void arrive(PeerId group, std::span<const std::byte> frame, uint64_t now_ns, const HandUp& up) {
    const uint32_t faults = choose(group, frame);
    const auto has_fault = [&](Fault fault) { return faults >> static_cast<unsigned>(fault) & 1; };
    std::vector<std::byte> bytes(frame.begin(), frame.end());
    if (has_fault(Fault::corrupt) && !bytes.empty())
      bytes[random_.next() % bytes.size()] ^= std::byte{1} << random_.between(0, 7);
    if (has_fault(Fault::truncate) && bytes.size() > 1)
      bytes.resize(random_.between(1, bytes.size() - 1));
    const bool late = has_fault(Fault::reorder) || has_fault(Fault::delay);
    if (!has_fault(Fault::drop)) {
      if ((late || has_fault(Fault::duplicate)) && strays_.size() < kStraysMax)
        strays_.push_back({group, bytes, now_ns + plan_.delay_max_ns,
                           static_cast<uint32_t>(random_.between(2, 4))});
      if (!late) up(group, bytes);
    }
    // This frame itself is counted among those that overtake.
    for (Stray& one : strays_) one.overtakers -= one.group == group && one.overtakers > 0;
    release(now_ns, up);
  }

  // Hands up what has waited long enough; returns how many frames.
  unsigned release(uint64_t now_ns, const HandUp& up) {
    unsigned count = 0;
    for (size_t i = 0; i < strays_.size();) {
      if (strays_[i].overtakers && strays_[i].release_ns > now_ns) {
        i++;
        continue;
      }
      const Stray one = std::move(strays_[i]);
      strays_.erase(strays_.begin() + static_cast<ptrdiff_t>(i));
      up(one.group, one.bytes);
      count++;
    }
    return count;
  }

 private:
  static constexpr size_t kStraysMax = 1024;
  struct Stray {
    PeerId group;
    std::vector<std::byte> bytes;
    uint64_t release_ns;
    uint32_t overtakers;  // later frames still to arrive first
  };

  // As bits. A refusal or a kill is no fault of a frame that arrives.
  uint32_t choose(PeerId group, std::span<const std::byte> frame) {
    uint32_t faults = 0;
    for (size_t i = 0; i < kFaultCount; i++)
      if (random_.chance(plan_.ppm[i])) faults |= 1u << i;
    for (FaultRule& rule : plan_.rules) {
      const bool about_frames =
          rule.fault != Fault::deny && rule.fault != Fault::refuse && rule.fault != Fault::kill;
      const auto offset = static_cast<size_t>(rule.offset);
      if (!about_frames || (rule.peer != kNoPeer && rule.peer != group) ||
          (rule.offset >= 0 && (offset >= frame.size() || frame[offset] != std::byte{rule.value})))
        continue;
      rule.seen++;
      if (rule.seen == rule.nth || (rule.and_later && rule.seen > rule.nth))
        faults |= 1u << static_cast<unsigned>(rule.fault);
    }
    return faults;
  }

  FaultPlan& plan_;
  Random& random_;
  std::vector<PeerId> groups_;
  std::vector<Stray> strays_;
};

}  // namespace torii
