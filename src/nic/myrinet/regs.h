// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Myrinet's PCI card with a LANai 4.1, and what its control programs share with the host.
//
// Sources: Myricom's headers for the LANai 4 as Cplant and Linux have them (offsets, bits of the
// ISR, commands of the control register, EEPROM); M. Griebel and G. Zumbusch, Parnass: Porting
// gigabit-LAN components to a workstation cluster, 1997 (control programs and their queues). The
// layout of the SRAM is ours, as is what the headers leave open: DMA_DIR, DMA_STS, TIMEOUT, and
// that addresses need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic/card.h"

namespace torii::nic::myrinet {

enum BoardAddress : uint32_t {
  kSram = 0x00000,
  kEeprom = 0x80000,  // see Eeprom
  kLanai = 0xc0000,
  kControl = 0xe0000,  // see ControlBit
  kBarBytes = 0x100000,
};
inline constexpr uint32_t kSramBytes = 0x80000;

// Registers of the LANai. Limits are the address behind the last byte.
enum Register : uint32_t {
  kIsr = kLanai + 0x28,     // see Isr; the host clears the bits that it writes
  kEimr = kLanai + 0x2c,    // bits of the ISR that interrupt the host
  kIt = kLanai + 0x30,      // interval timer, counts down by 1 each 0.5 us
  kRtc = kLanai + 0x34,     // clock of 0.5 us
  kCks = kLanai + 0x38,     // checksum: not emulated
  kEar = kLanai + 0x3c,     // DMA: address on the bus
  kLar = kLanai + 0x40,     // address in the SRAM
  kDmaCtr = kLanai + 0x44,  // bytes; a write starts the transfer
  kRmp = kLanai + 0x48,     // receive: where the next byte goes
  kRml = kLanai + 0x4c,     // limit; a write arms the engine for a packet
  kSmp = kLanai + 0x50,     // send: the next byte
  kSml = kLanai + 0x54,     // limit; a write sends, and the packet goes on
  kSmlt = kLanai + 0x58,    // the same, and the packet ends
  kDmaDir = kLanai + 0x80,  // 1: from the bus to the SRAM
  kDmaSts = kLanai + 0x84,  // 0: the last transfer was good
  kTimeout =
      kLanai + 0x88,  // us that a packet waits for the armed engine, then it is lost; 0: for ever
  kMyrinet = kLanai + 0x8c,  // see MyrinetBit
};

enum Isr : uint32_t {
  kHostSig = 1u << 30,  // the control program signals
  kLinkInt = 1u << 12,  // the cable does not work
  kNresInt = 1u << 11,  // a packet was lost because the engine was not armed
  kTailInt = 1u << 7,   // the packet has been received as a whole
  kTimeInt = 1u << 5,   // the interval timer is at 0
  kDmaInt = 1u << 4,    // no transfer is under way
  kSendInt = 1u << 3,   // nor is a packet
  kBuffInt = 1u << 2,   // the packet was longer than its buffer
  kRecvInt = 1u << 1,   // a packet has been received
};

enum MyrinetBit : uint32_t {
  kNresEnable = 1,
  kCrcEnable = 2,  // a word follows each packet that is received: 0 if its CRC was right
};

enum ControlBit : uint32_t {  // written to kControl
  kResetOff = 0x8000,         // the control program begins
  kResetOn = 0x4000,
  kInterruptOn = 0x2000,
  kInterruptOff = 0x1000,
};

struct Eeprom {
  uint32_t clock;
  uint16_t cpu_version;  // kCpuVersion
  uint8_t board_id[6];
  uint32_t sram_bytes;
};
inline constexpr uint16_t kCpuVersion = 0x0401;

// Calls of the kernel driver, and their words.
enum Call : uint32_t {
  kLoad = 1,  // {Program}: while the card is in reset
  kRoute,     // {node}; out {Path there}
};

enum Program : uint32_t {
  kNoProgram,
  kBulldog,  // reliable and in order: the card acknowledges, and sends again
  kRaw,      // as Myricom's API: what is lost is lost, as is what has no buffer
};

// --- what a control program and the host share, in the SRAM --------------------------------------

struct Command {
  uint32_t kind;     // see CommandKind
  uint32_t slot;     // of the host's numbering; with kBulldog of the SRAM
  uint32_t bytes;    // of the frame
  Name to;           // its receiver
  uint32_t address;  // on the bus, with kRaw
};
enum CommandKind : uint32_t {
  kSendFrame,
  kPostSlot,  // for a frame that comes
};

struct Event {
  uint32_t kind;  // see EventKind
  uint32_t slot;
  uint32_t bytes;
  Name peer;
};
enum EventKind : uint32_t {
  kSent,      // with kBulldog: the other card has it
  kGone,      // the receiver is no longer there: the frame was given up
  kReceived,  // into that slot
};

struct Path {
  uint8_t bytes;  // 0: there is none
  uint8_t hops[27];
};
struct Route {
  Name gone;  // packets for that process, or earlier ones of the node, are given up
  Path path;
};
static_assert(sizeof(Route) == 32);

inline constexpr uint32_t kCommands = 64;
inline constexpr uint32_t kEvents = 64;
inline constexpr uint32_t kNodes = 2048;
inline constexpr uint32_t kMagic = 0x4d595249;  // "MYRI"

struct Shared {
  uint32_t magic;  // written last when the control program begins
  uint32_t program;
  uint32_t commands;   // of the host: written so far
  uint32_t events;     // of the control program: written so far
  uint32_t interrupt;  // of the host: 1: an event beyond `seen` interrupts; that makes it 0
  uint32_t seen;       // of the host: events
  uint32_t unused[2];
  Command command[kCommands];
  Event event[kEvents];
  Route route[kNodes];
};

// kBulldog. A slot has the packet's header, then the frame. One of the slots for what comes is
// always the card's.
inline constexpr uint32_t kSendSlots = 6;
inline constexpr uint32_t kReceiveSlots = 7;
inline constexpr uint32_t kFrameMax = 32768;
inline constexpr uint32_t kHeaderBytes = 24;
inline constexpr uint32_t kSlotBytes = kFrameMax + 64;  // with a CRC word
inline constexpr uint32_t kSlots = 0x14000;
inline constexpr uint32_t frame_at(uint32_t slot) {  // those for what comes are the last
  return kSlots + slot * kSlotBytes + kHeaderBytes;
}
static_assert(sizeof(Shared) <= kSlots);
static_assert(kSlots + (kSendSlots + kReceiveSlots) * kSlotBytes <= kSramBytes);

// kRaw. Buffers are in the copy block, which is Card::shared().
inline constexpr uint32_t kRawFrameMax = 8132;
inline constexpr uint32_t kRawSlots = 24;  // each way
inline constexpr uint32_t kRawBufferBytes = 8192;
inline constexpr uint32_t kCopyBlockBytes = 2 * kRawSlots * kRawBufferBytes;
static_assert(2 * kRawSlots <= kEvents && 2 * kRawSlots <= kCommands);

}  // namespace torii::nic::myrinet
