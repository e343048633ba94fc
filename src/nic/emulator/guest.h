// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A process that uses a card of this fabric from outside, as the emulator sees it: what it writes
// into its channel is checked and carried out. Nothing that it writes is relied on.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/attach.h"
#include "core/base/descriptor.h"
#include "core/base/sealed_memory.h"
#include "nic/emulator/channel.h"
#include "nic/fabric.h"

namespace torii::nic {

class Guest final : private ProcessMemory {
 public:
  // open: its socket counts. closed: it has given its card back. broken: it has written what makes
  // no sense; fault() says what.
  enum class State : uint8_t { open, closed, broken };

  // Null with the reason in *why; *later: a context will be free soon. `pid` is as the kernel says.
  static std::unique_ptr<Guest> open(Fabric& fabric, const channel::Hello& hello, pid_t pid,
                                     std::string* why, bool* later);
  Guest(const Guest&) = delete;
  ~Guest();  // a process that has not closed is dead

  channel::Welcome welcome() const;
  // In the order of channel::kChannelFd and so on; the last may be -1.
  std::array<int, channel::kDescriptorsMax> descriptors() const;
  int doorbell() const { return doorbell_.get(); }

  // Carries out what is in the ring, at most so many records; returns how many.
  unsigned serve(unsigned most);
  bool has_work() const;
  // It rings the doorbell from now on, if that is true. Look once more afterwards.
  void say_asleep(bool asleep);

  State state() const { return state_; }
  const std::string& fault() const { return fault_; }
  const CardInfo& info() const { return card_->info(); }
  pid_t pid() const { return target_.pid; }

 private:
  explicit Guest(Fabric& fabric) : fabric_(fabric) {}
  channel::Memory& memory() const { return *reinterpret_cast<channel::Memory*>(channel_.base()); }
  unsigned refuse(const char* what, uint64_t value);
  bool next(channel::Record* record);
  void carry_out(const channel::Record& record);
  void map(const channel::Record& record);
  void control(const channel::Record& record);
  void answer(const channel::Record& record, Status status, const void* bytes, uint32_t count);
  Status move(bool write, uintptr_t at, std::span<std::byte> here) override;

  Fabric& fabric_;
  std::unique_ptr<Card> card_;
  AttachCookie cookie_{};
  AttachTarget target_{};
  uint64_t proved_at_ = 0;  // attach_moment() of the last proof that the pid is this process's
  int attach_error_ = 0;
  Descriptor file_, doorbell_;
  Mapping channel_;
  uint32_t head_ = 0;
  std::vector<std::byte> payload_;  // of the record that is carried out
  State state_ = State::open;
  std::string fault_;
};

}  // namespace torii::nic
