// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The driver of the fabrics that UCX drives.
#pragma once

#include <memory>
#include <string>

#include "drivers/driver.h"

namespace torii {

// Opens an endpoint. Null with the reason in *why: no RDMA device, no UCX, or UCX cannot use it.
std::unique_ptr<Driver> open_ucx(const DriverEnv& env, std::string* why);

}  // namespace torii
