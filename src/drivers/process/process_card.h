// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// A card that another process emulates (torii-fabric): the accesses go there through memory that
// both share (nic/emulator/channel.h). A thread waits for the end of the emulator. Then all other
// processes are dead, for liveness() says so, and the card does nothing any more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nic/card.h"

namespace torii {

// The card with that name, of the emulated node (kNoEmulatedNode: of any), if this process runs
// under torii-fabric. Null with the reason in *why.
std::unique_ptr<nic::Card> attach_card(const char* card, uint32_t node, std::string* why);

}  // namespace torii
