// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of Myrinet cards (nic/myrinet/regs.h), with either control program.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// With BullDog on the card: nothing is lost. Null with the reason in *why.
std::unique_ptr<Driver> open_myrinet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                     std::string* why);
// The same as over Myricom's API: frames may be lost.
std::unique_ptr<Driver> open_myrinet_raw(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                         std::string* why);

}  // namespace torii
