// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of the PCI-SCI card with VIA (nic/sci/regs.h).
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// Null with the reason in *why.
std::unique_ptr<Driver> open_sci(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                 std::string* why);
// The same card as a plain PCI-SCI bridge.
std::unique_ptr<Driver> open_sci_dolphin(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                         std::string* why);

}  // namespace torii
