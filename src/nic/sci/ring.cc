// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The link controller: requests, responses and echoes. A packet is kept until its echo has come,
// and sent again if none comes. Requests of a node have numbers, so that none is done twice.
#include <algorithm>

#include "nic/sci/card.h"

namespace torii::nic::sci {
namespace {

// Virtual channels: none of them waits for another one.
constexpr uint8_t kRequests = 0, kResponses = 1, kEchoes = 2;

constexpr uint64_t kEchoNs = 50000;  // without an echo a packet is sent again
constexpr uint64_t kBusyNs = 2000;   // and after this, if that said `busy`
// As long as this a buffer is kept for a node that was told `busy`.
constexpr uint64_t kKeptNs = 10 * kBusyNs;
constexpr uint64_t kServeNs = 605;  // from the ring to the bus, with the upstream table

std::vector<std::byte> make_packet(const Header& header, std::span<const std::byte> data) {
  std::vector<std::byte> out(sizeof(header) + data.size());
  std::memcpy(out.data(), &header, sizeof(header));
  std::ranges::copy(data, out.begin() + sizeof(header));
  return out;
}

// Does this answer the request?
bool is_same(const Header& request, const Header& answer) {
  return request.number == answer.number && request.to == answer.from;
}

}  // namespace

// --- what leaves -----------------------------------------------------------------------------

void SciCard::port_ready() {
  for (const unsigned channel : {kRequests, kResponses, kEchoes})
    if (board_.port.ready(channel)) is_down_ = false;
  pump();
}

// Nothing that waits will be answered.
void SciCard::port_down() {
  is_down_ = true;
  echoes_.clear();
  for (Served& served : served_) served = Served{};
  for (unsigned i = 0; i < kBuffersMax; i++)
    if (requests_[i].serial) end_request(i, Result::unreachable);
  pump_later(0);
}

void SciCard::pump_later(uint64_t ns) {
  board_.engine.after(ns, [this] { pump(); });
}

// Echoes first, then responses: they make room for others. Stores and VIs take turns.
void SciCard::pump() {
  for (; !echoes_.empty() && board_.port.ready(kEchoes); echoes_.pop_front()) {
    Packet packet;
    packet.bytes = std::move(echoes_.front());
    packet.channel = kEchoes;
    board_.port.send(0, std::move(packet));
  }
  send_kept(kResponses);
  constexpr unsigned kEach = kVis + 1;
  const auto sources = static_cast<unsigned>(processes_.size()) * kEach;
  for (unsigned idle = 0; idle < sources; idle++, turn_ = (turn_ + 1) % sources) {
    const unsigned context = turn_ / kEach, vi = turn_ % kEach;
    if (vi == kStore ? issue_store(context) : issue_part(context, vi)) idle = ~0u;
  }
  send_kept(kRequests);
}

bool SciCard::issue_store(unsigned context) {
  Process& process = processes_[context];
  while (!process.stores.empty()) {
    Store& store = process.stores.front();
    if (store.ready_ns > board_.engine.now_ns()) return false;
    if (store.kind == Store::Kind::data) {
      if (!may_send(store.node)) return false;
      Request request = make_request(context, Command::write, store.node, store.address);
      process.stores_out++;
      const Bytes data = std::move(store.data);
      process.stores.pop_front();
      start(std::move(request), data);
      return true;
    }
    if (process.stores_out > 0) return false;
    if (store.kind == Store::Kind::doorbell) {
      Job job;
      job.at = store.address;
      job.is_checked = !store.data.empty();
      if (job.is_checked) std::memcpy(&job.d, store.data.data(), sizeof(job.d));
      post(context, store.node, std::move(job));
    }
    process.stores.pop_front();
  }
  return false;
}

// Is there a buffer, and a number that no request under way could be mistaken for?
bool SciCard::may_send(uint32_t node) const {
  uint32_t used = 0;
  for (const Request& request : requests_) {
    used += request.serial != 0;
    if (request.serial && request.header.to == node &&
        nodes_[node].next - request.header.number >= kNumbers)
      return false;
  }
  return used < request_buffers_;
}

SciCard::Request SciCard::make_request(unsigned context, Command command, uint32_t node,
                                       uint32_t address) {
  Request request;
  request.header.to = static_cast<uint16_t>(node);
  request.header.command = command;
  request.header.address = address;
  request.context = context;
  return request;
}

void SciCard::start(Request request, std::span<const std::byte> data) {
  const auto it = std::ranges::find(requests_, 0u, &Request::serial);
  const auto i = static_cast<unsigned>(it - requests_.begin());
  Header& header = request.header;
  header.from = static_cast<uint16_t>(board_.node);
  header.buffer = static_cast<uint8_t>(i);
  header.number = nodes_[header.to].next++;
  request.serial = ++serials_;
  request.name = processes_[request.context].name;
  request.packet = make_packet(header, data);
  *it = std::move(request);
  requests_out_++;
  if (is_down_) return end_request(i, Result::unreachable);
  queue(kRequests, i);
}

SciCard::Kept& SciCard::kept(unsigned channel, unsigned i) {
  return channel == kRequests ? static_cast<Kept&>(requests_[i]) : served_[i];
}

void SciCard::queue(unsigned channel, unsigned i) {
  kept(channel, i).is_queued = true;
  queues_[channel].push_back(i);
}

void SciCard::send_kept(unsigned channel) {
  for (auto& queue = queues_[channel]; !queue.empty() && board_.port.ready(channel);) {
    const unsigned i = queue.front();
    Kept& first = kept(channel, i);
    queue.pop_front();
    if (!first.serial || !std::exchange(first.is_queued, false)) continue;
    repeated_ += first.attempt > 0;
    first.attempt = ++serials_;
    Packet packet;
    packet.bytes = first.packet;
    packet.channel = static_cast<uint8_t>(channel);
    board_.port.send(channel == kRequests ? requests_[i].context : 0, std::move(packet));
    board_.engine.after(
        kEchoNs, [this, channel, i, attempt = first.attempt] { look_after(channel, i, attempt); });
  }
}

// No answer has come to that attempt.
void SciCard::look_after(unsigned channel, unsigned i, uint64_t attempt) {
  const Kept& late = kept(channel, i);
  if (late.is_queued || late.attempt != attempt) return;
  const uint32_t node = channel == kRequests ? late.header.to : late.header.from;
  if (!board_.manager.route(board_.node, node).empty()) {
    queue(channel, i);
  } else if (channel == kRequests) {
    end_request(i, Result::unreachable);
  } else {
    served_[i] = Served{};
  }
  pump();
}

void SciCard::end_request(unsigned i, Result result, std::span<const std::byte> data) {
  const Request request = std::exchange(requests_[i], Request{});
  if (!is_there(request.context, request.name)) return;
  if (request.vi != kStore) return end_part(request, result, data);
  processes_[request.context].stores_out--;
  if (result == Result::ok) return;
  bad_stores_++;
  raise(request.context, kCauseRefused);
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
  const Request& request = requests_[header.buffer];
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
  Header header = to;
  std::swap(header.to, header.from);
  header.command = Command::echo;
  header.of = static_cast<uint8_t>(to.command);
  header.result = result;
  echoes_.push_back(make_packet(header, {}));
}

void SciCard::take_echo(const Header& header) {
  Request& request = requests_[header.buffer];
  if (header.of == static_cast<uint8_t>(Command::response)) {
    if (Served* const served = find_served(header); served && served->attempt) *served = Served{};
  } else if (header.result == Result::busy && request.serial && is_same(request.header, header) &&
             !std::exchange(request.is_queued, true)) {
    board_.engine.after(kBusyNs, [this, i = header.buffer] {
      queues_[kRequests].push_back(i);
      pump();
    });
  }
}

// The request with that number of that node; null: it is over.
SciCard::Served* SciCard::find_served(const Header& header) {
  for (Served& served : served_)
    if (served.serial && served.header.from == header.from && served.header.number == header.number)
      return &served;
  return nullptr;
}

// The node that was told `busy` first has the next buffer, unless it stays away.
bool SciCard::admits(uint32_t node) {
  const uint64_t now = board_.engine.now_ns();
  std::erase_if(refused_, [&](const Refused& refused) { return refused.until_ns < now; });
  const auto used =
      kBuffersMax - static_cast<size_t>(std::ranges::count(served_, 0u, &Served::serial));
  const auto entry = std::ranges::find(refused_, node, &Refused::node);
  const auto before = static_cast<size_t>(entry - refused_.begin());
  if (used + before < served_buffers_) {
    if (entry != refused_.end()) refused_.erase(entry);
    return true;
  }
  if (entry == refused_.end()) refused_.push_back({node, 0});
  refused_[before].until_ns = now + kKeptNs;
  return false;
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
  const auto it = std::ranges::find(served_, 0u, &Served::serial);
  const auto i = static_cast<unsigned>(it - served_.begin());
  it->serial = ++serials_;
  it->header = header;
  it->data.assign(data.begin(), data.end());
  it->flight = std::move(packet.flight);
  if (is_seen) return respond(i, Result::lost);
  seen = header.number;
  requests_in_++;
  board_.engine.after(kServeNs, [this, i, serial = it->serial] {
    if (served_[i].serial == serial) serve(i);
  });
}

void SciCard::serve(unsigned i) {
  Served& served = served_[i];
  const Header& header = served.header;
  const bool is_read = header.command == Command::read;
  const size_t bytes = is_read ? header.of : served.data.size();
  const uint32_t page = header.address / kPageBytes;
  if (bytes == 0 || header.address % kLineBytes + bytes > kLineBytes || page >= upstream_.size() ||
      !(upstream_[page].rights & (is_read ? kReadable : kWritable))) {
    bad_requests_++;
    return respond(i, Result::refused);
  }
  const uint64_t address = upstream_[page].address + header.address % kPageBytes;
  const bool notifies = !is_read && upstream_[page].rights & kNotifies;
  const auto done = [=, this, serial = served.serial](Status status,
                                                      std::span<const std::byte> data = {}) {
    if (served_[i].serial != serial) return;
    if (status == Status::ok && notifies) raise(page / kPages, kCauseStored);
    respond(i, status == Status::ok ? Result::ok : Result::refused, data);
  };
  if (is_read) return read_host(server_, address, bytes, done);
  write_host(address, served.data, done);
}

void SciCard::respond(unsigned i, Result result, std::span<const std::byte> data) {
  Served& served = served_[i];
  Header header = served.header;
  std::swap(header.to, header.from);
  header.command = Command::response;
  header.result = result;
  served.flight.reset();
  served.packet = make_packet(header, data);
  queue(kResponses, i);
  pump_later(0);
}

}  // namespace torii::nic::sci
