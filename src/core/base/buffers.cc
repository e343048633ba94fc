// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/buffers.h"

#include <bit>
#include <cstdlib>
#include <limits>

namespace torii {

Buffers::~Buffers() {
  for (Head* head : free_) {
    while (head) {
      Head* const next = head->next;
      std::free(head);
      head = next;
    }
  }
}

std::byte* Buffers::get(size_t bytes) {
  unsigned list = kNotKept;
  if (bytes >= size_t{1} << kShortest && bytes <= size_t{1} << kLongest) {
    const unsigned power = static_cast<unsigned>(std::bit_width(bytes - 1));
    list = power - kShortest;
    bytes = size_t{1} << power;
    if (Head* const head = free_[list]) {
      free_[list] = head->next;
      kept_ -= bytes;
      return reinterpret_cast<std::byte*>(head + 1);
    }
  }
  if (bytes > std::numeric_limits<size_t>::max() - sizeof(Head)) return nullptr;
  auto* const head = static_cast<Head*>(std::malloc(sizeof(Head) + bytes));
  if (!head) return nullptr;
  head->list = list;
  return reinterpret_cast<std::byte*>(head + 1);
}

void Buffers::put(std::byte* buffer) {
  if (!buffer) return;
  Head* const head = reinterpret_cast<Head*>(buffer) - 1;
  const size_t bytes = head->list == kNotKept ? 0 : size_t{1} << (head->list + kShortest);
  if (bytes == 0 || kept_ + bytes > kKeptMost) return std::free(head);
  head->next = free_[head->list];
  free_[head->list] = head;
  kept_ += bytes;
}

}  // namespace torii
