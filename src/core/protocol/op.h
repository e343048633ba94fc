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
#include "core/protocol/wire.h"
#include "drivers/interfaces.h"

namespace torii {

struct Op;
struct Peer;

// What the owner of an operation learns. Which events an operation owes is said where it is
// begun; after the last of them the operation is gone.
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

// Who is told that a remote read or write is over. What becomes an operation has no place for
// `words`: they are kept by Protocol::try_access() only.
struct AccessOwner {
  void (*notify)(const RemoteAccess& over, Status status);
  void* object;
  uintptr_t argument;
  uintptr_t words[2] = {0, 0};
};

// A remote read or write that the driver has taken in one piece. What is longer, or found no room,
// is an operation.
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
  send,      // outgoing payload: put or reply
  request,   // get or getput waiting for its reply
  update,    // atomic operation of exported memory waiting for the old value
  incoming,  // payload on its way in, destination known
  held,      // an arrival nobody has matched yet
  access,    // a remote read or write of memory that the owner imported
};

enum class OpStage : uint8_t {
  queued,     // in the peer's backlog, frames still to be handed to the driver
  flying,     // handed over; waiting for done() of the driver
  waiting,    // waiting for a frame from the peer
  streaming,  // source: sending data frames
  asked,      // target: waiting for frames, of a payload that can be read as well
  moving,     // remote read or write with bytes left to issue
  issued,     // all of it handed over; waiting for done() of the driver
  finished,   // over; the owner learns it when the driver has given the memory back
};

inline constexpr uint32_t kNoRemote = ~uint32_t{0};

struct Op {
  OpRole role = OpRole::control;
  OpStage stage = OpStage::queued;
  Status status = Status::ok;
  Status refusal = Status::dropped;  // what the source is told if nothing was accepted
  bool announced = false;            // payload moves after the match
  bool want_ack = false;
  bool sent_told = false;   // the owner had its `sent`
  bool is_reply = false;    // source side of a get
  bool first_sent = false;  // the frame with `head` has left
  bool reading = false;     // access: from the peer's memory
  bool soon = false;        // incoming: as Rma::soon
  bool functions = false;   // data is reached by pack and unpack only
  bool exported = false;    // request: of exported memory, so the payload may come as a stream
  bool several = false;     // puts that share one frame; lent to the driver if it is a long one
  bool pushed = false;      // though longer than what is eager: lent to the driver
  bool readable = false;    // target: as `asked`, from then on
  bool missed = false;      // ... and frames came when it was read already
  bool restarted = false;   // ... so that they were asked for again, from the first one on
  bool no_finish = false;   // source: over when its stream has arrived; target: told so
  bool end_sent = false;    // source: with data_end
  uint8_t head_bytes = 0;   // of `head`
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
  Region* region = nullptr;            // exported memory; owned
  std::array<std::byte, kKeyMax> key;  // the peer's key, held announcements
  uint16_t key_bytes = 0;

  OpLink queue;                          // of the peer: backlog, streams or moves; or `asked_`
  OpLink all;                            // all operations of the peer
  std::array<std::byte, kHeadMax> head;  // encoded first frame header (and key)

  // Remote read or write under way.
  bool moves() const { return stage == OpStage::moving || stage == OpStage::issued; }
};

}  // namespace torii
