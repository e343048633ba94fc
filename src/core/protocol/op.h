// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// An operation in flight: one message, seen from one side. Small eager messages that a driver
// takes at once need none.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "core/base/data.h"
#include "core/base/status.h"
#include "core/protocol/choice.h"
#include "core/protocol/wire.h"
#include "drivers/interfaces.h"

namespace torii {

struct Op;
struct Peer;
struct Registration;

// The events that the owner of an operation learns. Where an operation is begun it is said which of
// them it owes; after the last of them the operation is gone.
enum class OpEvent : uint8_t {
  sent,      // put: the source memory may be reused
  acked,     // put with acknowledgement: delivered; `bytes` the target accepted
  dropped,   // put with acknowledgement, or get: the target had no place for it
  received,  // the destination (of an accepted put, or of a get) holds `bytes` bytes
  moved,     // remote read or write by the driver: over
  replied,   // target of a get: the source memory is no longer read
};

// Runs while the protocol is at work: it may begin operations, but must not make progress.
// With a status other than ok the operation failed and no other event follows.
using Notify = void (*)(Op* op, OpEvent event, Status status, uint64_t bytes);

// Whom an operation belongs to, in the room above. The protocol only stores it.
struct Owner {
  Notify notify = nullptr;
  void* object = nullptr;
  void* argument = nullptr;
  uint64_t words[2] = {0, 0};
};

struct RemoteAccess;

// The owner of a remote read or write, who is told that it is over. An access that becomes an
// operation has no place for `words`: they are kept by Protocol::try_access() only.
struct AccessOwner {
  void (*notify)(const RemoteAccess& over, Status status);
  void* object;
  uintptr_t argument;
  uintptr_t words[2] = {0, 0};
};

// A remote read or write that the driver has taken in one piece. A longer one, or one that found no
// room, is an operation.
struct RemoteAccess {
  Peer* peer;
  AccessOwner owner;
  void* base;
  uint64_t offset;
  uint64_t bytes;
  bool reading;
  uint64_t value;  // of an atomic operation: what was there before
};

// A doubly linked list through one of the links of an operation.
struct OpLink {
  Op* prev = nullptr;
  Op* next = nullptr;
};

enum class OpRole : uint8_t {
  control,   // one small frame waiting for room in the driver
  put,       // outgoing payload
  reply,     // the same, of a get
  request,   // get or getput waiting for its reply
  update,    // atomic operation of exported memory waiting for the old value
  incoming,  // payload on its way in, destination known
  held,      // an arrival nobody has matched yet
  read,      // a remote read of memory that the owner imported
  write,     // the same, a remote write
};

enum class OpStage : uint8_t {
  queued,     // in the peer's backlog, no frame handed to the driver yet
  sending,    // the same, but the first one has been
  flying,     // handed over; waiting for done() of the driver
  waiting,    // waiting for a frame from the peer
  streaming,  // source: sending data frames
  asked,      // target: waiting for frames, of a payload that can be read as well
  moving,     // remote read or write with bytes left to issue
  issued,     // all of it handed over; waiting for done() of the driver
  finished,   // over; the owner learns it when the driver has given the memory back
};

// The state of a target that has asked for frames, though it could have read the payload.
enum class Asked : uint8_t {
  no,
  yes,
  missed,  // frames came when it was being read already
  again,   // it could not be read after all: they are to come from the first one on
};

// When the source of an announced message is over.
enum class End : uint8_t {
  finish,   // when the target says so
  arrival,  // or when the driver says that all frames have arrived
  told,     // the latter, and the target has been told by data_end
};

inline constexpr uint32_t kNoRemote = ~uint32_t{0};

struct Op {
  OpRole role = OpRole::control;
  OpStage stage = OpStage::queued;
  Status status = Status::ok;
  Status refusal = Status::dropped;      // what the source is told if nothing was accepted
  choice::Way way = choice::Way::eager;  // request: `streamed` if the payload may come so
  Asked asked = Asked::no;
  End end = End::finish;
  bool want_ack = false;
  bool sent_told = false;  // the owner had its `sent`
  bool soon = false;       // incoming: as Rma::soon
  uint8_t head_bytes = 0;  // of `head`
  Peer* peer = nullptr;
  Owner owner;

  Data data;              // local memory: source, or destination when known
  uint64_t length = 0;    // bytes of the whole message
  uint64_t accepted = 0;  // bytes to be moved into or out of `data`
  uint64_t moved = 0;     // bytes handed to the driver, or received
  uint64_t peer_op = 0;   // the other side's handle
  uint64_t since_ns = 0;  // asked: when it was, or its peer was last heard
  uint64_t streamed = 0;  // bytes that had come when the rest was read

  std::byte* buffer = nullptr;      // held eager payload, or a packed body that had to wait; owned
  uint32_t buffer_bytes = 0;        // of a packed body
  uint32_t credit_taken = 0;        // of the peer's, by an eager message
  uint32_t credit_owed = 0;         // eager credit to give back once the payload is consumed
  uint32_t pending_dones = 0;       // the driver owes this many done()
  OpEvent answer = OpEvent::acked;  // when finished: what conclude() will tell
  uint64_t answer_bytes = 0;

  uint32_t remote = kNoRemote;         // imported key at the driver
  uint64_t remote_offset = 0;          // access: of the first byte
  Registration* region = nullptr;      // of memory that is exported
  Registration* local = nullptr;       // of memory that the own driver moves
  std::array<std::byte, kKeyMax> key;  // the peer's key, held announcements
  uint16_t key_bytes = 0;

  OpLink queue;                          // of the peer: backlog, streams or moves; or `asked_`
  OpLink all;                            // all operations of the peer
  std::array<std::byte, kHeadMax> head;  // encoded first frame header (and key)

  // Payload leaves.
  bool sends() const { return role == OpRole::put || role == OpRole::reply; }
  // Begun by the owner as a remote read or write.
  bool accesses() const { return role == OpRole::read || role == OpRole::write; }
  bool announced() const { return way == choice::Way::announced; }
  // The target could have read it.
  bool readable() const { return asked == Asked::yes || asked == Asked::missed; }
  // In the peer's backlog.
  bool waits() const { return stage == OpStage::queued || stage == OpStage::sending; }
  // Remote read or write under way.
  bool moves() const { return stage == OpStage::moving || stage == OpStage::issued; }
  // The memory of an eager message is the driver's until it has arrived.
  bool lent() const {
    return way == choice::Way::lent || way == choice::Way::copied || way == choice::Way::together;
  }
};

}  // namespace torii
