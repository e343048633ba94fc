// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of QsNet's Elan3 (nic/qsnet/regs.h).
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"
#include "nic/card.h"

namespace torii {

// Null with the reason in *why.
std::unique_ptr<Driver> open_qsnet(std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                   std::string* why);

}  // namespace torii
