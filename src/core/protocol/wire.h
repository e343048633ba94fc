// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Every header that travels between two processes. All fields are little-endian. A frame is one
// of these headers, then an optional memory key, then payload; the first byte is its kind. Words of
// zeros at the end of a key do not travel.
//
//   tagged      16 bytes: a whole small message for a tagged port
//   announced   32 bytes: the announcement of a large message for a tagged port
//   request     56 bytes: put, puts, get, getput and the announcement of another large put
//   control     32 bytes: everything about a message both sides already know
//   update      56 bytes: an atomic operation on exported memory; 88 with the lock it needs
//   updated     24 bytes: its answer
//   hello      104 bytes: who I am; the first frame to a peer
//
// The sender is the peer that the driver names; its identity came with its hello. Handles are
// those of SlotPool: the receiver of a handle looks it up and checks that the object belongs to
// the peer that sent the frame.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/base/little_endian.h"

namespace torii::wire {

inline constexpr uint8_t kVersion = 8;

enum class Kind : uint8_t {
  hello = 1,
  tagged,          // tagged: whole message follows
  put,             // request: payload follows, continued by `more` frames
  put_announce,    // request: key follows, payload moves after the match
  get,             // request
  getput,          // request: payload follows; not for exported memory
  more,            // control: next piece of the peer's last eager message, in order
  reply,           // control: answer to a get; payload follows, continued by `more`
  reply_announce,  // control: key follows, payload moves as for put_announce
  stream,          // control: "send me the bytes by frames" (or by remote write, if a key follows)
  data,            // control: payload of a stream at an offset, or of a long get of exported memory
  finish,          // control: the announced payload has been moved, or will not be
  ack,             // control: a put was delivered
  credit,          // control: eager bytes consumed
  bye,             // control: the sender closes
  joined,          // control: the sender receives what is sent to a group
  update,          // update: a LockWord follows if it is locked
  updated,         // updated
  tagged_announce,  // announced: key follows, payload moves after the match
  puts,             // request: short puts to one export follow, each behind its place
  data_end,         // control: as data, the last of a stream whose source needs no finish
};
inline constexpr uint8_t kKindLast = static_cast<uint8_t>(Kind::data_end);

enum RequestFlags : uint8_t {
  kWantAck = 1u << 0,      // answer with ack when delivered, or finish(dropped)
  kReady = 1u << 1,        // the sender says that the receive is posted
  kTaggedSpace = 1u << 2,  // index names a tagged port, not a portal table entry
  kMemorySpace = 1u << 3,  // bits name an export, hdr_data its label
};

// Integers in wire order; a no-op on little-endian machines.
template <typename T>
constexpr T little(T value) {
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (size_t i = 0; i < sizeof(T); ++i) swapped = T(swapped << 8) | T((value >> (8 * i)) & 0xff);
    return swapped;
  }
  return value;
}

// Eager bytes handed back to the sender travel in units of this many bytes.
inline constexpr uint32_t kCreditUnit = 64;
// The cost of a message: its payload and a share of the receiver's bookkeeping.
constexpr uint64_t credit_units(uint64_t bytes) {
  return 1 + bytes / kCreditUnit + (bytes % kCreditUnit != 0);
}

// In Tagged::port, beside the port's index: the sender says that the receive is posted.
inline constexpr uint8_t kReadyBit = 0x80;

struct Tagged {
  Kind kind;
  uint8_t port;
  uint16_t credit;
  uint32_t user;
  uint64_t bits;
};
static_assert(sizeof(Tagged) == 16);

// The same in wire order, as two words: one store each, so that the copy into the driver's memory
// need not wait for many small ones.
struct TaggedWords {
  uint64_t words[2];
  TaggedWords(uint8_t port, uint16_t credit, uint32_t user, uint64_t bits)
      : words{little(uint64_t{static_cast<uint8_t>(Kind::tagged)} | uint64_t{port} << 8 |
                     uint64_t{credit} << 16 | uint64_t{user} << 32),
              little(bits)} {}
};

// With a key of 24 bytes it is one cache line with the 8 bytes that a driver may need before it.
// All that follows is the key.
struct Announced {
  Kind kind;
  uint8_t port;  // as in Tagged
  uint16_t credit;
  uint32_t user;
  uint64_t bits;
  uint64_t length;
  uint64_t op;  // the sender's handle
};
static_assert(sizeof(Announced) == 32);

struct Request {
  Kind kind;
  uint8_t flags;
  uint8_t index;     // portal table entry or tagged port
  uint8_t reserved;  // 0
  uint16_t credit;
  uint16_t key_bytes;
  uint32_t ac_index;
  uint32_t pad;  // 0
  uint64_t bits;
  uint64_t hdr_data;
  uint64_t length;  // of the whole message
  uint64_t offset;  // remote offset
  uint64_t op;      // the sender's handle; 0: expects no answer
};
static_assert(sizeof(Request) == 56);

// Before each of several short puts: where it goes, and how many bytes of it follow.
struct Place {
  static constexpr size_t kBytes = sizeof(uint64_t);
  static constexpr unsigned kOffsetBits = 48;

  uint64_t offset = 0;  // less than 2 to the power of kOffsetBits
  uint16_t bytes = 0;
};
inline void write_place(const Place& place, std::byte* out) {
  store_little(out, place.offset | uint64_t{place.bytes} << Place::kOffsetBits);
}
inline Place read_place(const std::byte* in) {
  const auto word = load_little<uint64_t>(in);
  return {word & ((uint64_t{1} << Place::kOffsetBits) - 1),
          static_cast<uint16_t>(word >> Place::kOffsetBits)};
}

struct Control {
  Kind kind;
  uint8_t status;  // torii::Status
  uint16_t credit;
  uint16_t key_bytes;
  uint16_t reserved;   // 0
  uint64_t op;         // handle at the receiver of this frame; number of the group
  uint64_t sender_op;  // handle at its sender
  uint64_t length;     // bytes accepted, or the offset of `data`; `joined`: 1 asks for the same
};
static_assert(sizeof(Control) == 32);

struct Hello {
  Kind kind;
  uint8_t version;
  uint16_t reserved;      // 0
  uint32_t eager_window;  // bytes the receiver of this frame may send unconsumed
  uint64_t job;
  uint32_t rank;
  uint32_t nid;
  uint32_t pid;  // Portals process id
  uint32_t uid;
  uint32_t os_pid;
  uint32_t pad;   // 0
  char host[64];  // zero-terminated
};
static_assert(sizeof(Hello) == 104);

// An atomic operation. It is one cache line with the 8 bytes that a driver may need before it.
// Answered by `updated`, or by `finish` with the reason why nothing was done.
struct Update {
  Kind kind;
  uint8_t operation;  // torii_atomic_t
  uint16_t credit;
  uint8_t width;        // bytes: 4 or 8
  uint8_t locked;       // 1: under the lock that follows; 0: nothing follows
  uint8_t reserved[2];  // 0
  uint64_t bits;        // handle of the export in its owner
  uint64_t label;
  uint64_t offset;
  uint64_t operand;
  uint64_t compare;
  uint64_t op;  // the sender's handle
};
static_assert(sizeof(Update) == 56);

// A lock that processes keep in 8 bytes of exported memory, 0 while it is free.
struct LockWord {
  static constexpr size_t kBytes = 4 * sizeof(uint64_t);

  uint64_t bits = 0;  // handle of the export in its owner
  uint64_t label = 0;
  uint64_t offset = 0;
  uint64_t held = 0;  // what it is while the update is carried out
};
inline void write_lock(const LockWord& lock, std::byte* out) {
  store_little(out, lock.bits);
  store_little(out + 8, lock.label);
  store_little(out + 16, lock.offset);
  store_little(out + 24, lock.held);
}
inline LockWord read_lock(const std::byte* in) {
  return {load_little<uint64_t>(in), load_little<uint64_t>(in + 8), load_little<uint64_t>(in + 16),
          load_little<uint64_t>(in + 24)};
}

struct Updated {
  Kind kind;
  uint8_t busy;  // 1: nothing was changed, for the lock was not free
  uint16_t credit;
  uint32_t pad;  // 0
  uint64_t op;   // handle at the receiver of this frame
  uint64_t old;  // what was there before; `busy`: what the lock was
};
static_assert(sizeof(Updated) == 24);

// A checked view of a received frame: `kind` is valid, the header is complete, key and payload
// lie inside the frame, reserved fields are 0. Fields are already in host order.
struct Frame {
  Kind kind;
  union {
    Tagged tagged;
    Announced announced;
    Request request;
    Control control;
    Hello hello;
    Update update;
    Updated updated;
  };
  std::span<const std::byte> key;
  std::span<const std::byte> payload;

  Frame() : kind(Kind::bye), control() {}
};

// False if any check fails; then nothing of *out may be used.
bool parse(std::span<const std::byte> bytes, Frame* out);

// The same for the commonest frame alone: false if it is not a tagged one.
inline bool parse_tagged(std::span<const std::byte> bytes, Tagged* out) {
  if (__builtin_expect(bytes.size() < sizeof(Tagged), 0)) return false;
  if (__builtin_expect(static_cast<Kind>(bytes[0]) != Kind::tagged, 0)) return false;
  std::memcpy(out, bytes.data(), sizeof(Tagged));
  out->credit = little(out->credit);
  out->user = little(out->user);
  out->bits = little(out->bits);
  return true;
}

// Writes a header in wire order; returns its length.
size_t encode(const Tagged& header, std::byte* out);
size_t encode(const Announced& header, std::byte* out);
size_t encode(const Request& header, std::byte* out);
// Each frame of a stream has one. Here, so that the values need not go through memory.
inline size_t encode(const Control& h, std::byte* out) {
  store_little(out, uint64_t(h.kind) | uint64_t{h.status} << 8 | uint64_t{h.credit} << 16 |
                        uint64_t{h.key_bytes} << 32 | uint64_t{h.reserved} << 48);
  store_little(out + offsetof(Control, op), h.op);
  store_little(out + offsetof(Control, sender_op), h.sender_op);
  store_little(out + offsetof(Control, length), h.length);
  return sizeof(h);
}
size_t encode(const Hello& header, std::byte* out);
size_t encode(const Update& header, std::byte* out);
size_t encode(const Updated& header, std::byte* out);

}  // namespace torii::wire
