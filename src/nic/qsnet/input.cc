// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The input: each packet is checked, stored and answered by one token. That of a DMA's last packet
// leaves when it has been stored, the others as soon as they are accepted.
#include <algorithm>
#include <bit>

#include "nic/qsnet/elan.h"

namespace torii::nic::qsnet {

void Elan::arrive(Packet&& packet) {
  const unsigned channel = packet.channel;
  const auto& bytes = packet.bytes;
  packets_in_++;
  if (bytes.size() < sizeof(Front)) return board_.port.release(channel);
  const Front front = front_of(packet);
  if (channel == kTokenChannel) {
    board_.port.release(channel);
    const bool is_awaited = intact(packet) && front.kind == Kind::token &&
                            front.node == board_.node && front.channel < kDataChannels &&
                            channels_[front.channel].busy &&
                            channels_[front.channel].circuit == front.circuit;
    if (is_awaited) answered(front.channel, front.answer);
    return;
  }
  Body body{};
  Answer answer = Answer::bad;
  arriving_.clear();
  if (intact(packet) && front.hops == 0 && bytes.size() >= sizeof(Front) + sizeof(Body)) {
    std::memcpy(&body, &bytes[sizeof(Front)], sizeof(body));
    std::span data = std::span(bytes).subspan(sizeof(Front) + sizeof(Body));
    data = data.first(std::min<size_t>(body.bytes, data.size()));
    answer = front.kind == Kind::range ? take_range(body, data) : take(body, data);
  }
  if (answer != Answer::ok) arriving_.clear();
  if (arriving_.empty()) {
    board_.port.release(channel);
    return reply(std::move(packet), answer);
  }
  const bool waits = body.flags & kLast;
  Packet token;
  token.bytes.assign(bytes.begin(), bytes.begin() + sizeof(Front));
  if (!waits) reply(Packet(token), answer);
  arriving_.back().end = [this, channel, waits, token](Status status) {
    board_.port.release(channel);
    if (waits) reply(Packet(token), status == Status::ok ? Answer::ok : Answer::no_memory);
  };
  for (Store& store : std::exchange(arriving_, {})) add_store(std::move(store));
}

// The packet becomes the token that answers it.
void Elan::reply(Packet&& packet, Answer answer) {
  packet.flight.reset();
  make_token(&packet, answer);
  tokens_.push_back(std::move(packet));
  port_ready();
}

void Elan::add_store(Store&& store) {
  stores_.push_back(std::move(store));
  if (!std::exchange(storing_, true)) store_next();
}

// One after the other; one for which the bus has failed is tried again.
void Elan::store_next() {
  storing_ = !stores_.empty();
  if (!storing_) return;
  Store& first = stores_.front();
  board_.bus.dma_write(writer_, first.address, first.bytes, [this](Status status) {
    if (status == Status::io_error && ++stores_.front().tries < kTriesMax) return store_next();
    const Store stored = std::move(stores_.front());
    stores_.pop_front();
    if (stored.then) status = stored.then(status);
    if (stored.end) stored.end(status);
    store_next();
  });
}

// --- order -------------------------------------------------------------------------------------

// Takes the packet into account if that answers `ok`; *again: it was before. `early`: not yet, as
// one before it is missing that it may not overtake.
Answer Elan::check(Seen& seen, const Body& body, bool may_overtake, bool* again) {
  *again = false;
  if (seen.name != body.from) {
    if (seen.name != kNobody && is_earlier(body.from, seen.name)) return Answer::no_process;
    seen = {};
    seen.name = body.from;
  }
  // The sender knows of all before the oldest that it still has.
  const auto ahead = static_cast<int32_t>(body.number - body.behind - seen.first);
  if (ahead > 0) {
    seen.numbers = ahead < 64 ? seen.numbers >> ahead : 0;
    seen.first += static_cast<uint32_t>(ahead);
  }
  const auto at = static_cast<int32_t>(body.number - seen.first);
  *again = at < 0 || (at < 64 && (seen.numbers >> at & 1));
  if (*again) return Answer::ok;
  if (at >= 64 || (!may_overtake && std::countr_one(seen.numbers) < at)) return Answer::early;
  return Answer::ok;
}

Answer Elan::take(const Body& body, std::span<const std::byte> data) {
  const uint32_t context = endpoint_of(body.to) - board_.node * board_.contexts;
  if (context >= processes_.size() || body.to == kNobody || !is_there(context, body.to))
    return Answer::no_process;
  // The parts of a DMA may come in any order, the first of a frame and the last of all excepted.
  const bool may_overtake =
      !(body.flags & kLast) &&
      (body.operation == kDmaWrite ||
       (!(body.flags & kFirst) && processes_[context].slots.contains(slot_key(body))));
  Seen& seen = seen_of(context, body);
  bool again;
  Answer answer = check(seen, body, may_overtake, &again);
  if (answer != Answer::ok || again) return answer;
  answer = body.operation == kDmaQueue   ? fill_slot(context, body, data)
           : body.operation == kDmaWrite ? put(context, body, data)
           : body.operation == kDmaRead  ? serve_get(context, body, data)
                                         : Answer::no_memory;
  if (answer == Answer::ok) take_note(seen, body);
  return answer;
}

// For all members of the group here but the sender; who is none drops it.
Answer Elan::take_range(const Body& body, std::span<const std::byte> data) {
  Seen& seen = ranges_[endpoint_of(body.from)];
  bool again;
  Answer answer = check(seen, body, false, &again);
  if (answer != Answer::ok || again) return answer;
  const std::vector<Name> members = board_.manager.members(body.to);
  for (const bool is_trial : {true, false}) {
    for (unsigned context = 0; context < processes_.size(); context++) {
      const Process& process = processes_[context];
      const bool is_member = process.name != kNobody && process.name != body.from &&
                             std::ranges::find(members, process.name) != members.end();
      if (body.operation == kDmaTest) {
        const bool fired = !is_member ||
                           !has(static_cast<uint32_t>(body.address), sizeof(Event), 8) ||
                           load<Event>(context, static_cast<uint32_t>(body.address)).count == 0;
        if (!fired) return Answer::full;
      } else if (body.flags & kFirst && !is_member) {
        continue;
      } else if (is_trial) {
        if (body.flags & kFirst && !has_slot(context)) return Answer::full;
      } else if (process.name != kNobody) {
        answer = std::max(answer, fill_slot(context, body, data));
      }
    }
  }
  if (answer == Answer::ok) take_note(seen, body);
  return answer;
}

// --- queues ------------------------------------------------------------------------------------

bool Elan::has_slot(unsigned context) const {
  const auto queue = load<Queue>(context, kQueueAt);
  const Process& process = processes_[context];
  return queue.slots > 0 && queue.slots <= kSlotsMax && queue.slot_bytes <= kSlotBytesMax &&
         queue.slot_bytes % 8 == 0 &&
         process.front + static_cast<uint32_t>(process.filling.size()) - queue.back < queue.slots;
}

// Slots are given with the first packet of a frame, and are the process's when those before are.
Answer Elan::fill_slot(unsigned context, const Body& body, std::span<const std::byte> data) {
  Process& process = processes_[context];
  const uint64_t key = slot_key(body);
  auto open = process.slots.find(key);
  Store store;
  if (body.flags & kFirst) {
    const auto queue = load<Queue>(context, kQueueAt);
    if (open != process.slots.end()) void_slot(context, key);
    if (!has_slot(context)) return Answer::full;
    if (queue.slot_bytes < sizeof(SlotHeader) || body.total > queue.slot_bytes - sizeof(SlotHeader))
      return Answer::no_memory;
    const auto number = process.front + static_cast<uint32_t>(process.filling.size());
    const uint64_t address = queue.base + uint64_t{number % queue.slots} * queue.slot_bytes;
    size_t all = queue.slot_bytes;
    uint64_t bus;
    if (address < kLent || !translate(context, address, &all, &bus)) return Answer::no_memory;
    process.filling.push_back(true);
    open = process.slots.insert_or_assign(key, OpenSlot{number, bus, body.total}).first;
    const SlotHeader header{body.from, body.total};
    const auto* const from = reinterpret_cast<const std::byte*>(&header);
    store.bytes.assign(from, from + sizeof(header));
    store.address = bus;
  } else if (open == process.slots.end()) {
    return Answer::ok;  // it has become void, or is for another process
  } else {
    store.address = open->second.address + sizeof(SlotHeader) + body.address;
  }
  if (body.flags & kVoid) {
    void_slot(context, key);
    return Answer::ok;
  }
  const OpenSlot slot = open->second;
  if (body.address > slot.bytes || data.size() > slot.bytes - body.address)
    return Answer::no_memory;
  store.bytes.insert(store.bytes.end(), data.begin(), data.end());
  if (body.flags & kLast) {
    process.slots.erase(key);
    store.then = end_of_slot(context, slot.number);
  }
  arriving_.push_back(std::move(store));
  return Answer::ok;
}

std::function<Status(Status)> Elan::end_of_slot(unsigned context, uint32_t number) {
  return [this, context, number, name = processes_[context].name](Status status) {
    if (!is_there(context, name)) return status;
    Process& process = processes_[context];
    process.filling[number - process.front] = false;
    auto queue = load<Queue>(context, kQueueAt);
    for (; !process.filling.empty() && !process.filling.front(); process.filling.pop_front()) {
      queue.front = ++process.front;
      store(context, kQueueAt, queue);
      set_event(context, queue.event);
    }
    return status;
  };
}

// The frame will never be complete.
void Elan::void_slot(unsigned context, uint64_t key) {
  Process& process = processes_[context];
  const OpenSlot slot = process.slots.at(key);
  process.slots.erase(key);
  Store store;
  store.address = slot.address;
  store.bytes.resize(sizeof(SlotHeader));  // of nobody
  store.then = end_of_slot(context, slot.number);
  add_store(std::move(store));
}

// --- remote memory -----------------------------------------------------------------------------

Answer Elan::put(unsigned context, const Body& body, std::span<const std::byte> data) {
  // Data for a kDmaRead come too late if its process has given it up.
  if (body.flags & kReply && !expects(context, body.event, body.cookie)) return Answer::no_process;
  for (size_t done = 0; done < data.size();) {
    Store store;
    size_t n = data.size() - done;
    if (!translate(context, body.address + done, &n, &store.address)) {
      faults_++;
      if (body.flags & kReply) finish(context, body.event, kFault);
      return Answer::no_memory;
    }
    const std::span part = data.subspan(done, n);
    store.bytes.assign(part.begin(), part.end());
    arriving_.push_back(std::move(store));
    done += n;
  }
  if (data.empty()) arriving_.emplace_back();  // what is to happen does so in its turn
  for (Store& store : arriving_) {
    const bool is_last = body.flags & kLast && &store == &arriving_.back();
    store.then = [this, context, name = processes_[context].name, body, is_last](Status status) {
      return is_there(context, name) ? end_put(context, body, is_last, status) : status;
    };
  }
  return Answer::ok;
}

// The end of a part, or of the whole DMA: then returns what became of all its parts.
Status Elan::end_put(unsigned context, const Body& body, bool is_last, Status status) {
  Seen& seen = seen_of(context, body);
  seen.broken |= status != Status::ok;
  if (!is_last) return status;
  const bool is_broken = std::exchange(seen.broken, false);
  if (!(body.flags & kReply)) {
    if (!is_broken) set_event(context, body.event);
  } else if (expects(context, body.event, body.cookie)) {
    finish(context, body.event, is_broken || body.flags & kVoid ? kFault : kDone);
  }
  return is_broken ? Status::io_error : Status::ok;
}

// The reply is a DMA of the process whose memory is read, to the one that has asked.
Answer Elan::serve_get(unsigned context, const Body& body, std::span<const std::byte> data) {
  Dma dma{};
  Descriptor& d = dma.descriptor;
  if (data.size() != sizeof(d.source) || node_of(body.from) >= board_.nodes)
    return Answer::no_memory;
  if (flows_[key_of(context, kMemory, body.from)].dmas.size() >= kDmasMax) return Answer::full;
  std::memcpy(&d.source, data.data(), sizeof(d.source));
  d.type = kDmaWrite | kReplyRetries << kRetriesShift;
  d.bytes = body.total;
  d.dest = body.address;
  d.process = body.from;
  d.cookie = body.cookie;
  dma.at = body.event;
  dma.reply = true;
  dma.status = kDone;
  add_dma(context, kMemory, body.from, dma);
  return Answer::ok;
}

}  // namespace torii::nic::qsnet
