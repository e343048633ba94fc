// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Reliable, ordered delivery over a driver that loses, doubles, reorders or damages frames, and
// news of dead peers over one that has none. Speaks the driver interface on both sides; README.md
// tells the protocol.
#pragma once

#include <memory>
#include <string>

#include "drivers/decorator.h"

namespace torii {

// Opens the driver below and puts a link over it. The result declares kReliable and
// kPeerDown; put and get only if the driver below is reliable by itself. A peer that owes an
// answer for params().peer_deadline_ms is declared dead; if the driver below lacks kPeerDown,
// connected peers that are quiet are asked for one. Null if the driver below does not open.
std::unique_ptr<Driver> wrap_link(const OpenBelow& open_below, const DriverEnv& env);

// Opens a driver, with a link over it if it lacks kReliable, or a watch (watch.h) if it lacks only
// kPeerDown: it is then opened a second time.
std::unique_ptr<Driver> open_with_link(const OpenBelow& open_below, const DriverEnv& env);
// The same for a driver's name; null with the reason in *why.
std::unique_ptr<Driver> open_with_link(const std::string& name, const DriverEnv& env,
                                       std::string* why);

}  // namespace torii
