// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A check by hand: torii-check starts itself on each host by a remote shell. All data for its
// parts, secrets included, goes to their standard input, and what they found out comes from their
// standard output; nothing of it is on a command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tools/check/check_meeting.h"

namespace torii::check {

struct HostsOptions {
  std::vector<std::string> hosts;   // one for each process
  std::vector<std::string> launch;  // the remote shell and its options
  std::string program;              // torii-check over there
  uint64_t deadline_ms = 0;
  uint64_t multicast_ms = 0;  // as of make_plan()
};

// The whole check; returns before the deadline, the time for multicast and a second have passed. A
// part that is missing has a reason.
std::vector<Participant> check_hosts(const HostsOptions& options);

// Reads a list of hosts; "n1,n2:2" is n1 n2 n2. False with the reason in *why.
bool parse_hosts(const std::string& text, std::vector<std::string>* out, std::string* why);

// The other side: this process is a part. Takes its orders from standard input, and the variables
// TORII_* of the process that gave them. Null with the reason in *why.
std::unique_ptr<Meeting> meet_by_pipe(std::string* why);

}  // namespace torii::check
