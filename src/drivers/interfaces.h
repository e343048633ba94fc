// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Six small interfaces that few drivers offer, each by a function of Driver that has its name:
// paths(), advice(), registered_memory(), mapped_memory(), short_frames(), lossy_groups(). The
// rules of driver.h hold for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "drivers/driver.h"

namespace torii {

// A silent peer's process, as far as it is known without its help; see Paths::life().
enum class Life : uint8_t { unknown, there, gone };
inline constexpr uint64_t kLifeAgeNs = 1250000000;

// An address of a peer's, as a driver that looks for the way knows it; for messages to the user.
struct PeerAddress {
  std::string address;    // "10.0.0.2:4000"
  std::string interface;  // of this process, by which the system sends there; empty: by none
  uint32_t mtu = 0;       // longest packet on the way there, as the system knows it; 0: unknown
  int rail = -1;          // bit of rails() by which frames go to this address; -1: none do
  bool answers = false;   // frames can go there, or it has answered since it was last tried
  bool asked = false;     // the peer has tried this process from there: its packets arrive
};

// The owner's word on a kGuarded region as of now; the key's does not count.
struct Reach {
  uint64_t bytes = 0;
  uint32_t access = 0;  // Access bits
  uint64_t label = 0;
  // Where it is mapped in this process, for load, store and the processor's atomics, while *guard
  // has the value `valid`; null: nowhere.
  std::byte* at = nullptr;
  const std::atomic<uint64_t>* guard = nullptr;
  uint64_t valid = 0;
};

// The ways to a peer: of drivers for networks, and of those whose frames differ in length by peer.
class Paths {
 public:
  // For messages to the user: how the peer is reached and when it was last heard of, as far as the
  // driver can tell ("eth0 to 10.0.0.2:4000, last packet 30.1 s ago"); else empty.
  virtual std::string text(PeerId peer) const;
  // Why frames may not arrive at a peer that answers others, and the remedy, for messages to the
  // user; of one that went down: why, if it answered. Else empty.
  virtual std::string trouble(PeerId peer) const;
  // The ways to a peer that answer now, bit i for rail i; 0: none is known yet. A rail keeps its
  // number while the peer is connected. They may differ in speed, and end and come back at any
  // time.
  virtual uint32_t rails(PeerId peer) const;
  // Is the process of a silent peer there, as its kernel or a neighbour says, or was it at most
  // kLifeAgeNs ago? The first question may begin to find out. `gone` is a hint: others on the
  // network may have made it up. Few peers are watched at a time, those that are asked about. Not
  // for hot paths.
  virtual Life life(PeerId peer);
  // The largest frame as of caps().long_max that gains something on the way to this peer now:
  // longer ones than mtu, or 0. It may fall at any time; frames of what it once was are taken
  // nevertheless.
  virtual uint32_t long_max(PeerId peer) const = 0;
  // No frame that was taken is still to reach a peer, as far as the driver is told of it.
  virtual bool delivered() const;
  // Its addresses, whether they answer or not; empty if the driver has nothing to look for. Asks
  // the system: not for hot paths.
  virtual std::vector<PeerAddress> addresses(PeerId peer) const;

 protected:
  ~Paths() = default;
};

// Where copying by frames beats remote access, on this machine.
class Advice {
 public:
  // Constant after opening.
  uint64_t remote_min = 0;  // smallest put or get worth while instead of frames
  // Announced messages of fewer bytes may be here sooner if their source sends them in frames, than
  // by a get: see sooner_sent().
  uint64_t sent_below = 0;
  // From these sizes on, messages up to caps().eager_advice are better announced and read: where
  // nothing else is under way, so that no copies overlap; and while such messages meet each other
  // (0: those of more than half that size).
  uint64_t read_alone_min = kNoSize;
  uint64_t read_crossing_min = 0;

  // From so many bytes on, Driver::take() is sooner than the processor.
  uint64_t take_min = kNoSize;

  // Is this memory of alloc(), and a get by that peer cheaper than frames even if it is short?
  // Asked for every message longer than a frame: answers in a few ns.
  virtual bool near(PeerId peer, const void* at) const;
  // Is that so for this memory now? Then the core asks for frames, and gets what has not come when
  // none have for 0.1 ms: the owner may be computing. Answers in a few ns.
  virtual bool sooner_sent(uint32_t remote) const;
  // Nothing will happen in this process before some of the operations under way there are over:
  // polls for that for about a microsecond, and reports it by done(), if it is seen sooner than by
  // poll().
  virtual void look(PeerId peer);

 protected:
  ~Advice() = default;
};

// How the core is to use registrations that cost much (kNeedsReg).
class RegisteredMemory {
 public:
  // Constant after opening.
  // The card reaches memory of this process, too, only where it is registered: see Tx::local and
  // Rma::local. Shorter bodies, puts and gets the driver copies. Not without kReliable.
  bool local = false;
  // current() knows. If it does not, the core keeps only registrations of memory that it handed
  // out itself.
  bool tells_changes = false;
  // Least bytes that are worth being registered for a single operation.
  uint64_t once_min = 64 << 10;

  // Do the addresses of the region have the memory that was registered, or has the system given
  // them other memory since? Asked before each later use of a registration: answers in a few ns.
  virtual bool current(const Region& region) const;

 protected:
  ~RegisteredMemory() = default;
};

// Guarded regions (kGuard) that the initiator may reach by load and store.
class MappedMemory {
 public:
  // The region of a kGuarded key. It stays mapped, and *guard readable, until drop(), also
  // when its owner has ended. `invalid`: the key is another one, or has ended.
  virtual Status reach(uint32_t remote, Reach* out) = 0;

 protected:
  ~MappedMemory() = default;
};

// Worth offering where building and reading a Tx is a good part of the work of a short frame.
class ShortFrames {
 public:
  // Sends the frame that most small messages are: a head of two words (in memory order), a body of
  // at most inline_max bytes in one range, no cookie. True: taken.
  virtual bool send_short(PeerId peer, uint64_t word0, uint64_t word1, const void* body,
                          uint32_t body_bytes) = 0;

 protected:
  ~ShortFrames() = default;
};

// The frame of send_short() as a Tx, which points into this.
struct ShortTx {
  ShortTx(PeerId peer, uint64_t word0, uint64_t word1, const void* body, uint32_t body_bytes)
      : head{word0, word1}, piece{const_cast<void*>(body), body_bytes} {
    tx.peer = peer;
    tx.head_bytes = sizeof(head);
    tx.head = head;
    tx.pieces = &piece;
    tx.piece_count = body_bytes > 0;
    tx.body_bytes = body_bytes;
  }
  ShortTx(const ShortTx&) = delete;

  const uint64_t head[2];
  const iovec piece;
  Tx tx;
};

// How a process takes part in a lossy group. All members give the same, but for `number` and
// `hears`.
struct LossyMember {
  // Drawn for this group; only its members know it. Good for one join. A driver may show its first
  // 8 bytes to the network: the link gives drivers below another key, made of this one.
  SecretKey key{};
  uint32_t number = 0;   // this process's among the members; below `members`
  uint32_t members = 1;  // at most LossyGroups::kMembersMax
  bool hears = true;     // false: it only sends
};

// Groups of which the network reaches all members by one frame, and promises nothing more.
class LossyGroups {
 public:
  static constexpr size_t kGroupsMax = 16;  // at a time
  static constexpr uint32_t kMembersMax = 1 << 16;

  // *group is then sent to like a peer, frames of at most caps().mtu bytes. Driver::send() copies
  // all of each frame, whatever inline_max says, and takes no more than there is room for. Frames
  // reach the members that hear, but not this one; any of them may be lost, come twice or overtake
  // others, whatever kReliable says. They arrive from the group (Packet). A member on this node
  // hears this process only if this one has connected to it. All who know the key can send in any
  // member's name; nobody else can.
  // `invalid`: a number is out of bounds, or this process is a member already; with the link also
  // if it has ever been one. `no_memory`: it is in kGroupsMax groups. `io_error`: the system
  // refuses. Driver::leave() ends it.
  virtual Status join_lossy(const LossyMember& membership, PeerId* group) = 0;
  // The same number for all processes whose frames to each other stay within one system, because
  // they share its network interfaces; 0: not known. A group within it spares no cable anything.
  virtual uint64_t network() const { return 0; }

 protected:
  ~LossyGroups() = default;
};

// The check of a membership that every driver makes.
inline bool is_valid(const LossyMember& membership) {
  return membership.members <= LossyGroups::kMembersMax && membership.number < membership.members;
}

}  // namespace torii
