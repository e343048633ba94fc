// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link controller: requests, responses and echoes. A packet is kept until its echo has come,
// and sent again if none comes. Requests of a node have numbers, so that none is done twice.
#include <algorithm>

#include "nic/sci/card.h"

namespace torii::nic::sci {
namespace {

// A packet is sent again after this without an echo; after this if the echo said `busy`; and if the
// other card has it, but does not respond.
constexpr uint64_t kEchoNs = 50000, kBusyNs = 8000, kResponseNs = 1000000;
// As long as this a buffer is kept for a node that was told `busy`.
constexpr uint64_t kKeptNs = 3 * kBusyNs;
constexpr uint64_t kServeNs = 605;  // from the ring to the bus, with the upstream table

// What answers it.
Header answer_to(Header header, Command command, Result result) {
  std::swap(header.to, header.from);
  header.command = command;
  header.result = result;
  return header;
}

}  // namespace

// --- what leaves -----------------------------------------------------------------------------

// Nothing that waits will be answered.
void SciCard::port_down() {
  is_down_ = true;
  echoes_.clear();
  for (Buffer& buffer : buffers_)
    if (buffer.serial) end(buffer, Result::unreachable);
  pump();
}

// Echoes first, then responses: they make room for others. Stores and VIs take turns.
void SciCard::pump() {
  for (; !echoes_.empty() && board_.port.ready(kEchoes); echoes_.pop_front())
    board_.port.send(0, std::move(echoes_.front()), kEchoes);
  send_queued(kResponses);
  constexpr unsigned kEach = kVis + 1;
  const auto sources = static_cast<unsigned>(processes_.size()) * kEach;
  for (unsigned idle = 0; idle < sources && used_[kRequests] < limits_[kRequests];
       idle++, turn_ = (turn_ + 1) % sources) {
    const unsigned context = turn_ / kEach, vi = turn_ % kEach;
    if (vi == kVis ? issue_store(context) : issue_part(processes_[context].vis[vi])) idle = ~0u;
  }
  send_queued(kRequests);
}

bool SciCard::issue_store(unsigned context) {
  Process& process = processes_[context];
  for (; !process.stores.empty(); process.stores.pop_front()) {
    Store& store = process.stores.front();
    if (store.ready_ns > board_.engine.now_ns()) return false;
    if (store.data.empty() && process.stores_out > 0) return false;
    if (store.data.empty()) {
      if (store.vi) post(*store.vi, std::move(store.job));
      continue;
    }
    start({.context = context, .name = process.name}, store.header, store.data);
    process.stores_out++;
    process.stores.pop_front();
    return true;
  }
  return false;
}

// There is one.
SciCard::Buffer& SciCard::take_buffer(Channel channel, const Header& header, uint32_t node) {
  Buffer& buffer = *std::ranges::find(buffers(channel), 0u, &Buffer::serial);
  buffer.serial = ++serials_;
  buffer.header = header;
  buffer.node = node;
  used_[channel]++;
  return buffer;
}

void SciCard::start(const Owner& owner, Header header, std::span<const std::byte> data) {
  header.from = static_cast<uint16_t>(board_.node);
  header.number = nodes_[header.to].next++;
  Buffer& request = take_buffer(kRequests, header, header.to);
  request.header.buffer = static_cast<uint8_t>(&request - buffers_.data());
  request.owner = owner;
  request.bytes = make_bytes(request.header, data);
  requests_out_++;
  queue(request);
}

void SciCard::queue(Buffer& buffer) {
  buffer.is_queued = true;
  queues_[channel_of(buffer)].push_back(&buffer);
}

void SciCard::send_queued(Channel channel) {
  auto& queue = queues_[channel];
  while (!queue.empty() && (is_down_ || board_.port.ready(channel))) {
    Buffer& first = *queue.front();
    queue.pop_front();
    if (!std::exchange(first.is_queued, false)) continue;
    if (is_down_) {
      end(first, Result::unreachable);
      board_.engine.after(0, [this] { pump(); });
      continue;
    }
    repeated_ += first.due_ns > 0;
    board_.port.send(first.owner.context, first.bytes, channel);
    look_after(first, kEchoNs);
  }
}

// It is sent again after that time, unless it has ended or something was heard of it before.
void SciCard::look_after(Buffer& buffer, uint64_t ns) {
  buffer.due_ns = board_.engine.now_ns() + ns;
  if (!std::exchange(is_watching_, true)) board_.engine.after(kEchoNs, [this] { watch(); });
}

// Sends again what is due. No time is shorter than the one until the next look.
void SciCard::watch() {
  const uint64_t now = board_.engine.now_ns();
  uint64_t next_ns = now + kEchoNs;
  is_watching_ = false;
  for (Buffer& buffer : buffers_) {
    if (buffer.due_ns == 0 || buffer.is_queued) continue;
    if (buffer.due_ns > now) {
      next_ns = std::min(next_ns, buffer.due_ns);
      is_watching_ = true;
    } else if (!board_.manager.routes().reaches(board_.node, buffer.node)) {
      end(buffer, Result::unreachable);
    } else {
      queue(buffer);
    }
  }
  if (is_watching_) board_.engine.at(next_ns, [this] { watch(); });
  pump();
}

// The buffer is free again; the request, if it is this card's, has come to that.
void SciCard::end(Buffer& buffer, Result result, std::span<const std::byte> data) {
  used_[channel_of(buffer)]--;
  const Buffer ended = std::exchange(buffer, Buffer{});
  const Owner& owner = ended.owner;
  if (owner.name == kNobody || !is_there(owner.context, owner.name)) return;
  if (owner.vi) return end_part(ended, result, data);
  processes_[owner.context].stores_out--;
  if (result != Result::ok) refuse(owner.context);
}

// --- what arrives ----------------------------------------------------------------------------

void SciCard::arrive(Packet&& packet) {
  board_.port.release(packet.channel);
  if (packet.bytes.size() < sizeof(Header) || !intact(packet)) {
    bad_crc_++;
    return;
  }
  const auto header = header_of<Header>(packet.bytes);
  const std::span data = std::span(packet.bytes).subspan(sizeof(header));
  if (header.to != board_.node || header.from >= board_.nodes || header.buffer >= kBuffersMax ||
      data.size() > kLineBytes) {
    bad_requests_++;
    return;
  }
  Buffer& request = buffers_[header.buffer];
  const bool is_its =  // that it answers
      request.serial && request.node == header.from && request.header.number == header.number;
  if (header.command == Command::response) {
    echo(header, Result::ok);
    if (is_its) end(request, header.result, data);
  } else if (header.command != Command::echo) {
    take_request(header, data, std::move(packet));
  } else if (header.of == static_cast<uint8_t>(Command::response)) {
    if (Buffer* const served = find_served(header); served && served->due_ns)
      end(*served, Result::ok);
  } else if (is_its && header.result == Result::ok) {
    request.is_queued = false;
    look_after(request, kResponseNs);
  } else if (is_its && !std::exchange(request.is_queued, true)) {
    board_.engine.after(kBusyNs, [this, &request] {
      queues_[kRequests].push_back(&request);
      pump();
    });
  }
  pump();
}

void SciCard::echo(const Header& to, Result result) {
  Header header = answer_to(to, Command::echo, result);
  header.of = static_cast<uint8_t>(to.command);
  echoes_.push_back(make_bytes(header));
}

// The request with that number of that node; null: it is over.
SciCard::Buffer* SciCard::find_served(const Header& header) {
  for (Buffer& served : buffers(kResponses))
    if (served.serial && served.node == header.from && served.header.number == header.number)
      return &served;
  return nullptr;
}

// The node that was told `busy` first has the next buffer, unless it stays away.
bool SciCard::admits(uint32_t node) {
  const uint64_t now = board_.engine.now_ns();
  Node& its = nodes_[node];
  if (its.until_ns <= now) its.refused = ++serials_;
  const auto before = std::ranges::count_if(nodes_, [&](const Node& other) {
    return other.until_ns > now && other.refused < its.refused;
  });
  const bool is_admitted = used_[kResponses] + static_cast<size_t>(before) < limits_[kResponses];
  its.until_ns = is_admitted ? 0 : now + kKeptNs;
  return is_admitted;
}

void SciCard::take_request(const Header& header, std::span<const std::byte> data, Packet&& packet) {
  uint32_t& seen = nodes_[header.from].seen[header.buffer];
  const bool is_seen = static_cast<int32_t>(header.number - seen) <= 0;
  if (is_seen && find_served(header)) return echo(header, Result::ok);
  if (!admits(header.from)) {
    busy_++;
    return echo(header, Result::busy);
  }
  echo(header, Result::ok);
  Buffer& served = take_buffer(kResponses, header, header.from);
  served.bytes.assign(data.begin(), data.end());
  served.flight = std::move(packet.flight);
  if (is_seen) return respond(served, Result::lost);
  seen = header.number;
  requests_in_++;
  board_.engine.after(kServeNs, [this, &served, serial = served.serial] {
    if (served.serial == serial) serve(served);
  });
}

void SciCard::serve(Buffer& served) {
  const Header& header = served.header;
  const bool is_read = header.command == Command::read;
  const size_t bytes = is_read ? header.of : served.bytes.size();
  const auto context = static_cast<unsigned>(header.address / kBytesOfProcess);
  const uint64_t at = header.address % kBytesOfProcess;
  uint64_t address;
  if (bytes == 0 || at % kLineBytes + bytes > kLineBytes ||
      !upstream_.find(context, at, is_read ? kReadable : kWritable, &address)) {
    bad_requests_++;
    return respond(served, Result::refused);
  }
  const bool notifies = !is_read && upstream_.find(context, at, kNotifies, &address);
  const auto done = [=, this, &served, serial = served.serial](
                        Status status, std::span<const std::byte> data = {}) {
    if (served.serial != serial) return;
    if (status == Status::ok && notifies) raise(context, kCauseStored);
    respond(served, status == Status::ok ? Result::ok : Result::refused, data);
  };
  if (is_read) return board_.bus.dma_read(server_, address, bytes, done, kBusTries);
  board_.bus.dma_write(writer_, address, served.bytes, done, kBusTries);
}

void SciCard::respond(Buffer& served, Result result, std::span<const std::byte> data) {
  served.flight.reset();
  served.bytes = make_bytes(answer_to(served.header, Command::response, result), data);
  queue(served);
  pump();
}

}  // namespace torii::nic::sci
