// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Segments: making this process's, and finding, proving and mapping a peer's. A segment is a
// memfd: it has no name, no limit but memory, and ends with the last process that maps it. Peers
// open it through /proc/PID/fd/N, or have it handed over. It is sealed against
// shrinking, so no peer can cause a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/refuse.h"
#include "core/base/sealed_memory.h"
#include "core/base/spare_descriptor.h"
#include "core/base/status.h"
#include "drivers/shm/layout.h"

namespace torii::shm {

// A segment, owned or a peer's: the header and the claims; rings are mapped one by one.
struct Segment {
  Descriptor fd;
  Mapping front;  // Header and Claims
  Address address{};
  uint32_t claims = 0;  // checked copies of the header's fields
  uint64_t ring_bytes = 0;
  uint64_t self_address = 0;

  Header& header() const { return *reinterpret_cast<Header*>(front.base()); }
  Claim& claim(uint32_t n) const { return reinterpret_cast<Claim*>(front.base() + kPage)[n]; }
  // Maps the ring of that claim; false with errno.
  bool map_ring(uint32_t claim, Mapping* out) const;
};

// Number of claims for a job of that many processes on this node.
uint32_t claims_for(uint32_t local_peers);

// Makes this process's segment, or says in *why what forbids it and what helps. `socket` goes into
// its address. Processes of other emulated nodes count as those of other hosts.
bool create_segment(uint32_t claims, uint64_t ring_bytes, uint32_t socket, uint32_t emulated_node,
                    Segment* out, std::string* why);

// Opens and proves the segment at `address`, which comes from outside. `self` is this process's
// own address. Not ok: *why holds the reason and the remedy. `peer_dead`, `peer_closed`: as of
// say_gone(). `denied`: the system does not let this process open what that one has open. `again`:
// descriptors or memory are short, also with the spare one.
Status open_segment(const Address& address, const Address& self, Segment* out, std::string* why,
                    SpareDescriptor* spare = nullptr);

// Proves and maps what is said to be the segment at `address`. Not ok: as above; `invalid`: it is
// another file.
Status adopt_segment(const Address& address, Descriptor fd, Segment* out, std::string* why);

// Opens a pipe in both directions, so that writing to it without a reader is no error. Empty, with
// errno: it cannot be opened or is no pipe.
Descriptor open_pipe(const std::string& path, SpareDescriptor* spare = nullptr);

// The process of that address does not run any more, even if another one has its pid now. It
// is no end if that cannot be found out, for want of descriptors or because /proc hides it.
bool has_ended(const Address& address);
// Nothing can be opened at this address, of a process in this PID namespace. `peer_dead`: it has
// ended. `peer_closed`: it runs, and has no segment there any more, as is known from
// `has_no_segment`. Both with *why. `ok`: neither is known.
Status say_gone(const Address& address, bool has_no_segment, std::string* why);
// `peer_closed`, and *why.
Status say_closed(const Address& address, std::string* why);

// /proc/PID/fd is closed when a process is not dumpable (PR_SET_DUMPABLE, a program without read
// permission) or a security module says so. Therefore every process listens at an abstract socket;
// its peers connect and wait, and it answers when it polls. Each side asks the kernel who the other
// is. Nobody waits in a call.

// The socket at which this process gives its descriptors away.
class Giver {
 public:
  // Listens. False if the system does not let it: then it is 0 in the address.
  bool listen(uint32_t pid);
  // The socket's name together with the pid; 0: not listening.
  uint32_t token() const { return token_; }
  // Readable when somebody has asked; -1: not listening.
  int fd() const { return socket_.get(); }
  // Gives `segment` and, if it is not negative, `pipe` to processes of this user that have asked.
  void answer(int segment, int pipe);
  // Refuses everybody from now on, even if a forked child keeps the socket open.
  void stop();

 private:
  Descriptor socket_;
  uint32_t token_ = 0;
};

struct Given {
  Descriptor segment;
  Descriptor pipe;  // open in both directions; may be empty
};

// Asks the process at `address` for its descriptors; they come through *request. `again`: too many
// ask at once. `unreachable`: *why holds the reason and the remedy.
Status ask(const Address& address, Descriptor* request, std::string* why);

// Takes the answer: `ok`; `again`: nothing yet; `io_error`: nothing will come, ask again.
Status receive(const Descriptor& request, Given* out);

}  // namespace torii::shm
