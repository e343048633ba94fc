// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// One direction of a cable, with the circuits at both of its ends: rate, delay, bit errors, flow
// control by credit, and, if it has a window, CRC check and resend at every hop (go back N).
//
// What it leaves out: acknowledgements and credits take time, but no room on the way back. Of a
// packet with a bad CRC nothing is passed on, although a cut-through switch would have begun to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "nic/engine.h"
#include "nic/faults.h"
#include "nic/packet.h"

namespace torii::nic {

struct LinkOptions {
  double rate = 1e9;       // bit/s
  uint64_t delay_ns = 50;  // of cable and transceivers, one way
  uint64_t overhead = 4;   // bytes that each packet takes beside its own: CRC, framing
  uint64_t head = 16;      // bytes after which a cut-through switch begins
  uint64_t buffers = 4;    // packets of a channel that the receiving end has room for; else the
                           // sender waits
  uint64_t window = 0;     // packets kept until acknowledged; 0: bad ones arrive as they are
  uint64_t timeout_ns = 20000;  // without an acknowledgement: sent again
  uint64_t tries = 8;           // timeouts in a row after which the link is down
  bool channels = false;        // all of kChannels are used; without a window only
};

class Link;

// A card or a switch: the circuits at the ends of its links.
class LinkEnd {
 public:
  // `in` and `out` are connected to this with that port.
  virtual void connect(unsigned port, Link* in, Link* out) = 0;
  // Of a link that this feeds: it takes another packet.
  virtual void link_ready(Link& link) = 0;
  // It is down. The packets that have not arrived.
  virtual void link_down(Link& link, std::vector<Packet>&& unsent) = 0;
  // At the other end. The packet takes a buffer of its channel until Link::release(): once its tail
  // has left there, or at once.
  virtual void link_arrive(Link& link, Packet&& packet) = 0;

 protected:
  ~LinkEnd() = default;
};

class Link {
 public:
  Link(Engine& engine, const LinkOptions& options, std::string name);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  // What it connects; `cut_through`: packets arrive with their head, else with their tail.
  void connect(LinkEnd* source, unsigned source_port, LinkEnd* target, unsigned target_port,
               bool cut_through);
  unsigned source_port() const { return source_port_; }
  unsigned target_port() const { return target_port_; }
  const std::string& name() const { return name_; }
  const LinkOptions& options() const { return options_; }

  // Packets of a link that was cut and has no window are lost. One that is down takes none.
  // Where there are channels it takes what it can transmit as soon as it is free.
  bool ready(unsigned channel = 0) const {
    if (options_.channels) return !down_ && queue_.empty() && credits_[channel] > 0;
    return !down_ && queue_.size() < std::max<uint64_t>(options_.window, 1);
  }
  void send(Packet&& packet);  // if ready(); its CRC is as it shall be
  // Sends a few bytes at once, between those of other packets: they take no time from these, and
  // wait for no buffer. The target releases them as it does others. Lost ones are not sent again.
  void steal(Packet&& packet);
  void release(unsigned channel = 0);
  // Appends what has not arrived; with a window only. It never will.
  void take_all(std::vector<Packet>* out);
  bool down() const { return down_; }
  uint64_t transfer_ns(size_t bytes) const;  // on the wire, with overhead

  // `back` is the other direction, which a cut cuts as well.
  void add_fault(const FaultRule& rule, Link* back = nullptr);
  void cut();
  void restore();  // also what is down

  struct Counts {
    uint64_t packets = 0;  // transmitted, resends included
    uint64_t bytes = 0;    // of these
    uint64_t resends = 0;
    uint64_t bad_crc = 0;  // noticed by the link
    uint64_t lost = 0;
    uint64_t busy_ns = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Item {
    Packet packet;
    uint64_t serial = 0;
    bool lost = false;  // on the wire
  };

  bool keeps() const { return options_.window > 0; }
  void pump();
  void transmit(Item& item);
  Item fly(Packet&& packet, uint64_t serial, uint64_t until_ns);
  void spoil(Packet& packet);
  void land(std::deque<Item>& wire);
  void answer(uint64_t expected, bool again);
  void send_again();
  void renew_deadline(uint64_t from_ns);
  void watch();
  void give_up();

  Engine& engine_;
  const LinkOptions options_;
  const std::string name_;
  LinkEnd *source_ = nullptr, *target_ = nullptr;
  unsigned source_port_ = 0, target_port_ = 0;
  bool cut_through_ = false;

  // The sending end.
  std::deque<Item> queue_;  // with a window until acknowledged, else until the tail has left
  size_t sent_ = 0;         // of the queue: transmitted
  uint64_t next_serial_ = 1;
  std::array<int64_t, kChannels>
      credits_;  // by channel; stolen cycles may take more than there are
  uint64_t busy_until_ns_ = 0;
  uint64_t deadline_ns_ = 0;  // of the oldest in the queue
  uint64_t tries_ = 0;
  Alarm pump_, watch_;
  bool down_ = false;
  // The wire and the receiving end.
  std::deque<Item> wire_, stolen_;
  uint64_t expected_ = 1;
  // Faults.
  std::vector<FaultRule> faults_;  // by count
  Link* back_ = nullptr;
  bool cut_ = false;
  double ber_ = 0, bits_to_error_ = 0;
  uint32_t drop_ppm_ = 0;
  Random noise_{0}, losses_{0};
  Counts counts_;
};

}  // namespace torii::nic
