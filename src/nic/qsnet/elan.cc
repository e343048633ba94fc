// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The last layer of an Elan: the command port, the calls of the kernel driver, and the input, which
// answers each packet by one token. The token of a DMA's last packet leaves when the packet has
// been stored, others as soon as it is accepted. Each packet is stored once, however often it is
// sent: the input knows the numbers of those that have come.
#include <bit>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/qsnet/dma.h"

namespace torii::nic::qsnet {
namespace {

class Elan final : public DmaEngine {
 public:
  explicit Elan(const Board& board) : DmaEngine(board) {}

  // The kernel driver loads all routes: any process may be a peer of the new one.
  void open(unsigned context, Name name, uint64_t shared_address) override {
    Process& process = processes_[context];
    process.name = name;
    process.shared = shared_address;
    process.sdram.resize(kSdramBytes);
    for (uint32_t node = 0; node < board_.nodes; node++)
      routes_[node] = board_.manager.routes().hops(board_.node, node);
  }
  void gone(unsigned context) override {
    std::erase_if(seen_, [&](const auto& entry) { return entry.first.context == context; });
    DmaEngine::gone(context);
  }

  // --- the host --------------------------------------------------------------------------------

  void bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) override {
    Process& process = processes_[context];
    if (at >= kSdram) {
      std::ranges::copy(bytes, &process.sdram[at - kSdram]);
      return;
    }
    for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
      const auto value = load_little<uint32_t>(bytes.data());
      if (at == kWake) {
        process.wakes = true;
        process.seen = value;
        signal(process, 0);
      } else if (at == kStartDma || at == kSetEvent) {
        process.commands++;
        board_.engine.after(kStepNs, [this, name = process.name, at, value] {
          Process* const started = find(name);
          if (!started) return;
          started->commands--;
          at == kStartDma ? start_dma(*started, value) : set_event(*started, value);
        });
      } else {
        refused_++;
      }
    }
  }
  uint32_t bus_read(unsigned context, uint32_t at) override {
    if (at < kSdram) return at == kId ? kIdValue : 0;
    return load_little<uint32_t>(&processes_[context].sdram[at - kSdram]);
  }

  Status control(unsigned context, const Control& in, Control* out) override {
    Process& process = processes_[context];
    switch (in.call) {
      case kTrapped:
        if (process.traps.empty()) return Status::again;
        out->words[0] = process.traps.front();
        process.traps.pop_front();
        return Status::ok;
      case kRoute:
        return load_route(static_cast<Name>(in.words[0]));
      case kSweep:
        sweep(process);
        for (auto& [id, seen] : seen_)
          if (id.context == context && has_ended(seen.name)) void_slot(process, seen);
        return Status::ok;
      case kJoin:
      case kLeave:
      case kMember:
        return board_.group_call(static_cast<GroupCall>(in.call - kJoin), context, in, out);
      default:
        return Status::unsupported;
    }
  }
  std::string report() const override {
    return format_text(
        "%llu packets out, %llu in, %llu sent again, %llu without a token, %llu traps, %llu table "
        "walks, %llu faults, %llu refused",
        packets_out_, packets_in_, resends_, lost_, traps_, walks_, faults_, refused_);
  }

  // --- the cable -------------------------------------------------------------------------------

  void arrive(Packet&& packet) override {
    const bool is_intact = intact(packet);
    const auto front = header_of<Front>(packet.bytes);
    packets_in_++;
    if (packet.channel == kTokenChannel) {
      board_.port.release(packet.channel);
      if (is_intact) take_token(front);
      return;
    }
    const auto arrival = std::make_shared<Arrival>(Arrival{front});
    const Body& body = arrival->body;
    if (is_intact) {
      const auto bytes = std::span<const std::byte>(packet.bytes).subspan(sizeof(Front));
      arrival->body = header_of<Body>(bytes);
      const std::span data = bytes.subspan(sizeof(Body), body.bytes);
      // Broadcasts are for all processes here but the sender.
      const bool is_range = front.kind == Kind::range;
      arrival->answer = is_range || find(body.to) ? Answer::ok : Answer::no_process;
      for (Process& p : processes_)
        if (p.name != kNobody && (is_range ? p.name != body.from : p.name == body.to))
          arrival->answer = std::max(arrival->answer, take(p, *arrival, data));
    }
    if (arrival->stores.empty()) board_.port.release(packet.channel);
    if (arrival->stores.empty() || !(body.type & kLast)) reply(front, arrival->answer);
    for (Store& store : arrival->stores)
      write(store.address, std::move(store.bytes), [this, arrival, &store](Status status) {
        if (status != Status::ok && find(store.process)) arrival->answer = Answer::no_memory;
        if (&store == &arrival->stores.back()) end(*arrival);
      });
  }
  void port_ready() override {
    for (; !tokens_.empty() && board_.port.ready(kTokenChannel); tokens_.pop_front())
      board_.port.send(0, std::move(tokens_.front()));
    pump();
  }

 private:
  static constexpr uint64_t kStepNs = 400;  // of the microcode processor: an assumption

  struct FlowId {  // of packets that come in
    unsigned context;
    FlowKind kind;
    uint32_t from;  // endpoint
    auto operator<=>(const FlowId&) const = default;
  };
  struct Seen {  // of a flow
    Name name;
    uint64_t first = 0;      // all packets before this number have come, or never will
    uint64_t numbers = 0;    // those from there on that have come: a bit each
    Slot* slot = nullptr;    // of the frame that is not complete
    bool is_broken = false;  // a part of the DMA could not be stored
  };
  struct Store {
    Name process;
    uint64_t address = 0;
    std::vector<std::byte> bytes{};
    Slot* slot = nullptr;  // which it completes
  };
  struct Arrival {  // a packet that is being stored
    Front front;
    Answer answer = Answer::bad;
    Body body{};
    std::vector<Store> stores{};
    Seen* seen = nullptr;  // of remote memory; valid as long as the process is there
  };

  void reply(const Front& front, Answer answer) {
    make_token(&tokens_.emplace_back(), front, answer);
    port_ready();
  }

  // Takes the packet into account if that answers `ok`, unless it has come before.
  Answer take(Process& process, Arrival& arrival, std::span<const std::byte> data) {
    const Body& body = arrival.body;
    const uint32_t operation = body.operation();
    const FlowId id{process.context, kind_of(operation), endpoint_of(body.from)};
    Seen& seen = seen_.try_emplace(id, Seen{body.from}).first->second;
    if (is_earlier(body.from, seen.name)) return Answer::no_process;
    if (seen.name != body.from) {
      void_slot(process, seen);
      seen = {body.from};
    }
    if (const uint64_t oldest = body.number - body.behind; oldest > seen.first) {
      seen.numbers = oldest - seen.first < 64 ? seen.numbers >> (oldest - seen.first) : 0;
      seen.first = oldest;
    }
    const uint64_t at = body.number - seen.first;  // less than the sender's window
    if (body.number < seen.first || seen.numbers >> at & 1) return Answer::ok;
    // Packets of a DMA come in any order, except the first of a frame and the last of all DMAs.
    const bool may_overtake =
        !(body.type & kLast) && (id.kind == FlowKind::memory ||
                                 (operation == kDmaQueue && !(body.type & kFirst) && seen.slot));
    if (!may_overtake && std::cmp_less(std::countr_one(seen.numbers), at)) return Answer::early;
    Answer answer = Answer::ok;
    if (operation == kDmaRead) {
      serve_read(process, body);
    } else if (operation == kDmaTest) {
      const Event* const event = process.find<Event>(static_cast<uint32_t>(body.address));
      if (event && event->count > 0 && is_member(process, body.to)) answer = Answer::full;
    } else if (id.kind == FlowKind::memory) {
      arrival.seen = &seen;
      answer = put(process, arrival, data);
    } else {
      answer = fill_slot(process, seen, arrival, data);
    }
    if (answer == Answer::ok) seen.numbers |= uint64_t{1} << at;
    return answer;
  }

  // The whole packet has been stored, or cannot be.
  void end(Arrival& arrival) {
    const Body& body = arrival.body;
    const bool is_last = body.type & kLast;
    board_.port.release(arrival.front.channel);
    for (const Store& store : arrival.stores)
      if (store.slot) end_slot(store.process, store.slot);
    if (Process* const process = find(body.to); process && arrival.seen) {
      arrival.seen->is_broken |= arrival.answer != Answer::ok;
      if (is_last && std::exchange(arrival.seen->is_broken, false))
        arrival.answer = Answer::no_memory;
      const bool is_whole = arrival.answer == Answer::ok && !(body.type & kVoid);
      if (is_last && body.operation() == kReply)
        finish(*process, body.ends, is_whole ? kDone : kFault);
      else if (is_last && is_whole)
        set_event(*process, static_cast<uint32_t>(body.ends));
    }
    if (is_last) reply(arrival.front, arrival.answer);
  }

  // --- queues ----------------------------------------------------------------------------------

  bool is_member(const Process& process, uint32_t group) const {
    const std::vector<Name> members = board_.manager.members(group);
    return std::ranges::find(members, process.name) != members.end();
  }
  Answer fill_slot(Process& process, Seen& seen, Arrival& arrival,
                   std::span<const std::byte> data) {
    const Body& body = arrival.body;
    const bool begins = body.type & kFirst;
    if (begins || body.type & kVoid) void_slot(process, seen);
    if (body.type & kVoid) return Answer::ok;
    const SlotHeader header{body.from, body.total};
    if (begins) {
      if (body.operation() == kDmaBroadcast && !is_member(process, body.to)) return Answer::ok;
      const Queue& queue = process.queue();
      const auto number = process.front + static_cast<uint32_t>(process.slots.size());
      if (queue.slots == 0 || queue.slots > kSlotsMax || queue.slot_bytes > kSlotBytesMax ||
          queue.slot_bytes % 8 || number - queue.back >= queue.slots)
        return Answer::full;
      const uint64_t at = queue.base + uint64_t{number % queue.slots} * queue.slot_bytes;
      size_t all = queue.slot_bytes;
      uint64_t address;
      if (sizeof(header) + body.total > all || at < kLent ||
          !translate(process, at, &all, &address))
        return Answer::no_memory;
      seen.slot = &process.slots.emplace_back(Slot{address});
    }
    if (!seen.slot) return Answer::ok;  // it has become void, or is for another process
    const auto head = std::as_bytes(std::span(&header, begins ? 1 : 0));
    Store& store = arrival.stores.emplace_back(Store{process.name, seen.slot->address});
    if (!begins) store.address += sizeof(header) + body.address;
    store.bytes.assign(head.begin(), head.end());
    store.bytes.insert(store.bytes.end(), data.begin(), data.end());
    if (body.type & kLast) store.slot = std::exchange(seen.slot, nullptr);
    return Answer::ok;
  }
  // The frame will never be complete: its slot becomes nobody's.
  void void_slot(const Process& process, Seen& seen) {
    Slot* const slot = std::exchange(seen.slot, nullptr);
    if (!slot) return;
    write(slot->address, std::vector<std::byte>(sizeof(SlotHeader)),
          [this, name = process.name, slot](Status) { end_slot(name, slot); });
  }
  // The process gets slots in their order.
  void end_slot(Name name, Slot* slot) {
    Process* const process = find(name);
    if (!process) return;
    slot->is_full = true;
    for (auto& slots = process->slots; !slots.empty() && slots[0].is_full; slots.pop_front()) {
      process->queue().front = ++process->front;
      set_event(*process, process->queue().event);
    }
  }

  // --- remote memory ---------------------------------------------------------------------------

  Answer put(Process& process, Arrival& arrival, std::span<const std::byte> data) {
    const Body& body = arrival.body;
    uint64_t at = body.address;
    if (body.operation() == kReply) {
      const auto read = process.dmas.find(body.ends);
      if (read == process.dmas.end()) return Answer::no_process;  // it is over
      at += read->second.dest;
    }
    if (data.empty()) arrival.stores.push_back({process.name});  // to end in order
    while (!data.empty()) {
      size_t bytes = data.size();
      uint64_t address;
      if (!translate(process, at, &bytes, &address)) {
        faults_++;
        arrival.stores.clear();
        if (body.operation() == kReply) finish(process, body.ends, kFault);
        return Answer::no_memory;
      }
      arrival.stores.push_back({process.name, address, {data.begin(), data.begin() + bytes}});
      data = data.subspan(bytes);
      at += bytes;
    }
    return Answer::ok;
  }

  std::map<FlowId, Seen> seen_;
  std::deque<Packet> tokens_;
  unsigned long long packets_in_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Elan>(board); }

}  // namespace torii::nic::qsnet
