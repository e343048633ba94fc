// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One end of a pair of processes that exchange messages: over a tagged port, or by Portals puts
// and gets. Messages travel in two lanes that never match each other: the data that is measured,
// and empty answers. Functions that wait make progress; any failure ends the program.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "core/tools/perf/torii_perf_job.h"
#include "core/tools/perf/torii_perf_options.h"

namespace torii::perf {

enum class Lane : uint8_t { data, answer };
inline constexpr unsigned kLanes = 2;

// How the receives (entries) of the data lane, and those of a queue, are written.
enum class Kind : uint8_t { exact, any_source, any_tag };
inline constexpr unsigned kKinds = 3;
const char* kind_name(Kind kind);

struct ChannelOptions {
  uint64_t bytes = 0;   // longest message
  unsigned window = 1;  // most messages of a lane expected at once
  uint64_t spread =
      0;  // tagged: messages of a call lie side by side in so many bytes, not in one place
  Kind kind = Kind::exact;
  uint32_t posted = 0;      // entries before the measured ones that nothing matches
  bool unexpected = false;  // messages that nothing matches may come, by send_strangers():
  uint32_t strangers = 0;   // so many, at most
};

// Tag (match bits) of the lanes; entries and messages that nothing matches count from kStranger
// in the upper half, so that a wildcard for the lower half tells them from the lanes.
inline constexpr uint64_t kStranger = 16;
inline constexpr uint64_t kLowHalf = 0xffffffff;
inline uint64_t lane_tag(Lane lane) { return uint64_t(lane) << 32; }
inline uint64_t stranger_tag(uint32_t index) { return (kStranger + index) << 32; }

class Channel {
 public:
  // Both ends make theirs with equal options, then pass a barrier.
  static std::unique_ptr<Channel> open(Level level, Job& job, const ChannelOptions& options);
  // After a barrier; lets go of the queues.
  virtual ~Channel() = default;

  // `count` more messages of at most `bytes` bytes may come.
  virtual void expect(Lane lane, unsigned count, uint64_t bytes) = 0;
  virtual void send(Lane lane, unsigned count, uint64_t bytes) = 0;
  // Until what was sent is complete here.
  virtual void finish_sends() = 0;
  // Until `count` more messages have been received.
  virtual void await(Lane lane, unsigned count) = 0;
  // Sends messages that the other end has no receive for.
  virtual void send_strangers(uint32_t count) = 0;
  // Fetches `bytes` bytes of the other end `count` times, and waits for them.
  virtual void get(unsigned count, uint64_t bytes) = 0;

 protected:
  explicit Channel(Job& job, const ChannelOptions& options);

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  Job& job_;
  const ChannelOptions options_;
  std::unique_ptr<void, Free> source_;
  std::unique_ptr<void, Free> target_;
};

// By Channel::open().
std::unique_ptr<Channel> open_tagged_channel(Job& job, const ChannelOptions& options);
std::unique_ptr<Channel> open_portals_channel(Job& job, const ChannelOptions& options);

}  // namespace torii::perf
