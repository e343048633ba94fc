// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of the skeleton card (nic/skeleton/regs.h); the template for drivers of emulated
// cards.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// Null with the reason in *why: it is another card.
std::unique_ptr<Driver> open_skeleton(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                      std::string* why);

}  // namespace torii
