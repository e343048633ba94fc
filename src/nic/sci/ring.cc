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
constexpr uint64_t kEchoNs = 50000, kBusyNs = 2000, kResponseNs = 1000000;
// As long as this a buffer is kept for a node that was told `busy`.
constexpr uint64_t kKeptNs = 10 * kBusyNs;
constexpr uint64_t kServeNs = 605;  // from the ring to the bus, with the upstream table

// What answers it.
Header answer_to(Header header, Command command, Result result) {
  std::swap(header.to, header.from);
  header.command = command;
  header.result = result;
  return header;
}

// Does this answer the request?
bool is_same(const Header& request, const Header& answer) {
  return request.number == answer.number && request.to == answer.from;
}

}  // namespace

// --- what leaves -----------------------------------------------------------------------------

void SciCard::port_ready() {
  is_down_ = false;
  pump();
}

// Nothing that waits will be answered.
void SciCard::port_down() {
  is_down_ = true;
  echoes_.clear();
  buffers_[kResponses] = {};
  for (unsigned i = 0; i < kBuffersMax; i++)
    if (buffers_[kRequests][i].serial) end_request(i, Result::unreachable);
  pump();
}

// Echoes first, then responses: they make room for others. Stores and VIs take turns.
void SciCard::pump() {
  for (; !echoes_.empty() && board_.port.ready(kEchoes); echoes_.pop_front())
    send(kEchoes, 0, std::move(echoes_.front()));
  send_queued(kResponses);
  constexpr unsigned kEach = kVis + 1;
  const auto sources = static_cast<unsigned>(processes_.size()) * kEach;
  for (unsigned idle = 0; idle < sources; idle++, turn_ = (turn_ + 1) % sources) {
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
    if (store.data.empty()) {
      if (process.stores_out > 0) return false;
      if (store.vi) post(*store.vi, std::move(store.job));
      continue;
    }
    if (!may_send(store.header.to)) return false;
    const Store first = std::move(store);
    process.stores.pop_front();
    process.stores_out++;
    start({.context = context, .name = process.name}, first.header, first.data);
    return true;
  }
  return false;
}

size_t SciCard::used(Channel channel) const {
  return kBuffersMax -
         static_cast<size_t>(std::ranges::count(buffers_[channel], 0u, &Buffer::serial));
}

// There is one.
unsigned SciCard::take_buffer(Channel channel, const Header& header) {
  const auto it = std::ranges::find(buffers_[channel], 0u, &Buffer::serial);
  it->serial = ++serials_;
  it->header = header;
  return static_cast<unsigned>(it - buffers_[channel].begin());
}

// Is there a buffer, and a number that no request under way could be mistaken for?
bool SciCard::may_send(uint32_t node) const {
  return used(kRequests) < request_buffers_ &&
         std::ranges::none_of(buffers_[kRequests], [&](const Buffer& other) {
           return other.serial && other.header.to == node &&
                  nodes_[node].next - other.header.number >= kNumbers;
         });
}

void SciCard::start(const Owner& owner, Header header, std::span<const std::byte> data) {
  header.from = static_cast<uint16_t>(board_.node);
  header.number = nodes_[header.to].next++;
  const unsigned i = take_buffer(kRequests, header);
  Buffer& request = buffers_[kRequests][i];
  request.header.buffer = static_cast<uint8_t>(i);
  request.owner = owner;
  request.bytes = bytes_of(request.header, data);
  requests_out_++;
  if (is_down_) return end_request(i, Result::unreachable);
  queue(kRequests, i);
}

void SciCard::queue(Channel channel, unsigned i) {
  buffers_[channel][i].is_queued = true;
  queues_[channel].push_back(i);
}

void SciCard::send(Channel channel, unsigned context, Bytes bytes) {
  Packet packet;
  packet.bytes = std::move(bytes);
  packet.channel = channel;
  board_.port.send(context, std::move(packet));
}

void SciCard::send_queued(Channel channel) {
  for (auto& queue = queues_[channel]; !queue.empty() && board_.port.ready(channel);) {
    const unsigned i = queue.front();
    Buffer& first = buffers_[channel][i];
    queue.pop_front();
    if (!std::exchange(first.is_queued, false)) continue;
    repeated_ += first.attempt > 0;
    send(channel, first.owner.context, first.bytes);
    look_after(channel, i, kEchoNs);
  }
}

// It is sent again after that time, unless it has ended or something was heard of it by then.
void SciCard::look_after(Channel channel, unsigned i, uint64_t ns) {
  const uint64_t attempt = buffers_[channel][i].attempt = ++serials_;
  board_.engine.after(ns, [this, channel, i, attempt] {
    Buffer& late = buffers_[channel][i];
    if (late.is_queued || late.attempt != attempt) return;
    const uint32_t node = channel == kRequests ? late.header.to : late.header.from;
    if (!board_.manager.route(board_.node, node).empty()) {
      queue(channel, i);
    } else if (channel == kRequests) {
      end_request(i, Result::unreachable);
    } else {
      late = Buffer{};
    }
    pump();
  });
}

void SciCard::end_request(unsigned i, Result result, std::span<const std::byte> data) {
  const Buffer request = std::exchange(buffers_[kRequests][i], Buffer{});
  const Owner& owner = request.owner;
  if (!is_there(owner.context, owner.name)) return;
  if (owner.vi) return end_part(request, result, data);
  processes_[owner.context].stores_out--;
  if (result == Result::ok) return;
  bad_stores_++;
  raise(owner.context, kCauseRefused);
}

// --- what arrives ----------------------------------------------------------------------------

void SciCard::arrive(Packet&& packet) {
  Header header;
  board_.port.release(packet.channel);
  if (packet.bytes.size() < sizeof(header) || !intact(packet)) {
    bad_crc_++;
    return;
  }
  std::memcpy(&header, packet.bytes.data(), sizeof(header));
  const std::span data = std::span(packet.bytes).subspan(sizeof(header));
  if (header.to != board_.node || header.from >= board_.nodes || header.buffer >= kBuffersMax ||
      data.size() > kLineBytes) {
    bad_requests_++;
    return;
  }
  const Buffer& request = buffers_[kRequests][header.buffer];
  if (header.command == Command::echo) {
    take_echo(header);
  } else if (header.command == Command::response) {
    echo(header, Result::ok);
    if (request.serial && is_same(request.header, header))
      end_request(header.buffer, header.result, data);
  } else {
    take_request(header, data, std::move(packet));
  }
  pump();
}

void SciCard::echo(const Header& to, Result result) {
  Header header = answer_to(to, Command::echo, result);
  header.of = static_cast<uint8_t>(to.command);
  echoes_.push_back(bytes_of(header));
}

void SciCard::take_echo(const Header& header) {
  Buffer& request = buffers_[kRequests][header.buffer];
  if (header.of == static_cast<uint8_t>(Command::response)) {
    if (Buffer* const served = find_served(header); served && served->attempt) *served = Buffer{};
  } else if (request.serial && is_same(request.header, header)) {
    const bool is_taken = header.result == Result::ok;
    if (is_taken) request.is_queued = false;
    look_after(kRequests, header.buffer, is_taken ? kResponseNs : kBusyNs);
  }
}

// The request with that number of that node; null: it is over.
SciCard::Buffer* SciCard::find_served(const Header& header) {
  for (Buffer& served : buffers_[kResponses])
    if (served.serial && served.header.from == header.from && served.header.number == header.number)
      return &served;
  return nullptr;
}

// The node that was told `busy` first has the next buffer, unless it stays away.
bool SciCard::admits(uint32_t node) {
  const uint64_t now = board_.engine.now_ns();
  std::erase_if(refused_, [&](const Refused& refused) { return refused.until_ns < now; });
  const auto entry = std::ranges::find(refused_, node, &Refused::node);
  const auto before = static_cast<size_t>(entry - refused_.begin());
  const bool is_admitted = used(kResponses) + before < served_buffers_;
  if (!is_admitted && entry == refused_.end())
    refused_.push_back({node, now + kKeptNs});
  else if (!is_admitted)
    entry->until_ns = now + kKeptNs;
  else if (entry != refused_.end())
    refused_.erase(entry);
  return is_admitted;
}

void SciCard::take_request(const Header& header, std::span<const std::byte> data, Packet&& packet) {
  uint32_t& seen = nodes_[header.from].seen[header.number % kNumbers];
  const bool is_seen = static_cast<int32_t>(header.number - seen) <= 0;
  if (is_seen && find_served(header)) return echo(header, Result::ok);
  if (!admits(header.from)) {
    busy_++;
    return echo(header, Result::busy);
  }
  echo(header, Result::ok);
  const unsigned i = take_buffer(kResponses, header);
  Buffer& served = buffers_[kResponses][i];
  served.bytes.assign(data.begin(), data.end());
  served.flight = std::move(packet.flight);
  if (is_seen) return respond(i, Result::lost);
  seen = header.number;
  requests_in_++;
  board_.engine.after(kServeNs, [this, i, serial = served.serial] {
    if (buffers_[kResponses][i].serial == serial) serve(i);
  });
}

void SciCard::serve(unsigned i) {
  const Buffer& served = buffers_[kResponses][i];
  const Header& header = served.header;
  const bool is_read = header.command == Command::read;
  const size_t bytes = is_read ? header.of : served.bytes.size();
  const auto context = static_cast<unsigned>(header.address / kBytesOfProcess);
  const uint64_t at = header.address % kBytesOfProcess;
  uint64_t address;
  if (bytes == 0 || at % kLineBytes + bytes > kLineBytes ||
      !upstream_.find(context, at, is_read ? kReadable : kWritable, &address)) {
    bad_requests_++;
    return respond(i, Result::refused);
  }
  const bool notifies = !is_read && upstream_.find(context, at, kNotifies, &address);
  const auto done = [=, this, serial = served.serial](Status status,
                                                      std::span<const std::byte> data = {}) {
    if (buffers_[kResponses][i].serial != serial) return;
    if (status == Status::ok && notifies) raise(context, kCauseStored);
    respond(i, status == Status::ok ? Result::ok : Result::refused, data);
  };
  if (is_read) return read_host(server_, address, bytes, done);
  write_host(address, served.bytes, done);
}

void SciCard::respond(unsigned i, Result result, std::span<const std::byte> data) {
  Buffer& served = buffers_[kResponses][i];
  served.flight.reset();
  served.bytes = bytes_of(answer_to(served.header, Command::response, result), data);
  queue(kResponses, i);
  pump();
}

}  // namespace torii::nic::sci
