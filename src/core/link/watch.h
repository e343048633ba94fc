// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Notices the end of peers over a driver that is reliable but reports none (kPeerDown). Everything
// else, groups and remote access included, passes through unchanged: frames get no header.
// README.md tells the rules.
#pragma once

#include <memory>

#include "drivers/decorator.h"

namespace torii {

// Opens the driver below and watches its peers. The result declares kPeerDown. A connected peer
// that is quiet is asked for a sign of life, and is dead after params().peer_deadline_ms without
// one; time in which this process does not poll does not count. Its frames must not begin with the
// eight bytes of a sign; frames of the core begin with their kind. Null if the driver below does
// not open.
std::unique_ptr<Driver> wrap_watch(const OpenBelow& open_below, const DriverEnv& env);

}  // namespace torii
