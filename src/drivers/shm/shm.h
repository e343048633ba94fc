// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Messages between processes of one node, through memory that both map. See README.md.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"

namespace torii {

// Opens the driver; null with the reason and the remedy in *why when the node cannot carry it.
std::unique_ptr<Driver> open_shm(const DriverEnv& env, std::string* why);

}  // namespace torii
