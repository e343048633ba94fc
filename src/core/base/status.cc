// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/base/status.h"

namespace torii {

const char* status_text(Status s) {
  switch (s) {
    case Status::ok:
      return "ok";
    case Status::pending:
      return "pending";
    case Status::again:
      return "no room now, try again";
    case Status::unsupported:
      return "unsupported";
    case Status::unreachable:
      return "unreachable";
    case Status::peer_dead:
      return "peer is dead";
    case Status::peer_closed:
      return "peer has closed its network interface";
    case Status::invalid:
      return "invalid argument";
    case Status::denied:
      return "access denied";
    case Status::no_memory:
      return "out of memory or table space";
    case Status::truncated:
      return "message truncated";
    case Status::corrupt:
      return "corrupt data";
    case Status::timed_out:
      return "timed out";
    case Status::dropped:
      return "dropped by the target";
    case Status::canceled:
      return "canceled";
    case Status::io_error:
      return "input/output error";
  }
  return "unknown status";
}

}  // namespace torii
