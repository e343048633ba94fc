// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/forked.h"

#include <pthread.h>

namespace torii {
namespace {

ForkTable<int, 2048> g_descriptors;  // plus one

std::atomic<uint64_t> g_forks{0};

void count_fork() { g_forks.fetch_add(1, std::memory_order_relaxed); }

void close_all() {
  g_descriptors.each([](int place) {
    g_descriptors.remove(place);
    close(place - 1);
  });
}

}  // namespace

uint64_t count_forks() {
  static const bool watched = pthread_atfork(nullptr, count_fork, count_fork) == 0;
  return watched ? g_forks.load(std::memory_order_relaxed) : 0;
}

void close_in_children(int fd) {
  static const bool watched = pthread_atfork(nullptr, nullptr, close_all) == 0;
  if (watched) g_descriptors.add(fd + 1);
}

void forget_in_children(int fd) { g_descriptors.remove(fd + 1); }

}  // namespace torii
