// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The words between a process and the emulator of its card. First, over a Unix socket:
//
//   process  Hello                 which card, which node
//   emulator Welcome, descriptors  the name of the process; memory of the channel, memory lent to
//                                  the card, doorbell and interrupt (eventfd); memory of the card
//                                  for reading, if it has any. Or why not
//
// The socket stays open: its end is the end of the process, or of the emulator. Then, in the memory
// of the channel:
//
//   +------+------+--------+---------+-----------------------------------+
//   | tail | head | answer | payload | ring of records, 64 KiB           |
//   +------+------+--------+---------+-----------------------------------+
//
// The process writes a record for each access to its card, in order, and moves `tail`; the emulator
// carries them out and moves `head`. Who asks (load, call of the kernel driver) waits for the
// answer with the number of the question. So a load waits for earlier stores, as on a real bus. One
// of the card's memory needs no question, if there are none.
//
// Both sides copy what they read there before they check it, and neither relies on the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nic/card.h"

namespace torii::nic::channel {

inline constexpr uint32_t kMagic = 0x32434e54;  // "TNC2"; changes with anything on this page
inline constexpr uint32_t kAnyNode = ~0u;
inline constexpr size_t kNameMax = 16;  // bytes of a card's name, its final zero included
inline constexpr size_t kTextMax = 400;

struct Hello {
  uint32_t magic;
  uint32_t node;  // of the emulated cluster; kAnyNode: the next one
  char card[kNameMax];
  uint64_t cookie_at;  // address of 16 random bytes in the process: its memory is reached by
  uint64_t cookie[2];  // cross-memory attach, which is proved by reading them
};

struct Welcome {
  uint32_t magic;
  uint32_t status;  // a Status; not ok: text says why
  uint64_t fabric;
  uint32_t name, node, contexts, bar_bytes;
  uint64_t shared_address;
  uint64_t shared_bytes;
  uint32_t endpoints;
  uint32_t memory_bytes;  // of the card, from its first register on
  int32_t attach_error;   // errno: the process's memory cannot be reached; 0: it can
  char text[kTextMax];
};

enum : size_t { kChannelFd, kLentFd, kDoorbellFd, kInterruptFd, kMemoryFd, kDescriptorsMax };
// How many there are.
inline size_t descriptors(const Welcome& welcome) { return kMemoryFd + (welcome.memory_bytes > 0); }

enum class Kind : uint32_t { store, load, control, map, unmap, close };

// Followed by `bytes` bytes of payload, padded to a multiple of 8: of store the data, of control a
// Control, of map and unmap a MapCall.
struct Record {
  Kind kind;
  uint32_t at;        // store, load: in the registers
  uint32_t bytes;     // of the payload; of load: to be read
  uint32_t question;  // number of the answer that is waited for; 0: none
};
static_assert(sizeof(Record) == 16);

struct MapCall {
  uint64_t base, bytes;  // in the process
  uint64_t rights;
  uint64_t address;  // on the bus, of unmap
};

inline constexpr uint32_t kRingBytes = 64 << 10;  // a power of two
inline constexpr uint32_t kPieceMax = 4096;       // of a payload, and of an answer

inline constexpr uint32_t padded(uint32_t bytes) { return (bytes + 7) & ~7u; }

struct Memory {
  alignas(64) std::atomic<uint32_t> tail;      // of the process: bytes written so far
  alignas(64) std::atomic<uint32_t> head;      // of the emulator: and carried out
  std::atomic<uint32_t> asleep;                // the emulator waits for the doorbell
  alignas(64) std::atomic<uint32_t> answered;  // the last question; a futex
  std::atomic<uint32_t> waiting;               // the process sleeps on it
  uint32_t status;                             // of the answer
  uint32_t bytes;
  alignas(64) std::byte answer[kPieceMax];
  alignas(64) std::byte ring[kRingBytes];
};

// Copies between the ring and memory; `at` counts from the start of all times.
inline void ring_write(std::byte* ring, uint32_t at, const void* from, uint32_t n) {
  at %= kRingBytes;
  const uint32_t first = n < kRingBytes - at ? n : kRingBytes - at;
  if (first) std::memcpy(ring + at, from, first);
  if (n > first) std::memcpy(ring, static_cast<const std::byte*>(from) + first, n - first);
}
inline void ring_read(const std::byte* ring, uint32_t at, void* to, uint32_t n) {
  at %= kRingBytes;
  const uint32_t first = n < kRingBytes - at ? n : kRingBytes - at;
  if (first) std::memcpy(to, ring + at, first);
  if (n > first) std::memcpy(static_cast<std::byte*>(to) + first, ring, n - first);
}

}  // namespace torii::nic::channel
