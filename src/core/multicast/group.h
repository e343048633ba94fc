// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Groups: one tagged message to several peers. A small message leaves as one frame if one driver
// with kMulticast reaches all members and each has room for it; in all other cases as one message
// for each member. The members see no difference.
//
// A frame to the group arrives only where the driver has joined it. So every member that has
// joined tells the others, and nobody sends such a frame before all have. A driver knows a group
// by its name, its members and how often this process has opened it, all in a number: processes
// that disagree are not in the same group, and none of them waits for a frame that never comes.
// The caller holds the interface's lock.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/counters.h"
#include "core/base/slot_pool.h"
#include "core/protocol/protocol.h"
#include "core/torii.h"
#include "core/tport/completion_queue.h"

namespace torii {

inline constexpr size_t kGroupNameMax = 16;  // bytes
inline constexpr uint64_t kNoGroup = 0;      // the number of none

class Groups;
class GroupTeam;

struct Group {
  Groups* groups = nullptr;
  void* owner = nullptr;  // the interface, for the C API
  std::string name;
  uint64_t number = 0;          // the same at all members
  std::vector<Peer*> members;   // without this process
  std::vector<Peer*> order;     // all that were named, this process too
  uint32_t self = ~0u;          // its place there, if it was named
  std::vector<uint8_t> joined;  // for each member: it receives what is sent to the group
  Driver* driver = nullptr;     // reaches all members and has joined; null: none
  PeerId route = kNoPeer;       // the driver's name for the group
  std::string reason;           // why there is no such driver
  GroupTeam* team = nullptr;    // of Collectives; null: operations were not prepared
};

class Groups {
 public:
  Groups(Protocol& protocol, Counters& counters, CompletionQueue& completions, void* owner);
  ~Groups();
  Groups(const Groups&) = delete;

  // Makes a group of this process and these peers; this process may be among them. `invalid`,
  // with the reason in *why: a peer is there twice.
  Status open(std::string_view name, std::span<Peer* const> peers, Group** out, std::string* why);
  // Sends that are pending go on.
  void close(Group* group);
  // As torii_group_send; `pending` means that the callback follows.
  Status send(Group& group, uint8_t port, uint64_t tag, uint32_t user, const Data& data,
              torii_done_t done, void* arg);
  // A small message leaves as one frame, if all members have room for it.
  bool multicast(const Group& group) const;
  // For reports: "group g of 4: one frame by sim".
  std::string describe(const Group& group) const;

  // The peer has joined the group with this number; `asks`: it wants to know the same of us.
  void on_joined(Peer& peer, uint64_t number, bool asks);

 private:
  // A message on its way to each member by itself.
  struct Send {
    torii_done_t done = nullptr;
    void* arg = nullptr;
    uint64_t bytes = 0;
    std::byte* packed = nullptr;  // what pack functions produced; owned
    unsigned pending = 0;         // operations that owe `sent`, and send_each()
    Peer* failed = nullptr;       // the first member with an error ...
    Status status = Status::ok;   // ... and the error
  };

  void join(Group& group, std::span<const std::byte> name);
  Status send_each(Group& group, const Envelope& env, const Data& source, Send* send);
  void send_to(Peer& peer, const Envelope& env, const Data& source, Send* send);
  Status finish(Send* send);
  void complete(Send* send);
  void release(Send* send);
  static void note(Send* send, Peer& peer, Status status);
  static void sent_event(Op* op, OpEvent event, Status status, uint64_t bytes);

  Protocol& protocol_;
  Counters& counters_;
  CompletionQueue& completions_;
  void* owner_;
  std::unordered_map<uint64_t, std::unique_ptr<Group>> groups_;  // by number
  std::unordered_map<uint64_t, uint32_t> openings_;              // by name and members
  SlotPool<Send> sends_;
};

}  // namespace torii
