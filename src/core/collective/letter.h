// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The letters by which members of a group set up a team: messages to a tagged port that no user can
// open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/memory/key.h"
#include "core/tport/ports.h"
#include "core/trust/key_pair.h"

namespace torii::team {

inline constexpr uint32_t kMembersOfNodesMax = 1024;  // of a group on several nodes

enum class LetterKind : uint8_t {
  offer = 1,  // from the leader: the key of the segment, or the reason why there is none
  answer,     // from a member, or the leader of a node: whether it can take part
  verdict,    // from the leader: whether all can
  roll_call,  // from the first member: the members are on several nodes
  report,     // from each member: a Report
  plan        // from the first member: a Plan, or why there is none
};
inline constexpr uint8_t kLetterKinds = 6;

struct Letter {
  LetterKind kind = LetterKind::offer;
  Status status = Status::ok;  // `ok`, `unsupported`, `peer_dead` or `peer_closed`
  bool scarce = false;         // offer, report: there; plan: at one of the members
  uint32_t member = 0;         // whom the status is about
  uint64_t order = 0;          // a number made of the members in their order
  std::span<const std::byte> body;
};

// A member's own words, of itself.
struct Report {
  uint32_t home = 0;     // the first member that it shares memory with: leader of its node
  uint32_t frame = 0;    // GroupNode::frame_of(); 0: it cannot multicast
  uint64_t driver = 0;   // a digest of the name of the driver that reaches the other nodes
  uint64_t least = 0;    // its NiConfig::multicast_min
  uint64_t network = 0;  // LossyGroups::network() of that driver
  PublicKey key{};       // of this set-up; of a member that may lead a node
};
inline constexpr size_t kReportBytes = 64;

// The plan on which the members of a group on several nodes agree.
struct Plan {
  uint32_t frame = 0;
  uint64_t least = 0;           // bytes of a broadcast; the largest of all reports
  PublicKey key{};              // the first member's, of this set-up
  SecretKey sealed{};           // the group's key, for this leader; others: zeros
  std::vector<uint16_t> homes;  // of each member
};
inline constexpr size_t kPlanHead = 80;

inline constexpr size_t kLetterHead = 24;
inline constexpr size_t kBodyMax = kPlanHead + 2 * kMembersOfNodesMax;
static_assert(kBodyMax >= kExportKeyMax);

std::vector<std::byte> write_letter(const Letter& letter);
// False: it is none. The body points into `bytes`.
bool read_letter(std::span<const std::byte> bytes, Letter* out);

std::vector<std::byte> write_report(const Report& report);
bool read_report(std::span<const std::byte> bytes, Report* out);
std::vector<std::byte> write_plan(const Plan& plan);
// False: it is none for so many members, or one of them has a home behind itself, or one that is
// not its own home.
bool read_plan(std::span<const std::byte> bytes, size_t members, Plan* out);

// Letters between this process and the other members: at most one under way from each of them. They
// have the same tag at all members, and arrive in order.
class Letters {
 public:
  Letters(Ports& ports, uint64_t tag, size_t members)
      : ports_(ports), tag_(tag), received_(members) {}

  void send(Peer& peer, const Letter& letter);
  // Waits for the next letter of a member, with at most `body` bytes behind its head.
  void receive(uint32_t from, Peer& peer, size_t body);
  // It has come, or nothing comes any more.
  bool arrived(uint32_t from) const { return received_[from]->flag.done != 0; }
  // False: the peer has gone before.
  bool came(uint32_t from) const { return received_[from]->flag.result.code == TORII_OK; }
  // False: it did not come, or is no such letter.
  bool read(uint32_t from, LetterKind kind, Letter* out) const;
  // Nothing is under way that this memory is for.
  bool quiet() const;

 private:
  struct Post {
    torii_flag_t flag{};
    std::vector<std::byte> bytes;
  };

  Ports& ports_;
  uint64_t tag_;
  std::vector<std::unique_ptr<Post>> received_;  // by member
  std::vector<std::unique_ptr<Post>> sent_;
};

}  // namespace torii::team
