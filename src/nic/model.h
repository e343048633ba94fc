// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The card's side: what an emulated card is written against. It sees accesses of its registers,
// packets, and a board with a clock, a bus and a port; it never sees a driver.
//
// A model's functions are called one at a time, and none blocks: what takes time is asked of the
// board, which calls back. Everything that comes from the host or from the network is checked
// before use, as a card must.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "nic/bus.h"
#include "nic/card.h"
#include "nic/crossbar.h"
#include "nic/engine.h"
#include "nic/link.h"
#include "nic/packet.h"
#include "nic/topology.h"

namespace torii::nic {

// A card's end of its cable.
class Port {
 public:
  virtual bool ready(unsigned channel) const = 0;
  // If ready() on the packet's channel; the CRC becomes right. On behalf of a context: its process
  // counts as open until all its packets are gone.
  virtual void send(unsigned context, Packet&& packet) = 0;
  // Between the bytes of other packets, as Link::steal(); on behalf of no process.
  virtual void steal(std::vector<std::byte> bytes) = 0;
  virtual void release(unsigned channel) = 0;  // the buffer of a packet that came in, once for each

  // For cards that know no channels, and packets that have nothing else to say.
  bool ready() const { return ready(0); }
  void send(unsigned context, std::vector<std::byte> bytes, uint8_t channel = 0) {
    Packet packet;
    packet.bytes = std::move(bytes);
    packet.channel = channel;
    send(context, std::move(packet));
  }
  void release() { release(0); }

 protected:
  ~Port() = default;
};

// Whoever sets up the cluster, as the kernel drivers know it: routes and groups.
class Manager {
 public:
  virtual const Routes& routes() const = 0;  // over the cables that work now
  // As the processes of that node see it.
  virtual Life life(uint32_t node, Name name) = 0;
  // Makes an endpoint a member of the group, which has a number on the fabric; leave() or its end
  // makes it none.
  virtual Status join(std::span<const std::byte> name, uint32_t endpoint, uint32_t* group) = 0;
  virtual void leave(uint32_t group, uint32_t endpoint) = 0;
  // The names of its members, by endpoint. Each process's liveness changes when they do.
  virtual std::vector<Name> members(uint32_t group) = 0;
  // The destination by which a packet of this node reaches all nodes with members; switches with
  // tables only.
  virtual uint32_t multicast(uint32_t group, uint32_t node) = 0;

 protected:
  ~Manager() = default;
};

// Calls of a kernel driver about groups, in this order: join {name of two words, its bytes}; out
// {group}. leave {group}. member {group, i}; out {Name of the ith member, kNobody: no more}.
enum class GroupCall : uint32_t { join, leave, member };

struct Board {
  Engine& engine;
  Bus& bus;
  Port& port;
  Manager& manager;
  uint32_t node;
  uint32_t nodes;  // of the network
  uint32_t contexts;
  std::span<std::byte> memory;  // CardKind::memory_bytes

  uint32_t endpoint(unsigned context) const { return node * contexts + context; }
  Status group_call(GroupCall call, unsigned context, const Control& in, Control* out) const;
};

class Model {
 public:
  virtual ~Model() = default;

  // A process has this context from now on; shared() of its card is at that bus address.
  virtual void open(unsigned context, Name name, uint64_t shared_address) = 0;
  // Nothing that its driver handed to the card waits to leave any more.
  virtual bool idle(unsigned context) const = 0;
  // While a process closes, what its driver would say: the process of that name, and those that had
  // its endpoint before, have ended, and nothing for them is to be sent again.
  virtual void peer_ended(Name) {}
  // Its process has ended: nothing is read from its memory or written to it any more.
  virtual void gone(unsigned context) = 0;

  // Inside the registers; offset and length are multiples of 4.
  virtual void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) = 0;
  virtual uint32_t bus_read(unsigned context, uint32_t at) = 0;
  virtual Status control(unsigned, const Control&, Control*) { return Status::unsupported; }

  virtual void arrive(Packet&& packet) = 0;
  virtual void port_ready() {}  // it takes another packet
  virtual void port_down() {}   // its cable does not work
  // One line for the report: what the card has counted.
  virtual std::string report() const = 0;
};

// A kind of card, and the network that it comes with.
struct CardKind {
  const char* name;
  const char* doc;
  uint32_t contexts;      // processes that share a card
  uint32_t bar_bytes;     // registers and memory
  uint32_t shared_bytes;  // of the host, for each context
  uint32_t memory_bytes;  // of the former, from 0 on: memory that loads do not change; see Board
  bool source_routed;     // packets begin with a byte for each switch; else with a node or a group
  LinkOptions link;
  BusOptions bus;
  CrossbarOptions crossbar;
  std::unique_ptr<Model> (*make)(const Board& board);
  // What its switches do with packets, if that is neither of the above; null: it is. The routes
  // outlive it, and change.
  std::unique_ptr<RoutePolicy> (*make_switches)(const Routes& routes) = nullptr;
  // Its switches themselves, if they are no crossbars of that kind; null: they are.
  std::unique_ptr<Switch> (*make_switch)(Engine& engine, unsigned number,
                                         const CrossbarOptions& options) = nullptr;
};

std::span<const CardKind> card_kinds();
// Null with the names that there are in *why.
const CardKind* find_card_kind(std::string_view name, std::string* why);
std::vector<std::string> parameter_names();
// Sets a parameter such as "link.rate". `invalid` with the reason in *why.
Status set_parameter(CardKind* kind, std::string_view name, std::string_view value,
                     std::string* why);

}  // namespace torii::nic
