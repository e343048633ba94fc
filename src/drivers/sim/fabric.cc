// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "drivers/sim/fabric.h"

#include <algorithm>
#include <cstring>

#include "core/base/log.h"

namespace torii {

void sim_gather(std::vector<std::byte>& out, std::span<const iovec> pieces) {
  for (const iovec& piece : pieces) {
    const auto* base = static_cast<const std::byte*>(piece.iov_base);
    out.insert(out.end(), base, base + piece.iov_len);
  }
}

SimFabric::Net::Net(const SimOptions& o)
    : options(o), random(o.seed), tag(static_cast<uint32_t>(random.next())), known(o.endpoints) {}

void SimFabric::Net::post(uint32_t number, SimEvent event) {
  SimEndpoint& target = endpoints[number];
  if (target.end != Status::ok) {
    if (event.kind != SimEvent::Kind::frame) return;
    SimDriver* sender = endpoints[event.peer_number].driver;
    if (!sender) return;
    sender->frame_left(event.slot);
    post_done(event.peer_number, event.cookie, target.end);
    return;
  }
  event.serial = serial++;
  target.inbox.push_back(std::move(event));
  std::push_heap(target.inbox.begin(), target.inbox.end());
  if (target.driver) target.driver->wake();
}

void SimFabric::Net::post_done(uint32_t number, uint64_t cookie, Status status) {
  if (!cookie) return;
  SimEvent event;
  event.cookie = cookie;
  event.status = status;
  post(number, std::move(event));
}

void SimFabric::Net::end(uint32_t number, Status status) {
  SimEndpoint& gone = endpoints[number];
  const bool died = status == Status::peer_dead;
  settle_frames_of(number, died);
  const uint64_t last_sent_ns = died ? 0 : gone.driver->last_event_ns();
  gone.driver = nullptr;
  gone.end = status;
  for (SimEvent& event : std::exchange(gone.inbox, {})) post(number, std::move(event));
  for (auto& [name, members] : groups) members.erase(number);
  if (!(options.flags & kPeerDown)) return;
  for (const uint32_t neighbour : gone.neighbours) {
    const SimDriver* driver = endpoints[neighbour].driver;
    SimEvent down;
    down.kind = SimEvent::Kind::down;
    down.status = status;
    down.peer_number = number;
    // After all that arrives from the one, and the last `done` of the other.
    down.at_ns = std::max({now_ns, last_sent_ns, driver ? driver->last_event_ns() : 0});
    down.salt = ~uint64_t{0};
    post(neighbour, std::move(down));
  }
}

void SimFabric::Net::settle_frames_of(uint32_t number, bool died) {
  const auto is_of = [&](const SimEvent& event) {
    return event.kind == SimEvent::Kind::frame && event.peer_number == number;
  };
  for (const uint32_t neighbour : endpoints[number].neighbours) {
    std::vector<SimEvent>& inbox = endpoints[neighbour].inbox;
    if (died) {
      std::erase_if(inbox, is_of);
      std::make_heap(inbox.begin(), inbox.end());
      continue;
    }
    for (SimEvent& event : inbox) {
      if (!is_of(event)) continue;
      sim_gather(event.bytes, event.pieces);
      event.pieces.clear();
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

std::unique_ptr<Driver> SimFabric::open(const DriverEnv& env) {
  const uint32_t number = net_->opened++;
  net_->known = std::max(net_->known, net_->opened);
  auto driver = std::make_unique<SimDriver>(*net_, number, env);
  net_->endpoints[number].driver = driver.get();
  return driver;
}

void SimFabric::address(uint32_t number, std::byte* out) const { net_->write_address(number, out); }

uint64_t SimFabric::now_ns() const { return net_->now_ns; }
void SimFabric::advance(uint64_t ns) { net_->now_ns += ns; }

uint64_t SimFabric::next_event_ns() const {
  uint64_t next = ~uint64_t{0};
  for (const auto& [number, endpoint] : net_->endpoints) {
    if (endpoint.driver && !endpoint.inbox.empty())
      next = std::min(next, endpoint.inbox.front().at_ns);
  }
  return next;
}

void SimFabric::remap(const void* base, uint64_t bytes) {
  for (const auto& [number, endpoint] : net_->endpoints)
    if (endpoint.driver) endpoint.driver->end_regions(base, bytes);
}

void SimFabric::kill(std::span<const std::byte> address) {
  uint32_t number;
  if (net_->parse_address(address, &number) && net_->endpoints[number].driver)
    net_->end(number, Status::peer_dead);
}

std::unique_ptr<Driver> open_sim(const DriverEnv& env, std::string*) {
  static SimFabric* const fabric = new SimFabric;
  return fabric->open(env);
}

}  // namespace torii
