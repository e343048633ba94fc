// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Gets that both processes work at: the reader reads pages, the owner of the memory writes others.
#pragma once

#include <cstdint>

#include "drivers/shm/remote.h"

namespace torii::shm {

class Splits {
 public:
  Splits(Sink& sink, Counters& counters, Peers& peers, RemoteMemory& remote, Exports& exports)
      : sink_(sink), counters_(counters), peers_(peers), remote_(remote), exports_(exports) {}

  // Is a get better shared? `meets_others`: it is not the only one under way.
  bool worth(const Rma& rma, Peer& peer, bool meets_others) const;
  Status get(const Rma& rma, Peer& peer);
  // The other process reads from our memory, as it says in a frame: writes part of it there.
  void join(Peer& peer, const std::byte* bytes, uint32_t length);
  // How many gets wait for the other process's part.
  unsigned open() const { return open_; }
  // Reports those that are over.
  unsigned progress();
  // The peer has ended.
  void end(const Peer& peer);
  // Closing: memory is given back when nobody writes to it any more.
  void await();

 private:
  // As this side sees it. The shared part is the Split of the same number in the own segment.
  struct OpenSplit {
    Peer* peer = nullptr;  // null: not in use
    uint32_t serial = 0;
    uint32_t pages = 0;
    uint32_t done = 0;  // by this process
    Status status = Status::ok;
    Rma rma{};
    iovec piece{};
  };

  void read_pages(OpenSplit& open, uint32_t first, uint32_t count);
  bool over(OpenSplit& open);

  unsigned open_ = 0;
  Sink& sink_;
  Counters& counters_;
  Peers& peers_;
  RemoteMemory& remote_;
  Exports& exports_;
  OpenSplit all_[kSplits];
};

}  // namespace torii::shm
