// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The identity of this process and of its peers: one exchange of addresses at the start of a job,
// through whatever started the processes. No call blocks longer than the parameter
// boot_deadline_ms; a launcher or a peer that ends meanwhile makes the call fail, with one sentence
// for the user in *why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/boot/process_map.h"

namespace torii {

inline constexpr size_t kBootAddressMax = 4096;       // bytes that a process can publish
inline constexpr uint32_t kNodeMax = UINT32_MAX - 2;  // so that 1 may be added to a node's number

struct BootInfo {
  uint64_t job = 0;           // the same in all processes of the job; never 0
  uint32_t rank = 0;          // 0 .. size-1
  uint32_t size = 1;          // processes in the job
  uint32_t node = 0;          // number of this node within the job, at most kNodeMax; not dense
  uint32_t local_rank = 0;    // position among the job's ranks on this node, ascending
  uint32_t local_size = 1;    // processes of the job on this node
  std::string host;           // host name of this node
  const char* launcher = "";  // "PMIx", "PMI-1", "environment" or "singleton"
};

// One thread at a time. publish() and barrier() are collective: all processes of the job call
// them, equally often and in the same order. At most one Boot exists in a process at a time. A
// program that is itself an MPI program may open one after MPI_Init under a PMIx launcher, but
// not under a PMI-1 launcher, where the one connection belongs to MPI.
class Boot {
 public:
  virtual ~Boot() = default;  // tells the launcher that this process is through with it

  const BootInfo& info() const { return info_; }
  // Makes `address` (at most kBootAddressMax bytes) known to all. Returns when all have published.
  // A process that publishes again replaces what it published before: lookup() gives the newest.
  Status publish(std::span<const std::byte> address, std::string* why);
  // The bytes that `rank` published; after publish(). They are as that process gave them: check.
  Status lookup(uint32_t rank, std::vector<std::byte>* address, std::string* why);
  // Returns when all processes have called it.
  virtual Status barrier(std::string* why) = 0;
  // Where every process runs; made at the first call, after publish(). Belongs to the Boot.
  Status process_map(const ProcessMap** map, std::string* why);

 protected:
  virtual Status exchange(std::span<const std::byte> address, std::string* why) = 0;
  virtual Status fetch(uint32_t rank, std::vector<std::byte>* address, std::string* why) = 0;
  // Fills nodes[0 .. size-1].
  virtual Status list_nodes(std::vector<uint32_t>* nodes, std::string* why) = 0;

  BootInfo info_;
  unsigned exchanges_ = 0;  // begun; launchers keep what was put once, so each needs its own names

 private:
  bool published_ = false;
  std::unique_ptr<ProcessMap> map_;
};

// Joins the job this process was started in: by PMIx (PMIX_NAMESPACE is set), by PMI-1 (PMI_FD or
// PMI_PORT), by TORII_RANK and TORII_SIZE for processes started by hand, or alone. Null with the
// reason and the remedy in *why; a broken start is never taken for a job of one process, nor is one
// of several processes that a launcher has started without a PMI.
std::unique_ptr<Boot> open_boot(std::string* why);

// Do the variables of this process say that it is part of a job, which only open_boot() can join?
bool launched();

}  // namespace torii
