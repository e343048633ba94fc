// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A network card as a process sees it: its registers and memory behind the bus, memory of the host
// that the card reaches, and the calls of its kernel driver. Drivers are written against this
// and their card's regs.h, whatever is behind it: a model in this process, an emulator in another
// one, later a real card.
//
// A Card belongs to one process (on the card: a context) and to one thread. No call blocks. Its
// destruction gives the context back in good order: what the driver has handed to the card still
// leaves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/status.h"

namespace torii::nic {

// A process on the fabric, as long as it lives: the number of its endpoint (a context of a node's
// card) in the low half, in the high half how often that endpoint was opened. The name of a process
// that has ended comes again after 65,535 others.
using Name = uint32_t;
inline constexpr Name kNobody = 0;
inline constexpr uint32_t endpoint_of(Name name) { return name & 0xffff; }
inline constexpr uint32_t opened_of(Name name) { return name >> 16; }
inline constexpr Name make_name(uint32_t endpoint, uint32_t opened) {
  return (opened & 0xffff) << 16 | endpoint;
}

// Of two processes of one endpoint: was `a` there before `b`?
inline constexpr bool is_earlier(Name a, Name b) {
  return static_cast<int16_t>(opened_of(a) - opened_of(b)) < 0;
}

// The latest process of an endpoint, as the manager of the cluster says.
enum class Life : uint32_t { never, there, closed, dead };

// Written by the manager, for all processes of a node to read; no part of the card. First a count
// of changes, also of groups, then a word for each endpoint: the upper half of its name, and its
// Life.
class Liveness {
 public:
  using Word = std::atomic<uint32_t>;
  static constexpr uint32_t word(Name name, Life life) {
    return (name & 0xffff0000u) | static_cast<uint32_t>(life);
  }

  Liveness() = default;
  explicit Liveness(std::span<const Word> words) : words_(words) {}
  uint32_t endpoints() const { return static_cast<uint32_t>(words_.size()) - 1; }
  uint32_t changes() const { return words_[0].load(std::memory_order_acquire); }
  // A process whose name has been given to a later one is dead.
  Life life(Name name) const {
    if (endpoint_of(name) >= endpoints()) return Life::never;
    const uint32_t word = words_[1 + endpoint_of(name)].load(std::memory_order_acquire);
    if ((word >> 16) == (name >> 16)) return static_cast<Life>(word & 3);
    return (word >> 16) > (name >> 16) ? Life::dead : Life::never;
  }

 private:
  std::span<const Word> words_;
};

// Bytes of the words for that many endpoints, in whole pages.
inline constexpr size_t liveness_bytes(uint32_t endpoints) {
  return ((1 + size_t{endpoints}) * sizeof(Liveness::Word) + 4095) / 4096 * 4096;
}

struct CardInfo {
  uint64_t fabric = 0;          // random; the same for all cards that reach each other
  Name name = kNobody;          // of this process
  uint32_t node = 0;            // of the emulated cluster
  uint32_t contexts = 1;        // of each card: endpoint = node * contexts + context
  uint32_t bar_bytes = 0;       // of the card's registers and memory
  uint32_t load_ns = 0;         // about what a load of a register takes
  uint64_t shared_address = 0;  // bus address of shared()
};

enum Rights : uint32_t { kCardReads = 1, kCardWrites = 2 };

// A call of the card's kernel driver: what it does and what the words mean is in its regs.h.
struct Control {
  uint32_t call = 0;
  std::array<uint64_t, 6> words{};
};

class Card {
 public:
  virtual ~Card() = default;

  virtual const CardInfo& info() const = 0;
  virtual Liveness liveness() const = 0;

  // Offsets and lengths are multiples of 4. Stores outside of bar_bytes vanish, loads give ones.
  virtual void write32(uint32_t at, uint32_t value) = 0;            // posted, in order
  virtual void write(uint32_t at, const void* from, size_t n) = 0;  // posted, in bursts
  virtual uint32_t read32(uint32_t at) = 0;                         // waits for earlier stores
  virtual void read(uint32_t at, void* to, size_t n) = 0;
  // A load that need not wait for this process's earlier stores: what polls uses it. Of a word
  // first, then of what that word says is there.
  virtual void peek(uint32_t at, void* to, size_t n) { read(at, to, n); }

  // The card's memory from offset 0 on, where the process can have it mapped: for loads, which cost
  // as much as read(). Empty: use that.
  virtual std::span<const std::byte> window() const { return {}; }

  // Pins memory of this process, and gives it an address on the bus. `no_memory`: there is no room
  // for another one.
  virtual Status map(void* base, size_t n, uint32_t rights, uint64_t* address) = 0;
  virtual void unmap(uint64_t address) = 0;
  // Memory of this host that the card reaches as well: rings, events, buffers. Starts as zeros.
  virtual std::span<std::byte> shared() = 0;
  virtual Status control(const Control& in, Control* out) = 0;
  // The same, in the order of the stores, and like them without waiting: nobody hears its answer.
  virtual void post(const Control& in) = 0;
  // An event descriptor (eventfd) that turns readable with each interrupt of this context, and when
  // liveness() changes. The card's until its end.
  virtual int interrupt() = 0;
};

}  // namespace torii::nic
