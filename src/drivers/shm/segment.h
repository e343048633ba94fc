// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Segments: making this process's, and finding, proving and mapping a peer's. A segment is a
// memfd: it has no name, no limit but memory, and ends with the last process that maps it. Peers
// open it through /proc/PID/fd/N, or have it handed over (handover.h). It is sealed against
// shrinking, so no peer can cause a SIGBUS.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "drivers/shm/layout.h"

namespace torii::shm {

// A mapping of shared memory; unmaps itself.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : base_(other.base_), bytes_(other.bytes_) {
    other.base_ = nullptr;
    other.bytes_ = 0;
  }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { unmap(); }

  // Maps [offset, offset + bytes) of the file for reading and writing; false with errno.
  bool map(int fd, uint64_t offset, size_t bytes);
  void unmap();
  // Takes page faults now rather than one by one on the way; best effort.
  void populate(size_t bytes_max) const;
  std::byte* base() const { return base_; }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

// A file descriptor; closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  void reset(int fd = -1);
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A new memfd of that size that can neither shrink nor grow. Empty, with errno: the system does not
// let us.
Descriptor make_sealed(uint64_t bytes);
// Is the file one that make_sealed() could have made? Fills in *about.
bool sealed(int fd, struct stat* about);

// A segment, owned or a peer's: the header and the claims; rings are mapped one by one.
struct Segment {
  Descriptor fd;
  Mapping front;  // Header and Claims
  Address address{};
  uint32_t claims = 0;  // checked copies of the header's fields
  uint64_t ring_bytes = 0;
  uint64_t self_address = 0;

  Header& header() const { return *reinterpret_cast<Header*>(front.base()); }
  Claim& claim(uint32_t n) const {
    return reinterpret_cast<Claim*>(front.base() + claims_offset())[n];
  }
  // Maps the ring of that claim; false with errno.
  bool map_ring(uint32_t claim, Mapping* out) const;
};

// Number of claims for a job of that many processes on this node.
uint32_t claims_for(uint32_t local_peers);

// Makes this process's segment, or says in *why what forbids it and what helps. `socket` goes into
// its address.
bool create_segment(uint32_t claims, uint64_t ring_bytes, uint32_t socket, Segment* out,
                    std::string* why);

// Opens and proves the segment at `address`, which comes from outside. `self` is this process's
// own address. Not ok: *why holds the reason and the remedy. `denied`: the system does not let
// this process open what that one has open.
Status open_segment(const Address& address, const Address& self, Segment* out, std::string* why);

// Proves and maps what is said to be the segment at `address`. Not ok: as above.
Status adopt_segment(const Address& address, Descriptor fd, Segment* out, std::string* why);

// Opens a pipe in both directions, so that writing to it without a reader is no error. Empty, with
// errno: it cannot be opened or is no pipe.
Descriptor open_pipe(const std::string& path);

// The start time of a process in clock ticks since boot, or 0 if none of that pid is running.
uint64_t process_start_time(uint32_t pid);

}  // namespace torii::shm
