// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of Nectar's communication accelerator board (nic/nectar/regs.h), with either protocol
// of its firmware.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// With `reliable`: nothing is lost. Null with the reason in *why.
std::unique_ptr<Driver> open_nectar(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                    std::string* why);
// With `datagram`: frames may be lost.
std::unique_ptr<Driver> open_nectar_datagram(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                             std::string* why);

}  // namespace torii
