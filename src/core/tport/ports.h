// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Tagged message ports, after the Tports of QsNet: posted receives and unexpected messages
// matched by source and a 64-bit tag with an ignore mask. The caller holds the interface's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/counters.h"
#include "core/base/slot_pool.h"
#include "core/match/match_list.h"
#include "core/protocol/express.h"
#include "core/torii.h"
#include "core/tport/completion_queue.h"

namespace torii {

class Ports;

// For what the members of a team tell each other; no user can open it.
inline constexpr unsigned kTeamPort = TORII_PORT_MAX + 1;
// For datagrams between nodes that multicast: messages that no receive is posted for.
inline constexpr unsigned kDatagramPort = kTeamPort + 1;
inline constexpr unsigned kPorts = kDatagramPort + 1;
// Is given what comes to it; the bytes die when it returns.
using TakeDatagram = void (*)(void* context, Peer& from, uint64_t tag,
                              std::span<const std::byte> datagram);

// A receive: posted, or matched with its payload on the way.
struct Receive : MatchNode {  // the node: while posted
  Completion completion;      // its result is set when matched, but for `code` and `bytes`
  Data data;
  bool posted = false;
  bool over = false;  // it waits in Port::under_way for those before it
  uint8_t port;
};

// A message that no receive has matched yet, or that a matched probe took.
struct Unexpected : ArrivalNode {
  static constexpr size_t kHere = 64;  // payloads up to this size need no memory of their own

  uint8_t port = 0;
  uint32_t user = 0;
  Peer* peer = nullptr;
  uint64_t length = 0;
  Op* op = nullptr;  // null: the whole payload is here
  Debt debt;
  std::byte* payload = nullptr;  // `here`, or owned
  std::byte here[kHere];
};

struct Port {
  Ports* ports = nullptr;
  void* owner = nullptr;  // the interface, for the C API
  uint8_t index = 0;
  unsigned opened = 0;
  torii_done_t prompted = nullptr;  // receives with this callback
  torii_prompt_t prompt = nullptr;  // are offered to this one first
  bool in_order = false;            // receives from one peer end in the order of their matches
  std::vector<Receive*> under_way;  // of such a port: matched and not ended, in that order
  MatchList posted;
  ArrivalList arrivals;
};

// The messages that a receive matches.
struct MatchSpec {
  Peer* source;  // null: anyone
  uint64_t tag;
  uint64_t ignore;
};

class Ports {
 public:
  Ports(Protocol& protocol, Counters& counters, void* owner);
  ~Ports();
  Ports(const Ports&) = delete;

  Port* port(unsigned index) { return &ports_[index]; }
  // Cancels receives without callbacks and discards unexpected messages.
  void clear(Port& port);

  // Sends a message that can leave now and wants no answer. False: nothing happened; use send().
  bool send_now(Port& port, Peer& peer, uint64_t tag, uint32_t user, const void* base,
                uint64_t bytes) {
    return protocol_.put_now(peer, port.index, tag, user, base, bytes);
  }
  bool send_now(Port& port, Peer& peer, torii_mode_t mode, uint64_t tag, uint32_t user,
                const Data& data) {
    if (mode == TORII_SYNCHRONOUS || !data.has_address() || data.bytes() >= peer.express_end)
      return false;
    iovec pieces[kPieces];
    uint64_t covered = 0;
    const uint32_t count = data.slice(0, data.bytes(), pieces, peer.plan.pieces_max, &covered);
    const uint8_t where = port.index | (mode == TORII_READY ? wire::kReadyBit : 0);
    return covered == data.bytes() &&
           protocol_.put_now(peer, where, tag, user, pieces, count, covered);
  }
  // As torii_send, torii_recv and so on; `pending` means that the callback follows.
  Status send(Port& port, Peer& peer, torii_mode_t mode, uint64_t tag, uint32_t user,
              const Data& data, torii_done_t done, void* arg, torii_request_t* request);
  Status receive(Port& port, const MatchSpec& want, const Data& data, torii_done_t done, void* arg,
                 torii_request_t* request, torii_result_t* result);
  // Posts a receive that nothing here can match, for memory in one piece. 0: use receive().
  torii_request_t post(Port& port, const MatchSpec& want, void* base, uint64_t bytes,
                       torii_done_t done, void* arg) {
    const bool up = !want.source || want.source->state == PeerState::up;
    if (__builtin_expect(port.arrivals.size() > 0 || !up, 0)) return 0;
    Receive* r = new_receive(done, arg);
    if (__builtin_expect(!r, 0)) return 0;
    r->data.set(base, bytes);
    return append(port, want, r);
  }
  bool probe(Port& port, const MatchSpec& want, torii_result_t* result);
  Unexpected* take(Port& port, const MatchSpec& want, torii_result_t* result);
  // Not at once: behind the callbacks that are due.
  Status receive_taken(Unexpected* message, bool at_once, const Data& data, torii_done_t done,
                       void* arg, torii_request_t* request, torii_result_t* result);
  // True: withdrawn, its callback is in the queue.
  bool cancel(torii_request_t request);

  // Upcalls of the protocol for Space::tagged.
  void on_tagged(Peer& peer, wire::Tagged header, std::span<const std::byte> payload);
  void on_put(Arrival& arrival);
  void on_peer_down(Peer& peer, Status why);

  // For messages to kDatagramPort. They are sent by Protocol::put_now().
  void set_datagrams(TakeDatagram take, void* context) {
    take_datagram_ = take;
    datagram_context_ = context;
  }

  // False: none of the application's functions may run now.
  void allow_prompts(bool allowed) { prompts_allowed_ = allowed; }

  CompletionQueue& completions() { return completions_; }
  // Gives a completion back whose callback has run.
  void recycle(Completion* c) {
    if (__builtin_expect(c->receive != nullptr, 1)) {
      receives_.put(c->receive);
    } else {
      completions_.recycle(c);
    }
  }

 private:
  // Tells a receive's request number from a send's.
  static constexpr uint64_t kReceiveBit = uint64_t{1} << 31;
  static constexpr uint64_t kAnySource = ~uint64_t{0};

  // The port that a frame's header names, or null.
  Port* port_of(uint8_t header_port) {
    const unsigned index = header_port & ~unsigned{wire::kReadyBit};
    return index < kPorts ? &ports_[index] : nullptr;
  }
  [[gnu::noinline, gnu::hot]] void on_tagged_any(Port* port, Receive* receive, Peer& peer,
                                                 wire::Tagged header,
                                                 std::span<const std::byte> payload);
  Receive* new_receive(torii_done_t done, void* arg) {
    Receive* r = receives_.get();
    if (__builtin_expect(!r, 0)) return nullptr;
    r->completion.done = done;
    r->completion.arg = arg;
    r->completion.receive = r;
    return r;
  }
  torii_request_t append(Port& port, const MatchSpec& want, Receive* r) {
    r->source = want.source ? want.source->number : 0;
    r->source_ignore = want.source ? 0 : kAnySource;
    r->bits = want.tag;
    r->ignore = want.ignore;
    r->posted = true;
    r->port = port.index;
    port.posted.append(r);
    return SlotPool<Receive>::handle(r) | kReceiveBit;
  }
  static void send_event(Op* op, OpEvent event, Status status, uint64_t bytes);
  static void receive_event(Op* op, OpEvent event, Status status, uint64_t bytes);
  void complete(Receive* receive, Status status, uint64_t bytes);
  void complete_in_turn(Port& port, Receive* receive);
  void free_payload(Unexpected& message);
  void take_payload(Unexpected* message, const Data& data, uint64_t accepted);
  Owner owner_of(Receive* receive);
  void matched(Port& port, Receive* receive, Arrival& arrival);
  Unexpected* find(Port& port, const MatchSpec& want);
  void unexpected(Port& port, Arrival& arrival);
  Unexpected* keep(Arrival& arrival);
  void discard(Unexpected* message);
  void fail_receives(Port& port, Peer& peer, Status why);

  Protocol& protocol_;
  Counters& counters_;
  CompletionQueue completions_;
  SlotPool<Receive> receives_;
  SlotPool<Unexpected> unexpected_;
  TakeDatagram take_datagram_ = nullptr;
  void* datagram_context_ = nullptr;
  bool prompts_allowed_ = true;
  Port ports_[kPorts];
};

// Most messages match a posted receive, the one that has waited longest, and go into one piece.
[[gnu::hot]] inline void Ports::on_tagged(Peer& peer, wire::Tagged h,
                                          std::span<const std::byte> payload) {
  Port* const port = port_of(h.port);
  MatchNode* node = port ? port->posted.find_first(peer.number, h.bits) : nullptr;
  const bool first = node != nullptr;
  if (__builtin_expect(!first && port, 0)) node = port->posted.find(peer.number, h.bits);
  auto* const r = static_cast<Receive*>(node);
  if (__builtin_expect(!r || !r->data.contiguous() || !port->under_way.empty(), 0))
    return on_tagged_any(port, r, peer, h, payload);
  __builtin_expect(first, 1) ? port->posted.remove_first() : port->posted.remove(r);
  r->posted = false;
  const uint64_t sent = payload.size();
  const uint64_t accepted = std::min(sent, r->data.bytes());
  auto* const flag = static_cast<torii_flag_t*>(r->completion.arg);
  const bool flagged = r->completion.done == &torii_flag;
  torii_result_t& result = flagged ? flag->result : r->completion.result;
  result.code = accepted < sent ? TORII_ERR_TRUNCATED : TORII_OK;
  result.user = h.user;
  result.tag = h.bits;
  result.bytes = accepted;
  result.sent_bytes = sent;
  result.source = reinterpret_cast<torii_peer_t*>(&peer);
  if (accepted > 0) copy_bytes(r->data.at(0), payload.data(), accepted, TakeFrom{peer});
  const bool prompts = r->completion.done == port->prompted && prompts_allowed_ &&
                       (completions_.empty() || !r->source_ignore);
  if (__builtin_expect(flagged, 0)) {
    receives_.put(r);
    __atomic_store_n(&flag->done, 1, __ATOMIC_RELEASE);
  } else if (__builtin_expect(prompts, 1) && port->prompt(r->completion.arg, &result)) {
    receives_.put(r);
  } else {
    completions_.push(r->completion);
  }
  protocol_.give_back(peer, uint32_t(wire::credit_units(sent)));
}

// The public code of a status.
int code_of(Status status);

}  // namespace torii
