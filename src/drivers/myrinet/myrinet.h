// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of Myrinet cards (nic/myrinet/regs.h), with either control program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// BullFrog's switch: bytes of a body up to which the processor moves it; longer ones the card.
inline constexpr uint32_t kMyrinetPioMax = 512;

// With BullDog on the card: nothing is lost. Null with the reason in *why.
std::unique_ptr<Driver> open_myrinet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                     std::string* why);
// The same with another switch.
std::unique_ptr<Driver> open_myrinet_with(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                          std::string* why, uint32_t pio_max);
// The same over Myricom's API: frames may be lost.
std::unique_ptr<Driver> open_myrinet_raw(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                         std::string* why);

}  // namespace torii
