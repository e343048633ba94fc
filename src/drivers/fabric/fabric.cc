// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/fabric/fabric.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "drivers/fabric/net.h"

namespace torii {

void sim_gather(std::vector<std::byte>& out, std::span<const iovec> pieces) {
  for (const iovec& piece : pieces) {
    const auto* base = static_cast<const std::byte*>(piece.iov_base);
    out.insert(out.end(), base, base + piece.iov_len);
  }
}

SimFabric::Net::Net(const SimOptions& o)
    : options(o), random(o.seed), tag(static_cast<uint32_t>(random.next())), known(o.endpoints) {}

void SimFabric::Net::post(uint32_t number, SimItem item) {
  SimEndpoint& target = endpoints[number];
  if (target.end != Status::ok) {
    if (item.kind != SimItem::Kind::frame || item.group) return;
    SimCard* sender = endpoints[item.number].card;
    if (!sender) return;
    sender->frame_left(item.queue);
    post_done(item.number, item.cookie, target.end);
    return;
  }
  item.serial = serial++;
  target.inbox.push_back(std::move(item));
  std::push_heap(target.inbox.begin(), target.inbox.end());
  if (target.card) target.card->wake();
}

void SimFabric::Net::post_done(uint32_t number, uint64_t cookie, Status status) {
  if (!cookie) return;
  SimItem item;
  item.cookie = cookie;
  item.status = status;
  post(number, std::move(item));
}

void SimFabric::Net::end(uint32_t number, Status status) {
  SimEndpoint& gone = endpoints[number];
  const bool died = status == Status::peer_dead;
  settle_frames_of(number, died);
  const uint64_t last_sent_ns = died ? 0 : gone.card->last_event_ns_;
  gone.card = nullptr;
  gone.end = status;
  for (SimItem& item : std::exchange(gone.inbox, {})) post(number, std::move(item));
  for (auto& [group, of_it] : members) of_it.erase(number);
  if (!(options.flags & kPeerDown)) return;
  for (const uint32_t neighbour : gone.neighbours) {
    const SimCard* card = endpoints[neighbour].card;
    SimItem down;
    down.kind = SimItem::Kind::down;
    down.status = status;
    down.number = number;
    // After all that arrives from the one, and the last `done` of the other.
    down.at_ns = std::max({now_ns, last_sent_ns, card ? card->last_event_ns_ : 0});
    down.salt = ~uint64_t{0};
    post(neighbour, std::move(down));
  }
}

void SimFabric::Net::settle_frames_of(uint32_t number, bool died) {
  const auto is_of = [&](const SimItem& item) {
    return item.kind == SimItem::Kind::frame && item.number == number && !item.group;
  };
  for (const uint32_t neighbour : endpoints[number].neighbours) {
    std::vector<SimItem>& inbox = endpoints[neighbour].inbox;
    if (died) {
      std::erase_if(inbox, is_of);
      std::make_heap(inbox.begin(), inbox.end());
      continue;
    }
    for (SimItem& item : inbox) {
      if (!is_of(item)) continue;
      sim_gather(item.bytes, item.pieces);
      item.pieces.clear();
    }
  }
}

void SimFabric::Net::write_address(uint32_t number, std::byte* out) const {
  std::memcpy(out, &tag, 4);
  std::memcpy(out + 4, &number, 4);
}

bool SimFabric::Net::parse_address(std::span<const std::byte> address, uint32_t* number) const {
  uint32_t there;
  if (address.size() != kSimAddressBytes) return false;
  std::memcpy(&there, address.data(), 4);
  std::memcpy(number, address.data() + 4, 4);
  return there == tag && *number < known;
}

SimFabric::SimFabric(const SimOptions& options) : net_(std::make_unique<Net>(options)) {
  TORII_ASSERT(options.mtu >= 512 && options.latency_min_ns <= options.latency_max_ns);
}
SimFabric::~SimFabric() = default;

std::unique_ptr<SimCard> SimFabric::plug_in() {
  const uint32_t number = net_->opened++;
  net_->known = std::max(net_->known, net_->opened);
  auto card = std::make_unique<SimCard>(*net_, number);
  net_->endpoints[number].card = card.get();
  return card;
}

void SimFabric::address(uint32_t number, std::byte* out) const { net_->write_address(number, out); }

uint64_t SimFabric::now_ns() const { return net_->now_ns; }
void SimFabric::advance(uint64_t ns) { net_->now_ns += ns; }

uint64_t SimFabric::next_event_ns() const {
  uint64_t next = ~uint64_t{0};
  for (const auto& [number, endpoint] : net_->endpoints) {
    if (endpoint.card && !endpoint.inbox.empty()) next = std::min(next, endpoint.card->due_ns());
  }
  return next;
}

void SimFabric::remap(const void* base, uint64_t bytes) {
  for (const auto& [number, endpoint] : net_->endpoints)
    if (endpoint.card) endpoint.card->end_regions(base, bytes);
}

void SimFabric::kill(std::span<const std::byte> address) {
  uint32_t number;
  if (net_->parse_address(address, &number) && net_->endpoints[number].card)
    net_->end(number, Status::peer_dead);
}

}  // namespace torii
