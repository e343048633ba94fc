// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of the simulated cards of drivers/fabric; the template for new drivers.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"
#include "drivers/fabric/fabric.h"

namespace torii {

// Opens the next endpoint of this fabric; for tests.
std::unique_ptr<Driver> open_sim(SimFabric& fabric, const DriverEnv& env);
// The same on a fabric that this process shares (default options, no latency). For the table in
// list.cc: where there is no card, such a function returns null with the reason in *why.
std::unique_ptr<Driver> open_sim(const DriverEnv& env, std::string* why);

}  // namespace torii
