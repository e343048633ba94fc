// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Nectar's communication accelerator board (CAB), as its node sees it over the VME bus, and what
// its firmware shares with the node.
//
// Source: E. Arnould et al., The design of Nectar, 1989: sizes of the memories, three DMA channels
// with a checksum, pages of 1 kB with rights in 32 domains, one of them that of the VME bus, queues
// of 1 kB, and what the commands of a HUB do. The layout, the numbers of the commands and the
// firmware are ours: the report ends where it comes to them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic/card.h"

namespace torii::nic::nectar {

enum BoardAddress : uint32_t {
  kProm = 0x000000,
  kProgramRam = 0x020000,
  kDataRam = 0x100000,  // the only one that DMA reaches
  kRegisters = 0x200000,
  kRights = 0x210000,  // a byte of Right bits for each domain and page
  kBarBytes = 0x230000,
};
inline constexpr uint32_t kPromBytes = 128 << 10, kProgramBytes = 512 << 10, kDataBytes = 1 << 20;
inline constexpr uint32_t kPageBytes = 1024;
inline constexpr uint32_t kDomains = 32, kPagesOfDomain = (kBarBytes - kRights) / kDomains;
inline constexpr uint32_t kVmeDomain = 31;  // of the node; the firmware has 0
static_assert(kBarBytes / kPageBytes <= kPagesOfDomain);

enum Right : uint8_t { kMayRead = 1, kMayWrite = 2, kMayExecute = 4 };

// Channel i of DMA has these at kRegisters + 0x10 * i.
enum DmaRegister : uint32_t {
  kAddress = 0x0,   // in the data RAM
  kLength = 0x4,    // bytes; of what came in, how many there were
  kControl = 0x8,   // a write starts the channel; see DmaControl
  kChecksum = 0xc,  // of the data; of what came in: 0 if it is right
};
enum DmaChannel : uint32_t { kFiberOut, kFiberIn, kVme };
enum DmaControl : uint32_t {
  kStart = 1,
  kPacket = 2,         // out: commands are followed by a packet, else they are all
  kCloseAll = 4,       // out: behind the packet
  kToNode = 8,         // VME: to the node's memory, else from there
  kCommandShift = 8,   // out: bytes of commands, before the data
  kFailed = 1u << 30,  // read: the last transfer
  kBusy = 1u << 31,    // read
};
inline constexpr uint32_t dma(DmaChannel channel, DmaRegister reg) {
  return kRegisters + 0x10 * channel + reg;
}

enum Register : uint32_t {
  kNodeAddress = 0x200030,  // VME: of the node's memory, on the bus
  kReady = 0x200034,        // the ready bit of the HUB's input: 1: it has room for a packet
  kFaults = 0x200038,       // accesses that the rights forbade
  kClock = 0x200100,        // us
  kCabSig = 0x200200,       // a write wakes the firmware
};

// --- commands of a HUB: three bytes, command, HUB, parameter ------------------------------------

enum Opcode : uint8_t {
  kOpen = 1,              // connects the input to that output, if it is free
  kOpenRetry,             // when it is free
  kOpenRetryReply,        // the same, and tells so
  kTestOpenRetry,         // when it is free, and the input behind it has room for a packet
  kClose,                 // whoever has that output
  kCloseEvery,            // all connections on the way, as the command passes
  kStatus,                // tells the state of that output
  kLock,                  // nobody else opens that output
  kSetReady,              // the input behind that output has room
  kReply = 0x10,          // of a HUB: its number, the output, then StatusBits
  kReadySignal,           // of an input: a packet has left it
  kStartOfPacket = 0x7e,  // two bytes of length, the packet and its end
};
inline constexpr uint8_t kCommandBytes = 3;
inline constexpr uint8_t kEveryHub = 0xff;
inline constexpr uint32_t kQueueBytes = 1024;

enum StatusBits : uint32_t {
  kOutputReady = 1,
  kOutputMine = 2,    // the input that asks has it, or nobody
  kStatusOpened = 4,  // tells that a connection was made
  kHolderShift = 8,   // 1 + the input that has it; 0: none
  kPassedShift = 16,  // how many packets have passed there
};

// --- the firmware ------------------------------------------------------------------------------

// Calls of the kernel driver, and their words.
enum Call : uint32_t {
  kBoot = 1,  // {Protocol}: resets the board and starts the firmware
  kJoin,      // {name 2, its bytes}; out {group}
  kLeave,     // {group}
};

enum Protocol : uint32_t {
  kNoProtocol,
  kReliableProtocol,  // acknowledges, and sends again
  kDatagramProtocol,  // what is lost is lost, as is what has no mailbox
};

// A request of the node, or an event that the firmware tells.
struct Entry {
  uint32_t kind;  // see EntryKind
  uint32_t slot;
  uint32_t bytes;  // of the frame
  Name peer;       // receiver or sender; of kSendToGroup the number of the group
};
enum EntryKind : uint32_t {
  kSendFrame,
  kSendToGroup,
  kPostSlot,
  kSent,      // its slot is free; with kReliableProtocol all receivers have it, or are gone
  kReceived,  // into that slot
};

inline constexpr uint32_t kNodes = 64;
inline constexpr uint32_t kCommands = 64, kEvents = 64;
inline constexpr uint32_t kMagic = 0x4e454354;  // "NECT"

// At the start of the data RAM.
struct Shared {
  uint32_t magic;      // written last when the firmware begins
  uint32_t events;     // of the firmware: written so far
  uint32_t commands;   // of the node: written so far
  uint32_t interrupt;  // of the node: 1: an event beyond `seen` interrupts; that makes it 0
  uint32_t seen;       // of the node: events
  uint32_t unused[3];
  Entry command[kCommands];
  Entry event[kEvents];
};

// Mailboxes: slots for frames that go, then for frames that come.
inline constexpr uint32_t kFrameMax = 8192;
inline constexpr uint32_t kSendSlots = 32, kReceiveSlots = 31;
inline constexpr uint32_t kSlotAt = kDataRam + 0x1000;
inline constexpr uint32_t slot_at(uint32_t slot) { return kSlotAt + slot * kFrameMax; }
// The firmware's own: what the next packet goes to.
inline constexpr uint32_t kInputAt = kDataRam + 0x80000, kInputBytes = kFrameMax + kPageBytes;
static_assert(sizeof(Shared) <= 0x1000);
static_assert(slot_at(kSendSlots + kReceiveSlots) <= kInputAt);
static_assert(kInputAt + kInputBytes <= kDataRam + kDataBytes);
static_assert(kSendSlots + kReceiveSlots <= kEvents);

}  // namespace torii::nic::nectar
