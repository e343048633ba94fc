// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Operations to which every node contributes up to 1 KiB and which end when all have: barrier,
// small allreduce, and the agreement that all are ready for a long message. Up to 16 nodes all
// multicast to all. More of them, and those that share processors, send up a tree, where parts are
// combined, and node 0 multicasts the result. Parts are combined in the order of nodes, so all
// nodes get the same bits. Parts and result are kept for two operations: nobody can be farther
// behind.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/random.h"
#include "core/multicast/outgoing.h"
#include "core/multicast/silence.h"
#include "core/multicast/tree.h"

namespace torii::multicast {

// Elements of `in` come before those of `inout`, which becomes the result.
struct Reduction {
  void (*combine)(void* context, const void* in, void* inout, uint64_t bytes) = nullptr;
  void* context = nullptr;
};

class Gathering {
 public:
  static constexpr uint32_t kFlatMost = 16;       // nodes that all multicast to all
  static constexpr uint64_t kRepeatNs = 500'000;  // then doubled
  static constexpr uint64_t kRepeatMostNs = 32'000'000;

  Gathering(Outgoing& outgoing, Silence& silence, uint64_t seed);

  // Begins the next operation. `check`: a digest of what it is; `in`: at most kSmallMax bytes.
  void begin(uint32_t check, std::span<const std::byte> in, const Reduction& reduction,
             uint64_t now);
  bool complete() const { return complete_; }
  // The result of the last operation, once it is complete.
  std::span<const std::byte> result() const;
  // Nodes have called different operations.
  bool mismatch() const { return mismatch_; }

  void on_contribution(uint32_t from, const Header& header, std::span<const std::byte> payload,
                       uint64_t now);
  void on_result(const Header& header, std::span<const std::byte> payload, uint64_t now);
  // `from` misses the contribution of a node.
  void on_missing(uint32_t from, const Header& header);

  void poll(uint64_t now);
  uint64_t deadline() const { return repeat_at_; }

 private:
  // From one request to the next.
  uint64_t repeat_ns() const {
    if (outgoing_.channel().reliable()) return kRepeatMostNs;
    return std::min(kRepeatNs << attempts_, kRepeatMostNs);
  }

  // The state of one operation.
  struct Slot {
    uint32_t op = 0;
    bool used = false;
    uint32_t check = 0;
    uint32_t bytes = 0;  // of each part
    uint32_t parts = 0;  // a bit for each source that has contributed
    bool known = false;  // `check` and `bytes` are
    bool has_result = false;
  };

  // Datagrams that have not left, because the channel had no room.
  enum class Owed : uint8_t { nothing, part, subtree, result };

  bool flat() const { return outgoing_.nodes() <= kFlatMost && !outgoing_.scarce(); }
  uint32_t all_parts() const { return (1u << sources_) - 1; }
  uint32_t own_source() const { return flat() ? outgoing_.self() : 0; }
  std::byte* part(const Slot& slot, uint32_t source);
  const std::byte* result_of(const Slot& slot) const;
  Slot* slot_of(uint32_t op);
  bool accept(Slot* slot, const Header& header, size_t bytes);
  void advance(Slot* slot, uint64_t now);
  void owe(Owed what, uint64_t now);
  bool pay();
  void fold(Slot* slot);
  bool send_contribution(const Slot& slot, uint32_t node, uint32_t owner, uint16_t flags);
  void send_result(const Slot& slot, uint32_t node);
  Header header_of(const Slot& slot, Kind kind) const;
  uint32_t anybody();

  Outgoing& outgoing_;
  Silence& silence_;
  Tree tree_;
  uint32_t sources_;  // all nodes, or this one and its children
  Random random_;
  Slot slots_[2];
  std::vector<std::byte> memory_;  // for each slot: parts, result
  Reduction reduction_;
  uint32_t op_ = 0;  // the last one begun; the first one is 1
  bool complete_ = true;
  bool mismatch_ = false;
  uint64_t repeat_at_ = UINT64_MAX;
  unsigned attempts_ = 0;
  Owed owed_ = Owed::nothing;
  uint32_t owed_op_ = 0;
};

}  // namespace torii::multicast
