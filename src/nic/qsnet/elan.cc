// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "nic/qsnet/elan.h"

#include <algorithm>

#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "nic/qsnet/model.h"

namespace torii::nic::qsnet {

Elan::Elan(const Board& board)
    : board_(board),
      reader_(board.bus.add_channel()),
      writer_(board.bus.add_channel()),
      processes_(board.contexts),
      routes_(board.nodes) {}

// --- processes -------------------------------------------------------------------------------

// The kernel driver loads the route table: any process may be a peer of the new one.
void Elan::open(unsigned context, Name name, uint64_t shared_address) {
  Process& process = processes_[context] = Process{};
  process.name = name;
  process.shared = shared_address;
  process.sdram.resize(kSdramBytes);
  for (uint32_t node = 0; node < board_.nodes; node++)
    routes_[node] = board_.manager.hops(board_.node, node);
}

bool Elan::idle(unsigned context) const {
  return processes_[context].commands == 0 &&
         std::ranges::none_of(active_, [&](uint64_t key) { return key >> 40 == context; });
}

void Elan::gone(unsigned context) {
  const auto is_its = [&](uint64_t key) { return key >> 40 == context; };
  std::erase_if(active_, is_its);
  std::erase_if(flows_, [&](const auto& entry) { return is_its(entry.first); });
  for (TlbEntry& entry : tlb_)
    if (entry.context == context) entry.valid = false;
  for (Channel& channel : channels_)
    if (is_its(channel.flow)) channel.flow = ~uint64_t{0};  // nobody waits for its token
  processes_[context] = Process{};
}

// --- the command port --------------------------------------------------------------------------

void Elan::bus_write(unsigned context, uint32_t at, std::span<const std::byte> bytes) {
  if (at >= kSdram) {
    std::ranges::copy(bytes, &processes_[context].sdram[at - kSdram]);
    return;
  }
  for (; !bytes.empty(); bytes = bytes.subspan(4), at += 4) {
    const auto value = load_little<uint32_t>(bytes.data());
    if (at == kWake) {
      processes_[context].wakes = true;
      processes_[context].seen = value;
      signal(context);
    } else if (at == kStartDma || at == kSetEvent) {
      processes_[context].commands++;
      board_.engine.after(kStepNs, [this, context, name = processes_[context].name, at, value] {
        if (!is_there(context, name)) return;
        processes_[context].commands--;
        at == kStartDma ? start_dma(context, value) : set_event(context, value);
      });
    } else {
      refused_++;
    }
  }
}

uint32_t Elan::bus_read(unsigned context, uint32_t at) {
  if (at >= kSdram) return load<uint32_t>(context, at - kSdram);
  return at == kId ? kIdValue : 0;
}

// --- events ------------------------------------------------------------------------------------

void Elan::set_event(unsigned context, uint32_t at) {
  if (at == 0) return;
  if (!has(at, sizeof(Event), 8)) {
    refused_++;
    return;
  }
  auto event = load<Event>(context, at);
  if (event.count == 0) return;  // it has fired
  const bool fires = --event.count == 0;
  if (fires && event.type & kEachTime) event.count = 1;
  store(context, at, event);
  if (!fires) return;
  const bool copies = event.type & kCopies && has(event.block, kBlockBytes, 8) &&
                      event.to <= kSharedBytes - kBlockBytes && event.to % 8 == 0;
  if (!copies) return fired(context);
  const std::byte* const block = &processes_[context].sdram[event.block];
  Store copy;
  copy.address = processes_[context].shared + event.to;
  copy.bytes.assign(block, block + kBlockBytes);
  copy.then = [this, context, name = processes_[context].name](Status status) {
    if (is_there(context, name)) fired(context);
    return status;
  };
  add_store(std::move(copy));
}

void Elan::fired(unsigned context) {
  processes_[context].events++;
  signal(context);
}

void Elan::signal(unsigned context) {
  Process& process = processes_[context];
  if (!process.wakes || static_cast<int32_t>(process.events - process.seen) <= 0) return;
  process.wakes = false;
  board_.bus.interrupt(context);
}

// --- the MMU -----------------------------------------------------------------------------------

// Where the first of these bytes are on the bus, as many as are in their page. False: there is no
// memory. A page that is not in the buffer is looked up in tables, over the bus.
bool Elan::translate(unsigned context, uint64_t at, size_t* bytes, uint64_t* address) {
  if (at >= kLent) {
    if (at - kLent > kSharedBytes || *bytes > kSharedBytes - (at - kLent)) return false;
    *address = processes_[context].shared + (at - kLent);
    return true;
  }
  const uint64_t page = at / kPageBytes;
  *bytes = std::min<uint64_t>(*bytes, kPageBytes - at % kPageBytes);
  TlbEntry* entry = std::ranges::find_if(
      tlb_, [&](const TlbEntry& e) { return e.valid && e.context == context && e.page == page; });
  if (entry == tlb_.end()) {
    walks_++;
    board_.bus.occupy(board_.engine.now_ns(), kWalkNs, "table walk");
    uint64_t found;
    if (!board_.bus.find_page(context, page * kPageBytes, &found)) return false;
    entry = std::ranges::min_element(tlb_, {}, &TlbEntry::used);
    *entry = {true, context, page, found, 0};
  }
  entry->used = ++tlb_uses_;
  *address = entry->address + at % kPageBytes;
  return true;
}

// --- the kernel driver -------------------------------------------------------------------------

Status Elan::control(unsigned context, const Control& in, Control* out) {
  std::deque<Name>& traps = processes_[context].traps;
  switch (in.call) {
    case kTrapped:
      if (traps.empty()) return Status::again;
      out->words[0] = traps.front();
      traps.pop_front();
      return Status::ok;
    case kRoute:
      return route(context, static_cast<Name>(in.words[0]));
    case kSweep:
      sweep(context);
      return Status::ok;
    case kJoin:
    case kLeave:
    case kMember:
      return board_.group_call(static_cast<GroupCall>(in.call - kJoin), context, in, out);
    default:
      return Status::unsupported;
  }
}

Status Elan::route(unsigned context, Name name) {
  const uint32_t node = node_of(name);
  if (name != kNobody) {
    std::vector<Hop> hops = board_.manager.hops(board_.node, node);
    if (hops.empty()) return Status::unreachable;
    routes_[node] = std::move(hops);
  }
  for (const uint64_t key : active_) {
    Flow& flow = flows_[key];
    const bool is_meant = name == kNobody ? flow.kind == kRange && flow.context == context
                                          : flow.kind != kRange && node_of(flow.to) == node;
    if (!is_meant) continue;
    flow.trapped = false;
    for (Outgoing& out : flow.window) out.tries = 0;
  }
  pump();
  return Status::ok;
}

void Elan::sweep(unsigned context) {
  const auto has_ended = [&](Name name) {
    return board_.manager.life(board_.node, name) != Life::there;
  };
  Process& process = processes_[context];
  std::vector<uint64_t> ended;
  for (const auto& [key, flow] : flows_)
    if (flow.context == context && flow.kind != kRange && has_ended(flow.to)) ended.push_back(key);
  for (const uint64_t key : ended) {
    while (!flows_[key].dmas.empty()) fail(flows_[key], flows_[key].dmas.front().serial, kGone);
    flows_.erase(key);
  }
  std::vector<uint32_t> gets;
  for (const auto& [at, get] : process.gets)
    if (has_ended(get.name)) gets.push_back(at);
  for (const uint32_t at : gets) finish(context, at, kGone);
  std::vector<uint64_t> slots;
  for (const auto& [key, slot] : process.slots)
    if (has_ended(static_cast<Name>(key))) slots.push_back(key);
  for (const uint64_t key : slots) void_slot(context, key);
  pump();
}

std::string Elan::report() const {
  return format_text(
      "%llu packets out, %llu in, %llu sent again, %llu without a token, %llu traps, %llu table "
      "walks, %llu faults, %llu refused",
      packets_out_, packets_in_, resends_, lost_, traps_, walks_, faults_, refused_);
}

std::unique_ptr<Model> make_model(const Board& board) { return std::make_unique<Elan>(board); }
std::unique_ptr<RoutePolicy> make_switches(const Routes& routes) {
  return std::make_unique<EliteRoute>(routes);
}

}  // namespace torii::nic::qsnet
