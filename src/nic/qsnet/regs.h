// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// QsNet: the command port of the Elan3 network interface, and what is in its memory.
//
// Source: F. Petrini, W. Feng, A. Hoisie, S. Coll, E. Frachtenberg, The Quadrics network:
// high-performance clustering technology, IEEE Micro, January 2002. The command port of each
// context, DMA descriptors with their events, events with block copy, queues, the MMU, contexts and
// the rule of one acknowledge token for each packet are described there. Offsets, layouts and sizes
// are ours. An address of the real card has 32 bits, and its tables map parts of the process.
#pragma once

#include <cstdint>

#include "nic/card.h"

namespace torii::nic::qsnet {

// The command port: a page for each context, which its process has mapped. Behind it the context's
// part of the card's memory (SDRAM). What is written to the port is done in order.
enum Register : uint32_t {
  kId = 0x00,        // read: kIdValue
  kStartDma = 0x04,  // write: offset of a descriptor in SDRAM
  kSetEvent = 0x08,  // write: offset of an event in SDRAM
  kWake = 0x0c,      // write: as soon as more events have fired than that, one interrupt
  kSdram = 0x1000,
};
inline constexpr uint32_t kIdValue = 0x454c0003;
inline constexpr uint32_t kSdramBytes = 64 << 10;
inline constexpr uint32_t kBarBytes = kSdram + kSdramBytes;

// Addresses are those of the process, all of its memory, and from here on the memory lent to the
// card.
inline constexpr uint64_t kLent = uint64_t{1} << 62;

inline constexpr uint32_t kBlockBytes = 64;
inline constexpr uint32_t kPacketBytes = 5 * kBlockBytes;  // of data, at most
inline constexpr uint32_t kDmaBytes = 1 << 30;             // at most
inline constexpr uint32_t kDmasMax = 256;                  // of a process that wait
inline constexpr uint32_t kPageBytes = 4096;
inline constexpr uint32_t kTlbEntries = 16;

enum Type : uint32_t {
  kDmaWrite = 1,    // from memory here to memory there
  kDmaRead,         // from memory there to memory here
  kDmaQueue,        // from memory here to the next slot of a queue there
  kDmaBroadcast,    // the same, in all processes of a range of nodes that are members of a group
  kDmaTest,         // no data: a broadcast that is done when the members' events `dest` have fired
  kOperation = 15,  // mask
  kUrgent = 16,     // the higher of two priorities in the network
  kRetriesShift = 8,  // tries of a packet, beside the first, until the DMA traps
};

enum DmaStatus : uint32_t {
  kNone = 0,  // it is not over
  kDone,      // all packets are acknowledged, and the last one has been stored
  kFault,     // no such memory, here or there; or the descriptor makes no sense
  kGone,      // the process there has ended
};

struct Descriptor {       // a block
  uint32_t type;          // Type: operation | kUrgent | retries
  uint32_t bytes;         // of a frame at most the slots' bytes less a SlotHeader
  uint64_t source;        // address; of kDmaRead there
  uint64_t dest;          // address; of kDmaQueue, kDmaBroadcast and kDmaTest an offset in SDRAM
  uint32_t process;       // Name; of broadcasts the first node | the last << 16
  uint32_t group;         // of broadcasts
  uint32_t dest_event;    // set there after the last byte of kDmaWrite; offset in SDRAM, 0: none
  uint32_t source_event;  // set here when it is over; 0: none
  uint32_t reserved[4];
  uint32_t cookie;  // the process's own
  uint32_t status;  // DmaStatus: written by the card when it is over, before the event is set
};
static_assert(sizeof(Descriptor) == kBlockBytes);

// A set takes one off the count; at 0 it fires.
struct Event {
  uint32_t count;
  uint32_t type;   // EventType
  uint32_t block;  // offset in SDRAM of what is copied
  uint32_t to;     // and in lent memory, where to
};
enum EventType : uint32_t {
  kCopies = 1,    // a block, to lent memory; its last words are written last
  kEachTime = 2,  // the count becomes 1 again
};

struct Queue {          // a block; frames come to its slots in turn
  uint64_t base;        // address of the first slot, in lent memory
  uint32_t slots;       // at most kSlotsMax
  uint32_t slot_bytes;  // a multiple of 8, at most kSlotBytesMax
  uint32_t event;       // set for each frame, and for each trap
  uint32_t back;        // slots that the process has read so far
  uint32_t reserved[8];
  uint32_t traps;  // written by the card: how often a DMA of this process has trapped
  uint32_t front;  // and how many slots it has filled so far
};
static_assert(sizeof(Queue) == kBlockBytes);
inline constexpr uint32_t kSlotsMax = 1024;
inline constexpr uint32_t kSlotBytesMax = 8192;
inline constexpr uint32_t kQueueAt = kBlockBytes;  // where in SDRAM the queue of a process is

struct SlotHeader {  // written by the card, before the frame
  Name from;         // kNobody: its sender has ended before it was complete
  uint32_t bytes;
};

// Calls of the kernel driver, and their words. It has loaded the route table when the process
// opened its context.
enum Call : uint32_t {
  kTrapped = 1,  // out {process}: the oldest trap whose cause is not told yet; kNobody: a
                 // broadcast. `again`: there is none
  kRoute,        // {process, or kNobody}: loads the route there as it is now, and starts what has
                 // trapped again; `unreachable`
  kSweep,        // ends what is to and from processes that have ended
  kJoin,         // {name, name, length}; out {group}: frames to it arrive from now on
  kLeave,        // {group}
  kMember,       // {group, i}; out {name of the ith member; kNobody: there are no more}
};

inline constexpr uint32_t kSharedBytes = 1 << 20;  // lent memory of each process

}  // namespace torii::nic::qsnet
