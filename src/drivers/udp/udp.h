// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Processes of any nodes, by UDP datagrams over IPv4 or IPv6. See README.md.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"

namespace torii {

// Opens the driver; null with the reason and the remedy in *why when there is no usable interface.
std::unique_ptr<Driver> open_udp(const DriverEnv& env, std::string* why);

}  // namespace torii
