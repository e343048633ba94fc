// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A collective operation, as one member calls it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/data.h"
#include "core/torii.h"

namespace torii {

enum class Collective : uint8_t { barrier, bcast, reduce, allreduce, allgather, alltoall };
inline constexpr unsigned kCollectives = 6;

struct Reduction {
  // Elements of `in` come before those of `inout`, which becomes the result.
  void (*combine)(void* context, const void* in, void* inout, uint64_t bytes) = nullptr;
  void* context = nullptr;
  uint64_t element = 1;  // bytes
};

struct CollectiveCall {
  Collective what = Collective::barrier;
  uint32_t root = 0;
  uint64_t bytes = 0;             // of each member's part; alltoall: for each other member
  Data data;                      // bcast
  const std::byte* in = nullptr;  // the others: this member's part
  std::byte* out = nullptr;       // where the result goes
  bool lacks_memory = false;      // there is none for it: the operation fails at all members
  Reduction reduction;
  torii_done_t done = nullptr;
  void* arg = nullptr;
};

}  // namespace torii
