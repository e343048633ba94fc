// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A collective operation that the fuzzer chooses, with memory of the exact size for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/collective/operation.h"
#include "fuzz/input.h"

namespace torii::fuzz {

inline void mix_bytes(void*, const void* in, void* inout, uint64_t bytes) {
  const auto* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(inout);
  for (uint64_t i = 0; i < bytes; ++i) to[i] ^= from[i];
}

struct Calling {
  static constexpr uint64_t kBytesMost = 2000;

  Calling(Input& in, uint32_t members) {
    const uint64_t part = 1 + in.below(in.byte() & 1 ? 60 : kBytesMost);
    call.what = Collective(in.below(kCollectives));
    call.root = in.below(members);
    call.bytes = call.what == Collective::barrier ? 0 : part;
    const bool many = call.what == Collective::allgather || call.what == Collective::alltoall;
    from.resize(call.what == Collective::alltoall ? part * members : part);
    to.resize(many ? part * members : part);
    call.out = to.data();
    call.in = in.byte() & 1 ? from.data() : nullptr;  // null: in place
    call.data = Data(to.data(), part);
    call.reduction.combine = mix_bytes;
  }
  Calling(const Calling&) = delete;

  CollectiveCall call;
  std::vector<std::byte> from, to;
  int ends = 0;  // how often the caller was told that it is over
};

}  // namespace torii::fuzz
