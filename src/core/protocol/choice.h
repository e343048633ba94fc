// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// How a payload travels. Everything that chooses between protocols is here: from the message's
// length and memory, what the driver can do and advises, and what else is under way. Nothing here
// sends, registers or allocates.
#pragma once

#include <cstdint>

#include "drivers/interfaces.h"

namespace torii {

// Most address ranges offered to a driver at once.
inline constexpr uint32_t kPieces = 8;

namespace choice {

// The limits that a driver and the user set. Constant while a peer has this driver.
struct Plan {
  uint32_t flags = 0;               // Cap bits
  uint32_t mtu = 0;                 // of the driver
  uint32_t long_max = 0;            // the driver's word; what a way gains now is in Load
  uint32_t pieces_max = 1;          // address ranges of one frame
  uint32_t small_max = 0;           // largest message that travels as one tagged frame
  uint32_t eager_max = 0;           // largest message sent eagerly
  uint64_t sent_below = 0;          // as in Advice
  uint64_t remote_min = 0;          // smallest put or get worth while instead of frames
  uint64_t alone_min = kNoSize;     // of eager sizes, better read while nothing is under way
  uint64_t crossing_min = kNoSize;  // the same while such messages meet
  uint64_t read_min = kNoSize;      // the smaller of these two
  // Registration of memory that the driver does not know yet is worth while from this size on.
  uint64_t once_min = 0;
  // Longest body, put or get of this process that the driver moves though it is not registered.
  uint64_t copied_max = kNoSize;
  bool limit_set = false;  // eager_max is the user's word

  bool can(uint32_t cap) const { return (flags & cap) != 0; }
  // As RegisteredMemory::local.
  bool registers_local() const { return copied_max != kNoSize; }
  // All payload travels in frames.
  bool frames_only() const { return !can(kGet | kPut); }
};

// Bytes of eager messages that a peer may send and this process has not consumed: `wanted`, or, if
// that is 0, the share of each of so many processes in `memory`.
uint64_t eager_window(uint64_t wanted, uint64_t memory, uint32_t processes);

// `eager_limit`: the user's, 0: the driver's advice. `eager_window`: bytes a peer grants.
Plan make_plan(const DriverCaps& caps, const Advice* advice, uint64_t eager_limit,
               uint64_t eager_window, const RegisteredMemory* registered = nullptr);

// The payload of a put or a reply, before it is sent.
struct Payload {
  uint64_t bytes = 0;
  bool contiguous = true;
  bool near = false;      // longer than one frame, and Advice::near()
  bool exported = false;  // between exports: its place at the target is known
  bool answered = false;  // its source waits for an acknowledgement
  bool kept = false;      // its registration is kept
};

// Traffic under way to the peer.
struct Load {
  uint64_t credit = 0;     // units of wire::kCreditUnit that the peer has granted
  bool backlog = false;    // frames wait for the driver
  bool announced = false;  // own messages wait to be read, by any peer
  bool denied = false;     // remote access was refused once
  bool copied = false;     // a copy of a message is lent to the driver
  uint32_t long_max = 0;   // as Paths::long_max()
};

// How the source begins to send.
enum class Way : uint8_t {
  eager,      // header and payload
  lent,       // the same, though it is long: its memory is lent to the driver
  copied,     // the same from a copy, so that it is over for its owner at once
  together,   // several short puts to one export in one frame, as the caller has arranged them
  announced,  // header; the payload follows when the target has its place
  streamed,   // payload only: its place at the target is known
};

// Why the payload is announced.
enum class Reason : uint8_t { none, length, credit, near, crossing, alone };

// Recent traffic with a peer, as far as it bears on the choice.
class Recent {
 public:
  // A long message of the peer arrived while one to it is under way: both copy at once.
  void met() { crossing_ = kCrossing; }
  bool crosses() const { return crossing_ > 0; }
  // An announced message that the peer could have read was asked for by frames.
  void not_read() { run_ = kRunUnread; }
  // Why an eager message is announced nevertheless; `none`: it is not. Counts the message.
  Reason better_read(const Plan& plan, const Payload& payload, const Load& load);

 private:
  static constexpr uint8_t kCrossing = 2;
  static constexpr uint8_t kRun = 16;
  static constexpr uint8_t kRunUnread = 255;

  uint8_t crossing_ = 0;  // long messages come and go at once; 0: they do not
  uint8_t run_ = 0;       // so many long messages are taken to be some of many
};

struct Choice {
  Way way = Way::eager;
  Reason reason = Reason::none;
};

// A put. Counts the message in *recent.
Choice put(const Plan& plan, Recent* recent, const Payload& payload, const Load& load);
// The answer to a get.
Choice reply(const Plan& plan, const Payload& payload);
// Is the memory of an announced payload exported for the peer's get, or the memory that it goes to
// for the peer's put?
bool exports(const Plan& plan, const Recent& recent, const Payload& payload, bool denied,
             uint32_t access);

// How an announced payload moves.
enum class Move : uint8_t {
  read,          // the target gets
  write,         // the source puts, if the target's memory can be exported; else as `frames`
  frames,        // the source sends frames
  frames_first,  // the same; what does not come in time, the target gets
};

struct Target {
  uint64_t bytes = 0;
  bool key = false;      // the source's memory is exported, and imported here
  bool near = false;     // its own memory is: a get into it is cheap
  bool sooner = false;   // as Advice::sooner_sent()
  bool backlog = false;  // as Load: the request would wait
  bool silent = false;   // the peer was asked for frames in vain
};
Move move(const Plan& plan, const Target& target);
// May memory that the peer has exported be reached by a get (kGet) or put (kPut) from, or to, this
// payload's memory here? `addressed`: it has an address, no pack or unpack function.
bool reachable(const Plan& plan, Cap by, const Payload& payload, bool addressed, bool denied);
// Can the driver move this payload from, or to, its memory here, if need be after registration?
bool movable(const Plan& plan, const Payload& payload);

}  // namespace choice
}  // namespace torii
