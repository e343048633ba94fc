// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/forked.h"

#include <pthread.h>

namespace torii {
namespace {

ForkTable<int, 2048> g_descriptors;  // plus one

void close_all() {
  g_descriptors.each([](int place) {
    g_descriptors.remove(place);
    close(place - 1);
  });
}

}  // namespace

void close_in_children(int fd) {
  static const bool watched = pthread_atfork(nullptr, nullptr, close_all) == 0;
  if (watched) g_descriptors.add(fd + 1);
}

void forget_in_children(int fd) { g_descriptors.remove(fd + 1); }

}  // namespace torii
