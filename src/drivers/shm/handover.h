// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Handing descriptors over to processes that may not open them through /proc/PID/fd: that is
// closed when the process is not dumpable (PR_SET_DUMPABLE, a program without read permission) or
// a security module says so. Every process listens at an abstract socket; its peers connect and
// wait, and it answers when it looks. Each side asks the kernel who the other is. Nobody waits in
// a call.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "drivers/shm/layout.h"
#include "drivers/shm/segment.h"

namespace torii::shm {

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
  bool complained_ = false;
};

struct Given {
  Descriptor segment;
  Descriptor pipe;  // open in both directions; may be empty
};

// Asks the process at `address` for its descriptors; they come through *request. `again`: too many
// ask at once. `unreachable`: *why holds the reason and the remedy.
Status ask(const Address& address, Descriptor* request, std::string* why);

// What came in answer: `ok`; `again`: nothing yet; `io_error`: nothing will come, ask again.
Status receive(const Descriptor& request, Given* out);

}  // namespace torii::shm
