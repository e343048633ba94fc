// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Mailboxes, remote stores and groups over a TNet adapter. Private to drivers/tnet.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "drivers/card_peers.h"
#include "drivers/interfaces.h"
#include "drivers/mailbox.h"
#include "nic/tnet/regs.h"

namespace torii {

// A cell for each endpoint, in the memory of each process: what the process there has told.
struct TnetCell {
  static constexpr uint32_t kGroups = 56;
  uint32_t name;      // it has a mailbox for this one
  uint32_t consumed;  // frames of this process
  uint32_t unused[6];
  uint32_t groups[kGroups];  // 0: is no member, or not ready; else 1 + consumed frames of the group
};
static_assert(sizeof(TnetCell) == 256);

// Offsets in the contiguous memory block. What peers store to is at the same VCA, if it is mapped.
struct TnetLayout {
  static constexpr uint32_t kEndpoints = 512;
  static constexpr uint32_t kDone = 0;  // transfers, as the kernel driver counts them
  static constexpr uint32_t kCells = 4096;
  static constexpr uint32_t kBell =
      kCells + kEndpoints * sizeof(TnetCell);                            // a word, rung with cells
  static constexpr uint32_t kMail = 1 << 20;                             // of each endpoint
  static constexpr uint32_t kPool = kMail + kEndpoints * kMailboxBytes;  // of groups
  static constexpr uint32_t kPooled = 1024;
  static constexpr uint32_t kSend = kPool + kPooled * kMailboxBytes;
  static constexpr uint32_t kSendSlots = 64;
  static constexpr uint32_t kRegions = 16 << 20;  // VCA only
  static_assert(kSend + kSendSlots * kMailSlotBytes <= nic::tnet::kSharedBytes);
};

class TnetDriver final : public Driver, private RegisteredMemory {
 public:
  TnetDriver(std::unique_ptr<nic::Card> card, const DriverEnv& env);

  const DriverCaps& caps() const override { return caps_; }
  void address(std::byte* out) const override { peers_.address(out); }
  Status connect(std::span<const std::byte> address, PeerId* peer, std::string* why) override;
  void disconnect(PeerId peer) override { peers_.forget(peer); }
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override;
  void dereg(Region& region) override;
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override;
  void drop(uint32_t remote) override { imports_.erase(remote); }
  Status put(const Rma& rma) override;
  Status join(std::span<const std::byte> group, PeerId* peer) override;
  void leave(PeerId peer) override;
  Status arm(int* fd) override;
  RegisteredMemory* registered_memory() override { return this; }

 private:
  struct Group;
  enum Kind : uint32_t { kFrame, kPutEnd, kPutDone };  // of a frame in a mailbox
  struct Mate {                                        // a process with a mailbox here
    nic::Name name;
    MailReader in;
    MailWriter out;
    std::map<Group*, MailReader> groups;
    std::vector<uint32_t> tells;  // words of this process's cell there that it has to tell
  };
  struct Member {
    bool ready = false;
    uint32_t base = 0;   // frames of the group before it was ready
    uint32_t chunk = 0;  // of the pool, for its frames
  };
  struct Group {
    uint32_t number, destination;
    MailWriter out;
    std::map<nic::Name, Member> members;
  };
  struct Key {
    uint64_t check;
    nic::Name owner;
    uint32_t serial, page, offset;  // VCA
    uint64_t bytes;
  };
  struct Exported {
    std::byte* base;
    Key key;
    uint32_t pages;
    uint64_t address;
  };
  struct PutHead {  // of kPutEnd, before the bytes that were not stored by DMA
    uint32_t serial, id;
    uint64_t offset, bytes;
    uint32_t front, back;  // how many of these there are, at the start and at the end
  };
  struct PutReply {
    uint32_t id, status;
  };
  struct Done {
    PeerId peer;
    uint64_t cookie;
    Status status;
  };
  struct Put {
    PeerId peer;
    nic::Name name;
    uint64_t cookie;
  };

  // tnet.cc: frames.
  std::byte* at(uint32_t offset) const { return memory_ + offset; }
  volatile TnetCell& cell(nic::Name name) const;
  Mate* find(nic::Name name) const;
  Mate* meet(nic::Name name);
  bool is_ready(const Mate& mate) const { return cell(mate.name).name == mate.name; }
  // May one transfer more be handed to the kernel driver, and another one with a slot?
  bool has_room() const;
  bool post(Mate& mate, Kind kind, std::span<const iovec> pieces, uint32_t bytes);
  bool post(MailWriter& out, Kind kind, std::span<const iovec> pieces, uint32_t bytes,
            uint32_t destination, uint64_t mailbox, unsigned context);
  bool transmit(uint32_t begin, uint32_t bytes, uint32_t destination, uint64_t target,
                unsigned context);
  Status send_by_dma(uint64_t address, uint32_t bytes, uint32_t destination, uint64_t target,
                     unsigned context, bool has_slot);
  void reap();
  void tell(Mate& mate, uint32_t word);
  bool tell_all(Mate& mate);
  bool store_word(Mate& mate, uint32_t target, uint32_t bytes, uint32_t value);
  void look_around();
  unsigned receive(Mate& mate, unsigned budget);
  bool has_work() const;
  // remote.cc: put.
  uint64_t check_of(const Key& key) const;
  void finish_put(nic::Name from, std::span<const std::byte> frame);
  void put_done(std::span<const std::byte> frame);
  void answer_puts();
  void end_puts();
  // groups.cc.
  bool post_to_group(Group& group, std::span<const iovec> pieces, uint32_t bytes);
  bool is_ready(Group& group);
  uint32_t group_word(const Mate& mate, uint32_t number) const;
  void update_groups();
  bool update(Group& group);
  void forget(Group& group, nic::Name name, const Member& member);
  uint64_t index_of(const Group& group, nic::Name sender) const;

  const std::unique_ptr<nic::Card> card_;
  std::byte* const memory_;
  const nic::CardInfo info_;
  Sink& sink_;
  CardPeers peers_;
  DriverCaps caps_;
  std::vector<std::unique_ptr<Mate>> mates_;  // by endpoint
  std::vector<uint32_t> met_;                 // endpoints that have one
  std::vector<std::unique_ptr<Mate>> old_;    // until the next poll
  uint32_t bell_ = 0, rings_ = 0;
  bool armed_ = false;
  uint32_t numbers_ = 0;        // frames sent to anybody
  uint32_t slot_ = 0;           // of the send area: the next one
  uint32_t slots_used_ = 0;     // by transfers under way
  std::deque<bool> transfers_;  // those: has it a slot?
  uint32_t done_ = 0;           // transfers that are over
  std::deque<Done> dones_;
  std::unordered_map<uint32_t, Exported> exported_;  // by serial
  std::unordered_map<uint32_t, Key> imports_;
  std::unordered_map<uint32_t, Put> puts_;  // by id
  std::deque<std::pair<nic::Name, PutReply>> replies_;
  uint32_t next_serial_ = 1, next_import_ = 0, next_put_ = 0, next_page_ = 0;
  std::map<PeerId, Group> groups_;
  std::vector<uint32_t> pool_;  // free mailboxes for groups
  uint32_t groups_seen_ = 0;    // changes that update_groups() has seen
};

}  // namespace torii
