// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The Elan: command port, events, MMU, the DMA engine with its two channels (dma.cc), and the input
// (input.cc). Its processes' DMAs form flows: one for frames and one for remote memory to each
// process, and one for broadcasts. A flow's packets are stored once and in order, whatever is sent
// again: the other side knows the number of the last one.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "nic/model.h"
#include "nic/qsnet/elite.h"
#include "nic/qsnet/regs.h"

namespace torii::nic::qsnet {

// Behind the Front of a packet with data; then come the data.
struct Body {
  Name from, to;      // `to`: of a broadcast the group
  uint32_t number;    // in its flow, from 1
  uint8_t operation;  // Type; kDmaWrite with kReply: answers a kDmaRead
  uint8_t flags;
  uint16_t behind;   // the oldest packet of the flow that may be missing
  uint64_t address;  // in a slot the offset; of kDmaTest that of the event
  uint32_t total;    // bytes of the DMA
  uint32_t
      event;  // with kLast of kDmaWrite: set; of kDmaRead and its reply the initiator's descriptor
  uint32_t cookie;  // of kDmaRead and its reply
  uint32_t bytes;   // of the data; they travel in whole blocks
};
static_assert(sizeof(Body) == 40);
enum Flag : uint8_t { kFirst = 1, kLast = 2, kVoid = 4, kReply = 8 };

class Elan final : public Model {
 public:
  explicit Elan(const Board& board);

  void open(unsigned context, Name name, uint64_t shared_address) override;
  bool idle(unsigned context) const override;
  void gone(unsigned context) override;
  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override;
  uint32_t bus_read(unsigned context, uint32_t at) override;
  Status control(unsigned context, const Control& in, Control* out) override;
  void arrive(Packet&& packet) override;
  void port_ready() override;
  std::string report() const override;

 private:
  static constexpr uint64_t kStepNs = 400;      // of the microcode processor: an assumption
  static constexpr uint64_t kWalkNs = 400;      // of the tables, for one page
  static constexpr uint64_t kTokenNs = 200000;  // then it is lost
  static constexpr uint64_t kEarlyNs = 500;     // after these a packet is sent again
  static constexpr uint64_t kFullNs = 2000;
  static constexpr uint32_t kFullShifts = 5;  // of the latter, as long as it is full
  static constexpr size_t kFetched = 4;       // packets of a flow that wait or are under way
  static constexpr uint32_t kTriesMax = 4;    // of a transfer, if the bus fails
  static constexpr uint32_t kReplyRetries = 4;

  struct Seen {  // of a flow that comes in
    Name name = kNobody;
    uint32_t first = 1;    // number up to which all have come, or never will
    uint64_t numbers = 0;  // of those from there on that have: a bit each
    bool broken = false;   // a part of the DMA could not be stored
  };
  struct OpenSlot {  // a frame that is not complete
    uint32_t number;
    uint64_t address;
    uint32_t bytes;
  };
  struct Get {
    uint32_t cookie;
    Name name;
  };
  struct Process {
    Name name = kNobody;
    uint64_t shared = 0;
    std::vector<std::byte> sdram;
    uint32_t commands = 0;                // that are not carried out yet
    uint32_t dmas = 0;                    // that are not over
    uint32_t events = 0;                  // that have fired
    bool wakes = false;                   // with an interrupt, when there are more than
    uint32_t seen = 0;                    // those
    std::map<uint64_t, Seen> seen_flows;  // by endpoint and kind
    std::map<uint64_t, OpenSlot> slots;   // by sender and kind
    std::map<uint32_t, Get> gets;         // by descriptor
    uint32_t front = 0;                   // slots that are complete, up to the first that is not
    std::deque<bool> filling;             // from there on: is it being filled?
    std::deque<Name> traps;               // that are not told
  };
  enum FlowKind : uint32_t { kMemory, kFrames, kRange };
  struct Dma {
    uint64_t serial;
    Descriptor descriptor;
    uint32_t at;            // of the descriptor; of a reply that of the other side
    bool reply = false;     // to a kDmaRead of another process
    uint32_t cut = 0;       // bytes that packets have been made of
    bool complete = false;  // all have
    uint32_t reads = 0;     // of the next ones that have failed
    DmaStatus status = kDone;
  };
  struct Outgoing {
    uint64_t dma;
    Body body;
    std::vector<std::byte> data;
    uint32_t nodes;  // of a broadcast
    bool was_sent = false, in_flight = false;
    bool taken = false;
    uint32_t tries = 0;
  };
  struct Flow {
    unsigned context = 0;
    FlowKind kind = kMemory;
    Name to = kNobody;
    std::deque<Dma> dmas;
    std::deque<Outgoing> window;
    uint32_t next_number = 1;
    uint64_t fetch = 0;  // serial of the one under way; 0: none is
    uint64_t not_before_ns = 0;
    uint32_t refusals = 0;  // in a row
    bool trapped = false;
  };
  struct Channel {
    bool busy = false;
    uint64_t flow = 0;
    uint32_t number = 0;  // in the flow
    uint32_t circuit = 0;
  };
  struct Store {
    uint64_t address = 0;
    std::vector<std::byte> bytes;
    // The next step, and then the answer, which tells the status that `then` returns.
    std::function<Status(Status status)> then;
    std::function<void(Status status)> end;
    uint32_t tries = 0;
  };
  struct TlbEntry {
    bool valid = false;
    unsigned context = 0;
    uint64_t page = 0, address = 0, used = 0;
  };

  // elan.cc
  bool is_there(unsigned context, Name name) const { return processes_[context].name == name; }
  template <typename T>
  T load(unsigned context, uint32_t at) const {
    T out;
    std::memcpy(&out, &processes_[context].sdram[at], sizeof(out));
    return out;
  }
  template <typename T>
  void store(unsigned context, uint32_t at, const T& value) {
    std::memcpy(&processes_[context].sdram[at], &value, sizeof(value));
  }
  static bool has(uint32_t at, uint32_t bytes, uint32_t aligned) {
    return at >= aligned && at % aligned == 0 && at <= kSdramBytes - bytes;
  }
  void set_event(unsigned context, uint32_t at);
  void fired(unsigned context);
  void signal(unsigned context);
  bool translate(unsigned context, uint64_t at, size_t* bytes, uint64_t* address);
  Status route(unsigned context, Name name);
  void sweep(unsigned context);
  uint32_t node_of(Name name) const { return endpoint_of(name) / board_.contexts; }

  // dma.cc
  static uint64_t key_of(unsigned context, FlowKind kind, Name to) {
    return uint64_t{context} << 40 | uint64_t{kind} << 32 | to;
  }
  void start_dma(unsigned context, uint32_t at);
  void add_dma(unsigned context, FlowKind kind, Name to, const Dma& dma);
  bool may_begin(const Flow& flow, const Dma& dma) const;
  void cut(Flow& flow);
  void fetched(uint64_t key, uint64_t fetch, Status status, std::span<const std::byte> data);
  void fail_cut(Flow& flow, Dma& dma);
  void add_packet(Flow& flow, Dma& dma, std::span<const std::byte> data, uint8_t flags);
  void pump();
  void transmit(unsigned channel, uint64_t key, Flow& flow, size_t i);
  void answered(unsigned channel, Answer answer);
  void settle(Flow& flow);
  void fail(Flow& flow, uint64_t dma, DmaStatus status);
  void postpone(Flow& flow, uint64_t ns);
  void trap(Flow& flow);
  void finish(unsigned context, uint32_t at, DmaStatus status);
  bool expects(unsigned context, uint32_t at, uint32_t cookie) const {  // data for a kDmaRead
    const auto get = processes_[context].gets.find(at);
    return get != processes_[context].gets.end() && get->second.cookie == cookie;
  }

  // input.cc
  void reply(Packet&& packet, Answer answer);
  Answer take_range(const Body& body, std::span<const std::byte> data);
  Answer take(const Body& body, std::span<const std::byte> data);
  static Answer check(Seen& seen, const Body& body, bool may_overtake, bool* again);
  static void take_note(Seen& seen, const Body& body) {
    seen.numbers |= uint64_t{1} << (body.number - seen.first);
  }
  static uint64_t slot_key(const Body& body) { return uint64_t{body.operation} << 32 | body.from; }
  bool has_slot(unsigned context) const;
  Answer fill_slot(unsigned context, const Body& body, std::span<const std::byte> data);
  std::function<Status(Status)> end_of_slot(unsigned context, uint32_t number);
  void void_slot(unsigned context, uint64_t key);
  Answer put(unsigned context, const Body& body, std::span<const std::byte> data);
  Answer serve_get(unsigned context, const Body& body, std::span<const std::byte> data);
  Status end_put(unsigned context, const Body& body, bool is_last, Status status);
  Seen& seen_of(unsigned context, const Body& body) {
    return processes_[context]
        .seen_flows[uint64_t{endpoint_of(body.from)} << 1 | (body.operation == kDmaQueue)];
  }
  void add_store(Store&& store);
  void store_next();

  const Board board_;
  const unsigned reader_, writer_;  // DMA channels
  std::vector<Process> processes_;
  std::vector<std::vector<Hop>> routes_;  // by node
  std::array<TlbEntry, kTlbEntries> tlb_;
  uint64_t tlb_uses_ = 0;

  std::map<uint64_t, Flow> flows_;
  std::set<uint64_t> active_;  // those with DMAs
  uint64_t turn_ = 0;          // the one that was served last
  uint64_t serials_ = 0;       // of DMAs and of fetches
  std::array<Channel, kDataChannels> channels_;
  uint32_t circuits_ = 0;
  std::deque<Packet> tokens_;
  std::map<uint32_t, Seen> ranges_;  // broadcasts that come in, by endpoint
  std::vector<Store> arriving_;      // of the packet that is being taken
  std::deque<Store> stores_;         // the first one is under way
  bool storing_ = false;

  unsigned long long packets_out_ = 0, packets_in_ = 0, resends_ = 0, lost_ = 0, refused_ = 0,
                     traps_ = 0, walks_ = 0, faults_ = 0;
};

}  // namespace torii::nic::qsnet
