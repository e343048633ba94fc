// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The mailboxes of a process, for drivers of cards that store to the memory of other processes:
// one for each of them, and one for each member of each group. Credits come back by stores to
// cells.
//
// A process stores to another one without a handshake: it uses the mailbox of its endpoint there,
// which has a place for this process and one for the next that opens that endpoint. Its first frame
// rings a bell, upon which the receiver looks for new senders.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "drivers/mailbox.h"

namespace torii {

// A card, as far as its driver's mailboxes use it.
class StoringCard {
 public:
  // Where the bytes of the next store are to be: kMailSlotBytes. Null: there is no room for another
  // store now.
  virtual std::byte* buffer() = 0;
  // Stores a part of buffer() to that address of the process. False: not now. Stores to one process
  // arrive in their order, those to a group included.
  virtual bool store(nic::Name to, uint64_t address, uint32_t begin, uint32_t bytes) = 0;
  // This process is going to store to that one. False: it cannot.
  virtual bool allow(nic::Name to) = 0;

  // Groups have numbers on the fabric, and addresses that all of them share. A card without groups
  // leaves these as they are. store_to_group(): as store().
  virtual Status join_group(std::span<const std::byte>, uint32_t*) { return Status::unsupported; }
  virtual void leave_group(uint32_t) {}
  virtual std::vector<nic::Name> members(uint32_t) { return {}; }
  virtual bool store_to_group(uint32_t, uint64_t, uint32_t, uint32_t) { return false; }
  // Stores to a mailbox at that address arrive at that offset of Card::shared(); kNowhere: no
  // longer.
  static constexpr uint32_t kNowhere = ~0u;
  virtual bool map_group(uint64_t, uint32_t) { return false; }

 protected:
  ~StoringCard() = default;
};

class Mailboxes {
 public:
  static constexpr uint32_t kEndpoints = 256;
  static constexpr uint32_t kGroups = 63;
  // Offsets in Card::shared(): the first page is the driver's own. Peers store to the part from
  // kCells up to kPool, at addresses that are these offsets.
  static constexpr uint32_t kCells = 4096;
  static constexpr uint32_t kCellBytes = (1 + kGroups) * 8;
  static constexpr uint32_t kBell = kCells + kEndpoints * kCellBytes;
  static constexpr uint32_t kMail = 1 << 20;
  static constexpr uint32_t kPool = kMail + 2 * kEndpoints * kMailboxBytes;
  static constexpr uint32_t kPooled = 1024;  // mailboxes of groups
  static constexpr uint32_t kEnd = kPool + kPooled * kMailboxBytes;

  // Where a process's frames to this one are. Those of one endpoint have two mailboxes, in turn:
  // what the one before has sent may not be read yet.
  static constexpr uint32_t mailbox_of(nic::Name name) {
    return kMail + (2 * nic::endpoint_of(name) + (name >> 16) % 2) * kMailboxBytes;
  }

  // A frame has come: true if that was an upcall.
  using Receive =
      std::function<bool(nic::Name from, uint32_t kind, std::span<const std::byte> frame)>;

  Mailboxes(StoringCard& card, nic::Card& host, Receive receive);

  // Copies the frame. False: there is no room for it now.
  bool post(nic::Name to, uint32_t kind, std::span<const iovec> pieces, uint32_t bytes);
  bool post_to_group(uint32_t group, uint32_t kind, std::span<const iovec> pieces, uint32_t bytes);
  bool has_room(nic::Name to);  // if not, has_work() says when there is
  // Hands up about `budget` frames; returns how many were upcalls.
  unsigned poll(unsigned budget);
  bool has_work();

  // As Driver::join() and leave(); `no_memory`: there are too many groups.
  Status join(std::span<const std::byte> name, uint32_t* group);
  void leave(uint32_t group);

 private:
  struct Mate {  // a process that this one has had to do with
    nic::Name name = nic::kNobody;
    MailReader in;
    MailWriter out;
    std::map<uint32_t, MailReader> groups;
    std::vector<uint32_t> untold;  // entries of this process's cell there
    bool refused = false;          // there was no credit for a frame
  };
  struct Member {
    bool ready = false;
    uint32_t base = 0;   // frames to the group before it was ready
    uint32_t chunk = 0;  // of the pool, for its frames
  };
  struct Group {
    uint32_t number = 0;
    MailWriter out;
    std::map<nic::Name, Member> members;
    bool refused = false;
  };

  std::byte* at(uint32_t offset) const { return host_.shared().data() + offset; }
  Mate* find(nic::Name name);
  Mate* meet(nic::Name name);
  bool has_successor(nic::Name name) const;
  void forget_replaced();
  void look_around();
  uint32_t fill(const MailWriter& out, uint32_t kind, nic::Name to, std::span<const iovec> pieces,
                uint32_t bytes);
  unsigned receive(Mate& mate, unsigned budget);
  void tell(Mate& mate, uint32_t entry);
  void tell_all(Mate& mate);
  bool tell_entry(Mate& mate, uint32_t entry);
  uint32_t told(nic::Name name, uint32_t entry) const;
  // mail_groups.cc
  bool is_ready(Group& group);
  void update_groups();
  bool update(Group& group);
  void forget(uint32_t group, nic::Name name, const Member& member);

  StoringCard& card_;
  nic::Card& host_;
  const nic::Name own_;
  const nic::Liveness liveness_;
  const Receive receive_;
  std::map<nic::Name, Mate> mates_;
  nic::Name turn_ = nic::kNobody;  // the one that was served last
  bool replaced_ = false;          // some of them have a successor
  uint32_t bell_ = 0, rings_ = 0;
  uint32_t numbers_ = 0;  // frames sent to anybody
  std::map<uint32_t, Group> groups_;
  std::vector<uint32_t> pool_;  // free mailboxes for groups
  uint32_t groups_seen_ = 0;    // changes that update_groups() has seen
};

}  // namespace torii
