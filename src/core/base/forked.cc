// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/forked.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>

namespace torii {
namespace {

// Descriptors plus one; 0: free. A table and no list, so that a child finds it whole whatever
// another thread of the parent was doing.
constexpr size_t kPlaces = 2048;
std::atomic<int> g_places[kPlaces];

bool exchange_first(int from, int to) {
  for (auto& place : g_places) {
    int expected = from;
    if (place.load(std::memory_order_relaxed) == from &&
        place.compare_exchange_strong(expected, to))
      return true;
  }
  return false;
}

void close_all() {
  for (auto& place : g_places)
    if (const int fd = place.exchange(0) - 1; fd >= 0) close(fd);
}

}  // namespace

void close_in_children(int fd) {
  static const bool watched = pthread_atfork(nullptr, nullptr, close_all) == 0;
  if (watched) exchange_first(0, fd + 1);
}

void forget_in_children(int fd) { exchange_first(fd + 1, 0); }

}  // namespace torii
