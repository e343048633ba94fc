// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Drivers and peers: addresses, first contact, failure, progress.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/protocol/protocol.h"

namespace torii {

using wire::Kind;

namespace {

constexpr size_t kHostAt = offsetof(wire::Hello, host);

uint64_t process_key(uint32_t nid, uint32_t pid) { return uint64_t{nid} << 32 | pid; }

uint64_t identity_key(const Identity& id) {
  return (id.job ^ (uint64_t{id.rank} << 32 | id.os_pid)) * 0x9e3779b97f4a7c15ull;
}

bool same_process(const Identity& a, const Identity& b) {
  return a.job == b.job && a.rank == b.rank && a.os_pid == b.os_pid && a.nid == b.nid &&
         a.pid == b.pid;
}

// A process whose short address is all that is known of it has not said its host yet.
const char* host_name(const Identity& id) { return id.host[0] ? id.host : "an unknown host"; }

// A short address that all drivers together would make longer names only those for other nodes; if
// it is longer even so, only the one of them whose address is shortest.
constexpr size_t kBriefBytes = 110;

// Short addresses begin with this, which no hello does; then a run of zeros is a zero and its
// length, for most of an address is zeros.
constexpr std::byte kPacked{0};

size_t pack_zeros(std::span<const std::byte> in, std::byte* out) {
  size_t n = 0;
  out[n++] = kPacked;
  for (size_t i = 0; i < in.size();) {
    out[n++] = in[i];
    if (in[i++] != std::byte{0}) continue;
    size_t run = 1;
    for (; i < in.size() && in[i] == std::byte{0} && run < 255; ++i) ++run;
    out[n++] = std::byte(run);
  }
  return n;
}

// Undoes pack_zeros, behind kPacked; returns the bytes written to out, 0: it makes no sense.
size_t unpack_zeros(std::span<const std::byte> in, std::span<std::byte> out) {
  size_t n = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::byte value = in[i];
    size_t count = 1;
    if (value == std::byte{0}) {
      if (++i == in.size() || in[i] == std::byte{0}) return 0;
      count = size_t(in[i]);
    }
    if (count > out.size() - n) return 0;
    std::fill_n(out.begin() + ptrdiff_t(n), count, value);
    n += count;
  }
  return n;
}

// The process has ended, and not only one path to it.
bool is_end(Status status) { return status == Status::peer_dead || status == Status::peer_closed; }

Identity identity_of(const wire::Hello& h) {
  Identity id;
  id.job = h.job;
  id.rank = h.rank;
  id.nid = h.nid;
  id.pid = h.pid;
  id.uid = h.uid;
  id.os_pid = h.os_pid;
  std::memcpy(id.host, h.host, sizeof(id.host));
  return id;
}

}  // namespace

Protocol::Protocol(const ProtocolConfig& config, Upper* upper, Counters* counters)
    : config_(config), upper_(upper), counters_(counters), registrations_(*counters) {}

Protocol::~Protocol() {
  registrations_.clear();
  drivers_.clear();  // no upcalls from here on
  ops_.for_each([this](Op* op) { buffers_.put(op->buffer); });
}

Sink* Protocol::next_sink() {
  if (rails_.size() == drivers_.size()) {
    auto rail = std::make_unique<Rail>();
    rail->protocol = this;
    rail->index = uint8_t(rails_.size());
    rails_.push_back(std::move(rail));
  }
  return rails_.back().get();
}

void Protocol::add_driver(const std::string& name, std::unique_ptr<Driver> driver) {
  const DriverCaps& caps = driver->caps();
  TORII_ASSERT(rails_.size() == drivers_.size() + 1);
  TORII_ASSERT(caps.mtu >= 512 && caps.inline_max >= kGetputMax && caps.pieces_max > 0);
  constexpr uint32_t kNeeded = kReliable | kPeerDown;
  TORII_ASSERT((caps.flags & kNeeded) == kNeeded);
  staging_.resize(std::max<size_t>(staging_.size(), std::min(caps.inline_max, caps.mtu)));
  registrations_.add_driver(*driver);
  drivers_.push_back(std::move(driver));
  driver_names_.push_back(name);
}

void Protocol::Rail::set(PeerId route, Peer* peer) {
  if (route >= by_route.size()) by_route.resize(size_t{route} + 1, nullptr);
  by_route[route] = peer;
}

wire::Hello Protocol::own_hello() const {
  wire::Hello h{};
  h.kind = Kind::hello;
  h.version = wire::kVersion;
  h.eager_window = uint32_t(std::min<uint64_t>(config_.eager_window, 0xffffffffu));
  h.job = config_.self.job;
  h.rank = config_.self.rank;
  h.nid = config_.self.nid;
  h.pid = config_.self.pid;
  h.uid = config_.self.uid;
  h.os_pid = config_.self.os_pid;
  std::memcpy(h.host, config_.self.host, sizeof(h.host));
  h.host[sizeof(h.host) - 1] = 0;
  return h;
}

// hello up to its host, length of host, host, number of drivers, then for each: length of name,
// name, length of address, address. A short one has no host.
size_t Protocol::write_address(std::byte* text, bool brief, const DriverSet& named) const {
  const wire::Hello hello = own_hello();
  wire::encode(hello, text);
  size_t n = kHostAt;
  const size_t host_bytes = brief ? 0 : std::strlen(hello.host);
  text[n++] = std::byte(host_bytes);
  std::memcpy(text + n, hello.host, host_bytes);
  n += host_bytes;
  std::byte& count = text[n++] = std::byte{0};
  for (size_t i = 0; i < drivers_.size(); ++i) {
    const std::string& name = driver_names_[i];
    if (!named[i]) continue;
    count = std::byte(uint8_t(count) + 1);
    const uint32_t bytes = drivers_[i]->caps().address_bytes;
    TORII_ASSERT(name.size() < 64 && n + 2 + name.size() + bytes <= kAddressBytes);
    text[n++] = std::byte(name.size());
    std::memcpy(text + n, name.data(), name.size());
    n += name.size();
    text[n++] = std::byte(bytes);
    drivers_[i]->address(text + n);
    n += bytes;
  }
  return n;
}

size_t Protocol::address(std::byte* out, size_t capacity) const {
  std::byte text[kAddressBytes];
  const size_t n = write_address(text, false, DriverSet().set());
  if (n <= capacity) std::memcpy(out, text, n);
  return n;
}

size_t Protocol::short_address(std::byte* out, size_t capacity) const {
  std::byte text[kAddressBytes], packed[2 * kAddressBytes];
  const auto pack = [&](const DriverSet& named) {
    return pack_zeros({text, write_address(text, true, named)}, packed);
  };
  DriverSet others, networks, shortest;
  uint32_t least = ~uint32_t{0};
  for (size_t i = 0; i < drivers_.size(); ++i) {
    others[i] = driver_names_[i] != "self";
    networks[i] = is_network(driver_names_[i]);
    const uint32_t bytes = drivers_[i]->caps().address_bytes;
    if (!networks[i] || bytes >= least) continue;
    least = bytes;
    shortest.reset().set(i);
  }
  size_t n = pack(others);
  if (n > kBriefBytes && networks.any()) n = pack(networks);
  if (n > kBriefBytes && networks.count() > 1) n = pack(shortest);
  if (n <= capacity) std::memcpy(out, packed, n);
  return n;
}

// Splits an address; false if it is none of this version.
bool Protocol::parse_address(std::span<const std::byte> address, Identity* id, uint32_t* window,
                             std::span<const std::byte>* drivers) {
  if (address.size() <= kHostAt || address.size() > kAddressBytes) return false;
  const size_t host_bytes = size_t(address[kHostAt]);
  if (host_bytes >= sizeof(wire::Hello::host) || host_bytes >= address.size() - kHostAt - 1)
    return false;
  std::byte text[sizeof(wire::Hello)] = {};
  std::memcpy(text, address.data(), kHostAt);
  std::memcpy(text + kHostAt, address.data() + kHostAt + 1, host_bytes);
  wire::Frame frame;
  if (!wire::parse(text, &frame) || frame.kind != Kind::hello) return false;
  *id = identity_of(frame.hello);
  *window = frame.hello.eager_window;
  *drivers = address.subspan(kHostAt + 1 + host_bytes);
  return true;
}

Status Protocol::connect(std::span<const std::byte> address, Peer** out, std::string* why) {
  Identity id;
  uint32_t window = 0;
  std::span<const std::byte> drivers;
  std::byte own[kAddressBytes], unpacked[kAddressBytes];
  const size_t told = address.size();
  if (told > 0 && address[0] == kPacked)
    address = {unpacked, unpack_zeros(address.subspan(1), unpacked)};
  bool whole = parse_address(address, &id, &window, &drivers);
  // A short address of this process does not say how to reach itself.
  if (whole && same_process(id, config_.self))
    whole = parse_address({own, this->address(own, sizeof(own))}, &id, &window, &drivers);
  if (!whole) {
    *why = format_text(
        "an address of %zu bytes is not one of this version of Torii; all processes of a job "
        "must use the same version",
        told);
    return Status::invalid;
  }
  Peer* peer = find_identity(id);
  if (!peer) {
    peer = make_peer(id);
    peer->credit = window / wire::kCreditUnit;
  }
  if (!peer->driver && peer->state != PeerState::up) {
    *why = describe(*peer) + " is gone";
    *out = peer;
    return down_status(*peer);
  }
  if (!peer->driver) {
    std::string reasons;
    const Status status = reach(*peer, drivers, 0, &reasons);
    if (status != Status::ok) {
      if (reasons.empty())
        reasons =
            " the two have no driver in common that reaches other processes; let TORII_DRIVERS be "
            "the same for all processes, or leave it out";
      *why = format_text("no driver reaches rank %u on %s (pid %u):%s", id.rank, host_name(id),
                         id.os_pid, reasons.c_str());
      if (is_end(status)) {
        fail_peer(*peer, status);
        *out = peer;
      }
      return status;
    }
    peer->path_note = reasons;
  }
  *out = peer;
  return Status::ok;
}

// Takes a driver's name and address off the front; false: there is none.
bool Protocol::next_address(std::span<const std::byte>* rest, std::string_view* name,
                            std::span<const std::byte>* address) {
  if (rest->empty() || size_t((*rest)[0]) >= rest->size()) return false;
  *name = {reinterpret_cast<const char*>(rest->data()) + 1, size_t((*rest)[0])};
  *rest = rest->subspan(1 + name->size());
  if (rest->empty() || size_t((*rest)[0]) > rest->size() - 1) return false;
  *address = rest->subspan(1, size_t((*rest)[0]));
  *rest = rest->subspan(1 + address->size());
  return true;
}

std::span<const std::byte> Protocol::address_for(std::string_view driver,
                                                 std::span<const std::byte> address) {
  Identity id;
  uint32_t window = 0;
  std::span<const std::byte> rest, one;
  std::string_view name;
  if (!parse_address(address, &id, &window, &rest)) return {};
  rest = rest.subspan(1);
  while (next_address(&rest, &name, &one))
    if (name == driver) return one;
  return {};
}

// Tries this process's drivers from the first one on, best first, against the peer's addresses,
// which begin with their number. A driver that knows that the process is gone knows it for all.
Status Protocol::reach(Peer& peer, std::span<const std::byte> addresses, size_t first,
                       std::string* why) {
  std::string absent;
  for (size_t i = first; i < drivers_.size(); ++i) {
    std::span<const std::byte> rest = addresses.subspan(1);
    bool named = false;
    for (unsigned k = 0; k < unsigned(addresses[0]); ++k) {
      std::string_view name;
      std::span<const std::byte> driver_address;
      if (!next_address(&rest, &name, &driver_address)) return Status::unreachable;
      if (name != driver_names_[i]) continue;
      named = true;
      std::string reason;
      PeerId route = kNoPeer;
      const Status status = drivers_[i]->connect(driver_address, &route, &reason);
      if (!reason.empty() && status != Status::unsupported) *why += " " + reason + ";";
      if (is_end(status)) return status;
      if (status != Status::ok) continue;
      if (const Peer* cut = rails_[i]->get(route); cut && cut->id.job == 0) {
        *why += " " + driver_names_[i] + ": it was cut off: " + cut->fault + ";";
        continue;
      }
      set_route(peer, uint8_t(i), route);
      ++counters_->peers_connected;
      *why += absent;
      // Frames that wait for the first contact may have to go by another driver: they bear no key
      // of this one, and are cut to a length that all carry.
      peer.unproven = peer.remote_denied = is_network(driver_names_[i]) && i + 1 < drivers_.size();
      if (peer.unproven) peer.addresses.assign(addresses.begin(), addresses.end());
      return Status::ok;
    }
    if (!named && is_network(driver_names_[i]))
      absent += " " + driver_names_[i] + ": the other process has not opened it;";
  }
  return Status::unreachable;
}

// Its driver is the right one.
void Protocol::prove(Peer& peer) {
  if (!peer.unproven) return;
  peer.unproven = peer.remote_denied = false;
  peer.addresses = {};
}

// Nothing has passed by the peer's driver, and one of the two has given that up. False: no other
// driver reaches it, either, or frames have passed.
bool Protocol::reach_otherwise(Peer& peer) {
  if (!peer.unproven || peer.state != PeerState::up) return false;
  const std::vector<std::byte> addresses = std::move(peer.addresses);
  prove(peer);
  const uint8_t rail = peer.rail;
  const PeerId route = peer.route;
  std::string why = " " + driver_names_[rail] + ": no contact was made by it;";
  if (reach(peer, addresses, size_t{rail} + 1, &why) != Status::ok) return false;
  rails_[rail]->set(route, nullptr);
  --counters_->peers_connected;  // it was counted before
  peer.path_note += why;
  const std::string line = describe(peer) + "; refused:" + peer.path_note;
  TORII_INFO("%s", line.c_str());
  if (params().report) print_line("torii report: rank %u -> %s", config_.self.rank, line.c_str());
  return true;
}

Peer* Protocol::find_identity(const Identity& id) const {
  const auto range = by_identity_.equal_range(identity_key(id));
  for (auto it = range.first; it != range.second; ++it)
    if (same_process(it->second->id, id)) return it->second;
  return nullptr;
}

bool Protocol::is_self(const Peer& peer) const { return same_process(peer.id, config_.self); }

Peer* Protocol::find_process(uint32_t nid, uint32_t pid) const {
  const auto it = by_process_.find(process_key(nid, pid));
  return it == by_process_.end() ? nullptr : it->second;
}

Peer* Protocol::make_peer(const Identity& id) {
  peers_.push_back(std::make_unique<Peer>());
  Peer* peer = peers_.back().get();
  peer->id = id;
  peer->number = peers_.size();
  peer->process = process_key(id.nid, id.pid);
  peer->window = config_.eager_window / wire::kCreditUnit;
  by_identity_.emplace(identity_key(id), peer);
  if (id.job == config_.self.job) by_process_[peer->process] = peer;
  return peer;
}

choice::Plan Protocol::plan(uint8_t rail) const {
  Driver& driver = *drivers_[rail];
  return choice::make_plan(driver.caps(), driver.advice(), config_.eager_limit,
                           config_.eager_window, driver.registered_memory());
}

void Protocol::set_route(Peer& peer, uint8_t rail, PeerId route) {
  peer.rail = rail;
  peer.route = route;
  peer.driver = drivers_[rail].get();
  peer.short_frames = peer.driver->short_frames();
  peer.advice = peer.driver->advice();
  peer.take_min = peer.advice ? peer.advice->take_min : kNoSize;
  peer.paths = peer.driver->paths();
  peer.plan = plan(rail);
  peer.whole_max = std::min(peer.driver->caps().remote_max, peer.plan.copied_max);
  allow_express(peer);
  rails_[rail]->set(route, &peer);
}

void Protocol::allow_express(Peer& peer) {
  const bool ready = peer.state == PeerState::up && peer.hello_sent;
  peer.express_end =
      ready ? uint32_t(std::min<uint64_t>(peer.plan.small_max + 1, peer.plan.alone_min)) : 0;
}

void Protocol::queue_hello(Peer& peer) {
  peer.hello_sent = true;
  allow_express(peer);
  Op* op = make_op(peer, OpRole::control, Owner{});
  TORII_ASSERT(op);
  op->head_bytes = uint8_t(wire::encode(own_hello(), op->head.data()));
  queue_op(op);
}

// First words of a peer: from now on frames of this route are its.
void Protocol::on_hello(Rail& rail, PeerId from, const wire::Hello& hello) {
  Peer* known = rail.get(from);
  if (from == kNoPeer || (known && known->hello_received))
    return bad_frame(known, "unexpected hello", "rank", hello.rank);
  const Identity id = identity_of(hello);
  Peer* peer = find_identity(id);
  if (peer && peer->state != PeerState::up)
    return bad_frame(peer, "hello after its end", "rank", hello.rank);
  // A process has one way here, and says so once.
  if (peer && peer->hello_received) return bad_frame(nullptr, "second hello", "rank", hello.rank);
  if (!peer) {
    peer = make_peer(id);
    peer->credit = hello.eager_window / wire::kCreditUnit;
  }
  if (!peer->driver) {
    set_route(*peer, rail.index, from);
    ++counters_->peers_connected;
  }
  rail.set(from, peer);
  if (peer->id.host[0] == 0) peer->id = id;  // its address was a short one
  peer->hello_received = true;
  if (rail.index == peer->rail) {
    prove(*peer);
  } else if (rail.index > peer->rail) {  // it has given up the driver that is tried here
    reach_otherwise(*peer);
  }
}

Status Protocol::down_status(const Peer& peer) {
  return peer.state == PeerState::dead ? Status::peer_dead : Status::peer_closed;
}

// A correct peer never sends such a frame. A message may be lost with it, and its receiver must not
// wait for ever: the peer is cut off, and told so if there is room for the frame.
void Protocol::bad_frame(Peer* peer, const char* what, const char* thing, uint64_t value) {
  ++counters_->bad_frames;
  const std::string fault =
      format_text("%s (%s %llu)", what, thing, static_cast<unsigned long long>(value));
  if (!peer || peer->state != PeerState::up) {
    TORII_WARN("discarded a frame from %s: %s",
               peer ? describe(*peer).c_str() : "an unknown process", fault.c_str());
    return;
  }
  std::byte head[sizeof(wire::Control)];
  wire::Control bye{};
  bye.kind = Kind::bye;
  bye.status = static_cast<uint8_t>(Status::corrupt);
  Tx tx;
  tx.peer = peer->route;
  tx.head = head;
  tx.head_bytes = uint32_t(wire::encode(bye, head));
  (void)peer->driver->send({&tx, 1});
  peer->fault = fault;
  fail_peer(*peer, Status::peer_dead);
}

// The sender of a frame that came before anything was known of it. Null: the driver does not know
// it either.
Peer* Protocol::stranger(Rail& rail, PeerId from) {
  if (from == kNoPeer) return nullptr;
  Peer* const peer = make_peer(Identity{});
  set_route(*peer, rail.index, from);
  return peer;
}

void Protocol::Rail::peer_down(PeerId route, Status status) {
  Peer* const peer = get(route);
  if (!peer) return;
  if (status == Status::unreachable) {
    if (protocol->reach_otherwise(*peer)) return;
    status = Status::peer_dead;
  }
  if (status == Status::peer_dead && peer->fault.empty() && peer->paths)
    peer->fault = peer->paths->trouble(route);
  protocol->fail_peer(*peer, status);
}

void Protocol::fail_peer(Peer& peer, Status why) {
  if (peer.state != PeerState::up) return;
  peer.state = why == Status::peer_closed ? PeerState::closed : PeerState::dead;
  if (peer.state == PeerState::dead) ++counters_->peers_dead;
  peer.hello_received = false;  // no frame of it counts any more
  allow_express(peer);
  for (Op* op = peer.ops.head; op;) {
    Op* const next = op->all.next;
    if (op->role != OpRole::held && op->stage != OpStage::finished) fail_op(op, why);
    op = next;
  }
  peer.inflow = nullptr;
  upper_->on_peer_down(peer, why);
}

void Protocol::fail_op(Op* op, Status why) {
  Peer& peer = *op->peer;
  if (op->waits()) peer.backlog.remove(op);
  if (op->stage == OpStage::streaming) peer.streams.remove(op);
  if (op->stage == OpStage::asked) stop_waiting(op);
  if (op->moves()) leave_moves(op);
  op->stage = OpStage::waiting;
  conclude(op, why, OpEvent::received, 0);
}

// Hands the drivers what is waiting for room.
unsigned Protocol::push() {
  unsigned events = 0;
  if (listed_) events += flush_listed();
  if (!asked_.empty()) give_up_streams();
  if (!movers_.empty()) events += step_moves();
  return events;
}

bool Protocol::delivered() const {
  return drained() && std::ranges::all_of(drivers_, [](const auto& driver) {
           const Paths* const paths = driver->paths();
           return !paths || paths->delivered();
         });
}

bool Protocol::arm(std::vector<int>* fds) {
  fds->clear();
  if (!drained()) return false;
  for (const auto& driver : drivers_) {
    int fd = -1;
    if (!(driver->caps().flags & kWait) || driver->arm(&fd) != Status::ok) return false;
    fds->push_back(fd);
  }
  return true;
}

void Protocol::say_bye() {
  for (const auto& peer : peers_)
    if (peer->state == PeerState::up && peer->hello_sent)
      send_control(*peer, Kind::bye, Status::ok, 0, 0, 0);
}

std::string Protocol::describe(const Peer& peer) const {
  const std::string path = peer.driver ? " by " + driver_names_[peer.rail] : "";
  if (peer.id.job == 0) return "an unknown process" + path;
  const char* job = peer.id.job == config_.self.job ? "" : " of another job";
  return format_text("rank %u%s on %s (pid %u)%s", peer.id.rank, job, host_name(peer.id),
                     peer.id.os_pid, path.c_str());
}

std::string Protocol::describe_path(const Peer& peer) const {
  const std::string path = peer.paths ? peer.paths->text(peer.route) : "";
  return describe(peer) + (path.empty() ? "" : " (" + path + ")");
}

}  // namespace torii
