// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Where the jobs of one user on this node find the table of turns. One process holds the name of an
// abstract socket, which ends with it; who connects learns its process id from the kernel and opens
// its memfd through /proc. If it dies, the next that looks takes the name and goes on with the same
// memory. Nothing is left behind by anybody. Where the system does not permit one of these
// steps, there is no table.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/sealed_memory.h"
#include "core/ni/turns.h"

namespace torii {

class TurnPage {
 public:
  // The name of the socket without the leading zero.
  explicit TurnPage(std::string name) : name_(std::move(name)) {}

  // Looks for the page that others use, or makes one. True: table() is another one than before.
  bool look();
  // Null: none.
  TurnTable* table() const { return reinterpret_cast<TurnTable*>(memory_.base()); }
  // This process is the one that others find.
  bool holds() const { return bool(listener_); }

 private:
  enum class Found : uint8_t { page, nobody, nothing };

  Found find();
  Found adopt(uint32_t pid);
  bool make();
  bool take(Descriptor fd, const struct stat& about);
  bool hold();

  std::string name_;
  Descriptor fd_;
  Mapping memory_;
  uint64_t inode_ = 0;
  std::string held_at_;  // the memfd among the holder's; empty: never seen there
  Descriptor listener_;
};

// The name for this user in this PID namespace; empty if there is no /proc.
std::string turn_page_name();

// The processors that this process may use; all if the system does not say.
ProcessorSet own_processors();

}  // namespace torii
