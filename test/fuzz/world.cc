// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "fuzz/world.h"

#include <algorithm>

namespace torii::fuzz {

namespace {

constexpr uint64_t kMessageMax = 12000;
constexpr size_t kHandlesKept = 32;
constexpr uint64_t kTags = 3;

constexpr uint32_t kFlags[] = {0, kGet | kGuard, kPut, kGet | kPut | kGuard};

// Each life of a peer is a process of its own.
std::string hello_bytes(unsigned peer, unsigned life) {
  wire::Hello h{};
  h.kind = wire::Kind::hello;
  h.version = wire::kVersion;
  h.eager_window = 1 << 15;
  h.job = 5;
  h.rank = h.nid = peer + 1;
  h.pid = 1;
  h.uid = getuid();
  h.os_pid = 100 + peer + life * kFuzzPeers;
  h.host[0] = 'h';
  std::string out(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// hello up to its host, no host, one driver: name and address.
std::string address_bytes(unsigned peer, unsigned life) {
  return hello_bytes(peer, life).substr(0, offsetof(wire::Hello, host)) + '\0' + '\1' + '\4' +
         "fake" + '\4' + test::FakeDriver::address_of(peer);
}

}  // namespace

World::World(Input& in) : in_(in) {
  NiConfig config;
  config.self = own_identity();
  config.self.job = 5;
  config.self.rank = config.self.nid = 0;
  config.self.pid = 1;
  config.size = 3;
  config.clock = [](void* clock) { return *static_cast<uint64_t*>(clock) += 1000000; };
  config.clock_context = &clock_;
  ni_ = std::make_unique<Ni>(config);
  const uint8_t shape = in.byte();
  const uint32_t flags = kFlags[shape & 3] | (shape & 128 ? kDelivers : 0);
  auto driver = std::make_unique<test::FakeDriver>(ni_->protocol().next_sink(), flags,
                                                   shape & 4 ? 4096 : 512);
  driver_ = driver.get();
  if (shape & 8) driver_->remote = Status::pending;
  if (shape & 64) driver_->advise_frames_below((1 << 14) + 1);
  if (shape & 32) driver_->advise_batches_of(4);
  if (shape & (64 | 128)) driver_->want_lent_from(300);
  ni_->protocol().add_driver("fake", std::move(driver));
  for (unsigned i = 0; i < kFuzzPeers; ++i) connect(i);
  for (unsigned i = 0; i < kFuzzPorts; ++i)
    require(torii_port_open(handle(), i, &ports_[i]) == TORII_OK);
  if (shape & 16) open_portals();
}

World::~World() {
  if (portals_ != PTL_INVALID_HANDLE) {
    unregister_ni(portals_);
    PtlFini();
  }
  ni_->close();
  ni_.reset();
}

// The next life of a peer.
void World::connect(unsigned peer) {
  const std::string address = address_bytes(peer, ++lives_[peer]);
  std::string why;
  require(ni_->connect(std::as_bytes(std::span(address)), &peers_[peer], &why) == Status::ok);
  driver_->arrive(peer, hello_bytes(peer, lives_[peer]));
  more_at_[peer] = 0;
  std::erase_if(inflows_, [peer](const Inflow& flow) { return flow.peer == peer; });
}

void World::progress() {
  torii_progress(handle());
  read_sent();
}

// Whatever leaves is well-formed; handles in it are answered later.
void World::read_sent() {
  for (const auto& frame : driver_->sent) {
    wire::Frame f;
    const std::vector<char> bytes(frame.bytes.begin(), frame.bytes.end());
    require(wire::parse(std::as_bytes(std::span(bytes)), &f));
    uint64_t handle = 0;
    if (f.kind >= wire::Kind::put && f.kind <= wire::Kind::getput) handle = f.request.op;
    if (f.kind == wire::Kind::puts) handle = f.request.op;
    if (f.kind >= wire::Kind::more && f.kind <= wire::Kind::joined) handle = f.control.sender_op;
    if (f.kind == wire::Kind::update) handle = f.update.op;
    // Both are answered by a stream of payload.
    const bool got = f.kind == wire::Kind::get && (f.request.flags & wire::kMemorySpace);
    if (f.kind == wire::Kind::stream || got) inflows_.push_back({frame.peer, handle, 0});
    if (handle != 0) handles_.push_back(handle);
    if (handles_.size() > kHandlesKept) handles_.pop_front();
  }
  driver_->sent.clear();
}

void World::finish() {
  driver_->refusals = 0;
  for (unsigned i = 0; i < kFuzzPeers; ++i) driver_->go_down(i, Status::peer_dead);
  for (int i = 0; i < 64; ++i) progress();
  while (driver_->finish(Status::peer_dead)) progress();
  close_memory();
  for (const Lent& l : lent_)
    require(l.receive && l.any_source, "every operation with a peer that left is over");
  for (unsigned i = 0; i <= TORII_PORT_MAX; ++i) {  // messages wait at closed ports, too
    torii_port_t* port = i < kFuzzPorts ? ports_[i] : nullptr;
    if (!port) require(torii_port_open(handle(), i, &port) == TORII_OK);
    torii_port_close(port);
  }
  ni_->ports().clear(*ni_->ports().port(kTeamPort));
  // Portals may hold puts until it closes.
  if (portals_ != PTL_INVALID_HANDLE) return;
  require(ni_->protocol().ops().used() == 0, "no operation is left");
  require(driver_->registered() == 0 && driver_->lent() == 0, "no memory is exported");
}

void World::step() {
  for (unsigned i = 0; i < kFuzzPeers; ++i)
    if (peers_[i]->state != PeerState::up) connect(i);
  switch (in_.byte() % 20) {
    case 0:
      return raw_frame();
    case 1:
    case 2:
      return tagged_frame();
    case 3:
    case 4:
      return request_frame();
    case 5:
    case 6:
      return in_.byte() % 8 ? control_frame() : updated_frame();
    case 7:
      return more_frame();
    case 8:
      return data_frame();
    case 9:
      return post();
    case 10:
      return send();
    case 11:
      return in_.byte() & 1 ? cancel() : probe();
    case 12:
      (void)driver_->finish(in_.byte() % 4 ? Status::ok : Status::io_error);
      return progress();
    case 13:
      driver_->refusals = in_.byte() % 8;
      reenter_ = in_.byte() % 4;
      return;
    case 14:
      return portals_step();
    case 16:
    case 17:
      return memory_frame();
    case 18:
      return memory_step();
    default: {
      constexpr Status kAnswers[] = {Status::ok, Status::pending, Status::denied, Status::io_error};
      const uint8_t what = in_.byte();
      if (what < 8) driver_->go_down(what % kFuzzPeers, Status::peer_dead);
      if (what >= 128) driver_->remote = kAnswers[what % 4];
      return progress();
    }
  }
}

// --- frames of the peers ------------------------------------------------------------------------

void World::deliver(unsigned peer, const std::string& head, const std::string& rest) {
  driver_->arrive(peer, head + rest);
  if (in_.byte() & 1) progress();
}

void World::raw_frame() {
  const unsigned from = in_.byte() % 4;  // also processes that nobody introduced
  deliver(from < 3 ? from : kNoPeer, in_.text(300), {});
}

void World::tagged_frame() {
  wire::Tagged h{};
  h.kind = wire::Kind::tagged;
  const uint8_t port = in_.byte();
  h.port = port < 240 ? uint8_t(port % kFuzzPorts | (port & wire::kReadyBit)) : port;
  h.credit = uint16_t(in_.below(8));
  h.bits = in_.below(kTags);
  const std::string payload = in_.text(600);
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(in_.byte() % kFuzzPeers, head, payload);
}

void World::request_frame() {
  wire::Request h{};
  h.kind = wire::Kind(unsigned(wire::Kind::put) + in_.below(4));
  h.flags = in_.byte() & 15;
  h.index = uint8_t(in_.below(4));
  h.credit = uint16_t(in_.below(8));
  h.bits = in_.below(kTags);
  h.offset = in_.below(64);
  h.op = in_.below(4);
  std::string key, payload;
  if (h.kind == wire::Kind::put || h.kind == wire::Kind::getput) payload = in_.text(600);
  if (h.kind == wire::Kind::put_announce && (in_.byte() & 1)) key = in_.text(12);
  h.key_bytes = uint16_t(key.size());
  const uint8_t size = in_.byte();
  h.length = size < 64    ? payload.size()
             : size < 240 ? payload.size() + in_.below(kMessageMax)
                          : in_.take<uint64_t>();
  if (h.kind == wire::Kind::put_announce && (in_.byte() & 1)) return announced_frame(h, key);
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  const unsigned from = in_.byte() % kFuzzPeers;
  if (h.kind == wire::Kind::put) more_at_[from] = payload.size();
  deliver(from, head, key + payload);
}

// The same for a tagged port.
void World::announced_frame(const wire::Request& request, const std::string& key) {
  wire::Announced h{};
  h.kind = wire::Kind::tagged_announce;
  h.port = uint8_t(request.index | (in_.byte() & wire::kReadyBit));
  h.credit = request.credit;
  h.bits = request.bits;
  h.length = request.length;
  h.op = request.op;
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(in_.byte() % kFuzzPeers, head, key);
}

uint64_t World::some_handle() {
  if (handles_.empty() || in_.byte() > 240) return in_.take<uint64_t>();
  return handles_[in_.byte() % handles_.size()];
}

void World::control_frame() {
  wire::Control h{};
  h.kind = wire::Kind(unsigned(wire::Kind::reply) + in_.below(9));
  if (h.kind == wire::Kind::bye && in_.byte() % 4) h.kind = wire::Kind::finish;
  h.status =
      uint8_t(in_.byte() % 16 ? (in_.byte() & 1 ? unsigned(Status::dropped) : 0) : in_.byte());
  h.credit = uint16_t(in_.below(8));
  h.op = some_handle();
  h.sender_op = in_.below(4);
  h.length = in_.byte() % 16 ? in_.below(kMessageMax) : in_.take<uint64_t>();
  std::string key, payload;
  if (h.kind == wire::Kind::reply) payload = in_.text(600);
  if (h.kind == wire::Kind::reply || (in_.byte() & 1))
    h.length = std::max<uint64_t>(payload.size(), in_.below(1000));
  if ((h.kind == wire::Kind::stream || h.kind == wire::Kind::reply_announce) && (in_.byte() & 1))
    key = in_.text(12);
  h.key_bytes = uint16_t(key.size());
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  const unsigned from = in_.byte() % kFuzzPeers;
  if (h.kind == wire::Kind::reply) more_at_[from] = payload.size();
  deliver(from, head, key + payload);
}

void World::more_frame() {
  wire::Control h{};
  h.kind = wire::Kind::more;
  const unsigned from = in_.byte() % kFuzzPeers;
  const std::string payload = in_.text(600);
  h.length = in_.byte() % 16 ? more_at_[from] : in_.take<uint64_t>();
  more_at_[from] += payload.size();
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(from, head, payload);
}

void World::data_frame() {
  if (inflows_.empty()) return progress();
  Inflow& flow = inflows_[in_.byte() % inflows_.size()];
  wire::Control h{};
  h.kind = wire::Kind::data;
  h.op = flow.op;
  h.length = in_.byte() % 16 ? flow.moved : in_.take<uint64_t>();
  const std::string payload = in_.text(600);
  flow.moved += payload.size();
  std::string head(sizeof(h), 0);
  wire::encode(h, reinterpret_cast<std::byte*>(head.data()));
  deliver(flow.peer, head, payload);
  if (inflows_.size() > kHandlesKept) inflows_.pop_front();
}

}  // namespace torii::fuzz
