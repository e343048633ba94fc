// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A channel over a tagged port.
#include <algorithm>
#include <cstring>

#include "core/tools/perf/torii_perf_channel.h"

namespace torii::perf {

namespace {

constexpr unsigned kPort = 0;

torii_data_t flat(void* base, uint64_t bytes) {
  torii_data_t data{};
  data.base = base;
  data.bytes = bytes;
  return data;
}

class TaggedChannel final : public Channel {
 public:
  TaggedChannel(Job& job, const ChannelOptions& options)
      : Channel(job, options), peer_(job.peer(job.partner())) {
    if (torii_port_open(job.handle(), kPort, &port_) != TORII_OK) die("%s", torii_error());
    const torii_data_t nothing = flat(nullptr, 0);
    for (uint32_t i = 0; i < options.posted; ++i)
      receive(stranger_tag(i), options.kind, nothing, &strangers_received_);
  }

  ~TaggedChannel() override {
    torii_port_close(port_);
    finish_sends();
    while (strangers_sent_.done != strangers_sent_.begun)
      job_.idle();  // discarded by the other end
  }

  void expect(Lane lane, unsigned count, uint64_t bytes) override {
    const Kind kind = lane == Lane::data ? options_.kind : Kind::exact;
    for (unsigned i = 0; i < count; ++i)
      receive(lane_tag(lane), kind, part(target_.get(), i, bytes), &received_[unsigned(lane)]);
  }

  void send(Lane lane, unsigned count, uint64_t bytes) override {
    for (unsigned i = 0; i < count; ++i)
      send_one(lane_tag(lane), part(source_.get(), i, bytes), &sent_);
  }

  void finish_sends() override {
    while (sent_.done != sent_.begun) job_.idle();
    job_.busy();
  }

  void await(Lane lane, unsigned count) override {
    uint64_t& taken = taken_[unsigned(lane)];
    taken += count;
    while (received_[unsigned(lane)] < taken) job_.idle();
    job_.busy();
  }

  void send_strangers(uint32_t count) override {
    const torii_data_t nothing = flat(nullptr, 0);
    for (uint32_t i = 0; i < count; ++i) {
      send_one(stranger_tag(i), nothing, &strangers_sent_);
      torii_progress(job_.handle());
    }
  }

  void get(unsigned, uint64_t) override { die("tagged ports have no get"); }

 private:
  // Where message `i` of a call is; the last ones begin anew at the front.
  torii_data_t part(void* base, unsigned i, uint64_t bytes) const {
    const uint64_t places = bytes > 0 ? std::max<uint64_t>(options_.spread / bytes, 1) : 1;
    return flat(static_cast<std::byte*>(base) + i % places * bytes, bytes);
  }

  struct Sends {  // those that were not complete at once
    uint64_t begun = 0;
    uint64_t done = 0;
  };

  static void count(void* counter, const torii_result_t* result) {
    if (result->code != TORII_OK) die("a message failed: %s", torii_code_text(result->code));
    ++*static_cast<uint64_t*>(counter);
  }

  void receive(uint64_t tag, Kind kind, const torii_data_t& data, uint64_t* counter) {
    torii_peer_t* source = kind == Kind::any_source ? nullptr : peer_;
    const uint64_t ignore = kind == Kind::any_tag ? kLowHalf : 0;
    torii_result_t result;
    const int code =
        torii_recv(port_, source, tag, ignore, &data, count, counter, nullptr, &result);
    if (code == TORII_OK) ++*counter;
    if (code < 0) die("torii_recv: %s", torii_code_text(code));
  }

  void send_one(uint64_t tag, const torii_data_t& data, Sends* sends) {
    const int code =
        torii_send(port_, peer_, TORII_STANDARD, tag, 0, &data, count, &sends->done, nullptr);
    if (code < 0) die("torii_send: %s", torii_code_text(code));
    if (code == TORII_PENDING) ++sends->begun;
  }

  torii_peer_t* peer_;
  torii_port_t* port_ = nullptr;
  Sends sent_;
  Sends strangers_sent_;
  uint64_t received_[kLanes] = {};
  uint64_t taken_[kLanes] = {};
  uint64_t strangers_received_ = 0;
};

}  // namespace

const char* kind_name(Kind kind) {
  constexpr const char* kNames[kKinds] = {"exact", "any-source", "any-tag"};
  return kNames[unsigned(kind)];
}

Channel::Channel(Job& job, const ChannelOptions& options) : job_(job), options_(options) {
  const size_t most = std::max<size_t>({options.bytes, options.spread, 1});
  const size_t bytes = (most + kPage - 1) / kPage * kPage;
  source_.reset(std::aligned_alloc(kPage, bytes));
  target_.reset(std::aligned_alloc(kPage, bytes));
  if (!source_ || !target_) die("no memory for messages of %zu bytes", bytes);
  std::memset(source_.get(), 0x5a, bytes);
  std::memset(target_.get(), 0, bytes);
}

std::unique_ptr<Channel> Channel::open(Level level, Job& job, const ChannelOptions& options) {
  return level == Level::tagged ? open_tagged_channel(job, options)
                                : open_portals_channel(job, options);
}

std::unique_ptr<Channel> open_tagged_channel(Job& job, const ChannelOptions& options) {
  return std::make_unique<TaggedChannel>(job, options);
}

}  // namespace torii::perf
