// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Where UCX's headers were missing when Torii was built.
#include "drivers/ucx/ucx.h"

namespace torii {

std::unique_ptr<Driver> open_ucx(const DriverEnv&, std::string* why) {
  *why =
      "ucx: this Torii was built without UCX; build it where pkg-config knows ucx (Debian: "
      "libucx-dev)";
  return nullptr;
}

}  // namespace torii
