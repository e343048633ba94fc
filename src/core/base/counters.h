// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Counters of one network interface. Plain integers: they are only touched by the thread that
// holds the interface.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torii {

struct Counters {
#define TORII_COUNTER(name, doc) uint64_t name = 0;
#include "core/base/counters.def"
#undef TORII_COUNTER
};

struct CounterInfo {
  const char* name;
  const char* doc;
};

// The table in declaration order; counter i is the i-th uint64_t of Counters.
inline constexpr CounterInfo kCounterInfo[] = {
#define TORII_COUNTER(name, doc) {#name, doc},
#include "core/base/counters.def"
#undef TORII_COUNTER
};
inline constexpr size_t kCounterCount = sizeof(kCounterInfo) / sizeof(kCounterInfo[0]);
static_assert(sizeof(Counters) == kCounterCount * sizeof(uint64_t));

inline uint64_t counter_value(const Counters& c, size_t index) {
  return reinterpret_cast<const uint64_t*>(&c)[index];
}

}  // namespace torii
