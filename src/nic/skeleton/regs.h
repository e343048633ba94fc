// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The registers of the skeleton card, and what it shares with its driver: a doorbell, a ring of
// descriptors, a ring of completions. Copy it to begin with a card of your own (contrib/new-card).
#pragma once

#include <cstdint>

#include "nic/card.h"

namespace torii::nic::skeleton {

enum Register : uint32_t {
  kId = 0x00,         // read: kIdValue
  kDoorbell = 0x04,   // write: how many descriptors the driver has written so far
  kConsumed = 0x08,   // write: how many completions it has read so far; their entries are free
  kInterrupt = 0x0c,  // write: as soon as there are more completions than that, one interrupt
  kBarBytes = 0x10,
};
inline constexpr uint32_t kIdValue = 0x536b0001;

inline constexpr uint32_t kFrameMax = 2048;
inline constexpr uint32_t kSends = 64;         // entries of the ring of descriptors
inline constexpr uint32_t kCompletions = 128;  // entries of the ring of completions

struct Descriptor {  // a frame to send
  uint32_t address;  // on the bus
  uint32_t bytes;    // at most kFrameMax
  Name to;
  uint32_t reserved;
};

struct Completion {
  uint32_t bytes;  // of a frame that came in; it is in the buffer with the number of this entry
  Name from;       // its sender; kNobody: the oldest descriptor has been carried out
  uint32_t reserved;
  uint32_t number;  // of this completion, from 1: written last
};

// The memory that is lent to the card.
struct Shared {
  Descriptor descriptors[kSends];
  Completion completions[kCompletions];
  std::byte send[kSends][kFrameMax];  // for the driver to use; descriptors say where a frame is
  std::byte receive[kCompletions][kFrameMax];
};

}  // namespace torii::nic::skeleton
