// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tport/ports.h"

#include <algorithm>
#include <utility>

#include "core/base/copy.h"
#include "core/base/log.h"

namespace torii {

namespace {

torii_peer_t* public_peer(Peer* peer) { return reinterpret_cast<torii_peer_t*>(peer); }

void describe(const Unexpected& m, torii_result_t* result) {
  *result = {TORII_OK, m.user, m.bits, 0, m.length, public_peer(m.peer)};
}

}  // namespace

[[gnu::hot]] int code_of(Status status) {
  switch (status) {
    case Status::ok:
      return TORII_OK;
    case Status::pending:
      return TORII_PENDING;
    case Status::unsupported:
      return TORII_ERR_UNSUPPORTED;
    case Status::unreachable:
      return TORII_ERR_UNREACHABLE;
    case Status::peer_dead:
      return TORII_ERR_PEER_DEAD;
    case Status::peer_closed:
      return TORII_ERR_PEER_CLOSED;
    case Status::invalid:
      return TORII_ERR_INVALID;
    case Status::denied:
      return TORII_ERR_DENIED;
    case Status::again:
    case Status::no_memory:
      return TORII_ERR_NO_MEMORY;
    case Status::truncated:
      return TORII_ERR_TRUNCATED;
    case Status::corrupt:
      return TORII_ERR_CORRUPT;
    case Status::timed_out:
      return TORII_ERR_TIMED_OUT;
    case Status::canceled:
      return TORII_ERR_CANCELED;
    case Status::dropped:
    case Status::io_error:
      return TORII_ERR_IO;
  }
  return TORII_ERR_IO;
}

Ports::Ports(Protocol& protocol, Counters& counters, void* owner)
    : protocol_(protocol), counters_(counters) {
  for (unsigned i = 0; i < kPorts; ++i) {
    ports_[i].ports = this;
    ports_[i].owner = owner;
    ports_[i].index = uint8_t(i);
  }
}

Ports::~Ports() {
  unexpected_.for_each([this](Unexpected* message) { free_payload(*message); });
}

void Ports::clear(Port& port) {
  port.prompted = nullptr;
  port.prompt = nullptr;
  port.in_order = false;
  for (Receive* r : port.under_way)
    if (std::exchange(r->over, false)) receives_.put(r);
  port.under_way.clear();
  while (MatchNode* node = port.posted.first()) {
    port.posted.remove_first();
    receives_.put(static_cast<Receive*>(node));
  }
  while (ArrivalNode* node = port.arrivals.first()) {
    port.arrivals.remove(node);
    discard(static_cast<Unexpected*>(node));
  }
}

Status Ports::send(Port& port, Peer& peer, torii_mode_t mode, uint64_t tag, uint32_t user,
                   const Data& data, torii_done_t done, void* arg, torii_request_t* request) {
  Envelope env;
  env.space = Space::tagged;
  env.index = port.index;
  env.want_ack = mode == TORII_SYNCHRONOUS;
  env.ready = mode == TORII_READY;
  env.bits = tag;
  env.hdr_data = user;
  env.length = data.bytes();
  Owner owner;
  owner.notify = &Ports::send_event;
  owner.object = this;
  owner.argument = arg;
  owner.words[0] = reinterpret_cast<uint64_t>(done);
  Op* op = nullptr;
  const Status status = protocol_.put(peer, env, data, owner, &op);
  if (status == Status::pending && request) *request = SlotPool<Op>::handle(op);
  return status;
}

void Ports::send_event(Op* op, OpEvent event, Status status, uint64_t bytes) {
  if (event == OpEvent::sent && op->want_ack && status == Status::ok) return;
  torii_result_t result{};
  result.code = code_of(status);
  result.bytes = bytes;
  result.sent_bytes = op->length;
  static_cast<Ports*>(op->owner.object)
      ->completions_.push(reinterpret_cast<torii_done_t>(op->owner.words[0]), op->owner.argument,
                          result);
}

Unexpected* Ports::find(Port& port, const MatchSpec& want) {
  ArrivalNode* node = port.arrivals.find(want.source ? want.source->number : 0,
                                         want.source ? 0 : kAnySource, want.tag, want.ignore);
  return static_cast<Unexpected*>(node);
}

[[gnu::hot]] Status Ports::receive(Port& port, const MatchSpec& want, const Data& data,
                                   torii_done_t done, void* arg, torii_request_t* request,
                                   torii_result_t* result) {
  if (port.arrivals.size() > 0) {
    if (Unexpected* message = find(port, want)) {
      port.arrivals.remove(message);
      const bool at_once = want.source || completions_.empty();
      return receive_taken(message, at_once, data, done, arg, request, result);
    }
  }
  if (want.source && want.source->state != PeerState::up)
    return want.source->state == PeerState::dead ? Status::peer_dead : Status::peer_closed;
  Receive* r = new_receive(done, arg);
  if (!r) return Status::no_memory;
  r->data = data;
  const torii_request_t posted = append(port, want, r);
  if (request) *request = posted;
  return Status::pending;
}

bool Ports::probe(Port& port, const MatchSpec& want, torii_result_t* result) {
  const Unexpected* message = find(port, want);
  if (!message) return false;
  describe(*message, result);
  return true;
}

Unexpected* Ports::take(Port& port, const MatchSpec& want, torii_result_t* result) {
  Unexpected* message = find(port, want);
  if (!message) return nullptr;
  describe(*message, result);
  port.arrivals.remove(message);
  return message;
}

void Ports::free_payload(Unexpected& message) {
  if (message.payload != message.here) protocol_.buffers().put(message.payload);
}

// Copies what is here of a message, and is done with it.
void Ports::take_payload(Unexpected* message, const Data& data, uint64_t accepted) {
  data.copy_in(0, message->payload, accepted);
  protocol_.settle(*message->peer, message->debt, accepted, false);
  free_payload(*message);
  unexpected_.put(message);
}

Owner Ports::owner_of(Receive* r) {
  Owner owner;
  owner.notify = &Ports::receive_event;
  owner.object = this;
  owner.argument = r;
  return owner;
}

[[gnu::hot]] Status Ports::receive_taken(Unexpected* message, bool at_once, const Data& data,
                                         torii_done_t done, void* arg, torii_request_t* request,
                                         torii_result_t* result) {
  Port& port = ports_[message->port];
  at_once = at_once && !port.in_order;
  const uint64_t accepted = std::min(message->length, data.bytes());
  if (!message->op && at_once) {
    describe(*message, result);
    result->bytes = accepted;
    take_payload(message, data, accepted);
    const Status answer = result->sent_bytes > accepted ? Status::truncated : Status::ok;
    result->code = code_of(answer);
    return answer;
  }
  Receive* r = new_receive(done, arg);
  if (!r) {
    port.arrivals.append(message);
    return Status::no_memory;
  }
  r->data = data;
  r->port = port.index;
  torii_result_t& matched = r->completion.result;
  describe(*message, &matched);
  if (port.in_order) port.under_way.push_back(r);
  Status status = Status::ok;
  if (Op* const op = message->op) {
    unexpected_.put(message);
    status = protocol_.claim(op, r->data, accepted, false, owner_of(r), nullptr);
  } else {
    take_payload(message, data, accepted);
  }
  if (!at_once && status != Status::pending) {
    complete(r, status, status == Status::ok ? accepted : 0);
    status = Status::pending;
  }
  if (status == Status::pending) {
    if (request) *request = SlotPool<Receive>::handle(r) | kReceiveBit;
    return status;
  }
  *result = matched;
  result->bytes = status == Status::ok ? accepted : 0;
  receives_.put(r);
  const bool short_of_room = status == Status::ok && result->sent_bytes > accepted;
  const Status answer = short_of_room ? Status::truncated : status;
  result->code = code_of(answer);
  return answer;
}

void Ports::complete(Receive* r, Status status, uint64_t bytes) {
  torii_result_t& result = r->completion.result;
  if (status == Status::ok && result.sent_bytes > bytes) status = Status::truncated;
  result.code = code_of(status);
  result.bytes = bytes;
  Port& port = ports_[r->port];
  if (__builtin_expect(!port.under_way.empty(), 0)) return complete_in_turn(port, r);
  completions_.push(r->completion);
}

// Ends those under way that no earlier one of the same peer is before. One that never matched is
// not among them.
void Ports::complete_in_turn(Port& port, Receive* r) {
  std::vector<Receive*>& all = port.under_way;
  if (std::find(all.begin(), all.end(), r) == all.end()) return completions_.push(r->completion);
  r->over = true;
  for (auto it = all.begin(); it != all.end();) {
    Receive* const next = *it;
    const auto goes_first = [&](const Receive* before) {
      return before->completion.result.source == next->completion.result.source;
    };
    if (!next->over || std::any_of(all.begin(), it, goes_first)) {
      ++it;
      continue;
    }
    next->over = false;
    completions_.push(next->completion);
    it = all.erase(it);
  }
}

void Ports::receive_event(Op* op, OpEvent, Status status, uint64_t bytes) {
  auto* self = static_cast<Ports*>(op->owner.object);
  self->complete(static_cast<Receive*>(op->owner.argument), status, bytes);
}

bool Ports::cancel(torii_request_t request) {
  if (request & kReceiveBit) {
    Receive* r = receives_.find(request & ~kReceiveBit);
    if (!r || !r->posted) return false;
    ports_[r->port].posted.remove(r);
    r->posted = false;
    r->completion.result = {};
    complete(r, Status::canceled, 0);
    return true;
  }
  Op* op = protocol_.ops().find(request);
  if (!op || op->owner.notify != &Ports::send_event) return false;
  const auto done = reinterpret_cast<torii_done_t>(op->owner.words[0]);
  void* const arg = op->owner.argument;
  if (!protocol_.withdraw(op)) return false;
  torii_result_t result{};
  result.code = TORII_ERR_CANCELED;
  completions_.push(done, arg, result);
  return true;
}

void Ports::matched(Port& port, Receive* r, Arrival& a) {
  port.posted.remove(r);
  r->posted = false;
  const uint64_t accepted = std::min(a.env.length, r->data.bytes());
  r->completion.result = {TORII_OK,     uint32_t(a.env.hdr_data), a.env.bits, 0,
                          a.env.length, public_peer(a.peer)};
  if (port.in_order) port.under_way.push_back(r);
  a.soon = r->source_ignore != 0;
  const Status status = protocol_.accept(a, r->data, accepted, false, owner_of(r), nullptr);
  if (status != Status::pending) complete(r, status, status == Status::ok ? accepted : 0);
}

void Ports::on_tagged_any(Port* port, Receive* r, Peer& peer, wire::Tagged header,
                          std::span<const std::byte> payload) {
  if (!port) return protocol_.bad_frame(&peer, "message for no port", "port", header.port);
  if (port->index == kDatagramPort) {
    protocol_.give_back(peer, uint32_t(wire::credit_units(payload.size())));
    if (take_datagram_) take_datagram_(datagram_context_, peer, header.bits, payload);
    return;
  }
  Arrival a = tagged_arrival(peer, header, payload);
  r ? matched(*port, r, a) : unexpected(*port, a);
}

[[gnu::hot]] void Ports::on_put(Arrival& a) {
  if (a.env.index >= kDatagramPort)
    return protocol_.bad_frame(a.peer, "message for no port", "port", a.env.index);
  Port& port = ports_[a.env.index];
  MatchNode* const node = port.posted.find(a.peer->number, a.env.bits);
  node ? matched(port, static_cast<Receive*>(node), a) : unexpected(port, a);
}

[[gnu::hot]] void Ports::unexpected(Port& port, Arrival& a) {
  if (a.env.ready) ++counters_.ready_unexpected;
  Unexpected* message = keep(a);
  if (!message) {
    TORII_ERROR("out of memory: a message of %llu bytes from %s is lost",
                static_cast<unsigned long long>(a.env.length), protocol_.describe(*a.peer).c_str());
    return protocol_.drop(a);
  }
  message->source = a.peer->number;
  message->bits = a.env.bits;
  message->port = port.index;
  message->peer = a.peer;
  message->length = a.env.length;
  message->user = uint32_t(a.env.hdr_data);
  port.arrivals.append(message);
}

// The payload of a complete message is kept without an operation.
[[gnu::hot]] Unexpected* Ports::keep(Arrival& a) {
  Unexpected* message = unexpected_.get();
  if (!message) return nullptr;
  bool kept = false;
  if (a.complete()) {
    const size_t bytes = a.payload.size();
    message->payload = bytes <= Unexpected::kHere ? message->here : protocol_.buffers().get(bytes);
    kept = message->payload != nullptr;
    if (kept) {
      if (bytes > 0) copy_bytes(message->payload, a.payload.data(), bytes, TakeFrom{*a.peer});
      message->debt = protocol_.postpone(a);
    }
  } else {
    message->op = protocol_.hold(a);
    kept = message->op != nullptr;
  }
  if (kept) return message;
  unexpected_.put(message);
  return nullptr;
}

void Ports::discard(Unexpected* message) {
  if (message->op) {
    protocol_.discard(message->op);
  } else {
    protocol_.settle(*message->peer, message->debt, 0, true);
    free_payload(*message);
  }
  unexpected_.put(message);
}

// Receives that only this peer can satisfy fail. When it died, so do receives from anyone: the
// message they wait for may have been its, and an error is better than a hang.
void Ports::fail_receives(Port& port, Peer& peer, Status why) {
  for (MatchNode* node = port.posted.first(); node;) {
    MatchNode* const next = node->next;
    const bool from_anyone = node->source_ignore != 0;
    if (from_anyone ? why == Status::peer_dead : node->source == peer.number) {
      auto* r = static_cast<Receive*>(node);
      port.posted.remove(node);
      r->posted = false;
      r->completion.result = {};
      r->completion.result.source = public_peer(&peer);
      complete(r, why, 0);
    }
    node = next;
  }
}

void Ports::on_peer_down(Peer& peer, Status why) {
  for (Port& port : ports_) fail_receives(port, peer, why);
}

}  // namespace torii
