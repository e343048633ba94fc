// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// All of a driver except its card, for cards that store to the memory of other processes, in order.
// Frames go through mailboxes; puts are stores to memory in the page table.
#pragma once

#include <memory>

#include "drivers/card_driver.h"
#include "drivers/card_memory.h"
#include "drivers/mailboxes.h"
#include "drivers/remote_puts.h"

namespace torii {

class StoringDriver : public CardDriver, protected StoringCard, private RegisteredMemory {
 public:
  size_t send(std::span<const Tx> batch) override;
  unsigned poll(uint64_t now_ns, unsigned budget) override;
  Status reg(void* base, uint64_t bytes, uint32_t access, Region* out) override {
    return caps_.key_bytes ? memory_.reg(base, bytes, access, out) : Status::unsupported;
  }
  void dereg(Region& region) override { memory_.dereg(region); }
  Status import(PeerId peer, std::span<const std::byte> key, uint32_t* remote) override {
    return caps_.key_bytes ? memory_.keys().import(peers_[peer].name, key, remote)
                           : Status::unsupported;
  }
  void drop(uint32_t remote) override { memory_.keys().drop(remote); }
  Status put(const Rma& rma) override;
  Status join(std::span<const std::byte> group, PeerId* peer) override;
  void leave(PeerId peer) override;
  RegisteredMemory* registered_memory() override { return caps_.key_bytes ? this : nullptr; }

  // Has each endpoint of the card's fabric a mailbox, and the card so much memory to lend? False
  // with the reason in *why.
  static bool has_mailboxes(const char* driver, nic::Card& card, size_t shared_bytes,
                            std::string* why);

  static constexpr uint32_t kPutMax = 1 << 20;  // caps().remote_max

 protected:
  // Regions that peers may put to are entered from `first_page` of the page table on, up to
  // `end_page`, and so are others with any Access of `entered`; 0: there is no remote memory.
  StoringDriver(const char* name, std::unique_ptr<nic::Card> card, const DriverEnv& env,
                uint64_t first_page, uint64_t end_page, uint32_t entered = kRemoteWrite);
  // As CardMemory::SetPages.
  virtual Status set_pages(uint64_t page, uint64_t pages, uint64_t address, uint32_t access) = 0;
  // Stores whole words to the process's memory, from that address of the bus. There is room for one
  // such store more than buffer() says. Unless the driver has a put() of its own.
  virtual Status store_memory(nic::Name, uint64_t, uint64_t, uint64_t) {
    return Status::unsupported;
  }
  bool has_work() override;
  // For arm(): turns on interrupts, by a register of the card that reads as what was written. They
  // stay on while the process sleeps now and then, as each load of a register is as long as many
  // frames. An event after this makes *fd readable again; `again`: one came before.
  Status turn_on(uint32_t mask_register, uint32_t mask, int* fd);
  // For poll(): turns them off in the end.
  void turn_off(uint32_t mask_register);

  std::byte* const shared_;
  CardMemory memory_;

 private:
  bool receive(nic::Name from, uint32_t kind, std::span<const std::byte> frame);

  Mailboxes mail_;
  RemotePuts puts_;
  uint32_t mask_ = 0;   // of interrupts
  uint32_t polls_ = 0;  // since the last turn_on()
};

}  // namespace torii
