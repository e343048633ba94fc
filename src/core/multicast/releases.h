// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The position up to which nobody needs anything any more. A sender asks for a release by marking a
// piece or by a heartbeat. Each node tells its parent in a tree of 16 branches when all under it
// are done up to there. Node 0, the coordinator, tells all by multicast. Losses are made good when
// the sender asks again. A silent node of the tree is not bypassed: as a member it would hold up
// the release anyway.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/multicast/outgoing.h"
#include "core/multicast/tree.h"

namespace torii::multicast {

class Releases {
 public:
  explicit Releases(Outgoing& outgoing)
      : outgoing_(outgoing),
        tree_(outgoing.nodes(), outgoing.self(), kTreeArity),
        children_(tree_.children()) {}

  // This node needs nothing before `done`; `lost`: granules it had to ask for since the last call.
  void on_done(uint64_t done, uint32_t lost);
  // `node` wants to know when everybody is done up to `pos`; `again`: not for the first time.
  void on_asked(uint32_t node, uint64_t pos, bool again);
  // A child's status. False: `node` is none. Perhaps this node has not heard what was asked for.
  bool on_status(uint32_t node, uint64_t asked, uint64_t done, uint32_t lost);
  // The coordinator says so; or an operation that all take part in has shown it.
  void on_released(uint64_t released, uint32_t lost);

  // The channel had no room for a status or release: try again soon.
  bool owes() const { return owes_; }
  void retry();

  uint64_t released() const { return released_; }
  // A release up to here has been asked for, by whomever.
  uint64_t asked() const { return std::max(last_asked_, released_); }
  // The most that one node had to ask for before the last release.
  uint32_t lost() const { return released_lost_; }

 private:
  bool coordinates() const { return outgoing_.self() == 0; }
  uint64_t subtree() const;
  void note_asked(uint64_t pos);
  void report();
  void send();
  void send_release(uint32_t node);
  Header release() const;

  Outgoing& outgoing_;
  Tree tree_;
  std::vector<uint64_t> children_;  // up to where all under each one are done
  uint64_t done_ = 0;
  uint64_t released_ = 0;
  uint64_t reported_ = 0;
  uint64_t answered_ = 0;  // what was asked for then
  // The first and the last position asked for that have not been reported; 0: none.
  uint64_t first_asked_ = 0;
  uint64_t last_asked_ = 0;
  uint32_t lost_ = 0;  // the most of one node under this one, since the last report
  uint32_t released_lost_ = 0;
  bool owes_ = false;
};

}  // namespace torii::multicast
