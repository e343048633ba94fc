// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/fabric/card.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "core/base/log.h"
#include "drivers/fabric/net.h"

namespace torii {
namespace {

// Memory that was handed out and not given back when its card left: the user may still need it,
// until the process ends.
std::map<void*, uint64_t>& left_behind() {
  static auto* const all = new std::map<void*, uint64_t>;
  return *all;
}

size_t bytes_of(std::span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

}  // namespace

SimCard::SimCard(SimFabric::Net& net, uint32_t number)
    : net_(net), self_(&net.endpoints[number]), number_(number) {
  RegisteredMemory::local = options().registers_local;
  tells_changes = options().tells_changes;
  once_min = options().once_min;
  if (!options().card_take_min) return;
  take_min = options().card_take_min;
  memory_.resize(std::max(options().mtu, options().long_max));
}

SimCard::~SimCard() {
  for (const auto& [slot, guard] : guards_) guard->store(0);
  left_behind().merge(allocations_);
  if (!dead()) net_.end(number_, Status::peer_closed);
  if (event_fd_ >= 0) close(event_fd_);
}

bool SimCard::dead() const { return self_->card != this; }
const SimOptions& SimCard::options() const { return net_.options; }
uint32_t SimCard::known_endpoints() const { return net_.known; }
void SimCard::address(std::byte* out) const { net_.write_address(number_, out); }

Status SimCard::find(std::span<const std::byte> address, uint32_t* number) const {
  if (!net_.parse_address(address, number)) return Status::invalid;
  const auto there = net_.endpoints.find(*number);
  return there == net_.endpoints.end() ? Status::ok : there->second.end;
}

void SimCard::meet(uint32_t number) {
  if (number & kGroupBit) return;
  self_->neighbours.insert(number);
  net_.endpoints[number].neighbours.insert(number_);
}

Life SimCard::life(uint32_t number) const {
  if (!options().tells_lives || dead()) return Life::unknown;
  const auto there = net_.endpoints.find(number);
  const bool ended = there != net_.endpoints.end() && there->second.end != Status::ok;
  return ended ? Life::gone : Life::there;
}

// --- frames ----------------------------------------------------------------------------------

bool SimCard::has_room(uint32_t queue) {
  if (dead()) return false;
  if (queue >= queued_.size()) queued_.resize(queue + 1);
  const uint64_t backlog_ns = options().depth * net_.port_ns(options().mtu);
  return queued_[queue] < options().depth && port_free_ns_ <= net_.now_ns + backlog_ns &&
         !net_.random.chance(options().again_ppm);
}

// Returns when all of them have left.
uint64_t SimCard::leave_port(size_t bytes) {
  port_free_ns_ = std::max(port_free_ns_, net_.now_ns) + net_.port_ns(bytes);
  return port_free_ns_;
}

// When the first item of the inbox, which is not empty, can be taken.
uint64_t SimCard::due_ns() const {
  const SimItem& first = self_->inbox.front();
  if (first.kind != SimItem::Kind::frame) return first.at_ns;
  const size_t bytes = first.bytes.size() + bytes_of(first.pieces);
  return std::max(first.at_ns, served_ns_) + options().service_ns + net_.port_ns(bytes);
}

void SimCard::send(SimFrame&& frame) {
  const bool group = frame.to & kGroupBit;
  const uint64_t left_ns = leave_port(frame.bytes.size() + bytes_of(frame.pieces));
  if (group) sim_gather(frame.bytes, std::exchange(frame.pieces, {}));
  if (local && !frame.pieces.empty()) check_local(frame.local, frame.pieces);
  SimItem item;
  item.kind = SimItem::Kind::frame;
  item.number = number_;
  item.queue = frame.queue;
  item.cookie = frame.cookie;
  item.local = frame.local;
  item.bytes = std::move(frame.bytes);
  item.pieces = std::move(frame.pieces);
  item.at_ns = left_ns + net_.random_latency();
  item.salt = net_.random.next() >> 1 | 1;  // after `done` (0), before `down` (all ones)
  if (!group) return post(frame.to, std::move(item));
  item.cookie = 0;
  if (is_lossy(frame.to)) item.group = frame.to;
  for (const uint32_t member : net_.members[frame.to]) {
    if (member == number_) continue;
    if (item.group) {
      item.at_ns = left_ns + net_.random_latency();
      post_lossy(member, item);
      continue;
    }
    self_->neighbours.insert(member);
    post(member, item);
  }
  net_.post_done(number_, frame.cookie, Status::ok);
}

void SimCard::post(uint32_t number, SimItem item) {
  if (options().flags & kReliable) {
    Arrival& last = last_arrivals_[number];
    if (item.at_ns <= last.at_ns) {
      item.at_ns = last.at_ns;
      item.salt = last.salt;
    }
    last = {item.at_ns, item.salt};
  }
  last_event_ns_ = std::max(last_event_ns_, item.at_ns);
  queued_[item.queue]++;
  net_.post(number, std::move(item));
}

void SimCard::post_lossy(uint32_t number, SimItem item) {
  SimEndpoint& target = net_.endpoints[number];
  if (target.lossy_waiting == options().lossy_depth) return;
  target.lossy_waiting++;
  last_event_ns_ = std::max(last_event_ns_, item.at_ns);
  net_.post(number, std::move(item));
}

bool SimCard::next(uint64_t now_ns, SimEvent* event) {
  net_.now_ns = std::max(net_.now_ns, now_ns);
  std::vector<SimItem>& inbox = self_->inbox;
  SimItem item;
  do {
    if (inbox.empty() || due_ns() > net_.now_ns) return false;
    if (inbox.front().kind == SimItem::Kind::frame) served_ns_ = due_ns();
    std::pop_heap(inbox.begin(), inbox.end());
    item = std::move(inbox.back());
    inbox.pop_back();
    if (item.group) self_->lossy_waiting--;
  } while (item.group && !lossy_.contains(item.group));
  *event = SimEvent{SimEvent::Kind::done, item.status, item.number, item.cookie, {}};
  switch (item.kind) {
    case SimItem::Kind::frame:
      receive(item, event);
      break;
    case SimItem::Kind::move:
      event->status = carry_out(item);
      break;
    case SimItem::Kind::atomic:
      event->status = update(item);
      break;
    case SimItem::Kind::down:
      event->kind = SimEvent::Kind::down;
      break;
    case SimItem::Kind::done:
      break;
  }
  return true;
}

void SimCard::receive(SimItem& item, SimEvent* event) {
  const size_t head = item.bytes.size();
  sim_gather(item.bytes, item.pieces);
  // A sender that has closed since has neither a queue nor a use for `done`.
  if (SimCard* sender = item.group ? nullptr : net_.endpoints[item.number].card) {
    sender->frame_left(item.queue);
    if (!sender->reaches(item.local))  // registered too briefly: anything may be there now
      std::fill(item.bytes.begin() + ptrdiff_t(head), item.bytes.end(), std::byte{0xdd});
    net_.post_done(item.number, item.cookie, Status::ok);
  }
  received_ = std::move(item.bytes);
  event->kind = SimEvent::Kind::frame;
  if (item.group) event->from = item.group;
  event->frame = received_;
  if (memory_.empty()) return;
  std::copy(received_.begin(), received_.end(), memory_.begin());
  event->frame = std::span(memory_).first(received_.size());
}

// The card's memory has the next frame as soon as this one was handed up.
void SimCard::give_back() {
  std::vector<std::byte>().swap(received_);  // who uses the frame later is told by a sanitizer
  std::fill(memory_.begin(), memory_.end(), std::byte{0xcc});
}

size_t SimCard::copy(void* to, const std::byte* from, size_t bytes) const {
  const std::less_equal<const std::byte*> before;
  std::memcpy(to, from, bytes);
  const bool own = !memory_.empty() && before(memory_.data(), from) &&
                   before(from, memory_.data() + memory_.size());
  return own ? bytes : 0;
}

Status SimCard::join(std::span<const std::byte> name, uint32_t* group) {
  if (name.empty() || name.size() > 16) return Status::invalid;
  if (!(options().flags & kMulticast)) return Status::unsupported;
  const auto next = static_cast<uint32_t>(net_.groups.size()) | kGroupBit;
  *group = net_.groups.emplace(std::vector(name.begin(), name.end()), next).first->second;
  net_.members[*group].insert(number_);
  return Status::ok;
}

Status SimCard::join_lossy(const LossyMember& membership, uint32_t* group) {
  if (!is_valid(membership)) return Status::invalid;
  const auto next = static_cast<uint32_t>(net_.groups.size()) | kGroupBit | kLossyBit;
  const SecretKey& key = membership.key;
  *group = net_.groups.emplace(std::vector(key.begin(), key.end()), next).first->second;
  if (lossy_.contains(*group)) return Status::invalid;
  if (lossy_.size() == LossyGroups::kGroupsMax) return Status::no_memory;
  lossy_.insert(*group);
  if (membership.hears) net_.members[*group].insert(number_);
  return Status::ok;
}

bool SimCard::is_lossy(uint32_t number) { return number & kLossyBit; }

void SimCard::leave(uint32_t group) {
  net_.members[group].erase(number_);
  lossy_.erase(group);
}

Status SimCard::arm(int* fd) {
  if (!(options().flags & kWait)) return Status::unsupported;
  if (event_fd_ < 0) event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd_ < 0) {
    TORII_ERROR("sim: eventfd failed: %m; raise the limit of open files (ulimit -n)");
    return Status::io_error;
  }
  // An event that is not yet due counts as work too: nothing else would wake the sleeper then.
  if (!self_->inbox.empty()) return Status::again;
  uint64_t value;
  const ssize_t n = read(event_fd_, &value, sizeof(value));
  TORII_ASSERT(n == sizeof(value) || errno == EAGAIN);
  armed_ = true;
  *fd = event_fd_;
  return Status::ok;
}

void SimCard::wake() {
  if (!armed_) return;
  armed_ = false;
  const uint64_t one = 1;
  const ssize_t n = write(event_fd_, &one, sizeof(one));
  TORII_ASSERT(n == sizeof(one));
}

}  // namespace torii
