// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Messages of a process to itself: a bounded queue of frames, delivered in poll().
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"

namespace torii {

// Opens the driver; null with the reason in *why when memory is short.
std::unique_ptr<Driver> open_self(const DriverEnv& env, std::string* why);

}  // namespace torii
