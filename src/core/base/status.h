// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The one error vocabulary inside Torii. `again` is back-pressure, not an error: it is never
// logged. The function that first knows what went wrong writes the message; callers pass the
// status on.
#pragma once

#include <cstdint>

namespace torii {

enum class [[nodiscard]] Status : uint8_t{
    ok,           // done
    pending,      // begun; a completion follows
    again,        // no room now, nothing was changed; try again after progress
    unsupported,  // this driver or build cannot do it
    unreachable,  // no path to that process
    peer_dead,    // the process died, stopped answering, or sent malformed frames
    peer_closed,  // the process closed its network interface in good order
    invalid,      // an argument makes no sense
    denied,       // access rights or the operating system forbid it
    no_memory,    // memory or a table is exhausted
    truncated,    // the receiver had less room than the message
    corrupt,      // bytes from outside failed a check
    timed_out,    // a deadline passed
    dropped,      // the target had no place for the request and discarded it
    canceled,     // withdrawn by its owner
    io_error,     // a system call failed; the log has the reason
};

// A short lower-case text for messages, never null.
const char* status_text(Status s);

}  // namespace torii
