// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The PCI-SCI card with VIA of the Technical University of Chemnitz, as a process and its kernel
// driver see it: registers, tables, descriptors. With other contents of its FPGA the card is a
// plain PCI-SCI bridge (`dolphin`).
//
// Sources: M. Trams, W. Rehm, D. Balkanski, S. Simeonov, Memory management in a combined VIA/SCI
// hardware, 1999: both tables with their tags and page sizes, a doorbell page for each VI, where
// tags are checked, the export window of the bridge. Virtual Interface Architecture Specification
// 1.0: descriptors and their status bits. Offsets are ours, and so is all of which the paper says
// nothing: causes, the completion queue's layout, kNotifies.
#pragma once

#include <cstdint>

#include "nic/card.h"

namespace torii::nic::sci {

enum Register : uint32_t {
  kId = 0x00,           // read: kIdValue
  kCause = 0x04,        // of this process: see Cause; reading clears it
  kMask = 0x08,         // causes that interrupt, each time; when written those that are there, once
  kBarrier = 0x0c,      // write: later stores leave when the earlier ones of this process are over
  kDoorbells = 0x1000,  // a page for each VI; write: posts the descriptor at that address. Before
                        // that, what kBarrier does
  kWindow = 0x100000,   // stores to here go to the memory of other nodes; loads give ones
};
inline constexpr uint32_t kIdValue = 0x53434932;
inline constexpr uint32_t kVis = 4;  // of each process
inline constexpr uint32_t kDoorbellBytes = 4096;
constexpr uint32_t doorbell_at(uint32_t vi) { return kDoorbells + vi * kDoorbellBytes; }

// The downstream table: 4096 pages of 16 kB, half of them for each process. Addresses in
// descriptors count from the start of the window of the first process.
inline constexpr uint32_t kContexts = 2;
inline constexpr uint32_t kWindowPageBytes = 16 << 10;
inline constexpr uint32_t kWindowPages = 2048;  // of each process
inline constexpr uint32_t kWindowBytes = kWindowPages * kWindowPageBytes;
inline constexpr uint32_t kBarBytes = kWindow + kWindowBytes;

// The upstream table: 128 MB in pages of 4 kB, half of them for each process. The address of memory
// for cards, of this node and others.
inline constexpr uint32_t kPageBytes = 4096;
inline constexpr uint32_t kPages = 16384;  // of each process
constexpr uint32_t upstream_at(uint32_t context, uint32_t offset) {
  return context * kPages * kPageBytes + offset;
}
// `dolphin` exports lent memory only, in blocks of that many bytes.
inline constexpr uint32_t kBlockBytes = 512 << 10;

enum Cause : uint32_t {
  kCauseStored = 1,   // somebody has stored to a page that notifies
  kCauseDone = 2,     // a descriptor is over
  kCauseRefused = 4,  // a store has gone nowhere: no such page there, no way, or too many wait
};

enum Operation : uint16_t {  // Descriptor::control
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kOperation = 3,  // mask. Others are format errors, as are immediate data
};

enum DescriptorStatus : uint32_t {
  kDone = 1,
  kFormatError = 2,
  kProtectionError = 4,  // here: a page that is not there, or of another tag
  kLengthError = 8,
  kFlushed = 0x20,              // nothing was done, as the VI is in error state
  kTransportError = 0x40,       // no way there: the VI is in error state from now on
  kRdmaProtectionError = 0x80,  // there: a page that is not there, or has not these rights
};

struct Descriptor {  // aligned to its size
  // Control segment. `next` and the handles are for software only: each doorbell names one
  // descriptor, and the tables know what belongs to whom.
  uint64_t next;
  uint32_t next_handle;
  uint16_t segments;  // 2: one address segment, one data segment
  uint16_t control;   // Operation
  uint32_t reserved;
  uint32_t immediate;
  uint32_t length;  // of the data segment; the card writes the bytes that were moved
  uint32_t status;  // written by the card: DescriptorStatus
  // Address segment.
  uint64_t remote;  // in the downstream window
  uint32_t remote_handle;
  uint32_t reserved_too;
  // Data segment.
  uint64_t local;  // upstream address of this node
  uint32_t local_handle;
  uint32_t bytes;  // at most kTransferMax
};
static_assert(sizeof(Descriptor) == 64);
inline constexpr uint32_t kTransferMax = 1 << 20;
inline constexpr uint32_t kPostedMax = 128;  // descriptors of a VI that wait

struct Completion {     // of the completion queue, after the status of the descriptor
  uint32_t descriptor;  // its address
  uint32_t vi;
  uint32_t status;
  uint32_t number;  // of all completions of this process, from 1; written last
};
static_assert(sizeof(Completion) == 16);

enum Personality : uint32_t { kCombined, kDolphin };

enum PageRights : uint32_t {  // for other nodes; a process's own descriptors need its tag only
  kReadable = 1,
  kWritable = 2,
  kNotifies = 4,  // stores there raise kCauseStored
};

// Calls of the kernel driver, and their words.
enum Call : uint32_t {
  kConfigure = 1,  // {Personality}; `denied`: another process has the card as another one
  kExport,         // {page, pages, bus address, PageRights}: enters pages of this process; address
                   // 0: takes them out
  kImport,         // {window page, pages, node, upstream address, a multiple of a window page}
  kQueue,          // {upstream address, entries}: where the process's completions go
  kReset,          // {VI}: ends its error state
  kTransfer,       // {VI, address of a descriptor, remote, local, bytes, kRdmaWrite or kRdmaRead}:
                   // what the doorbell does; `dolphin` leaves it to the kernel, which checks it
  kBuffers,        // {requests of this card under way, requests of others}: as on a smaller card
};

inline constexpr uint32_t kLineBytes = 64;          // of data in a packet, at most
inline constexpr uint32_t kBuffersMax = 16;         // of each of both kinds
inline constexpr uint32_t kSharedBytes = 10 << 20;  // lent memory of each process: whole blocks

}  // namespace torii::nic::sci
