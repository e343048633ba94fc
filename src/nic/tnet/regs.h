// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// TNet, the network of the Swiss-Tx machines: the registers of its 32-bit PCI adapter.
//
// Source: A. Riedo, High Performance Computing using Portals over TNet, diploma thesis, ETH Zurich
// and University of New Mexico, 2000. The four words of the send descriptor, the table of valid
// destinations, page table, index table, burst assembling, remote interrupts and the lock are
// described there. Where it names no offset or layout, those here are ours.
#pragma once

#include <cstdint>

#include "nic/card.h"

namespace torii::nic::tnet {

// The global communication window. Each process has it mapped. The send descriptor exists once, and
// belongs to the process that has the lock, or to the kernel driver.
enum Register : uint32_t {
  kDestination = 0x00,  // see Destination
  kLength = 0x04,       // in 32-bit words
  kTarget = 0x08,       // virtual communication address (VCA) >> 2
  kTargetHigh = 0x0c,   // bits 0 to 15: more of the address; from 16 on: slot of the process
  kBurst = 0x10,        // bytes to assemble to packets; 0: each store is a packet
  kCause = 0x30,        // of this process: see Cause; reading clears it
  kMask = 0x34,         // causes that interrupt, each time; when written those that are there, once
  kLock = 0x40,         // read: see Lock; write: gives it back
  kWindow = 0x1000,     // data of the descriptor, by stores to any place here
  kBarBytes = 0x2000,
};

enum Destination : uint32_t {
  kIdMask = 0xffff,  // node, or group if kToGroup
  kToGroup = 1u << 16,
  kTableMapped = 1u << 17,  // the address is index << 12, and an offset
  kInterruptShift = 24,     // remote interrupt (RTI) with the last packet: 1 to 15; 0: none
};

enum Lock : uint32_t {
  kLockTaken = 1u << 31,  // this process has it now
  kRoomMask = 0xffff,     // packets for which the send FIFO has room
};

enum Cause : uint32_t {          // bit n: remote interrupt n
  kCauseDestination = 1u << 16,  // sent to an id that is not valid for this process: nothing left
  kCausePage = 1u << 17,         // a packet for this process hit a page that is not mapped
  kCauseLink = 1u << 18,         // the link is down
  kCauseFifo = 1u << 19,         // more stores than the send FIFO has room: packets are missing
  kCauseDma = 1u << 20,          // a transfer of kSend failed
  kCauseSent = 1u << 21,         // a transfer of kSend is over
};

// Calls of the kernel driver, and their words.
enum Call : uint32_t {
  kValidate = 1,  // {node}: this process may send there
  kMapPages,      // {VCA page, pages, bus address}: what is stored there goes to the memory
  kUnmapPages,    // {VCA page, pages}
  kMapIndex,      // {index, bus address of a page}: the same for table-mapped mode
  kUnmapIndex,    // {index}
  kSend,          // {four words of a descriptor, bus address}: by DMA, in the order of the calls;
                  // `again`: too many wait. The first word of the CMB counts those that are over
  kJoin,          // {name, name, length}; out {group, destination for sends}
  kLeave,         // {group}
  kMember,        // {group, i}; out {name of the ith member; kNobody: there are no more}
};

inline constexpr uint32_t kPacketBytes = 112;  // of payload, at most
inline constexpr uint32_t kPageBytes = 4096;
inline constexpr uint32_t kPages = 1 << 14;  // of a process; the card has room for 2^20
inline constexpr uint32_t kIndices = 1 << 18;
inline constexpr uint32_t kIndexTargets = 4;  // processes of a node that one packet reaches
inline constexpr uint32_t kSendFifo = 64;     // packets
inline constexpr uint32_t kSendsMax = 64;     // transfers of a process that wait

inline constexpr uint32_t kSharedBytes = 32 << 20;  // the contiguous memory block (CMB)

}  // namespace torii::nic::tnet
