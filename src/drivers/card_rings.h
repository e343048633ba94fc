// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Shared by the drivers of cards with a processor: the host's end of its rings of commands and
// events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "nic/card.h"

namespace torii {

// Shared is at that offset of the card: `command` and `event`, the rings; `commands` and `events`,
// how many were written so far; `interrupt` and, behind it, `seen`, which ask for an interrupt.
template <typename Shared>
class CardRings {
 public:
  using Command = std::remove_extent_t<decltype(Shared::command)>;
  using Event = std::remove_extent_t<decltype(Shared::event)>;

  CardRings(nic::Card& card, uint32_t at) : card_(card), at_(at) {}

  void command(const Command& c) {
    card_.write(place(offsetof(Shared, command), commands_++ % kCommands * sizeof(c)), &c,
                sizeof(c));
    card_.write32(place(offsetof(Shared, commands)), commands_);
  }
  bool has_event() const {
    uint32_t events;
    card_.peek(place(offsetof(Shared, events)), &events, sizeof(events));
    return events != events_;
  }
  // Is the card to interrupt for the next event?
  bool has_asked() const { return asked_; }
  // If there is one.
  Event next() {
    Event event;
    asked_ = false;
    card_.peek(place(offsetof(Shared, event), events_++ % kEvents * sizeof(event)), &event,
               sizeof(event));
    return event;
  }
  // For the next event, and for one that has come meanwhile.
  void ask_interrupt() {
    const uint32_t words[] = {1, events_};
    if (!std::exchange(asked_, true))
      card_.write(place(offsetof(Shared, interrupt)), words, sizeof(words));
  }

 private:
  static constexpr size_t kCommands = std::extent_v<decltype(Shared::command)>;
  static constexpr size_t kEvents = std::extent_v<decltype(Shared::event)>;
  uint32_t place(size_t offset, size_t more = 0) const {
    return at_ + static_cast<uint32_t>(offset + more);
  }

  nic::Card& card_;
  const uint32_t at_;
  uint32_t commands_ = 0, events_ = 0;
  bool asked_ = false;  // the card is to interrupt when there is an event more
};

}  // namespace torii
